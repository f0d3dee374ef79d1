"""Joins of tables that wait for the commit: what they take back is what they have sent."""

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
    KStream,
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    until_time_limit,
)
from tests.examples_tried import at_most

Build = Callable[[StreamsBuilder, str], KTable[Any, Any]]
LONG = timedelta(days=1)


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def numbers_of(builder: StreamsBuilder, topic: str) -> KStream[str, int]:
    return builder.stream(topic, value=int).filter(lambda n: n is not None)


def grouped(builder: StreamsBuilder, topic: str) -> KGroupedStream[str, int]:
    return numbers_of(builder, topic).group_by_key()


def add(total: int, number: int) -> int:
    return total + number


def sums(builder: StreamsBuilder, topic: str) -> KTable[Any, Any]:
    return grouped(builder, topic).reduce(add, store=topic, emit="commit")


def listed(builder: StreamsBuilder, topic: str) -> KTable[Any, Any]:
    """Of a type that may be changed, and deleted where it is too long."""
    lists = numbers_of(builder, topic).map_values(lambda n: [n], value=list).group_by_key()
    keep = lambda old, new: None if len(old) > 2 else old + new  # noqa: E731
    return lists.reduce(keep, store=topic, emit="commit")


def of_a_table(builder: StreamsBuilder, topic: str) -> KTable[Any, Any]:
    rows = builder.table(topic, value=int, store=f"{topic}-rows")
    groups = rows.group_by(lambda key, n: ("ab"[n % 2], n), key=str, value=int, name=topic)
    return groups.reduce(add, lambda total, n: total - n, store=topic, emit="commit")


def windowed(windows: Any) -> Build:
    def build(builder: StreamsBuilder, topic: str) -> KTable[Any, Any]:
        of_windows = grouped(builder, topic).windowed_by(windows)
        return of_windows.reduce(add, store=topic, emit="commit")  # type: ignore[no-any-return]

    return build


def cogrouped(builder: StreamsBuilder, topic: str) -> KTable[Any, Any]:
    append = lambda found, n: [*(found or ()), n]  # noqa: E731
    groups = grouped(builder, topic).cogroup(append).cogroup(grouped(builder, "both"), append)
    windowed_by = groups.windowed_by(TumblingWindows(size=ms(10), grace=LONG))
    return windowed_by.aggregate(lambda: None, value=list, store=topic, emit="commit")


def plain(builder: StreamsBuilder, topic: str) -> KTable[Any, Any]:
    return builder.table(topic, value=int, store=topic)


CASES: dict[str, tuple[Build, Build]] = {
    "sums, rows": (sums, plain),
    "rows, sums": (plain, sums),
    "sums, sums": (sums, sums),
    "lists, sums": (listed, sums),
    "of a table, sums": (of_a_table, sums),
    "mapped, sums": (lambda b, topic: sums(b, topic).map_values(str), sums),
    "filtered, mapped and kept": (
        lambda b, topic: sums(b, topic).filter(lambda n: n % 2 == 0),
        lambda b, topic: sums(b, topic).map_values(str, value=str, store=f"{topic}-kept"),
    ),
    "joined, sums": (
        lambda b, topic: sums(b, topic).outer_join(sums(b, "both"), lambda x, y: [x, y]),
        sums,
    ),
    "sums, suppressed": (
        sums,
        lambda b, topic: plain(b, topic).suppress(until_time_limit(ms(0)), name="none-waits"),
    ),
    "cogrouped, windows": (cogrouped, windowed(TumblingWindows(size=ms(10), grace=LONG))),
    "windows": (windowed(TumblingWindows(size=ms(10), grace=LONG)),) * 2,
    "hops": (windowed(HoppingWindows(size=ms(10), advance=ms(4), grace=LONG)),) * 2,
    "slides": (windowed(SlidingWindows(difference=ms(4), grace=LONG)),) * 2,
    "sessions": (windowed(SessionWindows(gap=ms(2), grace=LONG)),) * 2,
}


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(("left", "right", "both")),
        st.sampled_from("ab"),
        st.none() | st.integers(0, 3),
        st.integers(0, 25),
    ),
    max_size=25,
)


def joined(kind: str, left: Build, right: Build) -> Topology:
    builder = StreamsBuilder()
    join = getattr(left(builder, "left"), f"{kind}join")
    changes = join(right(builder, "right"), lambda x, y: [x, y]).to_change_stream()
    changes.map(lambda key, change: (str(key), list(change)), key=str, value=list).to("out")
    return builder.build()


def changes_of(
    topology: Topology, records: list[Any], commit_every: int, crashes: frozenset[int] = frozenset()
) -> list[Any]:
    """(key, [new, old]), in their order."""
    read = {ref.name for sub in topology.sub_topologies for ref in sub.source_topics}
    with TopologyTestDriver(topology, commit_every=commit_every) as driver:
        for place, (topic, key, value, time) in enumerate(records):
            if topic in read:
                driver.pipe(topic, key, value, timestamp=time)
            if place in crashes:
                driver.crash()
        driver.advance_wall_clock(0)
        return driver.read("out", value=list)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["", "left_", "outer_"])
@settings(max_examples=at_most(12))
@given(records=RECORDS, every=st.integers(2, 7), crashes=st.frozensets(st.integers(0, 24)))
def test_what_a_change_takes_back_is_what_the_one_before_it_said(
    case: str, kind: str, records: list[Any], every: int, crashes: frozenset[int]
) -> None:
    topology = joined(kind, *CASES[case])
    rows: dict[str, Any] = {}
    for key, (new, old) in changes_of(topology, records, every, crashes):
        assert old == rows.get(key), key
        rows[key] = new
    one_by_one = dict(changes_of(topology, records, 1))
    assert {key: row for key, row in rows.items() if row is not None} == {
        key: new for key, (new, _) in one_by_one.items() if new is not None
    }


def test_a_sum_behind_such_a_join_does_not_drift() -> None:
    builder = StreamsBuilder()
    numbers = sums(builder, "left").left_join(
        builder.table("names", value=str, store="names"), lambda n, name: [n, name]
    )
    by_name = numbers.group_by(lambda key, pair: (pair[1], pair[0]), key=str, value=int, name="by")
    by_name.reduce(add, lambda total, n: total - n, store="by-name")
    with TopologyTestDriver(builder.build(), commit_every=100) as driver:
        driver.pipe("left", "k", 1, timestamp=1)
        driver.pipe("names", "k", "ada", timestamp=1)
        for _ in range(3):  # a commit, and those of what it sends through the repartition topic
            driver.advance_wall_clock(0)
        driver.pipe("left", "k", 2, timestamp=2)
        driver.pipe("names", "k", "bob", timestamp=3)  # before the sum is heard of
        for _ in range(3):
            driver.advance_wall_clock(0)
        rows = {key: row.value for key, row in driver.store("by-name").all()}
    assert rows == {"ada": 0, "bob": 3}
