"""All state of a task: commits over all its stores, positions, clocks, applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from logstate import serdes
from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.backend.rocks import RocksBackend
from logstate.changelog.rows.writes import LoggedWrite
from logstate.changelog.state import TaskState
from logstate.changelog.stored_meta import StoredMeta
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from tests.unit.changelog.store_bench import BenchContext, StoreBench

META = b"\x00meta"


def spec(name: str, **options: Any) -> StoreSpec:
    return StoreSpec(name, "key_value", serdes.string, serdes.string, **options)


class RecordingBackend(MemoryBackend):
    """Stands for a disk: what was written survives, and every write is remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[dict[bytes, bytes | None]] = []

    def write(self, rows: Mapping[bytes, bytes | None], ranges: Sequence[KeyRange] = ()) -> None:
        self.writes.append(dict(rows))
        super().write(rows, ranges)

    def close(self) -> None:
        """A disk keeps its rows."""

    @property
    def meta(self) -> StoredMeta:
        raw = self.get(META)
        assert raw is not None
        return msgspec.msgpack.decode(raw, type=StoredMeta)


@pytest.fixture
def disk() -> RecordingBackend:
    return RecordingBackend()


def open_state(*specs: StoreSpec, disk: MemoryBackend | None = None, **options: Any) -> TaskState:
    return TaskState(specs, cast(TaskContext, BenchContext()), backend=disk, **options)


@pytest.fixture
def state(disk: RecordingBackend) -> Iterator[TaskState]:
    made = open_state(spec("a"), spec("b"), disk=disk)
    yield made
    made.close()


def store(state: TaskState, name: str) -> Any:
    return state.stores[name]


def commit(state: TaskState, **positions: int) -> None:
    state.committed(state.freeze(), positions)


# --- commits --------------------------------------------------------------------------------------


def test_a_commit_is_one_cut_through_all_stores_and_clocks(state: TaskState) -> None:
    store(state, "a").put("k", "1")
    store(state, "b").put("k", "2")
    state.time_cell("clock").time = 7
    changes = state.freeze()
    store(state, "a").put("k", "later")
    state.time_cell("clock").time = 8
    assert [value for _, value, *_ in changes.writes["a"]] == [b"1"]
    assert [value for _, value, *_ in changes.writes["b"]] == [b"2"]
    assert changes.clocks["clock"] == 7
    assert [value for _, value, *_ in state.freeze().writes["a"]] == [b"later"]


def test_a_discard_takes_back_rows_writes_and_clocks(state: TaskState) -> None:
    store(state, "a").put("k", "kept")
    state.time_cell("clock").time = 7
    commit(state, a=1)
    store(state, "a").put("k", "lost")
    store(state, "b").put("k", "lost")
    state.time_cell("clock").time = 9
    state.time_cell("new").time = 9
    state.discard()
    assert store(state, "a").get("k") == "kept"
    assert store(state, "b").get("k") is None
    assert state.time_cell("clock").time == 7
    assert state.time_cell("new").time == -1
    changes = state.freeze()
    assert all(layer.is_empty for layer in changes.layers.values())
    assert not any(changes.writes.values())


def test_a_discard_also_forgets_what_was_frozen_but_not_committed(state: TaskState) -> None:
    store(state, "a").put("k", "frozen")
    state.time_cell("clock").time = 5
    state.freeze()
    state.discard()
    assert store(state, "a").get("k") is None
    assert state.time_cell("clock").time == -1


def test_one_records_effects_can_be_taken_back_from_all_stores(state: TaskState) -> None:
    store(state, "a").put("k", "before")
    state.time_cell("clock").time = 1
    state.begin_journal()
    store(state, "a").put("k", "record")
    store(state, "b").put("k", "record")
    state.time_cell("clock").time = 2
    state.end_journal(rollback=True)
    assert store(state, "a").get("k") == "before"
    assert store(state, "b").get("k") is None
    assert state.time_cell("clock").time == 1
    assert [value for _, value, *_ in state.freeze().writes["a"]] == [b"before"]


def test_positions_never_go_back(state: TaskState) -> None:
    commit(state, a=10)
    with pytest.raises(AssertionError, match="position of a goes back: 10 -> 9"):
        state.restore("a", (), 9)


# --- clocks ---------------------------------------------------------------------------------------


def test_a_clock_is_one_object_and_starts_at_minus_one(state: TaskState) -> None:
    cell = state.time_cell("clock")
    assert cell.time == -1
    assert state.time_cell("clock") is cell


