"""emit="commit": the old value of a change is what was emitted before, and None if nothing was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    KGroupedStream,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    UnlimitedWindows,
)
from tests.examples_tried import at_most

TEN = timedelta(milliseconds=10)
LONG = timedelta(days=1)
LONGER = 2 * LONG
#: no row has it, so that a sum with it is wrong
INITIAL = 100
#: a value that deletes the row
DELETES = 0
Build = Callable[[StreamsBuilder], KTable[Any, Any]]


def initial() -> int:
    return INITIAL


def add(key: str, value: int, total: int) -> int | None:
    return None if value == DELETES else total + value


def rows(windows: Any) -> Materialized:
    retention = None if isinstance(windows, UnlimitedWindows) else LONGER
    return Materialized("rows", value=int, retention=retention, deletes=True)


def grouped(builder: StreamsBuilder) -> KGroupedStream[str, int]:
    return builder.stream("in", value=int).group_by_key()


def plain(builder: StreamsBuilder) -> KTable[Any, Any]:
    store = Materialized("rows", value=int, deletes=True)
    return grouped(builder).aggregate(initial, add, store=store, emit="commit")


def counted(builder: StreamsBuilder) -> KTable[Any, Any]:
    return grouped(builder).count(store="rows", emit="commit")


def reduced(builder: StreamsBuilder) -> KTable[Any, Any]:
    def last(old: int, new: int) -> int | None:
        return None if new == DELETES else new

    store = Materialized("rows", deletes=True)
    return grouped(builder).reduce(last, store=store, emit="commit")


def of_lists(builder: StreamsBuilder) -> KTable[Any, Any]:
    """An aggregate that its aggregator changes in place."""

    def append(key: str, value: int, found: list[int]) -> list[int] | None:
        found.append(value)
        return None if value == DELETES else found

    lists = grouped(builder).aggregate(
        lambda: [INITIAL],
        append,
        store=Materialized("rows", value=list, deletes=True),
        emit="commit",
    )
    return lists.map_values(sum, value=int)


def windowed(windows: Any) -> Build:
    def build(builder: StreamsBuilder) -> KTable[Any, Any]:
        of_windows = grouped(builder).windowed_by(windows)
        merger = [lambda key, one, other: one + other - INITIAL]
        mergers = merger if isinstance(windows, SessionWindows) else []
        return of_windows.aggregate(initial, add, *mergers, store=rows(windows), emit="commit")

    return build


def cogrouped(windows: Any) -> Build:
    def build(builder: StreamsBuilder) -> KTable[Any, Any]:
        values = builder.stream("in", value=int)
        both: Any = values.filter(lambda value: value % 2 == 0).group_by_key().cogroup(add)
        both = both.cogroup(values.filter(lambda value: value % 2 == 1).group_by_key(), add)
        if windows is None:
            store = Materialized("rows", value=int, deletes=True)
            return both.aggregate(initial, value=int, store=store, emit="commit")  # type: ignore[no-any-return]
        merger = [lambda key, one, other: one + other - INITIAL]
        mergers = merger if isinstance(windows, SessionWindows) else []
        return both.windowed_by(windows).aggregate(  # type: ignore[no-any-return]
            initial, *mergers, value=int, store=rows(windows), emit="commit"
        )

    return build


def of_a_table(builder: StreamsBuilder) -> KTable[Any, Any]:
    table = builder.table("in", value=int, store="source").map_values(lambda value: value or None)
    groups = table.group_by(lambda key, value: (key, value), key=str, value=int, name="rows")
    return groups.aggregate(
        initial,
        add,
        lambda key, value, total: None if total == value + INITIAL else total - value,
        store=Materialized("rows", value=int, deletes=True),
        emit="commit",
    )


BUILDS: dict[str, Build] = {
    "aggregate": plain,
    "count": counted,
    "reduce": reduced,
    "changed in place": of_lists,
    "tumbling": windowed(TumblingWindows(size=TEN, grace=LONG)),
    "hopping": windowed(HoppingWindows(size=TEN, advance=timedelta(milliseconds=4), grace=LONG)),
    "sliding": windowed(SlidingWindows(difference=TEN, grace=LONG)),
    "unlimited": windowed(UnlimitedWindows(start_ms=5)),
    "session": windowed(SessionWindows(gap=TEN, grace=LONG)),
    "cogroup": cogrouped(None),
    "cogroup, tumbling": cogrouped(TumblingWindows(size=TEN, grace=LONG)),
    "cogroup, sliding": cogrouped(SlidingWindows(difference=TEN, grace=LONG)),
    "cogroup, session": cogrouped(SessionWindows(gap=TEN, grace=LONG)),
    "grouped table": of_a_table,
}
RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(DELETES, 4), st.integers(0, 40)), max_size=20
)


@pytest.mark.parametrize("of", BUILDS)
@settings(max_examples=at_most(25))
@given(records=RECORDS, every=st.integers(1, 7), crashes=st.frozensets(st.integers(0, 19)))
def test_an_aggregate_of_an_aggregate_has_each_emitted_row_once(
    of: str, records: list[tuple[str, int, int]], every: int, crashes: frozenset[int]
) -> None:
    builder = StreamsBuilder()
    table = BUILDS[of](builder)
    changes = table.to_change_stream().map(
        lambda key, change: (str(key), [change.old, change.new]), key=str, value=list
    )
    changes.to("changes")
    groups = table.group_by(lambda key, value: ("all", value), key=str, value=int, name="all")
    groups.count(store="how-many")
    groups.reduce(
        lambda total, value: total + value, lambda total, value: total - value, store="sum"
    )
    with TopologyTestDriver(builder.build(), commit_every=every) as driver:
        for place, record in enumerate(records):
            driver.pipe_all("in", [record])
            if place in crashes:
                driver.crash()
        for _ in range(3):  # what the commit emits is grouped, and committed, below
            driver.advance_wall_clock(0)
        emitted: dict[str, Any] = {}
        for key, (old, new) in driver.read("changes", value=list):
            assert old == emitted.get(key)
            assert (old, new) != (None, None)
            emitted[key] = new
        values = [value for value in emitted.values() if value is not None]
        count, total = driver.store("how-many").get("all"), driver.store("sum").get("all")
        assert (count.value if count else 0) == len(values)
        assert (total.value if total else 0) == sum(values)


@pytest.mark.parametrize("of", sorted(set(BUILDS) - {"count", "grouped table"}))
def test_a_row_that_existed_only_between_two_commits_sends_nothing(of: str) -> None:
    builder = StreamsBuilder()
    table = BUILDS[of](builder)
    table.to_stream(lambda key, value: str(key), key=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=100) as driver:
        driver.pipe_all("in", [("a", 1, 7), ("a", DELETES, 7)])
        driver.advance_wall_clock(0)
        assert driver.read("out", value=int) == []


def test_a_tombstone_has_the_timestamp_of_the_record_that_deleted_the_row() -> None:
    """Of a session: its end."""
    for of, expected in (("aggregate", 3), ("tumbling", 3), ("sliding", 3), ("session", 5)):
        builder = StreamsBuilder()
        table = BUILDS[of](builder)
        table.to_stream(lambda key, value: str(key), key=str).to("out")
        with TopologyTestDriver(builder.build(), commit_every=1) as driver:
            driver.pipe_all("in", [("a", 1, 3), ("a", 1, 5)])
            driver.take_outputs()
            driver.pipe("in", "a", DELETES, timestamp=3)
            times = {one.timestamp for one in driver.take_outputs() if one.value is None}
            assert times == {expected}, of


def test_a_session_has_the_headers_of_the_record_that_wrote_it_last() -> None:
    builder = StreamsBuilder()
    table = BUILDS["session"](builder)
    table.to_stream(lambda key, value: str(key), key=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        driver.pipe("in", "a", 1, timestamp=1, headers=[("h", b"1")])
        driver.pipe("in", "a", 1, timestamp=1, headers=[("h", b"2")])
        (row,) = driver.take_outputs()
        assert row.headers == [("h", b"2")]


def test_an_update_of_an_older_version_does_not_replace_that_of_the_latest() -> None:
    builder = StreamsBuilder()
    store = Materialized("rows", value=int, history=timedelta(seconds=10), deletes=True)
    table = grouped(builder).aggregate(initial, add, store=store, emit="commit")
    table.to_change_stream().map_values(lambda change: [change.old, change.new], value=list).to(
        "changes"
    )
    table.to_stream().to("out")
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        driver.pipe_all("in", [("a", 1, 1_000), ("a", 2, 2_000)])
        driver.pipe_all("in", [("a", DELETES, 3_000), ("a", 5, 2_500)])
        assert driver.read("changes", value=list) == [("a", [None, 103]), ("a", [103, None])]
        assert driver.read("out", value=int) == [("a", 103), ("a", None), ("a", 105)]
