"""A foreign-key join finds a left row again, however its value is written and read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from logstate.serdes import json, json_of
from logstate.serdes.json_serde import JsonSerde
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KTable,
    Materialized,
    StreamsBuilder,
    TumblingWindows,
    until_time_limit,
)
from logstate.topology.operators.joins.row_hash import hash_128


class Price(msgspec.Struct):
    cents: float
    tags: list[str] = []


class Frozen(msgspec.Struct, frozen=True):
    cents: float


class Wider(Price):
    more: int = 7


class Restless(JsonSerde[Any]):
    """Writes the same value in another form each time it is bound, as sets are by each process."""

    binds = 0

    def serializer(self, topic: str, is_key: bool) -> Callable[[Any], bytes]:
        encode = super().serializer(topic, is_key)
        Restless.binds += 1
        padding = b" " * Restless.binds
        return lambda value: encode(value) + padding


VALUES = [
    pytest.param(Price, lambda: Price(3), id="int in a float field"),
    pytest.param(Frozen, lambda: Frozen(3), id="int in a float field of a frozen struct"),
    pytest.param(Frozen, lambda: Frozen(3.0), id="float in a frozen struct"),
    pytest.param(Price, lambda: Wider(3.0), id="subclass"),
    pytest.param(json_of(dict[str, float]), lambda: {"a": 1}, id="int in a dict of floats"),
    pytest.param(json_of(tuple[float, ...]), lambda: (1, 2.0), id="int in a tuple of floats"),
    pytest.param(json_of(list[float]), lambda: [2**63], id="large int in a list of floats"),
    pytest.param(json, lambda: {"b": [2, 3.0], "a": None}, id="plain JSON"),
    pytest.param(float, lambda: 3, id="int for a float"),
    # Of a computed row there are no bytes but those that its serde makes: only of kept ones.
    pytest.param(Restless(Price), lambda: Price(3), id="another form each time"),
]
Left = Callable[[KTable[str, Any], Any], KTable[str, Any]]
LEFTS: dict[str, Left] = {
    "with a store": lambda table, _: table,
    "filtered": lambda table, _: table.filter(lambda _: True),
    "computed": lambda table, value: table.map_values(lambda v: v, value=value),
    "computed, with a store": lambda table, value: table.map_values(
        lambda v: v, value=value, store="mapped"
    ),
    "computed as text": lambda table, _: table.map_values(repr, value=str),
    "joined with itself": lambda table, value: table.join(
        table.filter(lambda _: True), lambda one, other: one, value=value
    ),
    "held back": lambda table, _: table.suppress(
        until_time_limit(timedelta(milliseconds=1)), name="calm"
    ),
}
STORES = [
    pytest.param("left", id="timestamped"),
    pytest.param(Materialized("left", in_memory=True), id="in memory"),
    pytest.param(Materialized("left", history=timedelta(days=1)), id="versioned"),
]


def build(value: Any, make: Callable[[], Any], left: Left, store: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    rows = builder.stream("left", value=str).map_values(lambda _: make(), value=value)
    table = left(rows.to_table(store=store), value)
    right = builder.table("right", value=str, store="right")
    join(table, right, lambda _: "R").to_stream().to("out")
    return builder


def join(
    left: KTable[str, Any], right: KTable[Any, str], foreign_key: Callable[[Any], Any]
) -> KTable[str, str]:
    return left.join(
        right, lambda _, r: r, foreign_key=foreign_key, value=str, name="fk", store="joined"
    )


@pytest.mark.parametrize("left", LEFTS.values(), ids=LEFTS)
@pytest.mark.parametrize(("value", "make"), VALUES[:-1])
def test_updates_of_the_right_side_reach_the_row_again(
    value: Any, make: Callable[[], Any], left: Left
) -> None:
    run(build(value, make, left, "left"))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("value", "make"), VALUES)
def test_it_does_not_matter_how_the_row_is_kept(
    value: Any, make: Callable[[], Any], store: Any
) -> None:
    run(build(value, make, LEFTS["with a store"], store))


def run(builder: StreamsBuilder) -> None:
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("right", "R", "r1", timestamp=1)
        driver.pipe("left", "k", "x", timestamp=2)
        driver.pipe("left", "later", "x", timestamp=9)  # lets go of what is held back
        driver.pipe("left", "last", "x", timestamp=20)
        found = dict(driver.read("out", value=str))
        assert found["k"] == "r1"
        driver.pipe("right", "R", "r2", timestamp=30)
        assert dict(driver.read("out", value=str)) == dict.fromkeys(found, "r2")
        driver.crash(loses_disk=True)
        driver.pipe("right", "R", "r3", timestamp=31)
        assert dict(driver.read("out", value=str)) == dict.fromkeys(found, "r3")
        assert driver.dropped == []


def test_the_row_of_a_window_is_found_again() -> None:
    builder = StreamsBuilder()
    windows = builder.stream("left", value=str).group_by_key()
    prices = windows.windowed_by(TumblingWindows(size=timedelta(seconds=1))).aggregate(
        lambda: Price(0), lambda price, _: Price(price.cents + 3), store="left", value=Price
    )
    right = builder.table("right", value=str, store="right")
    join(prices, right, lambda _: "R").to_stream(lambda w, _: w.key, key=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("right", "R", "r1", timestamp=1)
        driver.pipe("left", "k", "x", timestamp=2)
        driver.pipe("right", "R", "r2", timestamp=3)
        assert driver.read("out", value=str) == [("k", "r1"), ("k", "r2")]


def test_a_foreign_key_is_that_of_the_row_as_it_is_read() -> None:
    """Else a row would subscribe by one key, and unsubscribe by another."""
    builder = StreamsBuilder()
    rows = builder.stream("left", value=int).map_values(Price, value=Price).to_table(store="left")
    right = builder.table("right", key=json, value=str, store="right")
    join(rows, right, lambda price: price.cents).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("right", 3.0, "three", timestamp=1)
        driver.pipe("left", "k", 3, timestamp=2)
        assert driver.read("out", value=str) == [("k", "three")]
        driver.pipe("left", "k", 4, timestamp=3)
        assert driver.read("out", value=str) == [("k", None)]
        assert driver.store("fk-subscription-store").num_records == 1


def test_an_answer_to_a_row_that_has_changed_since_is_still_left_out() -> None:
    builder = build(Price, lambda: Price(3), LEFTS["with a store"], "left")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("right", "R", "r1", timestamp=1)
        driver.pipe("left", "k", "x", timestamp=2)
        driver.read("out", value=str)
        response = f"{driver.task.application_id}-fk-subscription-response-topic"
        of_another_row = b"\x00" + hash_128(b'{"cents":4.0,"tags":[]}') + b"r9"
        driver.pipe_raw(response, b"k", of_another_row, 3)
        assert driver.read("out", value=str) == []
        assert [(one.reason, one.count) for one in driver.dropped] == [("stale_response", 1)]


@pytest.mark.parametrize("form", [b'{"cents":3,"tags":[]}', b'{"cents":3.0,"tags":[]}'])
def test_answers_are_taken_whether_they_have_the_hash_of_the_bytes_or_of_the_row(
    form: bytes,
) -> None:
    """Topics that were written before, or by Kafka Streams, may have either."""
    builder = build(Price, lambda: Price(3), LEFTS["with a store"], "left")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("left", "k", "x", timestamp=2)
        response = f"{driver.task.application_id}-fk-subscription-response-topic"
        driver.pipe_raw(response, b"k", b"\x00" + hash_128(form) + b"r9", 3)
        assert driver.read("out", value=str) == [("k", "r9")]
