"""What feeds an operator that closes on idle, through internal topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.topology import JoinWindows, StreamsBuilder, Topology, TumblingWindows
from logstate.topology.graph.idle_order import awaited_clocks, closing, closing_above
from logstate.topology.graph.sub_topology import feeding

PLAIN = TumblingWindows(size=timedelta(seconds=10))
IDLE = TumblingWindows(size=timedelta(seconds=10), close_on_idle=timedelta(seconds=30))


def counted(stream: Any, windows: TumblingWindows, store: str) -> Any:
    table = stream.group_by_key().windowed_by(windows).count(store=store, name=store, emit="close")
    return table.to_stream(lambda window, _: window.key, key=str).map_values(str, value=str)


def chain(*windows: TumblingWindows) -> Topology:
    """Window counts, each of the results of the one before, behind repartition topics."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    for number, one in enumerate(windows):
        stream = counted(stream.repartition(name=f"r{number}"), one, f"n{number}")
    stream.to("out")
    return builder.build()


def test_all_sub_topologies_above_feed_it() -> None:
    subs = chain(PLAIN, PLAIN, IDLE).sub_topologies
    assert [[one.id for one in feeding(sub, subs)] for sub in subs] == [[], [0], [0, 1], [0, 1, 2]]


def test_a_foreign_key_join_feeds_itself() -> None:
    builder = StreamsBuilder()
    left = builder.table("left", key=str, value=str, store="left")
    right = builder.table("right", key=str, value=str, store="right")
    left.join(right, lambda a, b: a + b, foreign_key=str, name="j", store="joined", value=str)
    subs = builder.build().sub_topologies
    assert any(sub in feeding(sub, subs) for sub in subs)


def test_operators_that_others_wait_for_say_in_the_cut_what_is_open() -> None:
    subs = chain(IDLE, PLAIN, IDLE, IDLE).sub_topologies
    awaited = [node.name for sub in subs for node in closing(sub.nodes) if node.is_awaited]
    assert awaited == ["n0", "n2"]
    assert [awaited_clocks(sub, subs) for sub in subs] == [
        {},
        {},
        {1: ("open:n0",)},
        {1: ("open:n0",)},
        {1: ("open:n0",), 3: ("open:n2",)},
    ]


def test_a_topology_without_a_chain_has_no_such_operator() -> None:
    for windows in ((IDLE,), (PLAIN, IDLE), (IDLE, PLAIN)):
        subs = chain(*windows).sub_topologies
        assert not any(node.is_awaited for sub in subs for node in closing(sub.nodes))


def test_an_operator_that_would_wait_for_itself_is_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    batches = stream.batch(2, within=timedelta(seconds=1), close_on_idle=timedelta(1), store="b")
    left = batches.map_values(str, value=str).to_table(store="left")
    right = builder.table("right", key=str, value=str, store="right")
    left.join(right, lambda a, b: a + b, foreign_key=str, name="j", store="joined", value=str)
    with pytest.raises(TopologyError, match="would be idle only when nothing is open"):
        builder.build()


def test_operators_of_one_task_wait_for_those_above_them() -> None:
    subs = chain(IDLE, PLAIN, IDLE).sub_topologies
    assert closing_above(subs) == {"n0": frozenset(), "n2": frozenset({"n0"})}
    assert closing_above(subs[2:]) == {"n2": frozenset()}


def test_a_join_waits_for_what_is_above_either_side() -> None:
    builder = StreamsBuilder()
    second = timedelta(seconds=1)
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    batches = right.batch(2, within=second, close_on_idle=second, store="b", name="batches")
    joined = left.outer_join(
        batches.map_values(str, value=str),
        lambda one, _: one,
        windows=JoinWindows.symmetric(second, close_on_idle=second),
        name="join",
        value=str,
    )
    joined.to("out")
    (sub,) = builder.build().sub_topologies
    assert closing_above([sub]) == {
        "join-outer-this-join": frozenset({"batches"}),
        "batches": frozenset(),
    }


def test_it_may_be_next_to_what_feeds_another() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    counted(stream, IDLE, "by-key").to("out")
    counted(stream.select_key(lambda _, v: v, key=str).repartition(name="r"), IDLE, "n").to("out")
    assert [sub.closes_on_idle for sub in builder.build().sub_topologies] == [True, True]


def test_describe_shows_it() -> None:
    described = chain(IDLE).describe()
    assert "Processor: n0 (stores: [n0])\n      closes on idle: 30000 ms\n      --> " in described
    assert "closes on idle" not in chain(PLAIN).describe()
