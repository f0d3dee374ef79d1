"""Loads: replayed rows go past the layers, many of them as a file, rows before position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from logstate import serdes
from logstate.changelog.backend.backend import KeyRange, StoreBackend
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.loading import row_maker
from logstate.changelog.rows.row_codec import timestamped_row
from logstate.changelog.rows.writes import LoggedWrite
from logstate.changelog.state import TaskState
from logstate.changelog.stored_meta import read_meta
from logstate.changelog.stores.kinds import KINDS
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import FetchedRecord
from logstate.contracts.stores import StoreSpec
from logstate.testing.fake.fetched import StoredRecord
from tests.unit.changelog.killed_process import kill_on_the_way
from tests.unit.changelog.store_bench import BenchContext

LOADER = """
import os, sys
from tests.unit.changelog.test_loading import load, opened, record, spec
from logstate.changelog.backend.rocks import RocksBackend
backend = RocksBackend(sys.argv[1])
backend.ingest_rows_min = 1
state = opened(backend, spec("a"))
for number in range(1_000_000):
    rows = [record(b"key%04d" % i, b"%d" % number) for i in range(100)]
    load(state, "a", rows, number + 1)
    state.apply()
    if number == 5:
        os.write(1, b"on the way\\n")
"""


class Crash(Exception):
    """The process is gone."""


class CrashingDisk(MemoryBackend):
    """Keeps what was written; crashes before the step that it is told."""

    ingest_rows_min: int | None = 2

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.crashes_before: str | None = None

    def _step(self, name: str) -> None:
        if name == self.crashes_before:
            raise Crash(name)
        self.steps.append(name)

    def write(self, rows: Mapping[bytes, bytes | None], ranges: Sequence[KeyRange] = ()) -> None:
        self._step("write")
        super().write(rows, ranges)

    def ingest(self, rows: Mapping[bytes, bytes | None], mark: Mapping[bytes, bytes]) -> None:
        self._step("mark")
        super().write(mark)
        self._step("file")
        super().write(rows)

    def close(self) -> None:
        """A disk keeps its rows."""


def spec(name: str, kind: str = "key_value", **options: Any) -> StoreSpec:
    return StoreSpec(name, kind, serdes.string, serdes.string, **options)


def opened(backend: StoreBackend | None, *specs: StoreSpec) -> TaskState:
    return TaskState(specs, cast(TaskContext, BenchContext()), backend=backend)


def record(key: bytes, value: bytes | None, timestamp: int = 5) -> FetchedRecord:
    return StoredRecord("log", 0, 0, key, value, timestamp, None)


def load(state: TaskState, store: str, records: Sequence[FetchedRecord], position: int) -> None:
    assert state.load(store, records, position)


def rows(state: TaskState, store: str) -> list[tuple[Any, Any]]:
    found: Any = state.stores[store]
    return list(found.all())


TWO = [record(b"k", b"1"), record(b"l", b"1")]


def test_the_last_record_of_a_key_wins_and_a_tombstone_leaves_nothing() -> None:
    disk = CrashingDisk()
    state = opened(disk, spec("a"))
    load(state, "a", [*TWO, record(b"k", b"2"), record(b"l", None)], 4)
    assert state.unapplied_rows() == 2
    state.apply()
    state.restored()
    assert rows(state, "a") == [("k", "2")]
    assert disk.steps == ["mark", "file", "write"]
    assert read_meta(disk).positions == {"a": 4}


def test_few_rows_come_in_one_write_with_their_position() -> None:
    disk = CrashingDisk()
    state = opened(disk, spec("a"))
    load(state, "a", [record(b"k", b"1")], 1)
    state.apply()
    assert disk.steps == ["write"]


def test_rows_of_a_store_that_was_not_empty_come_in_one_write_with_their_position() -> None:
    disk = CrashingDisk()
    state = opened(disk, spec("a"))
    state.restore("a", [LoggedWrite(b"old", b"1", 0)], 1)
    load(state, "a", [*TWO, record(b"old", None)], 4)
    state.apply()
    state.restored()
    assert disk.steps == ["write"]
    assert rows(state, "a") == [("k", "1"), ("l", "1")]


def test_what_was_read_before_a_load_is_not_remembered_after_it() -> None:
    state = opened(CrashingDisk(), spec("a"))
    store: Any = state.stores["a"]
    assert store.get("k") is None
    load(state, "a", TWO, 2)
    state.apply()
    state.restored()
    assert store.get("k") == "1"


@pytest.mark.parametrize("step", ["mark", "file", "write"])
def test_a_store_that_was_left_half_loaded_is_empty_and_has_no_position(step: str) -> None:
    disk = CrashingDisk()
    disk.ingest_rows_min = None
    state = opened(disk, spec("a"), spec("other"))
    load(state, "other", TWO, 2)
    state.apply()
    disk.ingest_rows_min = 2
    disk.crashes_before = step
    load(state, "a", TWO, 7)
    with pytest.raises(Crash):
        state.apply()
    disk.crashes_before = None
    again = opened(disk, spec("a"), spec("other"))
    assert again.positions == {"other": 2}
    assert rows(again, "a") == []
    assert rows(again, "other") == [("k", "1"), ("l", "1")]
    load(again, "a", TWO, 7)
    again.apply()
    again.restored()
    assert again.positions == {"a": 7, "other": 2}
    assert rows(again, "a") == [("k", "1"), ("l", "1")]


def test_a_load_that_fails_on_the_way_can_be_written_again() -> None:
    disk = CrashingDisk()
    disk.crashes_before = "file"
    state = opened(disk, spec("a"))
    load(state, "a", TWO, 2)
    with pytest.raises(Crash):
        state.apply()
    disk.crashes_before = None
    state.apply()
    state.restored()
    assert rows(state, "a") == [("k", "1"), ("l", "1")]


def test_rows_in_memory_are_never_a_file() -> None:
    disk = CrashingDisk()
    state = opened(disk, spec("a", in_memory=True))
    load(state, "a", TWO, 2)
    state.apply()
    state.restored()
    assert disk.steps == ["write"]
    assert rows(state, "a") == [("k", "1"), ("l", "1")]


def test_timestamped_rows_have_the_times_of_their_records() -> None:
    disk = CrashingDisk()
    state = opened(disk, spec("a", "timestamped_key_value"))
    load(state, "a", [record(b"k", b"1", -1), record(b"l", b"2", 9)], 2)
    state.apply()
    found = [row for _, row in disk.scan(b"\x01", b"\x02")]
    assert found == [timestamped_row(b"1", 0), timestamped_row(b"2", 9)]


def test_a_store_that_learns_from_its_records_gets_to_see_them() -> None:
    window = spec("a", "window", retention_ms=10, window_size_ms=10, segment_interval_ms=5)
    state = opened(None, window)
    assert not state.load("a", TWO, 2)
    assert state.unapplied_rows() == 0
    assert {
        kind
        for kind in KINDS
        if row_maker(StoreSpec("a", kind, serdes.string, serdes.string)) is not None
    } == {"key_value", "timestamped_key_value", "list", "map", "set", "counter"}


def test_records_of_somebody_elses_topic_are_looked_at_one_by_one() -> None:
    assert row_maker(spec("a", source_topic="in")) is None


def test_a_tombstone_in_a_later_file_deletes_the_row_of_an_earlier_one(tmp_path: Path) -> None:
    backend = RocksBackend(tmp_path / "db")
    backend.ingest_rows_min = 1
    state = opened(backend, spec("a"))
    load(state, "a", TWO, 2)
    state.apply()
    load(state, "a", [record(b"k", None), record(b"m", b"1"), record(b"l", b"2")], 5)
    state.apply()
    state.restored()
    assert rows(state, "a") == [("l", "2"), ("m", "1")]
    state.close()


def test_a_file_that_was_not_taken_over_is_removed(tmp_path: Path) -> None:
    RocksBackend(tmp_path / "db").close()
    left = tmp_path / "db" / "loading.rows"
    left.write_bytes(b"half a file")
    RocksBackend(tmp_path / "db").close()
    assert not left.exists()


def test_rows_and_position_of_a_killed_load_belong_together(tmp_path: Path) -> None:
    kill_on_the_way(LOADER, str(tmp_path / "db"))
    backend = RocksBackend(tmp_path / "db")
    position = read_meta(backend).positions.get("a")
    found = {value for _, value in backend.scan(b"\x01", b"\x02")}
    assert found == (set() if position is None else {b"%d" % (position - 1)})
    backend.close()
