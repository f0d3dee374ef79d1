"""Local disks that survive their processes, mostly.

A write is one atomic batch, as RocksDB's. What a crash leaves is chosen by the schedule: everything
that was written (a killed process), everything but the last batches (a power cut), nothing, or an
older copy of the directory. A power cut takes no file that was taken over as a whole, and nothing
that was synced or came before something synced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.backend.memory import MemoryBackend, MemorySnapshot
from logstate.contracts.errors import StateDirectoryError, StoreCorruptedError, StoreError
from logstate.contracts.records import TaskId
from logstate.testing.fake.client import ProcessKilled
from logstate.testing.fake.process import FakeProcess


class Batch(NamedTuple):
    """One write, and how well it is kept."""

    rows: Mapping[bytes, bytes | None]
    ranges: Sequence[KeyRange] = ()
    #: it survives a power cut, and so do all batches before it
    is_synced: bool = False
    #: it survives a power cut, whatever becomes of the batches before it
    is_file: bool = False


class Directory:
    """One task's rows, with the batches that made them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = MemoryBackend()
        self.batches: list[Batch] = []
        self.is_open = False
        #: whatever is done with its rows fails
        self.is_damaged = False
        #: the next write fails, as on a full disk, and the one after it may succeed
        self.refuses_write = False

    def write(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.rows.write(batch.rows, batch.ranges)

    def keep(self, batches: int) -> None:
        """Lose what came after the first ``batches``, but for what a power cut cannot take."""
        synced = (number for number, batch in enumerate(self.batches, 1) if batch.is_synced)
        batches = max(batches, *synced, 0)
        kept = self.batches[:batches] + [b for b in self.batches[batches:] if b.is_file]
        self.rows = MemoryBackend()
        self.batches = []
        for batch in kept:
            self.write(batch)


class Disk:
    """The state directory of one slot."""

    def __init__(self) -> None:
        self.directories: dict[TaskId, Directory] = {}
        #: ordered: the process dies "before" or "after" its next write
        self.kills: str | None = None
        self.writes = 0
        #: files that were to be taken over
        self.loads = 0
        self.quarantined = 0
        #: directories that were damaged by now
        self.damaged = 0

    def open(self, task_id: TaskId, process: FakeProcess) -> DiskBackend:
        """Open or make a task's directory; raises StateDirectoryError where it is open already."""
        directory = self.directories.setdefault(task_id, Directory(Path(str(task_id))))
        if directory.is_open:
            raise StateDirectoryError(f"the directory of task {task_id} is locked")
        directory.is_open = True
        return DiskBackend(self, directory, process)

    def quarantine(self, task_id: TaskId) -> None:
        """Put a directory aside; the next open finds nothing."""
        assert not self.directories[task_id].is_open, "a directory is put aside while it is open"
        self.quarantined += 1
        del self.directories[task_id]

    def release(self) -> None:
        """The process is gone, and its locks with it."""
        for directory in self.directories.values():
            directory.is_open = False
            directory.refuses_write = False

    def lose_tail(self, count: int) -> None:
        """A power cut: the last writes of each directory are gone."""
        for directory in self.directories.values():
            directory.keep(max(0, len(directory.batches) - count))

    def lose_everything(self) -> None:
        """The disk was replaced."""
        self.directories = {}


class DiskBackend:
    """What a process holds of an open directory (see
    :class:`logstate.changelog.backend.backend`).
    """

    #: almost every load is large here
    ingest_rows_min: int | None = 2

    def __init__(self, disk: Disk, directory: Directory, process: FakeProcess) -> None:
        self.path = directory.path
        self._disk = disk
        self._directory = directory
        self._process = process
        self._is_open = True

    def get(self, key: bytes) -> bytes | None:
        self._check()
        return self._directory.rows.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        self._check()
        return self._directory.rows.get_many(keys)

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        self._check()
        return self._directory.rows.scan(lower, upper, reverse=reverse)

    def write(self, rows: Mapping[bytes, bytes | None], ranges: Sequence[KeyRange] = ()) -> None:
        self._write(Batch(dict(rows), tuple(ranges)))

    def ingest(self, rows: Mapping[bytes, bytes | None], mark: Mapping[bytes, bytes]) -> None:
        """Two writes; an ordered kill meets either of them, or the one that follows, in turn."""
        kills, number = self._disk.kills, self._disk.loads
        self._disk.loads += 1
        for place, batch in enumerate((Batch(mark, is_synced=True), Batch(rows, is_file=True))):
            self._disk.kills = kills if place == number % 3 else None
            self._write(batch)
        self._disk.kills = kills if number % 3 == 2 else None

    def _write(self, batch: Batch) -> None:
        self._check()
        if self._directory.refuses_write:
            self._directory.refuses_write = False
            raise StoreError(f"{self.path} could not be written: the disk is full")
        kills, self._disk.kills = self._disk.kills, None
        if kills != "before":
            self._directory.write(batch)
            self._disk.writes += 1
        if kills is not None:
            self._process.kill()
            raise ProcessKilled(self._process.name)

    def snapshot(self) -> MemorySnapshot:
        self._check()
        return self._directory.rows.snapshot()

    def close(self) -> None:
        if self._is_open and not self._process.is_killed:
            self._directory.is_open = False
        self._is_open = False

    def _check(self) -> None:
        self._process.check_alive()
        assert self._is_open, "a closed store was used"
        if self._directory.is_damaged:
            raise StoreCorruptedError(f"a block of {self.path} is damaged", self.path)
