"""Which counts of topics an operator's number of records follows from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    JoinWindows,
    Processor,
    StreamsBuilder,
    TumblingWindows,
)
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.graph.record_counts import received_counts

Declare = Callable[[StreamsBuilder], object]


def received(declare: Declare) -> dict[str, str | None]:
    """Each operator, and the counts as ``read a + written b``; None if they do not determine it."""
    builder = StreamsBuilder()
    declare(builder)
    parts = builder.build().sub_topologies
    found = received_counts(parts)
    return {
        node.name: None
        if (counts := found[part.id].get(node.name)) is None
        else " + ".join(
            f"{'written' if one.is_written else 'read'} {one.topic.name}" for one in counts
        )
        for part in parts
        for node in part.nodes
    }


def orders(builder: StreamsBuilder) -> Any:
    return builder.stream("orders", key=str, value=str, name="orders")


def is_kept(value: str) -> bool:
    return bool(value)


def several(value: str) -> list[str]:
    return [value]


def seen(value: str) -> None:
    del value


class Passes(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_what_forwards_each_record_receives_what_its_source_reads() -> None:
    def declare(builder: StreamsBuilder) -> None:
        mapped = orders(builder).map_values(str, value=str, name="mapped")
        keyed = mapped.peek(seen, name="seen").select_key(lambda k, v: v, key=str, name="keyed")
        keyed.map(lambda k, v: (k, v), key=str, value=str, name="both").filter(
            bool, name="some"
        ).to("out", name="out")

    found = received(declare)
    for name in ("orders", "mapped", "seen", "keyed", "both", "some"):
        assert found[name] == "read orders", name
    assert found["out"] == "written out"


def test_counts_extend_upwards_from_a_sink() -> None:
    def declare(builder: StreamsBuilder) -> None:
        kept = orders(builder).filter(is_kept, name="some")
        kept.map_values(str, value=str, name="first").map_values(str, value=str, name="next").to(
            "out", name="out"
        )

    assert received(declare) == {
        "orders": "read orders",
        "some": "read orders",
        "first": "written out",
        "next": "written out",
        "out": "written out",
    }


def test_an_aggregate_receives_its_repartition_topic_and_sends_what_is_written() -> None:
    def declare(builder: StreamsBuilder) -> None:
        grouped = orders(builder).group_by(lambda v: v, key=str, value=str, name="by-v")
        windows = TumblingWindows(size=timedelta(seconds=1), grace=timedelta(0))
        table = grouped.windowed_by(windows).count(store="counts", name="count")
        table.to_stream(lambda window, n: window.key, key=str, name="changes").to("out", name="out")

    found = received(declare)
    assert found["count"] == "read by-v-repartition"
    assert found["changes"] == found["out"] == "written out"


def test_several_inputs_are_a_sum() -> None:
    def declare(builder: StreamsBuilder) -> None:
        other = builder.stream("more", key=str, value=str, name="more")
        both = orders(builder).merge(other, name="both")
        both.filter(is_kept, name="some").foreach(seen, name="end")

    found = received(declare)
    assert found["both"] == found["some"] == "read orders + read more"
    assert found["end"] is None


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.filter(is_kept, name="chooses").foreach(seen, name="below"),
        lambda s: s.flat_map_values(several, value=str, name="chooses").foreach(seen, name="below"),
        lambda s: s.process(Passes, key=str, value=str, name="chooses").foreach(seen, name="below"),
        lambda s: (
            s.split(name="to-")
            .branch(is_kept, name="b")
            .no_default_branch()["to-b"]
            .foreach(seen, name="below")
        ),
    ],
    ids=["filter", "flat_map", "process", "branch"],
)
def test_below_what_forwards_any_number_nothing_is_known(declare: Any) -> None:
    builder_of: Declare = lambda builder: declare(orders(builder))  # noqa: E731
    assert received(builder_of)["below"] is None


def test_a_topic_of_two_sinks_tells_nothing_of_either() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = orders(builder)
        stream.filter(is_kept, name="some").to("out", name="first")
        stream.filter_not(is_kept, name="others").to("out", name="second")

    found = received(declare)
    assert found["first"] is found["second"] is None
    assert found["some"] == found["others"] == "read orders"


def test_a_partitioner_may_multiply_or_drop_records() -> None:
    def declare(builder: StreamsBuilder) -> None:
        kept = orders(builder).filter(is_kept, name="some")
        kept.to("out", name="out", partitioner=lambda topic, key, value, count: [])

    assert received(declare)["out"] is None


def test_a_branch_does_not_tell_what_its_operator_forwards() -> None:
    def declare(builder: StreamsBuilder) -> None:
        branches = (
            orders(builder)
            .filter(is_kept, name="some")
            .split(name="by-")
            .branch(lambda v: v > "m", name="a")
        )
        found = branches.default_branch(name="b")
        found["by-a"].to("out", name="out")
        found["by-b"].foreach(seen, name="end")

    found = received(declare)
    assert found["out"] == "written out"
    assert found["end"] is None
    assert found["by-"] is None, "it receives what passes the filter"


def test_joins_receive_both_sides() -> None:
    def declare(builder: StreamsBuilder) -> None:
        payments = builder.stream("payments", key=str, value=str, name="payments")
        near = JoinWindows.symmetric(timedelta(seconds=1))
        orders(builder).join(payments, lambda a, b: a, windows=near, name="paid", value=str).to(
            "out", name="out"
        )
        builder.table("rows", key=str, value=str, store="rows", name="rows")

    found = received(declare)
    assert {"read orders", "read payments"} <= {*found.values()}
    assert found["rows"] == "read rows"


@pytest.mark.parametrize(
    "declare",
    [
        lambda s: s.map(lambda k, v: (k, v), key=str, value=str),
        lambda s: s.map_values(lambda v: v, value=str),
        lambda s: s.select_key(lambda k, v: k, key=str),
        lambda s: s.peek(seen),
        lambda s: s.merge(s),
    ],
    ids=["map", "map_values", "select_key", "peek", "merge"],
)
def test_the_counts_are_those_of_the_records_also_with_null_keys_and_values(declare: Any) -> None:
    builder = StreamsBuilder()
    declare(orders(builder)).peek(lambda key, value: None, name="end").to("out", value=str)
    topology = builder.build()
    found = received_counts(topology.sub_topologies)[0]["end"]
    written = 0
    with TopologyTestDriver(topology) as driver:
        for key, value in (("a", "x"), (None, "x"), ("a", None), (None, None)):
            driver.pipe("orders", key, value)
        written = len(driver.read("out", key=str, value=str))
    assert written == 4 * len(found)


def test_the_operators_that_forward_each_record_are_known() -> None:
    def every(kind: type[ProcessorNode]) -> set[type[ProcessorNode]]:
        return {kind}.union(*map(every, kind.__subclasses__()))

    names = {kind.__name__ for kind in every(ProcessorNode) if kind.forwards_each}
    assert names == {
        *("MapNode", "MapValuesNode", "SelectKeyNode", "PassThroughNode", "PeekNode"),
        "ToStreamNode",
    }
