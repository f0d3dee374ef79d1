"""Merged sources, repartitions and stores; what each pass may and may not touch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.topology import (
    JoinWindows,
    Materialized,
    StreamsBuilder,
    TopicRef,
    Topology,
    TumblingWindows,
)

WINDOW = TumblingWindows(size=timedelta(seconds=10))


def rekeyed(builder: StreamsBuilder) -> Any:
    stream = builder.stream("in", key=str, value=int, name="in")
    return stream.select_key(lambda value: str(value % 2), key=str, name="rekey")


def internal_names(topology: Topology) -> list[str]:
    return [topic.topic.name for topic in topology.internal_topics]


def test_one_topic_read_twice_has_one_source() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int, name="one").to("out-1", name="sink-1")
    builder.stream("in", value=int, name="two").to("out-2", name="sink-2")
    (sub_topology,) = builder.build().sub_topologies
    assert [source.name for source in sub_topology.sources] == ["one"]
    assert sub_topology.children["one"] == ("sink-1", "sink-2")


def test_repartitions_below_one_key_change_become_one() -> None:
    def build(optimization: str) -> Topology:
        builder = StreamsBuilder()
        stream = rekeyed(builder)
        stream.group_by_key(name="one").count(store="c1", name="n1")
        stream.group_by_key(name="two").windowed_by(WINDOW).count(store="c2", name="n2")
        return builder.build(optimization)

    assert internal_names(build("none")) == ["one-repartition", "two-repartition"]
    merged = build("all")
    assert internal_names(merged) == ["one-repartition"]
    assert [spec.name for spec in merged.sub_topologies[1].stores] == ["c1", "c2"]


def test_repartitions_that_cannot_be_merged_are_refused_with_the_way_out() -> None:
    builder = StreamsBuilder()
    changed = rekeyed(builder)
    merged = changed.merge(builder.stream("plain", key=str, value=int))
    windows = JoinWindows(before=timedelta(seconds=1), after=timedelta(seconds=1))
    for name in ("one", "two"):
        merged.join(changed, lambda a, b: a + b, windows=windows, name=name)

    with pytest.raises(TopologyError, match=r"cannot be merged: '.*' is reached through"):
        builder.build("all")


@pytest.mark.parametrize("changed_first", [True, False])
def test_repartitions_below_a_merge_become_one_whichever_side_changed_its_key(
    changed_first: bool,
) -> None:
    builder = StreamsBuilder()
    changed = rekeyed(builder).filter(lambda value: value > 1, name="f")
    plain = builder.stream("plain", key=str, value=int, name="plain")
    one, other = (changed, plain) if changed_first else (plain, changed)
    both = one.merge(other, name="both")
    both.group_by_key(name="one").count(store="c1", name="n1")
    both.group_by_key(name="two").count(store="c2", name="n2")
    topology = builder.build({"merge_repartition_topics"})
    assert internal_names(topology) == ["one-repartition"]


def test_a_repartition_does_not_move_above_a_change_of_values() -> None:
    builder = StreamsBuilder()
    stream = rekeyed(builder)
    stream.group_by_key(name="one").count(store="c1", name="n1")
    texts = stream.map_values(str, value=str, name="text")
    texts.group_by_key(name="two").count(store="c2", name="n2")
    topology = builder.build({"merge_repartition_topics"})
    assert internal_names(topology) == ["one-repartition", "two-repartition"]


def test_a_repartition_moves_above_a_filter() -> None:
    builder = StreamsBuilder()
    stream = rekeyed(builder)
    stream.group_by_key(name="one").count(store="c1", name="n1")
    stream.filter(lambda value: value > 1, name="f").group_by_key(name="two").count(
        store="c2", name="n2"
    )
    topology = builder.build({"merge_repartition_topics"})
    assert internal_names(topology) == ["one-repartition"]
    behind = topology.sub_topologies[1]
    assert behind.parents["f"] == ("one-repartition-source",)
    assert behind.parents["n2"] == ("f",)


def test_two_aggregations_of_one_named_group_share_its_topic() -> None:
    builder = StreamsBuilder()
    grouped = rekeyed(builder).group_by_key(name="grp")
    grouped.count(store="c1", name="n1")
    grouped.windowed_by(WINDOW).count(store="c2", name="n2")
    topology = builder.build()
    assert internal_names(topology) == ["grp-repartition"]


def test_an_unnamed_group_names_its_topics_after_the_stores() -> None:
    builder = StreamsBuilder()
    grouped = rekeyed(builder).group_by_key()
    grouped.count(store="c1", name="n1")
    grouped.windowed_by(WINDOW).count(store="c2", name="n2")
    assert internal_names(builder.build()) == ["c1-repartition", "c2-repartition"]


def test_a_tables_topic_is_its_changelog_only_if_asked_for() -> None:
    def spec(optimization: Any) -> Any:
        builder = StreamsBuilder()
        builder.table("t", value=int, store="s", name="tab")
        return builder.build(optimization).stores["s"]

    assert spec("none").source_topic is None
    assert spec({"reuse_source_topics"}).source_topic == "t"
    assert spec({"merge_repartition_topics"}).source_topic is None


def test_an_unmaterialised_table_has_no_store_to_optimise() -> None:
    builder = StreamsBuilder()
    builder.table("t", value=int, name="tab").to_stream(name="s").to("out", name="sink")
    assert dict(builder.build("all").stores) == {}


def test_a_self_join_keeps_one_store() -> None:
    def stores(optimization: str) -> list[str]:
        builder = StreamsBuilder()
        stream = builder.stream("in", value=int, name="in")
        windows = JoinWindows.symmetric(timedelta(seconds=1))
        joined = stream.join(stream, lambda a, b: a + b, windows=windows, name="j")
        joined.to("out", value=int, name="sink")
        return list(builder.build(optimization).stores)

    assert stores("none") == ["j-other-join-store", "j-this-join-store"] or stores("none") == [
        "j-this-join-store",
        "j-other-join-store",
    ]
    assert stores("all") == ["j-this-join-store"]


def test_repartitions_drop_null_keys_unless_a_left_join_needs_them() -> None:
    def drops(kind: str) -> bool:
        builder = StreamsBuilder()
        table = builder.table("t", value=str, store="s", name="tab")
        stream = rekeyed(builder).repartition(name="rp")
        method = getattr(stream, kind)
        method(table, lambda left, right: right, name="j").to("out", value=str, name="sink")
        topology = builder.build()
        (node,) = [
            node
            for sub_topology in topology.sub_topologies
            for node in sub_topology.nodes
            if node.name == "rp-repartition-filter"
        ]
        return bool(node.drops_null_keys)  # type: ignore[attr-defined]

    assert drops("join")
    assert not drops("left_join")


def test_join_inputs_are_copartitioned() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", value=str, store="s", name="tab")
    stream = rekeyed(builder).repartition(name="rp")
    stream.join(table, lambda left, right: right, name="j").to("out", value=str, name="sink")
    assert builder.build().copartition_groups == (
        (TopicRef("rp-repartition", is_internal=True), TopicRef("t")),
    )


def test_copartition_groups_that_meet_are_one() -> None:
    builder = StreamsBuilder()
    tables = [builder.table(name, value=str, store=f"{name}-s", name=name) for name in "abc"]
    stream = builder.stream("in", value=str, name="in")
    for table in tables:
        stream = stream.join(
            table, lambda left, right: left + right, name=f"j-{table.name}", value=str
        )
    stream.to("out", value=str, name="sink")
    groups = builder.build().copartition_groups
    assert [[topic.name for topic in group] for group in groups] == [["a", "b", "c", "in"]]


def test_versioned_semantics_reach_a_filter_through_an_unversioned_step() -> None:
    def semantics(history: timedelta | None) -> bool:
        builder = StreamsBuilder()
        table = builder.table("t", value=int, store=Materialized("s", history=history), name="tab")
        mapped = table.map_values(lambda value: value + 1, value=int, name="m")
        mapped.filter(lambda value: value > 1, name="f").to_stream(name="x").to("out", name="sink")
        (sub_topology,) = builder.build().sub_topologies
        (node,) = [node for node in sub_topology.nodes if node.name == "f"]
        return bool(node.use_versioned_semantics)  # type: ignore[attr-defined]

    assert semantics(timedelta(minutes=1))
    assert not semantics(None)


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_a_topology_is_the_same_whenever_it_is_declared(optimization: str) -> None:
    def describe() -> str:
        builder = StreamsBuilder()
        stream = rekeyed(builder)
        stream.group_by_key(name="one").count(store="c1", name="n1")
        stream.to("out", name="sink")
        return builder.build(optimization).describe()

    assert describe() == describe()
