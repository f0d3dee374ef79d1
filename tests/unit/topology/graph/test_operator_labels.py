"""Operators without a name are labeled by what they do, and by their store or topic."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate import Processor, StreamsBuilder, TopologyTestDriver
from logstate.contracts.errors import ProcessingError
from logstate.metrics.catalogue import OPERATOR_INFO
from logstate.topology import (
    JoinWindows,
    SessionWindows,
    Topology,
    TumblingWindows,
    key_value_store,
    until_window_closes,
)
from logstate.worker.slow_calls import ActiveCall, ProcessedRecord, SlowCalls

HOUR = timedelta(hours=1)
Declare = Callable[[StreamsBuilder], Any]


class Nothing(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        pass


def topology_of(declare: Declare) -> Topology:
    builder = StreamsBuilder()
    declare(builder)
    return builder.build()


def stream(builder: StreamsBuilder) -> Any:
    return builder.stream("orders", value=str)


def table(builder: StreamsBuilder) -> Any:
    return builder.table("users", value=str, store="user-rows")


CASES: dict[str, tuple[Declare, str]] = {
    "source": (stream, "source of 'orders'"),
    "sources": (lambda b: b.stream("a", "b", "c", value=str), "source of 'a', 'b' and 1 more"),
    "pattern": (lambda b: b.stream(re.compile("a-.*"), value=str), "source of 'a-.*'"),
    "sink": (lambda b: stream(b).to("out"), "sink of 'out'"),
    "chosen": (lambda b: stream(b).to(lambda k, v: "x"), "sink of topics that a function chooses"),
    "map": (lambda b: stream(b).map(lambda k, v: (k, v)), "map of 'orders'"),
    "map_values": (lambda b: stream(b).map_values(len), "map_values of 'orders'"),
    "flat_map": (lambda b: stream(b).flat_map(lambda v: [(v, v)]), "flat_map of 'orders'"),
    "filter": (lambda b: stream(b).filter(lambda v: v), "filter of 'orders'"),
    "filter_not": (lambda b: stream(b).filter_not(lambda v: v), "filter_not of 'orders'"),
    "select_key": (lambda b: stream(b).select_key(len), "select_key of 'orders'"),
    "peek": (lambda b: stream(b).peek(lambda v: print(v, "!")), "peek of 'orders'"),
    "merge": (
        lambda b: stream(b).merge(b.stream("returns", value=str)),
        "merge of 'orders', 'returns'",
    ),
    "count": (lambda b: stream(b).group_by_key().count(store="spend"), "count of 'spend'"),
    "reduce": (
        lambda b: stream(b).group_by_key().reduce(lambda a, v: v, store="last"),
        "reduce of 'last'",
    ),
    "aggregate": (
        lambda b: stream(b).group_by_key().aggregate(int, lambda n, v: n, value=int, store="sum"),
        "aggregate of 'sum'",
    ),
    "windows": (
        lambda b: stream(b).group_by_key().windowed_by(TumblingWindows(size=HOUR)).count(store="h"),
        "count of 'h'",
    ),
    "sessions": (
        lambda b: stream(b).group_by_key().windowed_by(SessionWindows(gap=HOUR)).count(store="h"),
        "count of 'h'",
    ),
    "table": (table, "source of 'user-rows'"),
    "table count": (
        lambda b: (
            table(b).group_by(lambda k, v: (v, v), name="g", key=str, value=str).count(store="n")
        ),
        "count of 'n'",
    ),
    "table filter": (lambda b: table(b).filter_not(lambda v: v), "filter_not of 'users'"),
    "to_stream": (lambda b: table(b).to_stream(), "to_stream of 'users'"),
    "join": (lambda b: stream(b).join(table(b), lambda a, c: a), "join of 'user-rows'"),
    "left_join": (
        lambda b: stream(b).left_join(table(b), lambda a, c: a),
        "left_join of 'user-rows'",
    ),
    "global join": (
        lambda b: stream(b).join(
            b.global_table("cities", value=str, store="city-rows"),
            lambda a, c: a,
            key_mapper=lambda v: v,
        ),
        "join of 'city-rows'",
    ),
    "process": (lambda b: stream(b).process(Nothing), "process of 'orders'"),
    "process with a store": (
        lambda b: stream(b).process_values(Nothing, stores=key_value_store("seen", str, int)),
        "process_values of 'seen'",
    ),
    "group_by": (
        lambda b: stream(b).group_by(len, key=int).count(store="n"),
        "select_key of 'orders'",
    ),
}


@pytest.mark.parametrize(("declare", "label"), CASES.values(), ids=CASES)
def test_an_operator_is_labeled_by_what_it_does_and_where(declare: Declare, label: str) -> None:
    topology = topology_of(declare)
    assert label in topology.operator_labels.values(), topology.operator_labels
    described = topology.describe()
    assert all(name in described for name in topology.operator_labels)
    assert not any(label in described for label in topology.operator_labels.values())


def test_every_generated_name_has_a_label_and_no_other() -> None:
    def declare(builder: StreamsBuilder) -> None:
        orders, users = stream(builder), table(builder)
        near = JoinWindows.symmetric(HOUR)
        both = orders.outer_join(orders, lambda a, b: (a, b), windows=near, name="pairs")
        both.map_values(str, value=str, name="text").split()
        users.join(users, lambda a, b: a, foreign_key=str, value=str, name="fk")
        hours = orders.group_by_key(name="g").windowed_by(TumblingWindows(size=HOUR, grace=HOUR))
        hours.count(store="h").suppress(until_window_closes(), name="s").to_stream().print()
        orders.group_by_key().cogroup(lambda a, v: a).aggregate(int, value=int, store="co")

    topology = topology_of(declare)
    names = {
        node.name
        for part in (*topology.sub_topologies, *topology.global_sub_topologies)
        for node in part.nodes
    }
    generated = {name for name in names if re.search(r"-\d{10}$", name)}
    assert len(generated) > 8
    assert topology.operator_labels.keys() == generated


def test_pictures_show_the_label_above_the_generated_name() -> None:
    topology = topology_of(lambda b: stream(b).group_by_key(name="named").count(store="spend"))
    node = "[\"count of 'spend'<br>(KSTREAM-AGGREGATE-0000000001)\"]"
    assert node in topology.to_mermaid()
    svg = topology.to_svg()
    assert ">count of &#x27;spend&#x27;</text>" in svg
    assert ">(KSTREAM-AGGREGATE-0000000001)</text>" in svg


def test_the_error_of_a_function_shows_the_label_of_its_operator() -> None:
    topology = topology_of(lambda b: stream(b).map_values(lambda v: 1 / 0, value=int).to("out"))
    with TopologyTestDriver(topology) as driver, pytest.raises(ProcessingError) as caught:
        driver.pipe("orders", "k", "v")
    assert "node 'KSTREAM-MAPVALUES-0000000001' (map_values of 'orders'), in " in str(caught.value)
    assert caught.value.node == "KSTREAM-MAPVALUES-0000000001"


def test_a_long_call_is_logged_with_the_label_of_its_operator() -> None:
    slow = SlowCalls(1_000, 1_000, {"KSTREAM-PEEK-0000000001": "peek of 'orders'"})
    place = ProcessedRecord(1, "0_0", "orders", 0, 7)
    call = ActiveCall("KSTREAM-PEEK-0000000001", "ask at app.py:12", "")
    slow.note_position(0.0, place, lambda: call)
    note = slow.note_position(900.0, place, lambda: call)
    assert note is not None
    assert "node 'KSTREAM-PEEK-0000000001' (peek of 'orders'), for topic 'orders'" in note.text


def test_the_metric_that_has_the_label_is_listed_with_its_labels() -> None:
    assert OPERATOR_INFO.labels == ("task", "node", "operator")
