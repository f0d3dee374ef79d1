"""Unlimited windows and windows of the user's own, against a model of plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.contracts.stores import StoreSpec
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder
from logstate.topology.declaring.windows import (
    Emit,
    HoppingWindows,
    TumblingWindows,
    UnlimitedWindows,
    Windows,
)
from logstate.topology.operators.aggregates.window_aggregate import WindowAggregateNode
from tests.unit.topology.operators.one_operator import OneOperator

Sum = tuple[int, int]  # of values, largest time

RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 60)),
    max_size=40,
)


class Listed(Windows):
    """Windows that begin at given times, at any distance, so that they overlap or leave gaps."""

    def __init__(self, starts: Sequence[int], size_ms: int, grace_ms: int) -> None:
        self.starts = sorted(set(starts))
        self.size_ms = size_ms
        self.grace_ms = grace_ms

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        return [
            (start, start + self.size_ms)
            for start in self.starts
            if start <= timestamp < start + self.size_ms
        ]


def sums(windows: Windows, **options: Any) -> OneOperator:
    spec = StoreSpec(
        "sums",
        "timestamped_window",
        serdes.string,
        serdes.int64,
        window_size_ms=windows.size_ms,
        retention_ms=100_000,
    )
    settings: dict[str, Any] = {
        "initializer": lambda: 0,
        "aggregator": lambda key, value, total: total + (value or 0),
        "emit": "update",
    }
    return OneOperator(
        WindowAggregateNode("agg", store=spec, windows=windows, **settings | options)
    )


def rows(forwarded: list[tuple[Any, ...]]) -> list[tuple[tuple[str, int], Sum]]:
    return [((w.key, w.start_ms), (new, timestamp)) for w, new, _, timestamp, _, _ in forwarded]


def summed(found: dict[Any, list[tuple[int | None, int]]]) -> dict[Any, Sum]:
    return {
        where: (sum(value or 0 for value, _ in inside), max(time for _, time in inside))
        for where, inside in found.items()
    }


@given(start=st.integers(0, 60), records=RECORDS)
def test_an_unlimited_window_holds_everything_from_its_start_on(
    start: int, records: list[tuple[str, int | None, int]]
) -> None:
    run = sums(UnlimitedWindows(start_ms=start))
    inside: dict[Any, list[tuple[int | None, int]]] = {}

    for key, value, time in records:
        forwarded = rows(run.pipe(key, value, time))
        if time >= start:
            inside.setdefault((key, start), []).append((value, time))
            assert forwarded == [((key, start), summed(inside)[key, start])]
        else:
            assert forwarded == []

    assert run.dropped == {}


LISTED = st.builds(
    Listed,
    st.lists(st.integers(0, 60), min_size=1, max_size=8),
    st.integers(1, 25),
    st.integers(0, 20),
)


def accepted(
    windows: Listed, records: list[tuple[str, int | None, int]]
) -> tuple[dict[Any, list[tuple[int | None, int]]], int, int]:
    """What each window holds, how often a record was late for one, and the stream time."""
    inside: dict[Any, list[tuple[int | None, int]]] = {}
    late, stream_time = 0, -1
    for key, value, time in records:
        stream_time = max(stream_time, time)
        for start in windows.starts:
            end = start + windows.size_ms
            if not start <= time < end:
                continue
            if end + windows.grace_ms <= stream_time:
                late += 1
            else:
                inside.setdefault((key, start), []).append((value, time))
    return inside, late, stream_time


@given(windows=LISTED, records=RECORDS)
def test_windows_of_ones_own_hold_what_they_accepted(
    windows: Listed, records: list[tuple[str, int | None, int]]
) -> None:
    run = sums(windows)
    last: dict[tuple[str, int], Sum] = {}

    for key, value, time in records:
        last.update(rows(run.pipe(key, value, time)))

    inside, late, _ = accepted(windows, records)
    assert last == summed(inside)
    assert run.dropped["late"] == late


@given(windows=LISTED, records=RECORDS)
def test_windows_of_ones_own_are_emitted_once_when_they_close(
    windows: Listed, records: list[tuple[str, int | None, int]]
) -> None:
    run = sums(windows, emit="close")
    final: list[tuple[tuple[str, int], Sum]] = []

    for key, value, time in records:
        final += rows(run.pipe(key, value, time))

    inside, _, stream_time = accepted(windows, records)
    closed = stream_time - windows.grace_ms - windows.size_ms
    expected = {where: found for where, found in summed(inside).items() if where[1] <= closed}
    assert dict(final) == expected
    assert len(final) == len(expected)


class Shifts(TumblingWindows):
    """Derived from what it nearly is, and with windows of its own."""

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        start = (timestamp + 4) // 10 * 10 - 4
        return [(start, start + 10)] if start >= 0 else [(0, 10)]


class Late(HoppingWindows):
    """Hopping windows that begin a millisecond later."""

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        found = super().windows_for(max(0, timestamp - 1))
        return [(start + 1, end + 1) for start, end in found]


class Alike(Windows):
    """The windows of another class."""

    def __init__(self, windows: Windows) -> None:
        self.windows_for = windows.windows_for  # type: ignore[method-assign]
        self.size_ms, self.grace_ms = windows.size_ms, windows.grace_ms

    def windows_for(self, timestamp: int) -> Sequence[tuple[int, int]]: ...


TEN, THREE = timedelta(milliseconds=10), timedelta(milliseconds=3)


@pytest.mark.parametrize("emit", ["update", "commit", "close"])
@pytest.mark.parametrize(
    ("windows", "one"),
    [(Shifts(size=TEN), "(6, 16)"), (Late(size=TEN, advance=THREE), "(7, 17)")],
    ids=["tumbling", "hopping"],
)
def test_a_class_derived_from_ready_made_windows_is_asked_for_its_own(
    windows: Windows, one: str, emit: Emit
) -> None:
    found = []
    for which in (windows, Alike(windows)):
        builder = StreamsBuilder()
        grouped = builder.stream("in", value=str).group_by_key().windowed_by(which)
        rows = Materialized("rows", retention=timedelta(days=1))
        counts = grouped.count(store=rows, emit=emit)
        counts.to_stream(lambda window, _: str((window.start_ms, window.end_ms))).to("out", key=str)
        with TopologyTestDriver(builder.build()) as driver:
            for time in (7, 15, 16, 27, 26, 33, 36, 60):
                driver.pipe("in", "a", "x", timestamp=time)
            found.append(driver.read("out", value=int))
    assert found[0] == found[1]
    assert one in dict(found[0])
