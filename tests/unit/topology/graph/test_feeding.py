"""What feeds an operator that closes on idle, through internal topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.topology import StreamsBuilder, Topology, TumblingWindows
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


def test_closing_on_idle_below_what_closes_on_idle_is_refused() -> None:
    with pytest.raises(TopologyError) as failure:
        chain(IDLE, PLAIN, IDLE)
    for text in ("'n2' has close_on_idle", "'n0'", "'r2-repartition'", "test_feeding.py:"):
        assert text in str(failure.value)


@pytest.mark.parametrize("windows", [(IDLE,), (PLAIN, IDLE), (IDLE, PLAIN), (PLAIN, PLAIN, IDLE)])
def test_other_orders_are_allowed(windows: tuple[TumblingWindows, ...]) -> None:
    assert any(sub.closes_on_idle for sub in chain(*windows).sub_topologies)


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
