"""The demo holds on the whole year, and notices each fault that is planted into a part of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
#: of a run, which takes a busy machine many times as long; a test has a minute more
_DEMO_LIMIT_S = 1_740
SLICE = ("--days", "60")
RECORDS_OF_SLICE = 52_747

HOLDS = {
    "kills": 1,
    "open_transaction_at_kill": True,
    "outputs_lost": 0,
    "outputs_duplicated": 0,
    "dropped": 0,
    "stores_equal_reference": True,
    "spark_equals_reference": True,
    "parquet_view_equals_reference": True,
}


def run_demo(chart: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and the last line of standard output."""
    run = subprocess.run(
        [sys.executable, "-m", "examples.flights.demo", "--chart", str(chart), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_DEMO_LIMIT_S,
        check=False,
    )
    lines = run.stdout.splitlines()
    assert lines, run.stderr[-4_000:]
    assert lines[-1].startswith("{"), run.stderr[-4_000:]
    return run.returncode, json.loads(lines[-1])


@pytest.mark.slow
@pytest.mark.timeout(_DEMO_LIMIT_S + 60)
def test_a_year_of_flights_survives_a_kill_and_equals_the_reference(tmp_path: Path) -> None:
    chart = tmp_path / "flights.png"
    status, found = run_demo(chart)
    assert {name: found[name] for name in HOLDS} == HOLDS
    assert found["records"] == 336_776
    assert found["outputs_expected"] == 2 * 336_776
    assert found["null_tailnums"] == 2_512
    assert found["unmatched_planes"] == 50_094
    assert found["aborted_records_on_log"] > 0
    assert found["restored_records"] > 0
    assert found["seconds"] > 0
    assert chart.read_bytes().startswith(b"\x89PNG")
    assert status == 0


@pytest.mark.slow
@pytest.mark.timeout(_DEMO_LIMIT_S + 60)
def test_planted_faults_are_noticed_and_end_with_status_1(tmp_path: Path) -> None:
    # Two that show in different places: neither hides the other. The third is in test_verdict.py.
    planted = ("--break", "duplicates", "--break", "spark")
    wrong = {"outputs_duplicated": 10, "spark_equals_reference": False}
    status, found = run_demo(tmp_path / "flights.png", *SLICE, *planted, "--seed", "2")
    assert {name: found[name] for name in HOLDS} == {**HOLDS, **wrong}
    assert found["records"] == RECORDS_OF_SLICE
    assert status == 1
