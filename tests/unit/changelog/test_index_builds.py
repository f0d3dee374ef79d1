"""Indexes that are declared for a store with rows: built in steps, between commits and restarts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate import serdes
from logstate.changelog.state import TaskState
from logstate.changelog.store_fingerprint import fingerprint, keeps_local_rows, store_changes
from logstate.changelog.stores.kinds import reader_maker
from logstate.contracts.compatibility import Verdict
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.indexes import IndexSpec
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from tests.examples_tried import at_most
from tests.unit.changelog.kind_under_test import INDEXES, indexed_entries_of, spec_of
from tests.unit.changelog.moving_task import Disk
from tests.unit.changelog.store_bench import BenchContext

WITHOUT = spec_of("key_value")
WITH = replace(WITHOUT, indexes=INDEXES)


class Store:
    """A store over one disk, through openings with different declarations."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.position = 0
        self.open(WITHOUT)

    def open(self, spec: StoreSpec) -> None:
        self.spec = spec
        context = cast(TaskContext, BenchContext())
        self.state = TaskState([spec], context, backend=self.disk)
        self.state.restored()

    def put(self, key: str, value: int | None) -> None:
        self.state.stores["store"].put(key, value)

    def commit(self, *, applies: bool = True) -> None:
        changes = self.state.freeze()
        self.position += len(changes.writes["store"])
        self.state.committed(changes, {"store": self.position})
        if applies:
            self.state.apply()

    def fill(self, count: int) -> None:
        for number in range(count):
            self.put(f"key-{number:04}", number % 4)
        self.commit()

    def reader(self) -> Any:
        view = self.state.view
        return reader_maker(self.spec, "app")(view.rows["store"], view.clocks)

    def entries(self) -> list[tuple[bytes, bytes]]:
        self.state.apply()
        rows = cast(Any, self.state._rows["store"])
        return list(rows.entries.scan())


def build_all(store: Store) -> int:
    steps = 0
    while store.state.index_builds.step():
        steps += 1
    return steps


def test_an_index_of_a_store_with_rows_is_built_in_bounded_steps() -> None:
    store = Store()
    store.fill(1_200)
    store.open(WITH)
    assert build_all(store) == 6  # of 500 rows, for each of two indexes
    found = [key for key, _ in store.reader().by("odd", 1)]
    assert found == [f"key-{number:04}" for number in range(1_200) if number % 4 == 1]


def test_a_query_is_refused_until_the_index_is_built_and_other_reads_are_not() -> None:
    store = Store()
    store.fill(10)
    store.open(WITH)
    with pytest.raises(StoreUnavailableError, match=r"index 'odd' is being built.*Retry"):
        store.reader().by("odd", 1)
    assert store.reader().get("key-0001") == 1
    store.state.index_builds.step()
    assert list(store.reader().by("odd", 1))
    with pytest.raises(StoreUnavailableError, match="index 'text' is being built"):
        store.reader().by_range("text")


def test_the_task_itself_waits_until_the_index_is_built() -> None:
    store = Store()
    store.fill(1_200)
    store.open(WITH)
    assert len(list(store.state.stores["store"].by("odd", 1))) == 300


def test_a_store_that_was_declared_with_its_indexes_has_nothing_to_build() -> None:
    store = Store()
    store.disk = Disk()
    store.open(WITH)
    store.fill(10)
    store.open(WITH)
    assert build_all(store) == 0
    indexed_entries_of(store.reader(), 0)


def test_an_index_that_was_left_out_for_one_start_is_built_again() -> None:
    store = Store()
    store.disk = Disk()
    store.open(WITH)
    store.fill(10)
    store.open(WITHOUT)
    store.put("key-0001", None)
    store.commit()
    store.open(WITH)
    build_all(store)
    indexed_entries_of(store.reader(), 0)


def test_an_index_of_another_type_is_built_again_and_the_others_stay() -> None:
    store = Store()
    store.disk = Disk()
    store.open(WITH)
    store.fill(10)
    odd = IndexSpec("odd", lambda number: str(number % 2), serdes.ordered(str), "odd")
    store.open(replace(WITH, indexes=(odd, INDEXES[1])))
    assert list(store.reader().by("text", ("2",)))
    build_all(store)
    assert [key for key, _ in store.reader().by("odd", "1")][:2] == ["key-0001", "key-0003"]


def test_an_index_that_is_not_declared_any_more_leaves_nothing_on_the_disk() -> None:
    store = Store()
    store.disk = Disk()
    store.open(WITH)
    store.fill(10)
    store.open(WITHOUT)
    assert not [key for key, _ in store.disk.scan(b"\x03", b"\x04")]


def test_rows_without_a_changelog_get_an_index_too() -> None:
    store = Store()
    store.disk = Disk()
    unlogged = replace(WITHOUT, is_logged=False)
    store.open(unlogged)
    store.put("a", 1)
    store.state.committed(store.state.freeze(), {})
    store.state.apply()
    store.open(replace(unlogged, indexes=INDEXES))
    build_all(store)
    assert list(store.reader().by("odd", 1)) == [("a", 1)]


def test_a_plan_reports_an_index_that_is_added_has_another_type_or_is_gone() -> None:
    of_text = IndexSpec("odd", str, serdes.ordered(str), "str")
    other = replace(WITH, indexes=(of_text, INDEXES[1]))
    for before, after in ((WITHOUT, WITH), (WITH, WITHOUT), (WITH, other)):
        (change,) = store_changes("store", fingerprint(before), fingerprint(after))
        assert change.verdict is Verdict.COMPATIBLE
        assert change.part == "indexes"
        assert "built from them in the background" in str(change)
        assert keeps_local_rows([change])
    renamed = replace(WITH, indexes=(replace(INDEXES[0], of=str), INDEXES[1]))
    assert store_changes("store", fingerprint(WITH), fingerprint(renamed)) == []


_ACTIONS = st.sampled_from(["put", "put", "put", "commit", "apply", "discard", "step", "reopen"])


@settings(max_examples=at_most(60))
@given(
    st.lists(
        st.tuples(_ACTIONS, st.integers(0, 7), st.sampled_from([None, 0, 1, 2, 3])), max_size=40
    )
)
def test_whatever_happens_while_an_index_is_built_it_equals_a_scan(
    script: list[tuple[str, int, int | None]],
) -> None:
    store = Store()
    for number in range(6):
        store.put(f"k{number}", number % 4)
    store.commit()
    store.open(WITH)
    for action, number, value in script:
        if action == "put":
            store.put(f"k{number}", value)
        elif action == "commit":
            store.commit(applies=False)
        elif action == "apply":
            store.state.apply()
        elif action == "discard":
            store.state.discard()
        elif action == "step":
            store.state.index_builds.step(2)
        else:
            store.state.apply()
            store.open(WITH)
    store.state.discard()
    store.state.apply()
    while store.state.index_builds.step(2):
        pass
    store.state.restored()
    indexed_entries_of(store.reader(), 0)
    indexed_entries_of(store.state.stores["store"], 0)
    once_more = Store()
    once_more.disk = Disk()
    once_more.open(WITH)
    for key, value in store.state.stores["store"].all():
        once_more.put(key, value)
    once_more.commit()
    assert store.entries() == once_more.entries()
