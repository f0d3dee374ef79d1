"""Keys are the same exactly when their bytes are, whatever Python calls equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from logstate.contracts.errors import ProcessingError
from logstate.contracts.records import Record
from logstate.serdes import float64, json, json_of
from logstate.serdes.built_in import equal_as_bytes
from logstate.serdes.scalars import ScalarSerde
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KGroupedStream,
    KTable,
    Processor,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    until_time_limit,
)


class Point(msgspec.Struct, frozen=True):
    x: int | float | bool


class Same(msgspec.Struct, eq=False):
    """Two of these are never equal, and have the same bytes."""

    x: int


NUMBERS = [
    pytest.param(json, [1, True, 1.0, 0, False], id="json"),
    pytest.param(json_of(int | bool), [1, True, 0, False], id="int or bool"),
    pytest.param(json_of(int | float), [1, 1.0, 0, 0.0], id="int or float"),
    pytest.param(json_of(float), [0.0, -0.0], id="json zeros"),
    pytest.param(float64, [0.0, -0.0], id="zeros"),
    pytest.param(json_of(tuple[int | float | bool, ...]), [(1,), (1.0,), (True,)], id="tuple"),
    pytest.param(json_of(Point), [Point(1), Point(1.0), Point(True)], id="frozen struct"),
    pytest.param(json, [[1], [True]], id="list"),
    pytest.param(json, [{"a": 1}, {"a": True}], id="dict"),
]
SECOND = timedelta(seconds=1)


def plain(grouped: KGroupedStream[Any, str]) -> KTable[Any, int]:
    return grouped.count(store="n", emit="commit")


def tumbling(grouped: KGroupedStream[Any, str]) -> KTable[Any, int]:
    return grouped.windowed_by(TumblingWindows(size=SECOND)).count(store="n", emit="commit")


def sliding(grouped: KGroupedStream[Any, str]) -> KTable[Any, int]:
    return grouped.windowed_by(SlidingWindows(difference=SECOND)).count(store="n", emit="commit")


def sessions(grouped: KGroupedStream[Any, str]) -> KTable[Any, int]:
    return grouped.windowed_by(SessionWindows(gap=SECOND)).count(store="n", emit="commit")


@pytest.mark.parametrize("count", [plain, tumbling, sliding, sessions])
@pytest.mark.parametrize(("key", "keys"), NUMBERS)
def test_equal_objects_with_other_bytes_are_held_back_one_by_one(
    key: Any, keys: list[Any], count: Callable[..., KTable[Any, int]]
) -> None:
    builder = StreamsBuilder()
    table = count(builder.stream("in", key=key, value=str).group_by_key())
    table.to_stream(lambda k, _: repr(getattr(k, "key", k)), key=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=100) as driver:
        driver.pipe_all("in", [(one, "x", 5) for one in keys])
        driver.advance_wall_clock(0)
        assert driver.read("out", value=int) == [(repr(one), 1) for one in keys]


def test_a_key_that_equals_not_even_itself_is_held_back_once() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", key=float64, value=str).group_by_key()
    counts.count(store="n", emit="commit").to_stream(lambda k, _: repr(k), key=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=100) as driver:
        driver.pipe_all("in", [(math.nan, "x", 5), (float("nan"), "x", 6)])
        driver.advance_wall_clock(0)
        assert driver.read("out", value=int) == [("nan", 2)]


@pytest.mark.parametrize(("key", "keys"), NUMBERS)
def test_a_row_that_moves_to_a_key_that_python_calls_equal_leaves_its_group(
    key: Any, keys: list[Any]
) -> None:
    builder = StreamsBuilder()
    rows = builder.table("rows", value=int, store="rows")
    groups = rows.group_by(lambda number: (keys[number], 1), key=key, value=int, name="by")
    groups.count(store="n")
    with TopologyTestDriver(builder.build()) as driver:
        for number in range(len(keys)):
            driver.pipe("rows", "row", number)
        counts = [(repr(found), row.value) for found, row in driver.store("n").all()]
    expected = [(repr(one), int(one is keys[-1])) for one in keys]
    assert sorted(counts) == sorted(expected)


def test_keys_with_the_same_bytes_travel_in_one_record_though_python_calls_them_unequal() -> None:
    builder = StreamsBuilder()
    rows = builder.table("rows", value=int, store="rows")
    groups = rows.group_by(lambda number: (Same(1), number), key=Same, value=int, name="by")
    sums = groups.reduce(lambda a, b: a + b, lambda a, b: a - b, store="n")
    sums.to_stream(lambda k, _: k.x, key=int).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("rows", [("row", 3, 0), ("row", 5, 1)])
        assert driver.read("out", key=int, value=int) == [(1, 3), (1, 5)]


@pytest.mark.parametrize(("key", "keys"), NUMBERS)
def test_suppressed_updates_wait_by_their_bytes(key: Any, keys: list[Any]) -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key=key, value=int, store="rows")
    calm = table.suppress(until_time_limit(timedelta(milliseconds=10)), name="calm")
    calm.to_stream(lambda k, _: repr(k), key=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [(one, at, at) for at, one in enumerate(keys)])
        driver.pipe("in", keys[0], 99, timestamp=1_000)
        assert [k for k, _ in driver.read("out", value=int)] == [*map(repr, keys)]


class Forwards(Processor[Any, str, Any, str]):
    def __init__(self, key: Any) -> None:
        self.key = key

    def process(self, record: Record[Any, str]) -> None:
        self.context.forward(record._replace(key=self.key))


@pytest.mark.parametrize(
    ("given", "forwarded", "is_same"),
    [
        (1, True, False),
        (1, 1.0, False),
        (0.0, -0.0, False),
        ([1, {"a": 0}], [1, {"a": False}], False),
        (10**6, 10**6 + 0, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("ab", str(b"ab", "ascii"), True),
    ],
)
def test_process_values_may_forward_an_equal_key_and_no_other(
    given: Any, forwarded: Any, is_same: bool
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=json, value=str)
    stream.process_values(lambda: Forwards(forwarded), value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        if is_same:
            driver.pipe("in", given, "x")
            assert driver.read("out", key=json, value=str) == [(given, "x")]
        else:
            with pytest.raises(ProcessingError, match="changed a key"):
                driver.pipe("in", given, "x")


def test_a_serde_that_only_calls_itself_a_string_is_told_apart_by_its_bytes() -> None:
    folding: ScalarSerde[str] = _Folding("string", lambda s: s.lower().encode(), bytes.decode)
    assert not equal_as_bytes(folding)
    builder = StreamsBuilder()
    counts = builder.stream("in", key=folding, value=str).group_by_key().count(store="n")
    counts.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        store = driver.store("n")
        driver.pipe_raw("in", b"A", b"x", 0)
        driver.pipe_raw("in", b"a", b"x", 1)
        assert (store.get("A").value, store.get("a").value) == (2, 2)


class _Folding(ScalarSerde[str]):
    """Writes "A" and "a" as the same bytes."""
