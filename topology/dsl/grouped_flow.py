"""The tables that aggregations make: of one grouped stream, of several, of a grouped table.

A group that needs it is read behind its repartition topic, which its aggregations share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack

from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import REPARTITION_SUFFIX
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_error, declaration_site
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.windows import SessionWindows
from logstate.topology.dsl.aggregate_records import GroupAggregates
from logstate.topology.dsl.aggregations import (
    AggregateOptions,
    Aggregator,
    EmitOption,
    Fold,
    FoldOptions,
    StreamAggregation,
    aggregate_store,
)
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.dsl.late_streams import add_late_stream
from logstate.topology.dsl.materialized import AnyWindows
from logstate.topology.dsl.table_flow import TableFlow
from logstate.topology.graph.logical import LogicalNode, ProcessorLogicalNode
from logstate.topology.operators.aggregates.cogroup_merge import CogroupMergeNode
from logstate.topology.operators.aggregates.fold import FoldNode
from logstate.topology.operators.aggregates.table_aggregate import TableAggregateNode
from logstate.topology.operators.tables.table_group_by import TableGroupByNode
from logstate.topology.plan.repartition import (
    GroupedTableRepartitionLogicalNode,
    RepartitionLogicalNode,
    repartition_topic,
)


@dataclass(frozen=True, eq=False, repr=False)
class GroupedFlow(Flow[K, V]):
    """A grouped stream; users have it as a ``KGroupedStream``."""

    needs_repartition: bool
    #: the name the user gave the group: names the repartition topic
    topic_name: str | None

    def _input_of(self, spec: StoreSpec) -> tuple[LogicalNode, frozenset[str]]:
        """Return where an aggregation over ``spec`` reads: this group, or its topic."""
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
        self,
        what: str,
        windows: AnyWindows | None,
        options: FoldOptions[Any],
        fold: Fold,
    ) -> StreamAggregation:
        store = aggregate_store(what, windows, self, options, fold)
        late = options.get("late")
        if late is not None and windows is None and not store.is_versioned:
            raise declaration_error(
                f"{what} has late={late!r}, but without windows no record is late. Leave it out,"
                " aggregate in windows: windowed_by(...), or in a store whose history a record can"
                " be too old for: Materialized(..., history=timedelta(...))."
            )
        emission = EmitOption.of(options, fold)
        return StreamAggregation(windows, store, emission, self.builder.window_emit_interval_ms)


#: of the generated names of aggregations of a cogroup
COGROUP_PREFIX = "COGROUPKSTREAM-AGGREGATE-"
#: the groups of a cogroup, each with the aggregator for its values, or its aggregates
Groups: TypeAlias = tuple[tuple[GroupedFlow[Any, Any], Any], ...]


def aggregated(
    grouped: GroupedFlow[Any, Any],
    windows: AnyWindows | None,
    fold: Fold,
    **options: Unpack[FoldOptions[Any]],
) -> TableFlow[Any, Any]:
    """The table of one group's aggregates."""
    what = "An aggregation" if windows is None else "A windowed aggregation"
    if isinstance(windows, SessionWindows):
        what = "A session aggregation"
    aggregation = grouped._aggregation(what, windows, options, fold)
    graph = grouped.builder.graph
    node = aggregation.node(graph.names.named(options.get("name"), fold.prefix), fold)
    send_deltas(node, aggregation.emission)
    parent, sources = grouped._input_of(aggregation.store)
    logical = aggregation.logical_node(node)
    graph.add(parent, logical)
    add_late_stream(options.get("late"), [logical], grouped, sources)
    key, value = aggregation.result_key(), aggregation.store.value
    return TableFlow(grouped.builder, node.name, logical, sources, key, value, node)


def of_group(
    grouped: GroupedFlow[Any, Any], aggregator: Callable[..., Any] | None, aggregates: Any
) -> Any:
    """Return what a group of a cogroup contributes: its aggregator, or its aggregates."""
    if aggregator is not None and aggregates:
        raise declaration_error(
            f"cogroup was given an aggregator and aggregates ({', '.join(aggregates)}). Give one of"
            " them."
        )
    if aggregates:
        return GroupAggregates(aggregates, grouped.value)
    return callbacks.aggregator(aggregator)  # type: ignore[arg-type]  # None is refused there


def check_groups(groups: Groups, *, have_aggregates: bool) -> None:
    """Raise TopologyError for a group with an aggregator among those with aggregates, or so."""
    for grouped, one in groups:
        if isinstance(one, GroupAggregates) is not have_aggregates:
            what, use = "an aggregator", "aggregate"
            if not have_aggregates:
                what, use = "aggregates by name", "agg"
            raise declaration_error(
                f"The group {grouped.name!r} of a cogroup has {what}. Give the same kind to all"
                f" groups, and use {use}(...)."
            )


