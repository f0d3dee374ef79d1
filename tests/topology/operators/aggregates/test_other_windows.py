"""Unlimited windows and windows of the user's own, against a model of plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import UnlimitedWindows, Windows
from logstate.topology.operators.aggregates.window_aggregate import WindowAggregateNode
from tests.topology.operators.one_operator import OneOperator

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
