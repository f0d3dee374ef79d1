"""emit="commit" against emit="update", through the test driver, downstream subtractors included."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.testing.driver import TopologyTestDriver
from logstate.topology import (
    CogroupedKStream,
    HoppingWindows,
    KGroupedStream,
    KGroupedTable,
    KTable,
    Materialized,
    SessionWindowedKStream,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindowedKStream,
    TumblingWindows,
    WindowedCogroupedKStream,
)
from logstate.topology.declaring.windows import Emit

TEN = timedelta(milliseconds=10)
GRACE = timedelta(milliseconds=20)
Grouped = KGroupedStream[str, int]
Build = Callable[[Grouped, Emit], KTable[Any, Any]]


def plain(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    return grouped.reduce(lambda old, new: old + new, store="rows", emit=emit)


def tumbling(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    return grouped.windowed_by(TumblingWindows(size=TEN, grace=GRACE)).count(
        store="rows", emit=emit
    )


def hopping(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    windows = HoppingWindows(size=TEN, advance=timedelta(milliseconds=4), grace=GRACE)
    return grouped.windowed_by(windows).count(store="rows", emit=emit)


def sliding(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    return grouped.windowed_by(SlidingWindows(difference=TEN, grace=GRACE)).count(
        store="rows", emit=emit
    )


def sessions(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    # With the default retention the oldest open sessions are hidden, as in Kafka Streams: a record
    # that falls into one starts it anew, and nothing subtracts the hidden row.
    rows = Materialized("rows", retention=timedelta(days=1))
    return grouped.windowed_by(SessionWindows(gap=TEN, grace=GRACE)).count(store=rows, emit=emit)


def cogrouped(grouped: Grouped, windows: Any, emit: Emit) -> KTable[Any, Any]:
    """Two streams with values of their own, which update the same rows."""
    values = grouped.builder.stream("in", key=str, value=int)
    odd = values.filter(lambda value: value % 2 == 1).group_by_key()
    even = values.filter(lambda value: value % 2 == 0).group_by_key()
    both: Any = odd.cogroup(lambda total, value: total + value)
    both = both.cogroup(even, lambda total, value: total - value)
    if windows is None:
        return both.aggregate(int, value=int, store="rows", emit=emit)  # type: ignore[no-any-return]
    rows = Materialized("rows", value=int, retention=timedelta(days=1))
    if isinstance(windows, SessionWindows):
        return both.windowed_by(windows).aggregate(  # type: ignore[no-any-return]
            int, lambda one, other: one + other, store=rows, emit=emit
        )
    return both.windowed_by(windows).aggregate(int, store=rows, emit=emit)  # type: ignore[no-any-return]


def together(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    return cogrouped(grouped, None, emit)


def together_tumbling(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    return cogrouped(grouped, TumblingWindows(size=TEN, grace=GRACE), emit)


def together_sliding(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    return cogrouped(grouped, SlidingWindows(difference=TEN, grace=GRACE), emit)


def together_sessions(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
    return cogrouped(grouped, SessionWindows(gap=TEN, grace=GRACE), emit)


EVERY = [
    plain,
    tumbling,
    hopping,
    sliding,
    sessions,
    together,
    together_tumbling,
    together_sliding,
    together_sessions,
]
SESSIONS = (sessions, together_sessions)
#: whose old values are not always those before
LOOSE = (sliding, together_sliding, *SESSIONS)


def start_of(key: Any) -> str:
    return key if isinstance(key, str) else f"{key.key}@{key.start_ms}-{key.end_ms}"


def group_of(key: Any) -> str:
    return "all" if isinstance(key, str) else str(key.key)


def run(
    build: Build, emit: Emit, records: list[tuple[str, int, int]], commit_every: int
) -> tuple[list[list[tuple[str, Any]]], dict[str, int]]:
    """What went to the topic of the rows, block by block, and the totals a subtractor keeps."""
    builder = StreamsBuilder()
    table = build(builder.stream("in", key=str, value=int).group_by_key(), emit)
    table.to_stream(lambda key, value: start_of(key), key=str).to("rows-out")
    groups = table.group_by(
        lambda key, value: (group_of(key), value), name="groups", key=str, value=int
    )
    groups.aggregate(
        lambda: 0,
        lambda total, value: total + value,
        lambda total, value: total - value,
        value=int,
        store="totals",
    )
    blocks = []
    with TopologyTestDriver(builder.build(), commit_every=10**9) as driver:
        for place, record in enumerate(records, 1):
            driver.pipe_all("in", [record])
            if place % commit_every == 0 or place == len(records):
                driver.advance_wall_clock(0)  # commits
                driver.advance_wall_clock(0)  # and what that sent on
                blocks.append(driver.read("rows-out", value=int))
        totals = {key: row.value for key, row in driver.store("totals").all()}
    return blocks, totals


def last_per_key(block: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The last update of each key, in the order of these."""
    last: dict[str, Any] = {}
    for key, value in block:
        last.pop(key, None)
        last[key] = value
    return list(last.items())


