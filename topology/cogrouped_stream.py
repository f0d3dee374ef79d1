"""CogroupedKStream: one aggregate fed by several grouped streams, each with its own aggregator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from logstate.errors import TopologyError
from logstate.serde import Serde
from logstate.serdes import SessionWindowedSerde
from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K
from logstate.topology.graph import TableNode
from logstate.topology.grouped_stream import (
    KGroupedStream,
    refuse_close,
    required_store,
    value_serde,
)
from logstate.topology.logical import LogicalNode, ProcessorLogicalNode
from logstate.topology.materialized import Materialized, key_value_spec
from logstate.topology.operators.aggregate import AggregateNode
from logstate.topology.operators.cogroup_merge import CogroupMergeNode
from logstate.topology.operators.session_aggregate import SessionAggregateNode
from logstate.topology.session_windowed_stream import session_store_spec
from logstate.topology.table import KTable
from logstate.topology.time_windowed_stream import (
    check_emit,
    time_window_node,
    time_window_store,
    windowed_key,
)
from logstate.topology.windows import Emit, SessionWindows, SlidingWindows, Windows

A = TypeVar("A")
V = TypeVar("V")
Aggregator = Callable[[Any, Any, Any], Any]
Groups = tuple[tuple[KGroupedStream[Any, Any], Aggregator], ...]
#: (name, store, aggregator) -> the aggregation node of one group
MakeNode = Callable[[str, StoreSpec, Aggregator], TableNode]


@dataclass(frozen=True, eq=False)
class CogroupedKStream(Generic[K, A]):
    """Made by ``KGroupedStream.cogroup`` (KIP-150); all groups must be co-partitioned.

    ::

        views.cogroup(add_view).cogroup(clicks, add_click).aggregate(Stats, value=Stats, store="s")
    """

    groups: Groups

    @overload
    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[A, V], A | None]
    ) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, A], A | None]
    ) -> CogroupedKStream[K, A]: ...
    def cogroup(
        self, grouped: KGroupedStream[K, Any], aggregator: Callable[..., Any]
    ) -> CogroupedKStream[K, A]:
        """One more group, with the aggregator for its values."""
        function = callbacks.aggregator(aggregator)
        if any(known is grouped for known, _ in self.groups):
            raise TopologyError(
                "The same grouped stream is cogrouped twice: every record would count twice.",
                declared_at=declaration_site(),
            )
        return CogroupedKStream((*self.groups, (grouped, function)))

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, A]:
        """The table of aggregates per key; null keys and values are dropped and counted."""
        refuse_close(emit)
        first = self.groups[0][0]
        options = required_store(store, "A cogroup aggregation")
        key = first.key_serde(options.key, f"store {options.name!r}")
        spec = key_value_spec(options, key, value_serde(options, value), first.builder.defaults)
        start = callbacks.initializer(initializer)

        def make(node_name: str, spec: StoreSpec, aggregator: Aggregator) -> TableNode:
            return AggregateNode(
                node_name,
                store=spec,
                initializer=start,
                aggregator=aggregator,
                emit=emit,
                declared_at=declaration_site(),
            )

        is_versioned = spec.kind == "versioned"
        return build_cogroup(
            self.groups, spec, make, name=name, key=key, output_versioned=is_versioned
        )

    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> WindowedCogroupedKStream[K, A]:
        """Aggregate per key and window."""
        return WindowedCogroupedKStream(self.groups, windows)


@dataclass(frozen=True, eq=False)
class WindowedCogroupedKStream(Generic[K, A]):
    """Made by ``CogroupedKStream.windowed_by``."""

    groups: Groups
    windows: Windows | SlidingWindows | SessionWindows

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[..., A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Any, A]:
        """The table of aggregates per key and window; sessions need ``merger(a, b)``.

        What is late is judged by the stream time of each group, with ``emit="close"`` by that of
        all groups together.
        """
        check_emit(emit, self.windows)
        first = self.groups[0][0]
        options = required_store(store, "A windowed cogroup aggregation")
        key = first.key_serde(options.key, f"store {options.name!r}")
        start = callbacks.initializer(initializer)
        if isinstance(self.windows, SessionWindows):
            return self._sessions(first, options, key, start, merger, value, emit, name)
        if merger is not None:
            raise TopologyError(
                "merger is for session windows: other windows never merge.",
                declared_at=declaration_site(),
            )
        windows = self.windows
        spec = time_window_store(first, windows, options, key, value, emit)

        def make(node_name: str, spec: StoreSpec, aggregator: Aggregator) -> TableNode:
            return time_window_node(node_name, first, windows, spec, start, aggregator, emit)

        return build_cogroup(
            self.groups,
            spec,
            make,
            name=name,
            key=windowed_key(windows, key),
            grace_ms=windows.grace_ms,
        )

    def _sessions(
        self,
        first: KGroupedStream[Any, Any],
        options: Materialized,
        key: Serde[Any],
        initializer: Callable[[], Any],
        merger: Callable[..., Any] | None,
        value: Any,
        emit: Emit,
        name: str | None,
    ) -> KTable[Any, Any]:
        windows = self.windows
        assert isinstance(windows, SessionWindows)
        if merger is None:
            raise TopologyError(
                "Sessions can grow together, so their aggregation needs a merger(a, b).",
                declared_at=declaration_site(),
            )
        merge = callbacks.merger(merger)

        def make(node_name: str, spec: StoreSpec, aggregator: Aggregator) -> TableNode:
            return SessionAggregateNode(
                node_name,
                store=spec,
                windows=windows,
                initializer=initializer,
                aggregator=aggregator,
                merger=merge,
                emit=emit,
                emit_interval_ms=first.builder.window_emit_interval_ms,
                declared_at=declaration_site(),
            )

        return build_cogroup(
            self.groups,
            session_store_spec(first, windows, options, key, value),
            make,
            name=name,
            key=SessionWindowedSerde(key),
            grace_ms=windows.grace_ms + windows.gap_ms,
        )


def build_cogroup(
    groups: Groups,
    spec: StoreSpec,
    make: MakeNode,
    *,
    name: str | None,
    key: Serde[Any],
    output_versioned: bool = False,
    grace_ms: int | None = None,
) -> KTable[Any, Any]:
    """Repartitions first, then one aggregation node per group, then the node that unites them."""
    builder = groups[0][0].builder
    graph = builder.graph
    inputs: list[LogicalNode] = []
    sources: frozenset[str] = frozenset()
    for grouped, _ in groups:
        parent, names = grouped.input_of(spec)
        inputs.append(parent)
        sources |= names
    graph.copartition(sources)
    nodes: list[TableNode] = []
    logicals: list[LogicalNode] = []
    for number, ((_, aggregator), parent) in enumerate(zip(groups, inputs, strict=True)):
        node_name = graph.names.suffixed(
            name, f"-cogroup-agg-{number}", "COGROUPKSTREAM-AGGREGATE-"
        )
        node = make(node_name, spec, aggregator)
        logical = ProcessorLogicalNode(node, output_versioned=output_versioned)
        logical.window_grace_ms = grace_ms
        graph.add(parent, logical)
        nodes.append(node)
        logicals.append(logical)
    merge_name = graph.names.suffixed(name, "-cogroup-merge", "COGROUPKSTREAM-MERGE-")
    merge = CogroupMergeNode(
        merge_name, parents=tuple(nodes), store=spec, declared_at=declaration_site()
    )
    merged = ProcessorLogicalNode(merge)
    graph.add(logicals, merged)
    return KTable(builder, merge_name, merged, sources, key, spec.value, merge)
