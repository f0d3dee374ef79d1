"""The tables that aggregations of grouped streams make: of one group, or of several as a cogroup.

A group that needs it is read behind its repartition topic, which its aggregations share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, Unpack

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.windows import SessionWindows
from logstate.topology.dsl.aggregations import (
    AggregateOptions,
    Aggregator,
    Fold,
    StreamAggregation,
    aggregate_store,
)
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.dsl.materialized import AnyWindows
from logstate.topology.dsl.table import KTable
from logstate.topology.graph.logical import LogicalNode, ProcessorLogicalNode
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.aggregates.cogroup_merge import CogroupMergeNode
from logstate.topology.plan.repartition import RepartitionLogicalNode, repartition_topic


@dataclass(frozen=True, eq=False, repr=False)
class GroupedFlow(Flow[K, V]):
    """A grouped stream as the aggregations see it; users have it as a ``KGroupedStream``."""

    needs_repartition: bool
    #: the name the user gave the group: names the repartition topic
    topic_name: str | None

    def _input_of(self, spec: StoreSpec) -> tuple[LogicalNode, frozenset[str]]:
        """Where an aggregation over ``spec`` reads: this group, or behind its topic."""
        if not self.needs_repartition:
            return self.logical, self.source_names
        topic = repartition_topic(self.builder.graph, self.topic_name or spec.name)
        known = self.builder.group_topics.get((self, topic))
        if known is None:
            use = f"repartition topic {topic!r}"
            known = RepartitionLogicalNode(
                topic,
                self._key_serde(None, use),
                self._value_serde(None, use),
                is_optimizable=True,
                declared_at=declaration_site(),
            )
            self.builder.group_topics[self, topic] = known
        self.builder.graph.add(self.logical, known)
        return known, frozenset({known.name})

    def _aggregation(
        self, what: str, windows: AnyWindows | None, options: AggregateOptions
    ) -> StreamAggregation:
        builder = self.builder
        store = aggregate_store(what, windows, self.key, builder.defaults, options)
        emit = options.get("emit", "update")
        return StreamAggregation(windows, store, emit, builder.window_emit_interval_ms)


#: the groups of a cogroup, each with the aggregator for its values
Groups: TypeAlias = tuple[tuple[GroupedFlow[Any, Any], Aggregator], ...]


def aggregated(
    grouped: GroupedFlow[Any, Any],
    windows: AnyWindows | None,
    fold: Fold,
    **options: Unpack[AggregateOptions],
) -> KTable[Any, Any]:
    """The table of one group's aggregates."""
    what = "An aggregation" if windows is None else "A windowed aggregation"
    if isinstance(windows, SessionWindows):
        what = "A session aggregation"
    aggregation = grouped._aggregation(what, windows, options)
    graph = grouped.builder.graph
    node = aggregation.node(graph.names.named(options.get("name"), fold.prefix), fold)
    parent, sources = grouped._input_of(aggregation.store)
    logical = aggregation.logical_node(node)
    graph.add(parent, logical)
    key, value = aggregation.result_key(), aggregation.store.value
    return KTable(grouped.builder, node.name, logical, sources, key, value, node)


def cogrouped(
    groups: Groups,
    windows: AnyWindows | None,
    initializer: Callable[[], Any],
    merger: Aggregator | None,
    **options: Unpack[AggregateOptions],
) -> KTable[Any, Any]:
    """Repartitions first, then one aggregation node per group, then the node that unites them."""
    first = groups[0][0]
    what = "A cogroup aggregation" if windows is None else "A windowed cogroup aggregation"
    aggregation = first._aggregation(what, windows, options)
    store, graph, name = aggregation.store, first.builder.graph, options.get("name")
    inputs = [grouped._input_of(store) for grouped, _ in groups]
    sources = frozenset[str]().union(*(names for _, names in inputs))
    graph.copartition(sources)
    prefix = "COGROUPKSTREAM-AGGREGATE-"
    nodes: list[TableNode] = []
    logicals: list[LogicalNode] = []
    for number, ((_, aggregator), (parent, _)) in enumerate(zip(groups, inputs, strict=True)):
        node_name = graph.names.suffixed(name, f"-cogroup-agg-{number}", prefix)
        node = aggregation.node(node_name, Fold(prefix, initializer, aggregator, merger))
        node.group_number = number
        logical = aggregation.logical_node(node)
        graph.add(parent, logical)
        nodes.append(node)
        logicals.append(logical)
    merge_name = graph.names.suffixed(name, "-cogroup-merge", "COGROUPKSTREAM-MERGE-")
    merge = CogroupMergeNode(merge_name, parents=tuple(nodes), store=store)
    merged = ProcessorLogicalNode(merge)
    graph.add(logicals, merged)
    key, value = aggregation.result_key(), store.value
    return KTable(first.builder, merge_name, merged, sources, key, value, merge)
