"""What ``emit="close"`` does not send is counted: sent + expired + still there = all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.changelog_keys import MAX_TIME_MS
from logstate.topology.declaring.windows import TumblingWindows, Windows
from logstate.topology.operators.aggregates.fold import FoldNode
from tests.unit.topology.operators.aggregates.test_session_aggregate import sessions
from tests.unit.topology.operators.aggregates.test_sliding_aggregate import sliding
from tests.unit.topology.operators.aggregates.test_window_aggregate import WINDOWS, ms, sums
from tests.unit.topology.operators.one_operator import OneOperator

#: between two looks: always, or only with the first record, because no test moves the wall clock
INTERVALS = st.sampled_from([0, 1_000])
RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 150)), max_size=30
)


def closing(node: FoldNode, *, in_memory: bool = False, **changes: Any) -> FoldNode:
    """The node with the store that the DSL would give it for ``emit="close"``."""
    changes = {"in_memory": in_memory, "keep_at_retention": True, **changes}
    node.store = replace(node.store, **changes)
    return node


def sent_by(run: OneOperator, records: list[tuple[str, int, int]]) -> set[Any]:
    return {windowed for key, value, time in records for windowed, *_ in run.pipe(key, value, time)}


def all_windows(node: FoldNode, records: list[tuple[str, int, int]]) -> set[Any]:
    """Every window that there ever was, by a node that sends each update."""
    return sent_by(OneOperator(node), records)


def assert_nothing_is_missing(run: OneOperator, sent: set[Any], every: set[Any]) -> None:
    there = {windowed for windowed, _ in run.store("sums").fetch_all(0, MAX_TIME_MS)}
    assert sent <= every
    assert len(sent) + run.expired_results["sums"] + len(there - sent) == len(every)


def test_a_window_that_expired_before_a_look_is_counted():
    run = OneOperator(closing(sums(TumblingWindows(size=ms(10)), emit="close")))
    run.pipe("a", 1, 5)
    run.pipe("b", 1, 7)

    assert run.pipe("a", 1, 19)[0][0].start_ms == 0
    assert run.pipe("a", 1, 35) == []  # shows what begins at 20 or later
    assert run.expired_results == {"sums": 1}
    run.pipe("a", 1, 100)
    assert run.expired_results == {"sums": 2}


def test_windows_that_were_sent_expire_without_a_word():
    run = OneOperator(closing(sums(TumblingWindows(size=ms(10)), emit="close")))

    assert len(sent_by(run, [("a", 1, time) for time in range(0, 500, 2)])) == 49
    assert run.expired_results == {}


@pytest.mark.parametrize("in_memory", [False, True])
@given(windows=WINDOWS, records=RECORDS, interval_ms=INTERVALS)
def test_each_window_is_sent_or_counted_or_still_there(
    in_memory: bool, windows: Windows, records: list[tuple[str, int, int]], interval_ms: int
):
    node = sums(windows, emit="close", emit_interval_ms=interval_ms)
    run = OneOperator(closing(node, in_memory=in_memory))

    sent = sent_by(run, records)

    every = all_windows(sums(windows, retention=100_000), records)
    assert_nothing_is_missing(run, sent, every)


@given(
    difference=st.integers(1, 20),
    grace=st.integers(0, 20),
    records=RECORDS,
    interval_ms=INTERVALS,
)
def test_each_sliding_window_is_sent_or_counted_or_still_there(
    difference: int, grace: int, records: list[tuple[str, int, int]], interval_ms: int
):
    node = sliding(difference, grace, emit="close", emit_interval_ms=interval_ms)
    run = OneOperator(closing(node))

    sent = sent_by(run, records)

    every = all_windows(sliding(difference, grace, retention=100_000), records)
    assert_nothing_is_missing(run, sent, every)


@pytest.mark.parametrize("in_memory", [False, True])
@given(
    gap=st.integers(1, 10),
    grace=st.integers(0, 20),
    times=st.lists(st.integers(0, 150), max_size=30),
    interval_ms=INTERVALS,
)
def test_each_session_is_sent_or_counted_or_still_there(
    in_memory: bool, gap: int, grace: int, times: list[int], interval_ms: int
):
    node = sessions(gap, grace, retention=gap + grace, emit="close", emit_interval_ms=interval_ms)
    run = OneOperator(closing(node, in_memory=in_memory, segment_interval_ms=10))

    # Each record has a key of its own, so that no session is ever replaced by a longer one.
    sent = sent_by(run, [(f"k{place}", 1, time) for place, time in enumerate(times)])

    there = {session for session, _ in run.store("sums").find_ended(0, MAX_TIME_MS)}
    # What was out of the store's retention from the start was dropped by the store, and counted.
    dropped = run.dropped["late"] + run.dropped["expired"]
    assert len(sent) + run.expired_results["sums"] + len(there - sent) + dropped == len(times)
