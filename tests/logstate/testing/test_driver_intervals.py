"""What is final is sent at once in the test driver, unless the builder says how rarely to look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    JoinWindows,
    KStream,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
)
from logstate.topology.dsl.materialized import AnyWindows

TEN = timedelta(milliseconds=10)
Declare = Callable[[StreamsBuilder], KStream[Any, Any]]


def closing(windows: AnyWindows) -> Declare:
    def declare(builder: StreamsBuilder) -> KStream[Any, Any]:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        counts = grouped.windowed_by(windows).count(store="n", emit="close")  # type: ignore[arg-type]
        return counts.to_stream(lambda window, _: str(window.key), key=str)

    return declare


def joined(kind: str) -> Declare:
    def declare(builder: StreamsBuilder) -> KStream[Any, Any]:
        left = builder.stream("in", key=str, value=str)
        right = builder.stream("other", key=str, value=str)
        near = JoinWindows.symmetric(TEN, grace=timedelta(0))
        return getattr(left, kind)(right, lambda one, other: 1, windows=near, name="j", value=int)

    return declare


FINAL: dict[str, Declare] = {
    "tumbling": closing(TumblingWindows(size=TEN, grace=timedelta(0))),
    "hopping": closing(HoppingWindows(size=TEN, advance=TEN, grace=timedelta(0))),
    "sliding": closing(SlidingWindows(difference=TEN, grace=timedelta(0))),
    "sessions": closing(SessionWindows(gap=TEN, grace=timedelta(0))),
    "left join": joined("left_join"),
    "outer join": joined("outer_join"),
}


def seen_without_the_wall_clock(declare: Declare, **intervals: timedelta) -> list[list[str]]:
    builder = StreamsBuilder(**intervals)
    declare(builder).to("out", value=int)
    seen = []
    with TopologyTestDriver(builder.build()) as driver:
        for key, time in (("a", 0), ("b", 15), ("c", 26)):
            driver.pipe("in", key, "x", timestamp=time)
            seen.append([key for key, _ in driver.read("out", value=int)])
    return seen


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_what_is_final_is_sent_by_the_record_that_ends_it(declare: Declare) -> None:
    assert seen_without_the_wall_clock(declare) == [[], ["a"], ["b"]]


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_an_interval_that_the_builder_was_given_counts_in_the_driver_too(declare: Declare) -> None:
    second = timedelta(seconds=1)
    seen = seen_without_the_wall_clock(
        declare, window_emit_interval=second, outer_join_emit_interval=second
    )
    assert [key for keys in seen for key in keys] in (
        [],
        ["a"],
    )  # the first look may be at once, no other is


@pytest.mark.parametrize("declare", FINAL.values(), ids=FINAL)
def test_a_crash_holds_nothing_back(declare: Declare) -> None:
    builder = StreamsBuilder()
    declare(builder).to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=0)
        driver.crash()
        driver.pipe("in", "b", "x", timestamp=15)
        assert [key for key, _ in driver.read("out", value=int)] == ["a"]