def cogroup_fold(
    groups: Groups, initializer: Callable[[], Any], merger: Callable[..., Any] | None = None
) -> Fold:
    """Return what the groups of a cogroup with aggregators have in common."""
    start = callbacks.initializer(initializer)
    check_groups(groups, have_aggregates=False)
    merge = None if merger is None else callbacks.merger(merger)
    return Fold(COGROUP_PREFIX, start, groups[0][1], merge)


def cogrouped(
    groups: Groups,
    windows: AnyWindows | None,
    fold: Fold,
    **options: Unpack[FoldOptions[Any]],
) -> TableFlow[Any, Any]:
    """Repartitions first, then one aggregation node per group, then the node that unites them.

    Each group has its own aggregator; everything else is that of ``fold``.
    """
    first = groups[0][0]
    what = "A cogroup aggregation" if windows is None else "A windowed cogroup aggregation"
    aggregation = first._aggregation(what, windows, options, fold)
    store, graph, name = aggregation.store, first.builder.graph, options.get("name")
    inputs = [grouped._input_of(store) for grouped, _ in groups]
    sources = frozenset[str]().union(*(names for _, names in inputs))
    graph.copartition(sources)
    prefix = fold.prefix
    nodes: list[FoldNode] = []
    logicals: list[ProcessorLogicalNode] = []
    for number, ((_, aggregator), (parent, _)) in enumerate(zip(groups, inputs, strict=True)):
        node_name = graph.names.suffixed(name, f"-cogroup-agg-{number}", prefix)
        node = aggregation.node(node_name, fold._replace(aggregator=aggregator))
        node.group_number, node.is_cogrouped = number, True
        logical = aggregation.logical_node(node)
        graph.add(parent, logical)
        nodes.append(node)
        logicals.append(logical)
    merge_name = graph.names.suffixed(name, "-cogroup-merge", "COGROUPKSTREAM-MERGE-")
    merge = CogroupMergeNode(
        merge_name, parents=tuple(nodes), store=store, emit=aggregation.emission.emit
    )
    send_deltas(merge, aggregation.emission)
    merged = ProcessorLogicalNode(merge)
    graph.add(logicals, merged)
    late_value = first.value if all(one.value == first.value for one, _ in groups) else None
    late_records = replace(first, value=late_value)
    add_late_stream(options.get("late"), logicals, late_records, sources)
    key, value = aggregation.result_key(), store.value
    return TableFlow(first.builder, merge_name, merged, sources, key, value, merge)


def send_deltas(
    node: FoldNode | TableAggregateNode | CogroupMergeNode, emission: EmitOption
) -> None:
    """Let a node send the differences of its new and old values, if the aggregation does."""
    if emission.difference is not None:
        node.difference = emission.difference
        node.enable_sending_old_values(force=True)


@dataclass(frozen=True, eq=False, repr=False)
class GroupedTableFlow(Flow[K, V]):
    """A grouped table; users have it as a ``KGroupedTable``."""

    #: as for a grouped stream
    topic_name: str | None

    def _aggregated(
        self, fold: Fold, subtractor: Aggregator, **options: Unpack[AggregateOptions[Any]]
    ) -> TableFlow[Any, Any]:
        what = "An aggregation of a grouped table"
        spec = aggregate_store(what, None, self, options, fold)
        emission = EmitOption.of(options, fold)
        name = options.get("name")
        repartition, sources = self._behind_topic(spec.name, name)
        graph = self.builder.graph
        node = TableAggregateNode(
            graph.names.named(name, fold.prefix),
            store=spec,
            initializer=fold.initializer,
            adder=fold.aggregator,
            subtractor=subtractor,
            emit=emission.emit,
        )
        send_deltas(node, emission)
        logical = ProcessorLogicalNode(node, output_versioned=spec.is_versioned)
        graph.add(repartition, logical)
        return TableFlow(self.builder, node.name, logical, sources, spec.key, spec.value, node)

    def _behind_topic(self, store: str, name: str | None) -> tuple[LogicalNode, frozenset[str]]:
        """Return where an aggregation of this group reads the changes: behind their topic."""
        graph = self.builder.graph
        sink_name = graph.names.suffixed(name, "-sink", "KSTREAM-SINK-")
        source_name = graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        topic = check_name((self.topic_name or store) + REPARTITION_SUFFIX, "a repartition topic")
        repartition = self.builder.group_topics.get((self, topic))
        if repartition is None:
            use = f"repartition topic {topic!r}"
            assert isinstance(self.logical, ProcessorLogicalNode)
            assert isinstance(self.logical.node, TableGroupByNode)
            self.logical.node.keys = self._key_serde(None, use), topic
            repartition = GroupedTableRepartitionLogicalNode(
                source_name,
                topic=topic,
                key=self._key_serde(None, use),
                value=self._value_serde(None, use),
                sink_name=sink_name,
                declared_at=declaration_site(),
            )
            if self.topic_name is not None:
                self.builder.group_topics[self, topic] = repartition
        graph.add(self.logical, repartition)
        return repartition, frozenset({repartition.name})
