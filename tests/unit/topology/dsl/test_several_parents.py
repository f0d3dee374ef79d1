"""One processor or sink below several streams, without an operator that merges them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import (
    Application,
    KStream,
    Processor,
    Record,
    StreamsBuilder,
    TopologyError,
    TopologyTestDriver,
    ValueAndTimestamp,
    json_of,
    key_value_store,
    serdes,
)
from logstate.testing import FakeCluster
from logstate.topology.plan.plan import Topology
from tests import patience


class Balance(Processor[str, int, str, int]):
    """Sums per key over whatever comes from above."""

    def init(self, context: Any) -> None:
        self.context = context
        self.sums = context.store("sums")

    def process(self, record: Record[str, int]) -> None:
        total = (self.sums.get(record.key) or 0) + record.value
        self.sums.put(record.key, total)
        self.context.forward(record._replace(value=total))


SUMS = key_value_store("sums", str, int)


def balances() -> Topology:
    builder = StreamsBuilder()
    paid = builder.stream("paid", value=int, name="paid")
    spent = builder.stream("spent", value=int, name="spent").map_values(
        lambda cents: -cents, name="less", value=int
    )
    paid.process(Balance, also=spent, stores=SUMS, key=str, value=int, name="balance").to(
        "balances", name="out"
    )
    return builder.build()


def test_one_processor_sees_the_records_of_all_its_parents() -> None:
    with TopologyTestDriver(balances()) as driver:
        driver.pipe("paid", "ada", 10)
        driver.pipe("spent", "ada", 3)
        driver.pipe("paid", "ada", 1)
        assert driver.read("balances", value=int) == [("ada", 10), ("ada", 7), ("ada", 8)]


def test_one_processor_sees_the_records_of_all_its_parents_on_a_cluster(tmp_path: Path) -> None:
    cluster = FakeCluster({"paid": 2, "spent": 2, "balances": 1})
    for partition in range(2):
        key = f"k{partition}".encode()
        cluster.produce("paid", key, (10).to_bytes(8, "big"), partition=partition, timestamp=1)
        cluster.produce("spent", key, (3).to_bytes(8, "big"), partition=partition, timestamp=2)
    with Application(
        balances(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=20),
        cluster=cluster,
    ):
        cluster.wait_for_records("balances", 4, patience.PATIENCE_S)
    totals = {one.key(): int.from_bytes(one.value() or b"") for one in cluster.records("balances")}
    assert totals == {b"k0": 7, b"k1": 7}


def test_the_description_is_that_of_several_parents() -> None:
    assert balances().describe() == (
        "Topologies:\n"
        "   Sub-topology: 0\n"
        "    Source: spent (topics: [spent])\n"
        "      --> less\n"
        "    Processor: less (stores: [])\n"
        "      --> balance\n"
        "      <-- spent\n"
        "    Source: paid (topics: [paid])\n"
        "      --> balance\n"
        "    Processor: balance (stores: [sums])\n"
        "      --> out\n"
        "      <-- paid, less\n"
        "    Sink: out (topic: balances)\n"
        "      <-- balance\n\n"
    )


class Same(Processor[str, int, str, int]):
    """Forwards what it gets."""

    def process(self, record: Record[str, int]) -> None:
        self.context.forward(record)


def test_a_generated_name_takes_one_number_however_many_parents_there_are() -> None:
    builder = StreamsBuilder()
    streams = [builder.stream(topic, value=int) for topic in ("a", "b", "c")]
    below = streams[0].process(Same, also=streams[1:], key=str, value=int)
    assert below.name == "KSTREAM-PROCESSOR-0000000003"


def test_one_sink_writes_several_streams() -> None:
    builder = StreamsBuilder()
    one, two, three = (builder.stream(topic, value=int) for topic in ("a", "b", "c"))
    one.to("out", also=[two, three], key=str, value=int, name="sink")
    topology = builder.build()
    with TopologyTestDriver(topology) as driver:
        for number, topic in enumerate(("a", "b", "c")):
            driver.pipe(topic, topic, number)
        assert driver.read("out", value=int) == [("a", 0), ("b", 1), ("c", 2)]
    assert topology.describe().count("Sink:") == 1


def test_serdes_are_inherited_where_all_parents_have_the_same() -> None:
    builder = StreamsBuilder()
    source = builder.stream("in", value=int)
    odd, even = source.filter(lambda n: n % 2 == 1), source.filter(lambda n: n % 2 == 0)
    odd.to("out", also=even)
    below = odd.process_values(Same, also=even, value=int)
    assert (below.key, below.needs_repartition) == (source.key, False)
    other = builder.stream("other", key=bytes, value=str)
    with pytest.raises(TopologyError, match=r"key of topic 'out-2'"):
        odd.to("out-2", also=other)
    assert odd.process_values(Same, also=other, value=int).key is None


def grouped(parents: list[KStream[Any, Any]]) -> None:
    first, *others = parents
    below = first.process_values(Same, also=others, value=int)
    below.group_by_key(key=str, value=int, name="by").count(store="n").to_stream().to("out")


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_a_repartition_below_stays_below_where_one_parent_changed_keys(optimization: str) -> None:
    builder = StreamsBuilder()
    renamed = builder.stream("a", value=int).select_key(lambda _, n: f"k{n}", key=str)
    kept = builder.stream("b", value=int)
    grouped([kept, renamed])
    with TopologyTestDriver(builder.build(optimization), application_id="app") as driver:
        driver.pipe("a", "x", 1)
        driver.pipe("b", "k1", 5)
        assert driver.read("out", value=int) == [("k1", 1), ("k1", 2)]
        assert len(driver.internal["app-by-repartition"]) == 2
        assert driver.store("n").get("k1") == ValueAndTimestamp(2, 0)


def test_keys_of_other_bytes_that_reach_one_store_are_refused() -> None:
    builder = StreamsBuilder()
    one, two = builder.stream("a", key=int, value=int), builder.stream("b", key=str, value=int)
    one.process(Balance, also=two, stores=SUMS, key=str, value=int)
    with pytest.raises(TopologyError, match="equal keys have other bytes"):
        builder.build()


@pytest.mark.parametrize("use", ["process", "to"])
def test_what_cannot_be_a_parent_is_refused(use: str) -> None:
    builder, other = StreamsBuilder(), StreamsBuilder()
    stream = builder.stream("a", value=int)

    def declare(also: Any) -> None:
        if use == "process":
            stream.process(Same, also=also)
        else:
            stream.to("out", also=also)

    with pytest.raises(TopologyError, match="given twice"):
        declare(stream)
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        declare([other.stream("b", value=int)])
    with pytest.raises(TopologyError, match="KStreams"):
        declare([builder.table("t", value=int)])
    with pytest.raises(TopologyError, match="KStreams"):
        declare(builder.table("u", value=int))


@dataclass
class Order:
    amount: int


ORDER = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "long"}]}


@pytest.mark.parametrize(
    "declare",
    [lambda: Order, lambda: json_of(Order), lambda: serdes.avro(ORDER, type=Order)],
    ids=["dataclass", "json_of", "avro"],
)
def test_streams_of_equal_serdes_come_together_and_need_no_other(
    declare: Callable[[], Any],
) -> None:
    builder = StreamsBuilder()
    shops, webs, phones = (builder.stream(name, value=declare()) for name in ("a", "b", "c"))
    shops.merge(webs, name="both").to("merged")
    shops.to("all", also=[webs, phones])
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("a", "ada", Order(1))
        driver.pipe("b", "bob", Order(2))
        driver.pipe("c", "cyd", Order(3))
        assert driver.read("merged", value=declare()) == [("ada", Order(1)), ("bob", Order(2))]
        assert [key for key, _ in driver.read("all", value=declare())] == ["ada", "bob", "cyd"]
