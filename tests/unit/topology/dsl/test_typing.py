"""Types flow through the DSL: mypy and pyright agree with every assertion and refuse every wrong
line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
TYPED = Path(__file__).with_name("typed_topology.py")


def package_tree(folder: Path) -> None:
    """The library under its import names, which mypy cannot see through an editable install."""
    package = folder / "logstate"
    package.mkdir()
    for path in (ROOT / "logstate").iterdir():
        (package / path.name).symlink_to(path)
    for name in ("topology", "changelog"):
        (package / name).symlink_to(ROOT / name)


@pytest.mark.slow
def test_the_dsl_is_typed_end_to_end(tmp_path: Path) -> None:
    package_tree(tmp_path)
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\nfollow_imports = silent\n", encoding="utf-8")
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(config)),
            *("--cache-dir", str(tmp_path / "cache")),
            str(TYPED),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(tmp_path)},
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.slow
def test_pyright_refuses_exactly_the_wrong_lines(tmp_path: Path) -> None:
    package_tree(tmp_path)
    typed = tmp_path / TYPED.name
    typed.write_bytes(TYPED.read_bytes())
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        # They mark the wrong lines and must not silence them.
        "enableTypeIgnoreComments": False,
        "include": [typed.name],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson"),
            *("--pythonpath", sys.executable),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
    )
    found = json.loads(answer.stdout)["generalDiagnostics"]
    refused = {one["range"]["start"]["line"] + 1 for one in found}
    lines = typed.read_text(encoding="utf-8").splitlines()
    wrong = {
        number
        for number, line in enumerate(lines, 1)
        if line.endswith("]") and "# type: ignore[" in line
    }
    assert len(wrong) > 4
    assert refused == wrong, [one["message"] for one in found]
