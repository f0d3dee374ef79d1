"""RocksDB as a medium: what survives, what is refused, what is reported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from logstate.changelog.backend.rocks import RocksBackend, RocksMemory, shared_memory
from logstate.changelog.backend.rocks_errors import explained
from logstate.contracts.errors import (
    StateDirectoryError,
    StoreCorruptedError,
    StoreError,
    StoreUnavailableError,
)
from tests.patience import PATIENCE_S
from tests.unit.changelog.killed_process import kill_on_the_way

WRITER = """
import os, signal, sys
from logstate.changelog.backend.rocks import RocksBackend
backend = RocksBackend(sys.argv[1])
for number in range(1_000_000):
    rows = {b"row%04d" % i: b"%d" % number for i in range(100)}
    backend.write({**rows, b"position": b"%d" % number})
    if number == 20:
        os.write(1, b"on the way\\n")
"""

HOLDER = """
import sys
from logstate.changelog.backend.rocks import RocksBackend
backend = RocksBackend(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""

FULL = """
import resource, sys
from logstate.changelog.backend.rocks import RocksBackend
from logstate.contracts.errors import StoreError
backend = RocksBackend(sys.argv[1])
backend.write({b"before": b"1"})
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    backend.write({b"key%d" % i: bytes(1000) for i in range(1000)})
except StoreError as error:
    print(error)
print(backend.get(b"before"), backend.get(b"key1"), flush=True)
"""


def fill(path: Path, rows: int = 20_000) -> dict[bytes, bytes]:
    written = {b"key%06d" % i: os.urandom(100) for i in range(rows)}
    backend = RocksBackend(path)
    backend.write(written)
    backend.flush()
    backend.close()
    return written


def test_rows_are_there_after_closing_and_opening_again(tmp_path: Path) -> None:
    backend = RocksBackend(tmp_path / "db")
    backend.write({b"a": b"1", b"b": b"2"}, [(b"b", b"c")])
    backend.close()
    again = RocksBackend(tmp_path / "db")
    assert list(again.scan(b"", b"z")) == [(b"a", b"1")]
    again.close()


def test_a_write_that_returned_survives_a_killed_process_and_is_whole(tmp_path: Path) -> None:
    kill_on_the_way(WRITER, str(tmp_path / "db"))
    backend = RocksBackend(tmp_path / "db")
    position = backend.get(b"position")
    assert position is not None
    assert int(position) >= 20
    assert {value for _, value in backend.scan(b"row", b"rox")} == {position}
    backend.close()


def test_a_second_open_in_this_process_is_refused(tmp_path: Path) -> None:
    backend = RocksBackend(tmp_path / "db")
    with pytest.raises(StateDirectoryError, match="open elsewhere"):
        RocksBackend(tmp_path / "db")
    backend.close()


def test_a_second_open_by_another_process_is_refused(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(StateDirectoryError, match="own state_dir"):
            RocksBackend(tmp_path / "db")
        holder.communicate(timeout=PATIENCE_S)
    RocksBackend(tmp_path / "db").close()


def test_a_damaged_block_raises_instead_of_ending_the_scan(tmp_path: Path) -> None:
    written = fill(tmp_path / "db")
    damage(largest_table(tmp_path / "db"))
    backend = RocksBackend(tmp_path / "db", RocksMemory())
    with pytest.raises(StoreCorruptedError, match="rebuilt from the changelog"):
        list(backend.scan(b"", b"z"))
    with pytest.raises(StoreCorruptedError):
        list(backend.scan(b"", b"z", reverse=True))
    with pytest.raises(StoreCorruptedError):
        backend.get_many(list(written))
    snapshot = backend.snapshot()
    with pytest.raises(StoreCorruptedError):
        list(snapshot.scan(b"", b"z"))
    with pytest.raises(StoreCorruptedError):
        snapshot.get_many(list(written))
    backend.close()


def test_a_missing_table_file_is_noticed_at_the_open(tmp_path: Path) -> None:
    fill(tmp_path / "db")
    largest_table(tmp_path / "db").unlink()
    with pytest.raises(StoreCorruptedError, match="damaged"):
        RocksBackend(tmp_path / "db")


def test_a_write_that_the_disk_refuses_raises_and_leaves_the_rows_as_they_were(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "db")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    message, rows = ran.stdout.splitlines()
    assert "Could not write" in message
    assert "the changelog" in message.lower()
    assert rows == "b'1' None"


def test_a_file_in_the_place_of_the_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("not a directory")
    with pytest.raises(StoreError, match="db"):
        RocksBackend(tmp_path / "db")


def test_the_options_hold_after_a_reopen_too(tmp_path: Path) -> None:
    for _ in range(2):
        backend = RocksBackend(tmp_path / "db")
        backend.close()
        options = newest_options(tmp_path / "db")
        assert "filter_policy=bloomfilter" in options
        assert "write_buffer_size=16777216" in options
        assert "max_open_files=256" in options
        assert "cache_index_and_filter_blocks=true" in options
        assert "compression=kLZ4Compression" in options


def test_all_databases_share_one_memory(tmp_path: Path) -> None:
    before = shared_memory().used_bytes()
    backends = [RocksBackend(tmp_path / str(i)) for i in range(3)]
    for backend in backends:
        backend.write({b"key%d" % i: os.urandom(1000) for i in range(1000)})
    assert shared_memory().used_bytes() - before >= 3 * 1000 * 1000
    for backend in backends:
        backend.close()


def test_blocks_of_files_that_compaction_removed_leave_the_cache(tmp_path: Path) -> None:
    memory = RocksMemory()
    backend = RocksBackend(tmp_path / "db", memory)
    held = []
    for _ in range(24):
        rows = {b"key-%05d" % n: os.urandom(100) for n in range(2_000)}
        backend.write(rows)
        backend.flush()
        assert backend.get_many(list(rows)) == list(rows.values())
        held.append(memory.used_bytes())
    backend.close()
    # A file for each write, if they stayed; a compaction begins at four files and may be under way.
    assert held[-1] <= 12 * held[0], held


def test_many_databases_with_few_rows_take_little_of_the_memory_for_writes(tmp_path: Path) -> None:
    """The memory for 45 of them counted as full, and each write flushed a file."""
    memory = RocksMemory()
    backends = [RocksBackend(tmp_path / str(number), memory) for number in range(60)]
    for _ in range(3):
        for backend in backends:
            backend.write({os.urandom(8): os.urandom(100) for _ in range(20)})
    assert memory.used_bytes() < 10 << 20
    assert not list(tmp_path.glob("*/*.sst"))
    for backend in backends:
        backend.close()


def test_the_shared_memory_can_be_resized() -> None:
    memory = RocksMemory(cache_bytes=1 << 20)
    memory.resize(cache_bytes=2 << 20, write_buffer_bytes=1 << 20)
    assert memory.write_buffers.get_buffer_size() == 1 << 20


def test_closing_gives_the_directory_free_in_spite_of_open_scans_and_snapshots(
    tmp_path: Path,
) -> None:
    fill(tmp_path / "db")
    backend = RocksBackend(tmp_path / "db")
    snapshot = backend.snapshot()
    scan, snapshot_scan = backend.scan(b"", b"z"), snapshot.scan(b"", b"z")
    next(scan)
    next(snapshot_scan)
    backend.close()
    again = RocksBackend(tmp_path / "db")
    with pytest.raises(StoreUnavailableError, match="closed"):
        list(scan)
    with pytest.raises(StoreUnavailableError, match="closed"):
        list(snapshot_scan)
    with pytest.raises(StoreUnavailableError, match="closed"):
        snapshot.get(b"key000000")
    again.close()


def test_a_closed_backend_refuses_every_use(tmp_path: Path) -> None:
    backend = RocksBackend(tmp_path / "db")
    backend.close()
    with pytest.raises(StoreUnavailableError):
        backend.get(b"a")
    with pytest.raises(StoreUnavailableError):
        backend.get_many([b"a"])
    with pytest.raises(StoreUnavailableError):
        backend.scan(b"a", b"b")
    with pytest.raises(StoreUnavailableError):
        backend.write({b"a": b"1"})
    with pytest.raises(StoreUnavailableError):
        backend.snapshot()


def test_scans_of_one_snapshot_from_several_threads_do_not_disturb_each_other(
    tmp_path: Path,
) -> None:
    written = fill(tmp_path / "db", rows=5_000)
    backend = RocksBackend(tmp_path / "db")
    snapshot = backend.snapshot()
    backend.write(dict.fromkeys(written, b"later"))
    results: dict[int, list[tuple[bytes, bytes]]] = {}

    def read(number: int) -> None:
        results[number] = list(snapshot.scan(b"", b"z", reverse=number % 2 == 1))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(written.items())
    assert [results[n] == (expected[::-1] if n % 2 else expected) for n in range(4)] == [True] * 4
    backend.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_told_that_it_cannot_use_the_database(tmp_path: Path) -> None:
    backend = RocksBackend(tmp_path / "db")
    backend.write({b"a": b"1"})
    child = os.fork()
    if child == 0:
        os._exit(0 if refuses_after_fork(backend) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert backend.get(b"a") == b"1"
    backend.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_told_that_it_can_open_no_database(tmp_path: Path) -> None:
    RocksBackend(tmp_path / "db").close()
    child = os.fork()
    if child == 0:
        try:
            RocksBackend(tmp_path / "other")
        except StoreError as error:
            os._exit(0 if "threads do not exist here" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    RocksBackend(tmp_path / "other").close()


def refuses_after_fork(backend: RocksBackend) -> bool:
    try:
        backend.get(b"a")
    except StoreError as error:
        backend.close()
        return "forked" in str(error)
    return False


def largest_table(directory: Path) -> Path:
    return max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(64)
    path.write_bytes(data)


def newest_options(directory: Path) -> str:
    newest = max(
        directory.glob("OPTIONS-*"),
        key=lambda path: int(re.sub(r"\D", "", path.name)),
    )
    return newest.read_text()


@pytest.mark.parametrize(
    ("text", "action", "error", "says"),
    [
        ("IO error: No space left on device: a.sst", "write", StoreError, "the disk is full"),
        ("IO error: Writer has previous error.", "close", StoreError, "the disk is full, or was"),
        ("IO error: File too large: While appending", "write", StoreError, "the disk is full"),
        ("IO error: Disk quota exceeded", "flush", StoreError, "the disk is full"),
        ("IO error: Input/output error: a.sst", "read", StoreError, "deleting this directory"),
        ("IO error: Read-only file system: LOG", "open", StateDirectoryError, "no permission"),
        ("IO error: Permission denied: LOCK", "open", StateDirectoryError, "no permission"),
        ("IO error: Permission denied: a.sst", "write", StateDirectoryError, "no permission"),
        ("IO error: No such file or directory: x", "open", StoreCorruptedError, "are damaged"),
        ("IO error: No such file or directory: x", "read", StoreError, "deleting this directory"),
        ("Corruption: block checksum mismatch", "read", StoreCorruptedError, "are damaged"),
    ],
)
def test_every_fault_of_a_disk_has_an_error_of_its_own(
    text: str, action: str, error: type[Exception], says: str, tmp_path: Path
) -> None:
    """Texts are all that the binding gives; some of these faults cannot be made on any machine."""
    found = explained(Exception(text), tmp_path, action)
    assert type(found) is error
    assert says in str(found)


def test_a_database_that_waits_to_be_collected_gives_its_lock_back(tmp_path: Path) -> None:
    class Holder:
        """In a cycle with itself, as an exception and its frames are."""

    holder: Any = Holder()
    holder.itself = holder
    holder.database = RocksBackend(tmp_path / "db")._database
    del holder

    RocksBackend(tmp_path / "db").close()
