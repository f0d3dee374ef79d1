"""The option close_on_idle of the builder."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    CountWindows,
    JoinWindows,
    KStream,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    until_time_limit,
    until_window_closes,
)
from logstate.topology.graph.nodes import ProcessorNode


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def first_of(one: str, _other: str) -> str:
    return one


def idle_times(topology: Topology) -> dict[str, int]:
    return {
        node.name: node.close_on_idle_ms
        for part in topology.sub_topologies
        for node in part.nodes
        if isinstance(node, ProcessorNode) and node.close_on_idle_ms is not None
    }


def input_of(builder: StreamsBuilder, topic: str = "in") -> KStream[str, str]:
    return builder.stream(topic, key=str, value=str)


def test_every_operator_that_waits_for_stream_time_has_the_default() -> None:
    builder = StreamsBuilder(close_on_idle=ms(30))
    stream, other = input_of(builder), input_of(builder, "other")
    grouped = stream.group_by_key()
    for name, windows in {
        "tumbling": TumblingWindows(size=ms(10)),
        "sliding": SlidingWindows(difference=ms(10)),
        "session": SessionWindows(gap=ms(10)),
    }.items():
        counts = grouped.windowed_by(windows).count(store=f"{name}-store", name=name)
        counts.suppress(until_window_closes(), name=f"{name}-final")
    counted = grouped.windowed_by(CountWindows(3, timeout=ms(10)))
    counted.count(store="counted-store", name="counted")
    table = builder.table("t", key=str, value=str, store=Materialized("t", history=ms(100)))
    unversioned = builder.table("u", key=str, value=str, store="u")
    unversioned.suppress(until_time_limit(ms(10)), name="limited")
    stream.left_join(other, first_of, windows=JoinWindows(), name="left")
    stream.join(other, first_of, windows=JoinWindows(), name="inner")
    stream.join(table, first_of, grace=ms(10), name="grace")
    stream.join(unversioned, first_of, name="direct")
    assert idle_times(builder.build()) == dict.fromkeys(
        [
            *("tumbling", "tumbling-final", "sliding", "sliding-final", "session"),
            *("session-final", "counted", "limited", "left-this-join", "grace"),
        ],
        30,
    )


def test_an_operator_with_the_option_keeps_its_own() -> None:
    builder = StreamsBuilder(close_on_idle=ms(30))
    windows = TumblingWindows(size=ms(10), close_on_idle=ms(5))
    counts = input_of(builder).group_by_key().windowed_by(windows).count(store="n", name="count")
    counts.suppress(until_window_closes(), name="final")
    assert idle_times(builder.build()) == {"count": 5, "final": 5}


def chained(builder: StreamsBuilder, first: TumblingWindows, second: TumblingWindows) -> Topology:
    counts = input_of(builder).group_by_key().windowed_by(first).count(store="n", name="first")
    again = counts.to_stream(lambda window, _: window.key, key=str).repartition(name="again")
    again.group_by_key().windowed_by(second).count(store="m", name="second")
    return builder.build()


def test_operators_behind_one_that_closes_on_idle_have_the_default_too() -> None:
    plain, own = TumblingWindows(size=ms(10)), TumblingWindows(size=ms(10), close_on_idle=ms(5))
    topology = chained(StreamsBuilder(close_on_idle=ms(30)), plain, plain)
    assert idle_times(topology) == {"first": 30, "second": 30}
    topology = chained(StreamsBuilder(close_on_idle=ms(30)), plain, own)
    assert idle_times(topology) == {"first": 30, "second": 5}


def test_an_operator_that_would_wait_for_itself_waits_for_records() -> None:
    builder = StreamsBuilder(close_on_idle=ms(30))
    counted = input_of(builder).group_by_key().windowed_by(CountWindows(3, timeout=ms(10)))
    left = counted.count(store="counted-store", name="counted")
    right = builder.table("right", key=str, value=str, store="right")
    table = left.map_values(str, value=str).to_table(store="left")
    joined = table.join(right, first_of, foreign_key=str, name="j", store="j", value=str)
    windows = TumblingWindows(size=ms(10))
    joined.to_stream().group_by_key().windowed_by(windows).count(store="n", name="below")
    assert idle_times(builder.build()) == {"below": 30}


def test_windows_close_by_the_default() -> None:
    builder = StreamsBuilder(close_on_idle=ms(30))
    windows = TumblingWindows(size=ms(10))
    counts = input_of(builder).group_by_key().windowed_by(windows).count(store="n", emit="close")
    counts.to_stream(lambda window, _: window.key, key=str).to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=3)
        driver.advance_wall_clock(30)
        assert driver.read("out", key=str, value=int) == [("a", 1)]


def test_the_idle_time_is_at_least_a_millisecond() -> None:
    with pytest.raises(TopologyError, match="close_on_idle of the builder"):
        StreamsBuilder(close_on_idle=ms(0))
