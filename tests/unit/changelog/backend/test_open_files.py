"""Too few open files: nothing is damaged, and the advice is to raise the limit."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from logstate.changelog.backend.rocks_errors import explained
from logstate.changelog.directory import StateDirectory
from logstate.contracts.errors import DirectoryInUseError, StateDirectoryError, StoreError
from tests.unit.changelog.killed_process import ROOT

#: opens databases until there are no files left, then follows the advice
UNTIL_NO_FILE_IS_LEFT = """
import pathlib, resource, sys
from logstate.changelog.backend.rocks import RocksBackend
from logstate.contracts.errors import StoreError
root = pathlib.Path(sys.argv[1])
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
backends = []
try:
    while True:
        backends.append(RocksBackend(root / str(len(backends))))
        backends[-1].write({b"k": b"v"})
except StoreError as error:
    print(type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
again = RocksBackend(root / str(len(backends)))
again.write({b"k": b"v"})
print("then", again.get(b"k"), {backend.get(b"k") for backend in backends[:-1]})
"""


def test_the_advice_is_the_one_that_helps(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNTIL_NO_FILE_IS_LEFT, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout
    assert said.startswith("StoreError Could not ")
    assert "this process may have 64 files open" in said
    assert "nothing need be deleted" in said
    assert "ulimit -n 65536" in said
    assert "then b'v' {b'v'}" in said, done.stderr


def test_a_lock_that_cannot_be_opened_is_not_held_by_another() -> None:
    text = "IO error: While open a file for lock: /x/LOCK: Too many open files"
    error = explained(Exception(text), Path("/x"), "open")
    assert isinstance(error, StoreError)
    assert not isinstance(error, DirectoryInUseError)


def test_a_state_directory_that_cannot_be_opened_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("logstate.changelog.directory.os.open", fails)
    with pytest.raises(StateDirectoryError) as refused:
        StateDirectory(tmp_path, "shop")
    assert "LimitNOFILE=" in str(refused.value)
    assert str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]) in str(refused.value)


def test_an_unknown_error_names_what_a_deleted_directory_would_cost() -> None:
    said = str(explained(Exception("Result incomplete"), Path("/x"), "read"))
    assert "loses the rows of stores that have none" in said
