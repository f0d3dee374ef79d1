"""The rules of tests/conftest.py: tiers by folder, and no broker is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
BROKER_TEST = "tests/broker/test_bootstrap.py"


def pytest_run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, **variables)


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": "", **variables},
        timeout=PATIENCE_S,
    )


@pytest.mark.slow
def test_a_missing_broker_fails_the_test_and_never_skips_it() -> None:
    answer = pytest_run(BROKER_TEST, LOGSTATE_BOOTSTRAP="127.0.0.1:1")

    assert answer.returncode == 1
    assert "LOGSTATE_BOOTSTRAP names 127.0.0.1:1, and no broker answers there" in answer.stdout
    assert "1 error" in answer.stdout
    assert "skipped" not in answer.stdout


@pytest.mark.slow
def test_a_folder_is_a_tier_whatever_its_files_say() -> None:
    fast = pytest_run("--collect-only", "-m", "not broker", BROKER_TEST, "tests/test_tiers.py")

    assert "test_tiers.py" in fast.stdout
    assert "test_bootstrap.py" not in fast.stdout


@pytest.mark.slow
def test_cheap_tiers_run_first() -> None:
    answer = pytest_run("--collect-only", BROKER_TEST, "tests/test_tiers.py")

    tests = [line for line in answer.stdout.splitlines() if "::" in line]
    assert tests[-1].startswith("tests/broker/")
    assert tests[0].startswith("tests/test_tiers.py")


@pytest.mark.no_cover
def test_what_is_not_to_be_measured_is_not_traced() -> None:
    # It takes four times as long when it is; only a run in several processes can get this wrong.
    assert type(sys.gettrace()).__module__ != "coverage"


@pytest.mark.slow
def test_the_whole_suite_fails_when_coverage_falls_below_the_ratchet(tmp_path: Path) -> None:
    # One folder given as the suite covers next to nothing of any package: one is reported soonest.
    measured = ("--cov=logstate/local_broker", "--cov-report=", "-o", "testpaths=tests/unit/docker")
    answer = pytest_run(*measured, COVERAGE_FILE=str(tmp_path / "coverage"))

    assert answer.returncode == 1
    assert "Required test coverage of 94.0% not reached" in answer.stdout
    assert " passed in " in answer.stdout.splitlines()[-1]


def test_what_a_killed_run_left_in_memory_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "MEMORY_BYTES_MIN", 0)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for process in (ended.pid, os.getppid()):
        (tmp_path / f"logstate-tests-{process}").mkdir()

    folder = conftest.folder_in_memory(tmp_path)

    assert folder == tmp_path / f"logstate-tests-{os.getpid()}"
    assert {path.name for path in tmp_path.iterdir()} == {
        folder.name,
        f"logstate-tests-{os.getppid()}",
    }


def test_a_machine_with_little_memory_keeps_temporary_files_on_its_disk(tmp_path: Path) -> None:
    assert conftest.folder_in_memory(tmp_path / "none") is None
    room = shutil.disk_usage(tmp_path).free
    assert (conftest.folder_in_memory(tmp_path) is None) == (room < conftest.MEMORY_BYTES_MIN)
