"""Repartition topics in the logical graph: a filter, a sink, and the source on the other side.

A topic is named ``<name>-repartition`` (the application id comes in front at run time; the suffix
is never doubled). Its three nodes are ``<topic>-filter``, ``-sink`` and ``-source``. The filter
drops null keys unless a left or outer join further down wants to see them (KIP-962).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from logstate.contracts.serde import Serde
from logstate.contracts.topic_names import REPARTITION_SUFFIX
from logstate.topology.declaring.naming import check_name
from logstate.topology.graph.logical import LogicalGraph, LogicalNode
from logstate.topology.graph.nodes import Partitioner, SinkNode, SourceNode
from logstate.topology.graph.plan_builder import PlanBuilder
from logstate.topology.operators.streams.filters import RepartitionFilterNode
from logstate.topology.operators.tables.change import change_deserializer, change_serializer


class RepartitionLogicalNode(LogicalNode):
    """A stream's way through a topic. Its name is the source's, because its output comes there."""

    begins_chain = True

    name: str = field(init=False)
    topic: str = field(kw_only=False)
    key: Serde[Any] = field(kw_only=False)
    value: Serde[Any] = field(kw_only=False)
    is_optimizable: bool
    partitions: int | None = None
    partitioner: Partitioner | None = None
    drops_null_keys: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.name = f"{self.topic}-source"

    def write(self, plan: PlanBuilder) -> None:
        topic = plan.add_internal_topic(self.topic, kind="repartition", partitions=self.partitions)
        site, drops = self.declared_at, self.drops_null_keys
        filter_node = RepartitionFilterNode(
            f"{self.topic}-filter", drops_null_keys=drops, declared_at=site
        )
        sink_name, placed = f"{self.topic}-sink", self.partitioner
        sink = SinkNode(
            sink_name,
            topic,
            self.key,
            self.value,
            partitioner=placed,
            places_whole_keys=True,
            declared_at=site,
        )
        source = SourceNode(self.name, (topic,), self.key, self.value, declared_at=site)
        plan.add_processor(filter_node, self.parent_names())
        plan.add_sink(sink, [filter_node.name])
        plan.add_source(source)


class GroupedTableRepartitionLogicalNode(LogicalNode):
    """A table group's way through a topic: old and new value travel in one record (KIP-904)."""

    topic: str
    key: Serde[Any]
    value: Serde[Any]
    sink_name: str

    def write(self, plan: PlanBuilder) -> None:
        topic = plan.add_internal_topic(self.topic, kind="repartition")
        sink = SinkNode(
            self.sink_name,
            topic,
            self.key,
            self.value,
            places_whole_keys=True,
            around_value=change_serializer,
            takes_table_edge=True,
            declared_at=self.declared_at,
        )
        source = SourceNode(
            self.name,
            (topic,),
            self.key,
            self.value,
            around_value=change_deserializer,
            declared_at=self.declared_at,
        )
        plan.add_sink(sink, self.parent_names())
        plan.add_source(source)


def repartition_topic(graph: LogicalGraph, prefix: str) -> str:
    """The topic's name (without application id). Burns the three numbers of its nodes."""
    for _ in range(3):
        graph.names.skip_number()
    suffix = "" if prefix.endswith(REPARTITION_SUFFIX) else REPARTITION_SUFFIX
    return check_name(prefix + suffix, "a repartition topic")


__all__ = [
    "GroupedTableRepartitionLogicalNode",
    "RepartitionLogicalNode",
    "repartition_topic",
]