def test_the_clocks_of_a_cut_reach_those_that_exist_and_those_made_later(state: TaskState) -> None:
    early, absent = state.time_cell("early"), state.time_cell("absent")
    absent.time = 99
    state.set_clocks({"early": 5, "late": 6})
    assert (early.time, absent.time, state.time_cell("late").time) == (5, -1, 6)


# --- applying -------------------------------------------------------------------------------------


def test_nothing_uncommitted_reaches_the_disk(state: TaskState, disk: RecordingBackend) -> None:
    store(state, "a").put("k", "1")
    state.freeze()
    state.apply()
    assert list(disk.scan(b"\x01", b"\x02")) == []


def test_rows_of_all_stores_and_their_positions_are_one_write(
    state: TaskState, disk: RecordingBackend
) -> None:
    store(state, "a").put("k", "1")
    store(state, "b").put("k", "2")
    commit(state, a=10, b=20)
    store(state, "a").put("k", "3")
    commit(state, a=11)
    assert disk.writes == []
    assert state.unapplied_rows() == 3
    state.apply(1_234)
    (write,) = disk.writes
    assert sorted(value for key, value in write.items() if key != META and value) == [b"2", b"3"]
    assert disk.meta.positions == {"a": 11, "b": 20}
    assert disk.meta.caught_up_at_ms == 1_234
    assert state.unapplied_rows() == 0


def test_an_apply_without_a_time_keeps_the_one_that_is_stored(
    state: TaskState, disk: RecordingBackend
) -> None:
    state.apply(1_234)
    state.apply()
    assert disk.meta.caught_up_at_ms == 1_234


def test_a_later_layer_wins_within_one_apply(state: TaskState, disk: RecordingBackend) -> None:
    store(state, "a").put("k", "1")
    commit(state)
    store(state, "a").put("k", None)
    commit(state)
    state.apply()
    assert list(disk.scan(b"\x01", b"\x02")) == []


def test_a_reopened_state_stands_where_it_was_last_applied(disk: RecordingBackend) -> None:
    state = open_state(spec("a"), disk=disk)
    store(state, "a").put("k", "applied")
    commit(state, a=10)
    state.apply()
    store(state, "a").put("k", "replayed")
    commit(state, a=11)
    state.close()

    state = open_state(spec("a"), disk=disk)
    assert state.positions == {"a": 10}
    assert store(state, "a").get("k") == "applied"
    state.restore("a", [LoggedWrite(b"k", b"replayed", 0)], 11)
    assert store(state, "a").get("k") == "replayed"
    assert state.positions == {"a": 11}
    assert not any(state.freeze().writes.values())


def test_a_store_keeps_its_number_when_others_come_and_go(disk: RecordingBackend) -> None:
    state = open_state(spec("a"), spec("b"), disk=disk)
    store(state, "b").put("k", "b's")
    commit(state)
    state.apply()
    state.close()
    state = open_state(spec("c"), spec("b"), disk=disk)
    assert store(state, "b").get("k") == "b's"
    assert store(state, "c").get("k") is None
    state.apply()
    assert disk.meta.numbers == {"a": 0, "b": 1, "c": 2}


def test_the_state_of_a_task_survives_on_a_real_disk(tmp_path: Path) -> None:
    state = open_state(spec("a"), disk=cast(Any, RocksBackend(tmp_path / "db")))
    store(state, "a").put("k", "1")
    commit(state, a=3)
    state.apply(5)
    state.close()
    state = open_state(spec("a"), disk=cast(Any, RocksBackend(tmp_path / "db")))
    assert (store(state, "a").get("k"), state.positions) == ("1", {"a": 3})
    assert state.meta.caught_up_at_ms == 5
    state.close()


# --- in-memory stores -----------------------------------------------------------------------------


def test_rows_of_in_memory_stores_and_their_positions_stay_off_the_disk(
    disk: RecordingBackend,
) -> None:
    state = open_state(spec("kept"), spec("fleeting", in_memory=True), disk=disk)
    for name in ("kept", "fleeting"):
        store(state, name).put("k", "1")
    commit(state, kept=1, fleeting=1)
    state.apply()
    assert len(list(disk.scan(b"\x01", b"\x02"))) == 1
    assert disk.meta.positions == {"kept": 1}
    assert store(state, "fleeting").get("k") == "1"
    state.close()
    state = open_state(spec("kept"), spec("fleeting", in_memory=True), disk=disk)
    assert state.positions == {"kept": 1}
    assert store(state, "fleeting").get("k") is None


def test_without_a_disk_everything_is_in_memory() -> None:
    state = open_state(spec("a"))
    store(state, "a").put("k", "1")
    commit(state, a=1)
    assert state.apply() == 1
    assert store(state, "a").get("k") == "1"
    assert state.positions == {"a": 1}


