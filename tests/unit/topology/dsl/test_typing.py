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
#: with assertions, and lines that must be errors
TYPED = [Path(__file__).with_name(f"typed_{name}.py") for name in ("topology", "aggregates")]
WRONG = Path(__file__).with_name("wrong_programs.py")
PROGRAMS = [*TYPED, WRONG]
#: program -> line -> message
Lines = dict[str, dict[int, str]]


def package_tree(folder: Path) -> None:
    """The library under its import names, which mypy cannot see through an editable install."""
    package = folder / "logstate"
    package.mkdir()
    for path in (ROOT / "logstate").iterdir():
        (package / path.name).symlink_to(path)
    for name in ("topology", "changelog"):
        (package / name).symlink_to(ROOT / name)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    package_tree(folder)
    for program in PROGRAMS:
        (folder / program.name).write_bytes(program.read_bytes())
    return folder


@pytest.fixture(scope="module")
def mypy(tree: Path) -> Lines:
    """The lines with errors of each program, and the messages."""
    config = tree / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\nfollow_imports = silent\n", encoding="utf-8")
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", str(config), "--no-error-summary"),
            *("--cache-dir", str(tree / "cache"), *(one.name for one in PROGRAMS)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tree,
        env={**os.environ, "MYPYPATH": str(tree)},
    )
    assert answer.returncode in (0, 1), answer.stdout + answer.stderr
    found: Lines = {one.name: {} for one in PROGRAMS}
    for message in answer.stdout.splitlines():
        name, number, kind, _ = message.split(":", 3)
        if kind.strip() == "error":
            found[name][int(number)] = message
    return found


@pytest.fixture(scope="module")
def pyright(tree: Path) -> Lines:
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        # They mark the wrong lines and must not silence them.
        "enableTypeIgnoreComments": False,
        "include": [one.name for one in PROGRAMS],
    }
    (tree / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    answer = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson"),
            *("--pythonpath", sys.executable),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tree,
    )
    found: Lines = {one.name: {} for one in PROGRAMS}
    for one in json.loads(answer.stdout)["generalDiagnostics"]:
        number = one["range"]["start"]["line"] + 1
        found[Path(one["file"]).name][number] = one["message"]
    return found


def marked(program: Path, mark: str) -> set[int]:
    lines = program.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if mark in line and line[:1] == " "}


@pytest.mark.slow
@pytest.mark.parametrize("program", TYPED, ids=lambda one: one.stem)
def test_the_dsl_is_typed_end_to_end(program: Path, mypy: Lines) -> None:
    assert not mypy[program.name], mypy[program.name]


@pytest.mark.slow
@pytest.mark.parametrize("program", TYPED, ids=lambda one: one.stem)
def test_pyright_refuses_exactly_the_wrong_lines(program: Path, pyright: Lines) -> None:
    wrong = marked(program, "# type: ignore[")
    assert len(wrong) > 4
    assert pyright[program.name].keys() == wrong, pyright[program.name]


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_type_checker_finds_every_error_of_wrong_programs_and_no_other(
    checker: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(checker)[WRONG.name]
    expected = marked(WRONG, "# error")
    assert len(expected) > 30
    missing, surplus = expected - found.keys(), found.keys() - expected
    assert not missing, f"lines without an error: {sorted(missing)}"
    assert not surplus, [found[number] for number in sorted(surplus)]
