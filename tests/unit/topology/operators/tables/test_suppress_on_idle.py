"""Suppressed rows that leave while the inputs are idle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.record_parts import TIMESTAMP_MAX
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    until_time_limit,
    until_window_closes,
)

IDLE_MS = 30


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


WINDOWS: dict[str, Any] = {
    "tumbling": TumblingWindows(size=ms(10), grace=ms(5), close_on_idle=ms(IDLE_MS)),
    "hopping": HoppingWindows(size=ms(10), advance=ms(4), close_on_idle=ms(IDLE_MS)),
    "sliding": SlidingWindows(difference=ms(10), grace=ms(3), close_on_idle=ms(IDLE_MS)),
    "session": SessionWindows(gap=ms(10), grace=ms(3), close_on_idle=ms(IDLE_MS)),
    "long": TumblingWindows(size=ms(100), close_on_idle=ms(IDLE_MS)),
}


def finals(windows: Any, emit: Literal["update", "commit"] = "update") -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    store = Materialized("n", retention=timedelta(seconds=10))
    counts = groups.count(store=store, emit=emit, late="late").filter(lambda _: True)
    table = counts.suppress(until_window_closes(), name="finals")
    table.to_stream(lambda w, _: f"{w.key} {w.start_ms} {w.end_ms}", key=str).to("out", value=int)
    late = builder.late("late", key=str, value=str)
    late.map_values(lambda one: one.value, value=str).to("late")
    return builder.build()


@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_final_results_leave_without_a_later_record(windows: Any, emit: Any) -> None:
    with TopologyTestDriver(finals(windows, emit)) as driver:
        driver.pipe_all("in", [(f"k{number}", "v", 7) for number in range(12)])
        driver.advance_wall_clock(IDLE_MS - 1)
        assert driver.read("out", key=str, value=int) == []
        driver.advance_wall_clock(100)
        found = {key.split()[0] for key, _ in driver.read("out", key=str, value=int)}
        assert len(found) == 12
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", key=str, value=int) == []


def test_they_wait_without_the_option() -> None:
    with TopologyTestDriver(finals(TumblingWindows(size=ms(10)))) as driver:
        driver.pipe("in", "a", "v", timestamp=7)
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", key=str, value=int) == []


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.integers(0, 150)),
        st.tuples(st.just("wait"), st.sampled_from([1, 29, 30, 60, 200])),
    ),
    max_size=25,
)


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@given(events=EVENTS, crashes=st.booleans())
def test_a_window_that_closed_on_idle_is_final_once(
    windows: Any, events: list[tuple[str, int]], crashes: bool
) -> None:
    with TopologyTestDriver(finals(windows)) as driver:
        for key, number in events:
            if key != "wait":
                driver.pipe("in", key, "v", timestamp=number)
                continue
            driver.advance_wall_clock(number)
            if crashes:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(1_000)
        out, late = (driver.read(topic, value=of) for topic, of in (("out", int), ("late", str)))
        if isinstance(windows, TumblingWindows | HoppingWindows):
            keys = [key for key, _ in out]
            assert len(keys) == len(set(keys))
            missed = len(late) + sum(count for _, count in out)
            times = [number for key, number in events if key != "wait"]
            assert missed == sum(len(windows.windows_for(time)) for time in times)
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", value=int) == []


def test_a_time_limit_has_its_own_option() -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=int, store="prices")
    limit = until_time_limit(ms(100), close_on_idle=ms(IDLE_MS))
    prices.suppress(limit, name="slow").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("prices", [("tea", 3, 0), ("tea", 4, 50), ("rum", 9, 60)])
        driver.advance_wall_clock(39)
        assert driver.read("out", value=int) == []
        driver.advance_wall_clock(1)
        assert driver.read("out", value=int) == [("tea", 4)]
        driver.advance_wall_clock(59)
        assert driver.read("out", value=int) == []
        driver.advance_wall_clock(1)
        assert driver.read("out", value=int) == [("rum", 9)]


def test_its_idle_time_is_at_least_a_millisecond() -> None:
    with pytest.raises(TopologyError, match="close_on_idle of suppress"):
        until_time_limit(ms(100), close_on_idle=timedelta(0))


def sent(build: Callable[[StreamsBuilder], KTable[Any, Any]], waits: timedelta) -> list[str]:
    """The keys of what has left the buffer when all inputs have been idle for some time."""
    builder = StreamsBuilder()
    table = build(builder).suppress(until_window_closes(), name="finals")
    table.to_stream(lambda window, _: f"{window.key}@{window.start_ms}", key=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("left", "a", "v", timestamp=7)
        driver.pipe("right", "a", "v", timestamp=8)
        driver.advance_wall_clock(waits)
        return [key for key, _ in driver.read("out", value=bytes)]


def counts(
    builder: StreamsBuilder, topic: str, store: str, idle_ms: int | None
) -> KTable[Any, Any]:
    windows = TumblingWindows(size=ms(10), close_on_idle=None if idle_ms is None else ms(idle_ms))
    groups = builder.stream(topic, key=str, value=str).group_by_key().windowed_by(windows)
    return groups.count(store=store)


@pytest.mark.parametrize(
    ("left_ms", "right_ms", "waits_ms", "leaves"),
    [(30, 40, 40, True), (30, 40, 39, False), (30, None, 10_000, False)],
)
def test_windows_of_joined_tables_leave_if_all_of_them_close_on_idle(
    left_ms: int, right_ms: int | None, waits_ms: int, leaves: bool
) -> None:
    def joined(builder: StreamsBuilder) -> KTable[Any, Any]:
        left = counts(builder, "left", "of-left", left_ms)
        return left.join(
            counts(builder, "right", "of-right", right_ms), lambda a, b: a + b, value=int
        )

    assert sent(joined, ms(waits_ms)) == (["a@0"] if leaves else [])


def test_windows_of_a_cogroup_leave() -> None:
    def cogrouped(builder: StreamsBuilder) -> KTable[Any, Any]:
        left, right = (
            builder.stream(topic, key=str, value=str).group_by_key() for topic in ("left", "right")
        )
        both = left.cogroup(lambda n, _: n + 1).cogroup(right, lambda n, _: n + 1)
        windows = TumblingWindows(size=ms(10), close_on_idle=ms(30))
        return both.windowed_by(windows).aggregate(int, store="n", value=int)

    assert sent(cogrouped, ms(29)) == []
    assert sent(cogrouped, ms(30)) == ["a@0"]


def test_a_buffer_with_the_name_of_a_store_has_its_own_clock() -> None:
    def same_name(builder: StreamsBuilder) -> KTable[Any, Any]:
        builder.stream("right", key=str, value=str).to("unused")
        return counts(builder, "left", "finals", 30)

    assert sent(same_name, ms(30)) == ["a@0"]


def test_windows_at_the_end_of_time_leave() -> None:
    windows = TumblingWindows(size=ms(4), close_on_idle=ms(IDLE_MS))
    with TopologyTestDriver(finals(windows)) as driver:
        driver.pipe("in", "a", "v", timestamp=TIMESTAMP_MAX - 11)
        driver.advance_wall_clock(IDLE_MS)
        assert [n for _, n in driver.read("out", value=int)] == [1]
        driver.crash(loses_disk=True)
        driver.pipe("in", "a", "late", timestamp=TIMESTAMP_MAX - 11)
        assert driver.read("late", value=str) == [("a", "late")]


def test_a_row_at_the_end_of_time_leaves_at_once_without_a_limit() -> None:
    builder = StreamsBuilder()
    prices = builder.table("prices", key=str, value=int, store="prices")
    prices.suppress(until_time_limit(ms(0)), name="now").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("prices", "tea", 3, timestamp=TIMESTAMP_MAX)
        assert driver.read("out", value=int) == [("tea", 3)]
