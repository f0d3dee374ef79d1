"""Which Python `./dev` makes the project's environment with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FAST, PLAIN, BARE, TOO_OLD = 0, 3, 4, 1


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The command alone: the Pythons of these tests are none, and open nothing."""
    shutil.copy(ROOT / "dev", tmp_path)
    return tmp_path


def a_python(path: Path, rating: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!/bin/sh\n"
        f"case $1 in *interpreter.py) exit {rating} ;; esac\n"
        f'echo "{path.name} runs $2"\n'
    )
    path.chmod(0o755)


def dev(project: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(project / "bin"), "/usr/bin", "/bin"])
    return subprocess.run(
        [str(project / "dev"), "check"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": path, **variables},
    )


def chosen(project: Path, **variables: str) -> str:
    return dev(project, **variables).stdout.strip()


def test_the_first_fast_build_is_taken_before_a_plain_one(project: Path) -> None:
    a_python(project / "bin" / "python3", PLAIN)
    a_python(project / "bin" / "python3.14", TOO_OLD)
    a_python(project / "bin" / "python3.13", BARE)
    a_python(project / "bin" / "python3.12", FAST)
    a_python(project / "bin" / "python3.11", FAST)

    assert chosen(project) == "python3.12 runs check"


@pytest.mark.parametrize("rating", [PLAIN, BARE])
def test_the_one_that_is_named_is_taken_as_it_is(project: Path, rating: int) -> None:
    a_python(project / "bin" / "python3", FAST)
    a_python(project / "mine", rating)

    assert chosen(project, LOGSTATE_PYTHON=str(project / "mine")) == "mine runs check"


def test_a_named_one_that_is_too_old_is_an_error(project: Path) -> None:
    a_python(project / "bin" / "python3", FAST)
    a_python(project / "mine", TOO_OLD)

    answer = dev(project, LOGSTATE_PYTHON=str(project / "mine"))

    assert answer.returncode == 1
    assert answer.stdout == ""
    assert f"LOGSTATE_PYTHON={project / 'mine'} does not start, or is older" in answer.stderr


def test_an_environment_that_is_there_is_used_further(project: Path) -> None:
    a_python(project / "bin" / "python3", FAST)
    a_python(project / ".venv" / "bin" / "python", PLAIN)

    assert chosen(project) == "python runs check"


def test_an_environment_whose_python_has_gone_is_not(project: Path) -> None:
    a_python(project / "bin" / "python3", FAST)
    a_python(project / ".venv" / "bin" / "python", TOO_OLD)

    assert chosen(project) == "python3 runs check"


def test_this_interpreter_can_carry_the_environment() -> None:
    rating = subprocess.run([sys.executable, str(ROOT / ".ci" / "interpreter.py")], check=False)

    assert rating.returncode in (FAST, PLAIN)
