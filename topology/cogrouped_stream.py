"""CogroupedKStream: one aggregate fed by several grouped streams, each with its own aggregator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from logstate.errors import TopologyError
from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.aggregations import refuse_close, required_store, value_serde
from logstate.topology.cogroup_shape import Aggregator, Groups, build_cogroup
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K
from logstate.topology.graph import TableNode
from logstate.topology.grouped_stream import KGroupedStream
from logstate.topology.materialized import Materialized, key_value_spec
from logstate.topology.operators.aggregate import AggregateNode
from logstate.topology.table import KTable
from logstate.topology.windowed_cogrouped_stream import WindowedCogroupedKStream
from logstate.topology.windows import Emit, SessionWindows, SlidingWindows, Windows

A = TypeVar("A")
V = TypeVar("V")


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
        key = first._key_serde(options.key, f"store {options.name!r}")
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