@pytest.mark.parametrize(
    ("options", "applies_always"),
    [
        ({}, False),
        ({"is_logged": False}, True),
        ({"source_topic": "table"}, True),
        ({"is_logged": False, "in_memory": True}, False),
        ({"in_memory": True}, False),
    ],
    ids=str,
)
def test_rows_without_another_durable_copy_are_applied_at_every_commit(
    options: dict[str, Any], applies_always: bool
) -> None:
    assert open_state(spec("a"), spec("b", **options)).applies_always is applies_always


# --- restore --------------------------------------------------------------------------------------


def test_markers_and_holes_move_the_position_without_records(state: TaskState) -> None:
    state.restore("a", (), 17)
    assert state.positions["a"] == 17
    assert state.unapplied_rows() == 0


def test_restored_rows_are_committed_rows(state: TaskState, disk: RecordingBackend) -> None:
    state.restore("a", [LoggedWrite(b"k", b"1", 0), LoggedWrite(b"gone", None, 0)], 2)
    state.discard()
    assert store(state, "a").get("k") == "1"
    state.apply()
    assert disk.meta.positions == {"a": 2}


# --- memory ---------------------------------------------------------------------------------------


def test_what_a_replay_has_learnt_counts_where_no_cut_names_it() -> None:
    """An application that was taken over names neither the numbers of rows nor their clocks."""
    buffer = StoreSpec("a", "join_buffer", serdes.string, serdes.string, grace_ms=10)
    first, second = StoreBench(buffer), StoreBench(buffer)
    for value in ("1", "2"):
        first.store.put("k", value, 100, None)
    second.state.set_clocks({})
    second.log = first.commit()
    second.state.restore("a", second.log, 2)
    second.state.apply()
    second.state.restored()

    assert not second.store.put("k", "too late", 89, None)
    second.store.put("k", "3", 100, None)
    assert [write.key[-1] for write in second.commit()] == [3]
    first.close()
    second.close()


def test_keys_that_a_store_in_memory_does_not_have_take_no_memory() -> None:
    """A stream that looks up unknown keys in a global table grew by each of them."""
    state = open_state(spec("names", in_memory=True))
    assert not any(store(state, "names").get(str(number)) for number in range(100))
    assert (state.cached_rows(), state.cached_bytes()) == (0, 0)
    state.close()


def test_cached_rows_are_counted_over_all_stores_and_can_be_dropped(state: TaskState) -> None:
    for name in ("a", "b"):
        store(state, name).put("k", "1")
    commit(state)
    state.apply()
    assert state.cached_rows() >= 2
    state.drop_caches()
    assert state.cached_rows() == 0
    assert store(state, "a").get("k") == "1"


# --- views ----------------------------------------------------------------------------------------


def test_there_is_no_view_before_the_restore_is_done(state: TaskState) -> None:
    store(state, "a").put("k", "1")
    commit(state)
    assert state.view.rows == {}
    state.restored()
    assert state.view.rows["a"].get(b"k") == b"1"


def test_a_view_shows_one_commit_over_all_stores_with_its_clocks(state: TaskState) -> None:
    state.restored()
    for number in (b"1", b"2"):
        store(state, "a").put("k", number.decode())
        store(state, "b").put("k", number.decode())
        state.time_cell("clock").time = int(number)
        before = state.view
        commit(state)
        store(state, "a").put("k", "uncommitted")
        assert state.view is not before
        assert [state.view.rows[name].get(b"k") for name in ("a", "b")] == [number] * 2
        assert state.view.clocks["clock"] == int(number)


def test_a_view_does_not_change_with_later_commits_and_applies(state: TaskState) -> None:
    state.restored()
    store(state, "a").put("k", "1")
    commit(state)
    views = [state.view]
    state.apply()
    views.append(state.view)
    store(state, "a").put("k", "2")
    commit(state)
    state.apply()
    assert [view.rows["a"].get(b"k") for view in views] == [b"1", b"1"]
    assert state.view.rows["a"].get(b"k") == b"2"


def test_without_queries_no_snapshots_are_taken(disk: RecordingBackend) -> None:
    state = open_state(spec("a"), disk=disk, publishes_views=False)
    state.restored()
    commit(state)
    state.apply()
    assert state.view.rows == {}


def test_a_closed_state_answers_no_view_that_somebody_still_holds(state: TaskState) -> None:
    state.restored()
    store(state, "a").put("k", "1")
    commit(state)
    old = state.view
    state.apply()
    new = state.view
    state.close()
    assert state.view.rows == {}
    for view in (old, new):
        with pytest.raises(StoreUnavailableError, match="closed while it was being read"):
            view.rows["a"].get(b"another")
