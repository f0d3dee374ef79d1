from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.topology.declaring.windows import (
    HoppingWindows,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    UnlimitedWindows,
    to_ms,
)

TIMES = st.integers(0, 10_000)


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


@given(st.integers(1, 100), TIMES)
def test_a_tumbling_window_contains_its_time_and_is_aligned_to_the_epoch(size: int, time: int):
    ((start, end),) = TumblingWindows(size=ms(size)).windows_for(time)

    assert start <= time < end
    assert start % size == 0
    assert end - start == size


@given(st.integers(1, 30), st.integers(0, 60), TIMES)
def test_hopping_windows_are_all_that_contain_the_time(advance: int, more: int, time: int):
    size = advance + more

    found = HoppingWindows(size=ms(size), advance=ms(advance)).windows_for(time)

    every = [(start, start + size) for start in range(0, time + 1, advance)]
    assert list(found) == [(start, end) for start, end in every if start <= time < end]


@given(st.integers(1, 100), TIMES)
def test_hopping_by_the_size_is_tumbling(size: int, time: int):
    hopping = HoppingWindows(size=ms(size), advance=ms(size))

    assert hopping.windows_for(time) == TumblingWindows(size=ms(size)).windows_for(time)


def test_an_unlimited_window_starts_where_it_is_told():
    windows = UnlimitedWindows(start_ms=5)

    assert windows.windows_for(4) == ()
    assert windows.windows_for(5) == windows.windows_for(10**15) == ((5, 2**63 - 1),)


def test_nothing_has_an_implicit_grace():
    assert TumblingWindows(size=ms(1)).grace_ms == 0
    assert HoppingWindows(size=ms(1), advance=ms(1)).grace_ms == 0
    assert SlidingWindows(difference=ms(1)).grace_ms == 0
    assert SessionWindows(gap=ms(1)).grace_ms == 0
    assert JoinWindows.symmetric(ms(1)).grace_ms == 0


def test_durations_become_whole_milliseconds():
    assert to_ms(timedelta(minutes=1, milliseconds=5), "size") == 60_005


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TumblingWindows(size=ms(0)), "size of tumbling windows must be at least 1 ms"),
        (lambda: TumblingWindows(size=ms(1), grace=ms(-1)), "grace of tumbling windows must be"),
        (lambda: HoppingWindows(size=ms(2), advance=ms(3)), "records between two windows"),
        (lambda: HoppingWindows(size=ms(2), advance=ms(0)), "advance of hopping windows must be"),
        (lambda: UnlimitedWindows(start_ms=-1), "start_ms must not be negative"),
        (lambda: SlidingWindows(difference=ms(-1)), "difference of sliding windows must be"),
        (lambda: SessionWindows(gap=ms(0)), "gap of session windows must be at least 1 ms"),
        (lambda: JoinWindows(before=ms(-2), after=ms(1)), "no record can match"),
        (lambda: TumblingWindows(size=timedelta(microseconds=1500)), "not a whole number"),
        (lambda: TumblingWindows(size=10), "must be a timedelta, found 10"),  # type: ignore[arg-type]
    ],
)
def test_impossible_windows_are_refused_where_they_are_declared(
    build: Callable[[], Any], message: str
):
    with pytest.raises(TopologyError, match=message) as failure:
        build()

    assert failure.value.declared_at is not None
    assert "test_windows.py" in failure.value.declared_at
