"""What mappers return is a pair, or a sequence of results, or refused by name."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from logstate import Application, ErrorHandlers, ProcessingError, StreamsBuilder, Topology, skip
from logstate.testing import FakeCluster, TopologyTestDriver


class Pair(NamedTuple):
    key: str
    value: str


class Point(NamedTuple):
    x: str
    y: str
    z: str


async def awaited() -> list[str]:
    return ["a", "b"]


def yielded(*items: Any) -> Callable[[], Iterator[Any]]:
    def generate() -> Iterator[Any]:
        yield from items

    return generate


def declared(operator: str, result: Callable[[], Any]) -> Topology:
    builder = StreamsBuilder()
    texts: Any = builder.stream("in", key=str, value=str)
    options = {"value": str} if operator == "flat_map_values" else {"key": str, "value": str}
    getattr(texts, operator)(lambda _: result(), **options).to("out")
    return builder.build()


def results(operator: str, result: Callable[[], Any]) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(declared(operator, result)) as driver:
        driver.pipe("in", "k", "v")
        return driver.read("out", key=str, value=str)


NO_PAIRS: dict[str, Callable[[], Any]] = {
    "str": lambda: "NO",
    "bytes": lambda: b"NO",
    "bytearray": lambda: bytearray(b"NO"),
    "dict": lambda: {"a": 1, "b": 2},
    "set": lambda: {"a", "b"},
    "frozenset": lambda: frozenset("ab"),
    "int": lambda: 5,
    "NoneType": lambda: None,
    "tuple of 1": lambda: ("a",),
    "tuple of 3": lambda: ("a", "b", "c"),
    "list of 0": list,
    "Point": lambda: Point("a", "b", "c"),
}


@pytest.mark.parametrize("found", NO_PAIRS)
def test_map_refuses_what_is_no_pair(found: str) -> None:
    complaint = rf"the mapper of map\(\), .*test_mapper_results\.py:\d+, gave {found}"
    with pytest.raises(ProcessingError, match=complaint) as caught:
        results("map", NO_PAIRS[found])
    assert "return a tuple (key, value)" in str(caught.value)
    assert caught.value.node == "KSTREAM-MAP-0000000001"


@pytest.mark.parametrize("found", [one for one in NO_PAIRS if one != "Point"])
def test_flat_map_refuses_a_result_that_is_no_pair(found: str) -> None:
    with pytest.raises(ProcessingError, match=rf"the mapper of flat_map\(\).*gave {found}"):
        results("flat_map", lambda: [("a", "b"), NO_PAIRS[found]()])


@pytest.mark.parametrize("found", [one for one in NO_PAIRS if one != "NoneType"])
def test_group_by_of_a_table_refuses_what_is_no_pair(found: str) -> None:
    builder = StreamsBuilder()
    table: Any = builder.table("in", key=str, value=str, store="rows")
    table.group_by(lambda _: NO_PAIRS[found](), key=str, value=str).count(store="counts")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match=rf"the mapper of group_by\(\).*gave {found}"),
    ):
        driver.pipe("in", "k", "v")


@pytest.mark.parametrize(
    "pair",
    [("a", "b"), ["a", "b"], Pair("a", "b"), deque(["a", "b"])],
    ids=lambda p: type(p).__name__,
)
def test_every_sequence_of_two_is_a_pair(pair: Any) -> None:
    assert results("map", lambda: pair) == [("a", "b")]
    assert results("flat_map", lambda: [pair, pair]) == [("a", "b"), ("a", "b")]


NO_SEQUENCES: dict[str, Callable[[], Any]] = {
    "str": lambda: "Oslo",
    "bytes": lambda: b"Oslo",
    "bytearray": lambda: bytearray(b"Oslo"),
    "memoryview": lambda: memoryview(b"Oslo"),
    "dict": lambda: {"city": "Oslo"},
    "OrderedDict": lambda: OrderedDict(city="Oslo"),
    "set": lambda: {"a"},
    "frozenset": lambda: frozenset("a"),
    "Point": lambda: Point("a", "b", "c"),
    "int": lambda: 5,
    "NoneType": lambda: None,
    "coroutine": awaited,
}


@pytest.mark.parametrize("operator", ["flat_map", "flat_map_values"])
@pytest.mark.parametrize("found", NO_SEQUENCES)
def test_what_is_no_sequence_of_results_is_refused(operator: str, found: str) -> None:
    complaint = rf"the mapper (of {operator}\(\), )?.*test_mapper_results.*returned (a )?{found}"
    with pytest.raises(ProcessingError, match=complaint):
        results(operator, NO_SEQUENCES[found])


def test_no_result_is_an_empty_sequence_and_the_error_of_none_says_so() -> None:
    assert results("flat_map_values", list) == []
    assert results("flat_map_values", tuple) == []
    assert results("flat_map", yielded()) == []
    with pytest.raises(ProcessingError, match="for no result return an empty list"):
        results("flat_map_values", lambda: None)


@pytest.mark.parametrize(
    "several",
    [
        lambda: ["a", "b"],
        lambda: ("a", "b"),
        yielded("a", "b"),
        {"a": 1, "b": 2}.keys,
        {1: "a", 2: "b"}.values,
        lambda: deque("ab"),
        lambda: map(str.lower, "AB"),
        lambda: iter(["a", "b"]),
    ],
)
def test_everything_with_an_order_of_its_own_is_a_sequence(several: Callable[[], Any]) -> None:
    assert results("flat_map_values", several) == [("k", "a"), ("k", "b")]
    pairs = lambda: ((item, item) for item in several())  # noqa: E731
    assert results("flat_map", pairs) == [("a", "a"), ("b", "b")]


def test_the_items_of_a_dict_are_pairs() -> None:
    assert results("flat_map", {"a": "1", "b": "2"}.items) == [("a", "1"), ("b", "2")]


def test_an_application_passes_over_such_a_record_where_its_handler_says_so(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    texts = builder.stream("in", key=str, value=str)
    texts.flat_map_values(lambda v: v if v == "Oslo" else [v], value=str).to("out")
    cluster = FakeCluster({"in": 1, "out": 1})
    for i, value in enumerate((b"Bergen", b"Oslo", b"Voss")):
        cluster.produce("in", b"k", value, timestamp=i + 1)
    with Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
        error_handlers=ErrorHandlers(processing=skip),
    ):
        cluster.wait_for_records("out", 2)
    assert [record.value() for record in cluster.records("out")] == [b"Bergen", b"Voss"]
