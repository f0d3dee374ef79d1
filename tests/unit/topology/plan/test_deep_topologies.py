"""A long chain of operators is built, described and run; one that Python cannot call is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logstate import StreamsBuilder, TopologyError, TopologyTestDriver

DEEP = 300


def mapped(builder: StreamsBuilder, length: int) -> Any:
    stream = builder.stream("in", value=int)
    for _ in range(length):
        stream = stream.map_values(lambda n: n + 1, value=int)
    return stream


def peeked(builder: StreamsBuilder, length: int) -> Any:
    stream = builder.stream("in", value=int)
    for _ in range(length):
        stream = stream.peek(lambda n: None)
    return stream


def merged(builder: StreamsBuilder, length: int) -> Any:
    stream = builder.stream("in", value=int)
    for n in range(length):
        stream = stream.merge(builder.stream(f"in-{n}", value=int))
    return stream


def mapped_table(builder: StreamsBuilder, length: int) -> Any:
    table = builder.table("in", value=int, store="t")
    for _ in range(length):
        table = table.map_values(lambda n: n + 1, value=int)
    return table.to_stream()


def filtered_table(builder: StreamsBuilder, length: int) -> Any:
    table = builder.table("in", value=int, store="t")
    for _ in range(length):
        table = table.filter(lambda n: True)
    return table.to_stream()


CHAINS: list[tuple[Callable[[StreamsBuilder, int], Any], int]] = [
    (mapped, DEEP), (peeked, 0), (merged, 0), (mapped_table, DEEP), (filtered_table, 0)
]  # fmt: skip


@pytest.mark.parametrize("optimization", ["none", "all"])
@pytest.mark.parametrize(("chain", "result"), CHAINS)
def test_a_chain_of_300_is_built_described_and_run(
    chain: Callable[[StreamsBuilder, int], Any], result: int, optimization: str
) -> None:
    builder = StreamsBuilder()
    chain(builder, DEEP).to("out")
    topology = builder.build(optimization=optimization)
    assert topology.describe().count("-->") > DEEP
    with TopologyTestDriver(topology) as driver:
        driver.pipe("in", "k", 0)
        assert driver.read("out", value=int) == [("k", result)]


@pytest.mark.parametrize("length", [500, 1_200])
@pytest.mark.parametrize(("chain", "_result"), CHAINS)
def test_a_chain_that_could_not_be_called_is_refused_where_it_is_declared(
    chain: Callable[[StreamsBuilder, int], Any], _result: int, length: int
) -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=r"a chain has at most 500.*test_deep_topologies\.py:"):
        chain(builder, length).to("out")


def test_an_operator_with_several_below_takes_two_calls() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    for n in range(DEEP):
        stream.to(f"out-{n}")
        stream = stream.peek(lambda v: None)
    with pytest.raises(TopologyError, match="two where several operators are below one"):
        builder.build()


def test_a_repartition_begins_a_new_chain() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    for part in range(3):
        for _ in range(200):
            stream = stream.map_values(lambda n: n + 1, value=int)
        stream = stream.repartition(name=f"part-{part}", key=str, value=int)
    stream.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", 0)
        assert driver.read("out", value=int) == [("k", 600)]


def test_a_wide_topology_has_no_limit() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    for n in range(600):
        stream.filter(lambda v, n=n: v == n).to(f"out-{n}")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", 5)
        assert [record.topic for record in driver.outputs] == ["out-5"]