def without_unseen(blocks: list[list[tuple[str, Any]]]) -> list[list[tuple[str, Any]]]:
    """Without tombstones for keys that nobody knows from the blocks before."""
    known: dict[str, Any] = {}
    seen = []
    for block in blocks:
        seen.append([(k, v) for k, v in block if v is not None or known.get(k) is not None])
        known.update(block)
    return seen


RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 60)), max_size=25
)


def sums(blocks: list[list[tuple[str, Any]]]) -> dict[str, int]:
    """The totals that follow from what is known of the rows after the last block."""
    known = {key: value for block in blocks for key, value in block}
    found: dict[str, int] = {}
    for key, value in known.items():
        group = key.partition("@")[0] if "@" in key else "all"
        found[group] = found.get(group, 0) + (value or 0)
    return found


@pytest.mark.parametrize("build", EVERY)
@given(records=RECORDS, commit_every=st.integers(1, 8))
def test_commit_forwards_the_last_update_per_key_and_block(
    build: Build, records: list[tuple[str, int, int]], commit_every: int
):
    on_update, totals = run(build, "update", records, commit_every)
    on_commit, totals_on_commit = run(build, "commit", records, commit_every)

    assert on_commit == without_unseen([last_per_key(block) for block in on_update])
    assert totals_on_commit == sums(on_commit)
    if build not in LOOSE:
        assert totals == totals_on_commit


@pytest.mark.parametrize("build", EVERY)
@given(records=RECORDS)
def test_with_a_commit_after_each_record_commit_equals_update_where_keys_are_updated_once(
    build: Build, records: list[tuple[str, int, int]]
):
    on_update, totals = run(build, "update", records, 1)
    on_commit, totals_on_commit = run(build, "commit", records, 1)

    for updates, last in zip(on_update, on_commit, strict=True):
        if len(dict(updates)) == len(updates):  # a merged session may be deleted and come back
            assert last == updates
    if build not in LOOSE:
        assert totals_on_commit == totals


@pytest.mark.parametrize("windows", [None, TumblingWindows(size=TEN)], ids=["plain", "tumbling"])
def test_the_last_update_of_a_cogroup_is_the_last_of_all_its_streams(windows: Any):
    def cogroup(grouped: Grouped, emit: Emit) -> KTable[Any, Any]:
        return cogrouped(grouped, windows, emit)

    records = [("a", 1, 1), ("a", 10, 2), ("a", 101, 3), ("a", 2, 4)]
    blocks, totals = run(cogroup, "commit", records, 3)
    assert [[value for _, value in block] for block in blocks] == [[92], [90]]
    assert list(totals.values()) == [90]


def test_a_session_that_grows_between_two_commits_leaves_no_tombstones():
    grows = [("a", 1, time) for time in (0, 2, 4, 6, 8)]
    (first, second), totals = run(sessions, "commit", [*grows, ("a", 1, 12)], 5)
    assert first == [("a@0-8", 5)]
    assert second == [("a@0-8", None), ("a@0-12", 6)]
    assert totals == {"a": 6}


def test_a_table_below_held_sessions_is_told_of_the_same_sessions():
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    table = sessions(grouped, "commit").filter(lambda count: count != 2)
    table.to_stream(lambda window, _: start_of(window), key=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 1, 2), ("a", 1, 4), ("a", 1, 6)])
        assert driver.read("out", value=int) == [("a@0-6", 4)]  # nothing below has seen 0-2


def test_a_crash_does_not_make_unseen_sessions_seen():
    builder = StreamsBuilder()
    counts = sessions(builder.stream("in", key=str, value=int).group_by_key(), "commit")
    counts.to_stream(lambda window, _: start_of(window), key=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=3) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 1, 2)])
        driver.crash()
        driver.pipe("in", "a", 1, timestamp=4)
        assert driver.read("out", value=int) == [("a@0-4", 3)]


AGGREGATIONS = [
    member
    for cls in (
        CogroupedKStream,
        KGroupedStream,
        KGroupedTable,
        SessionWindowedKStream,
        TimeWindowedKStream,
        WindowedCogroupedKStream,
    )
    for name, member in inspect.getmembers(cls, inspect.isfunction)
    if name in ("count", "reduce", "aggregate")
]


@pytest.mark.parametrize("method", AGGREGATIONS, ids=lambda method: method.__qualname__)
def test_every_update_is_forwarded_unless_something_else_is_asked_for(
    method: Callable[..., Any],
):
    assert inspect.signature(method).parameters["emit"].default == "update"


def test_the_default_emits_what_update_does():
    records = [("a", 1, 3), ("a", 2, 5), ("b", 3, 14)]
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.reduce(lambda old, new: old + new, store="rows").to_stream().to("out")
    with TopologyTestDriver(builder.build(), commit_every=10) as driver:
        driver.pipe_all("in", records)
        assert driver.read("out", value=int) == [("a", 1), ("a", 3), ("b", 3)]
