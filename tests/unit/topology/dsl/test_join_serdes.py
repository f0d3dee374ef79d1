"""Whose serde it is: ``value`` of a join's result, ``left_value``, ``right_value`` of inputs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate import JoinWindows, KStream, Materialized, StreamsBuilder, TopologyTestDriver
from logstate.contracts.errors import TopologyError

NEAR = JoinWindows.symmetric(timedelta(seconds=1))


def with_stream(builder: StreamsBuilder, left: KStream[Any, Any], **options: Any) -> Any:
    right = builder.stream("right", key=str, value=int)
    return left.join(right, lambda a, b: int(a) + b, windows=NEAR, name="j", **options)


def with_table(builder: StreamsBuilder, left: KStream[Any, Any], **options: Any) -> Any:
    right = builder.table("right", key=str, value=int, store="right")
    return left.left_join(right, lambda a, b: int(a) + (b or 0), name="j", **options)


def with_global_table(builder: StreamsBuilder, left: KStream[Any, Any], **options: Any) -> Any:
    right = builder.global_table("right", key=str, value=int, store="right")
    return left.join(right, lambda a, b: int(a) + b, key_mapper=lambda k, _: k, **options)


JOINS = [with_stream, with_table, with_global_table]
Join = Callable[..., Any]


@pytest.mark.parametrize("join", JOINS)
def test_value_is_the_serde_of_the_result(join: Join) -> None:
    builder = StreamsBuilder()
    joined = join(builder, builder.stream("left", key=str, value=str), value=int)
    joined.to("out")  # knows how
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("right", "k", 5, timestamp=1)
        driver.pipe("left", "k", "7", timestamp=2)
        assert driver.read("out", value=int) == [("k", 12)]


@pytest.mark.parametrize("join", JOINS)
def test_without_it_the_sink_asks(join: Join) -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="No serde"):
        join(builder, builder.stream("left", key=str, value=str)).to("out")


@pytest.mark.parametrize(
    ("join", "asks"), [(with_stream, "left side"), (with_table, "repartition topic")]
)
def test_the_serde_of_an_input_that_is_not_known_is_its_own_option(join: Join, asks: str) -> None:
    def left(builder: StreamsBuilder) -> Any:
        stream = builder.stream("left", key=str, value=str)
        return stream.map(lambda k, v: (k, int(v)), key=str)

    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=rf"{asks}.*left_value="):
        join(builder, left(builder), value=int)
    builder = StreamsBuilder()
    join(builder, left(builder), left_value=int, value=int).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("right", "k", 5, timestamp=1)
        driver.pipe("left", "k", "7", timestamp=2)
        assert driver.read("out", value=int) == [("k", 12)]


def test_the_buffer_of_a_join_with_grace_keeps_values_of_the_input() -> None:
    builder = StreamsBuilder()
    rows = Materialized("rows", history=timedelta(minutes=1))
    table = builder.table("right", key=str, value=int, store=rows)
    left = builder.stream("left", key=str, value=str)
    joined = left.join(
        table, lambda a, b: int(a) + b, grace=timedelta(seconds=1), name="j", value=int
    )
    joined.to("out")
    stores = builder.build().stores
    assert stores["j-Buffer"].value.describe()["format"] == "string"
