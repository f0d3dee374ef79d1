"""The benchmark's logstate side on a real broker: 20,000 records, outputs checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("workload", "emit"), [("W1", "update"), ("W2", "update"), ("W2", "commit")]
)
def test_a_small_run_gives_the_right_outputs(
    bootstrap: str, tmp_path: Path, workload: str, emit: str
) -> None:
    results = tmp_path / "results.jsonl"
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "tests.performance", workload, "--against", "none"),
            *("--pairs", "1", "--records", "20000", "--keys", "2000", "--emit", emit),
            *("--bootstrap", bootstrap, "--work", str(tmp_path), "--results", str(results)),
            *("--commit-ms", "200", "--limit", "300"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert answer.returncode == 0, answer.stdout + answer.stderr
    last = json.loads(answer.stdout.splitlines()[-1])
    assert (last["workload"], last["is_verified"]) == (workload, True)
    run = json.loads(results.read_text())
    assert run["is_verified"]
    assert run["records"] == 20_000
    if workload == "W1":
        assert 17_000 < run["outputs"] < 19_000
    elif emit == "update":
        assert run["outputs"] == 20_000
    else:
        assert run["outputs"] < 20_000
