"""LRU stores against an ordered dict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.changelog.rows.writes import LoggedWrite
from logstate.changelog.state import TaskState
from logstate.changelog.stores.kinds import reader_maker
from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.topology import lru_store
from tests.unit.changelog.store_bench import BenchContext, StoreBench


def spec_of(capacity: int = 2, *, is_logged: bool = True) -> StoreSpec:
    return StoreSpec(
        "recent",
        "key_value_lru",
        serdes.string,
        serdes.int64,
        in_memory=True,
        is_logged=is_logged,
        capacity=capacity,
    )


@pytest.fixture
def bench() -> Iterator[StoreBench]:
    made = StoreBench(spec_of(), logs_every_write=True)
    yield made
    made.close()


def put(bench: StoreBench, entries: str) -> None:
    for number, key in enumerate(entries, 1):
        bench.store.put(key, number)


def keys(bench: StoreBench) -> str:
    return "".join(key for key, _ in bench.store.all())


def test_the_key_that_was_put_first_goes_first(bench: StoreBench) -> None:
    put(bench, "abc")
    assert keys(bench) == "bc"


def test_a_key_that_is_read_stays(bench: StoreBench) -> None:
    put(bench, "ab")
    assert bench.store.get("a") == 1
    bench.store.put("c", 3)
    assert keys(bench) == "ac"


def test_scans_and_misses_are_no_use(bench: StoreBench) -> None:
    put(bench, "ab")
    assert list(bench.store.range("a", "a")) == [("a", 1)]
    assert list(bench.store.reverse_all()) == [("b", 2), ("a", 1)]
    assert list(bench.store.prefix_scan("a")) == [("a", 1)]
    assert (bench.store.get("z"), bench.store.approximate_num_entries()) == (None, 2)
    bench.store.put("c", 3)
    assert keys(bench) == "bc"


def test_forgetting_logs_a_tombstone_before_the_new_row(bench: StoreBench) -> None:
    put(bench, "ab")
    bench.commit()
    bench.context.timestamp = 7
    bench.store.put("c", 3)
    three = (3).to_bytes(8, "big")
    assert bench.commit() == [LoggedWrite(b"a", None, 7), LoggedWrite(b"c", three, 7)]


@pytest.mark.parametrize("first", ["a", "z"])
def test_a_lower_capacity_holds_from_the_first_put_on(first: str) -> None:
    context: Any = BenchContext()
    state = TaskState([spec_of(5)], context)
    for key in "abcde":
        state.stores["recent"].put(key, 1)
    rows = [(w.key, w.value, w.timestamp, None) for w in state.freeze().writes["recent"]]

    bench = StoreBench(spec_of(2), logs_every_write=True)
    bench.store.restore(rows)
    bench.store.put(first, 2)  # the oldest one of those that are there, or a new one
    assert sorted(keys(bench)) == sorted(first + "e")
    bench.store.put("f", 3)
    assert sorted(keys(bench)) == sorted(first + "f")
    bench.close()


def test_an_entry_beyond_the_capacity_is_not_found_after_a_log_without_tombstones() -> None:
    one, bench = (1).to_bytes(8, "big"), StoreBench(spec_of(2), logs_every_write=True)
    bench.store.restore([(key, one, 0, None) for key in (b"a", b"b", b"c")])

    assert [bench.store.get(key) for key in "abc"] == [None, 1, 1]
    assert bench.commit() == [LoggedWrite(b"a", None, 0)]
    bench.close()


def test_a_deletion_after_a_log_without_tombstones_makes_room() -> None:
    one, bench = (1).to_bytes(8, "big"), StoreBench(spec_of(2), logs_every_write=True)
    bench.store.restore([(key, one, 0, None) for key in (b"a", b"b", b"c")])

    bench.store.put("b", None)
    bench.store.put("d", 4)
    assert keys(bench) == "cd"
    bench.close()


def test_a_deleted_key_makes_room(bench: StoreBench) -> None:
    put(bench, "ab")
    assert bench.store.delete("a") == 1
    assert bench.store.delete("a") is None
    bench.store.put("c", 3)
    assert keys(bench) == "bc"


def test_put_if_absent_is_a_use_of_what_is_there(bench: StoreBench) -> None:
    put(bench, "ab")
    assert bench.store.put_if_absent("a", 9) == 1
    bench.store.put_all([("c", 3)])
    assert keys(bench) == "ac"


@pytest.mark.parametrize("undo", ["abort", "rollback"])
def test_what_is_undone_has_used_nothing(bench: StoreBench, undo: str) -> None:
    put(bench, "ab")
    bench.commit()
    bench.begin_record()
    assert bench.store.get("a") == 1
    bench.store.put("x", 1)
    if undo == "rollback":
        bench.end_record(rollback=True)
    else:
        bench.discard()
    assert keys(bench) == "ab"
    bench.store.put("c", 3)
    assert keys(bench) == "bc"


def test_queries_read_committed_entries_and_are_no_use() -> None:
    context: Any = BenchContext()
    state = TaskState([spec_of()], context)
    store: Any = state.stores["recent"]
    store.put("a", 1)
    store.put("b", 2)
    state.committed(state.freeze(), {})
    state.apply()
    query = state.view.reader("recent", reader_maker(spec_of(), "app"))
    store.put("b", 9)
    assert (query.get("a"), query.get("z"), list(query.all())) == (1, None, [("a", 1), ("b", 2)])
    store.put("c", 3)
    assert [key for key, _ in store.all()] == ["b", "c"]
    state.close()


def test_a_capacity_below_one_is_refused() -> None:
    with pytest.raises(TopologyError, match="capacity of store 'recent'"):
        lru_store("recent", str, int, capacity=0)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "get", "delete", "commit", "undo"]), st.sampled_from("abcde")
    ),
    max_size=60,
)


class Model:
    """An ordered dict, least recently used first, and one to go back to."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.entries: OrderedDict[str, int] = OrderedDict()
        self.committed: OrderedDict[str, int] = OrderedDict()

    def apply(self, operation: str, key: str, value: int) -> int | None:
        entries = self.entries
        if operation == "put":
            entries[key] = value
            entries.move_to_end(key)
            if len(entries) > self.capacity:
                entries.popitem(last=False)
        elif operation == "get" and key in entries:
            entries.move_to_end(key)
            return entries[key]
        elif operation == "delete":
            return entries.pop(key, None)
        elif operation == "commit":
            self.committed = entries.copy()
        elif operation == "undo":
            self.entries = self.committed.copy()
        return None


def apply(bench: StoreBench, operation: str, key: str, value: int) -> Any:
    if operation == "put":
        return bench.store.put(key, value)
    if operation in ("get", "delete"):
        return getattr(bench.store, operation)(key)
    if operation == "commit":
        bench.commit(applies=value % 2 == 0)
    else:
        bench.discard()
    return None


@given(capacity=st.integers(1, 4), operations=OPERATIONS)
def test_it_is_an_ordered_dict_of_limited_size(
    capacity: int, operations: list[tuple[str, str]]
) -> None:
    bench, model = StoreBench(spec_of(capacity), logs_every_write=True), Model(capacity)
    for value, (operation, key) in enumerate(operations):
        expected = model.apply(operation, key, value)
        assert apply(bench, operation, key, value) == expected
        assert list(bench.store.all()) == sorted(model.entries.items())
    bench.commit()
    restored = bench.restored()
    assert list(restored.store.all()) == sorted(model.entries.items())
    bench.close()
