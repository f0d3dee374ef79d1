"""KGroupedStream: a stream grouped by key, ready to be aggregated.

All aggregations without windows: null keys and null values are dropped and counted; the result's
timestamp is the largest of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from logstate.errors import TopologyError
from logstate.serde import Serde
from logstate.serdes import int64
from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.aggregations import (
    as_aggregator,
    count_one,
    refuse_close,
    required_store,
    value_serde,
)
from logstate.topology.declared import declaration_site
from logstate.topology.flow import Flow, K, V
from logstate.topology.graph import TableNode
from logstate.topology.logical import LogicalNode, ProcessorLogicalNode
from logstate.topology.materialized import Materialized, key_value_spec
from logstate.topology.operators.aggregate import AggregateNode
from logstate.topology.options import AggregateOptions
from logstate.topology.repartition import RepartitionLogicalNode, repartition_topic
from logstate.topology.table import KTable
from logstate.topology.windows import Emit, SessionWindows, SlidingWindows, Windows

if TYPE_CHECKING:
    from logstate.topology.cogrouped_stream import CogroupedKStream
    from logstate.topology.session_windowed_stream import SessionWindowedKStream
    from logstate.topology.time_windowed_stream import TimeWindowedKStream

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class KGroupedStream(Flow[K, V]):
    """Made by ``group_by`` and ``group_by_key``."""

    needs_repartition: bool
    #: the name the user gave the group: names the repartition topic
    topic_name: str | None

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, int]:
        """Number of records per key. Needs ``store``, the name of the table's store."""
        return self._aggregate(
            "KSTREAM-AGGREGATE-",
            initializer=lambda: 0,
            aggregator=count_one,
            store=store,
            value=int64,
            emit=emit,
            name=name,
        )

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, V]:
        """Combine values with ``reducer(old, new)``; the first value is the first aggregate."""
        return self._aggregate(
            "KSTREAM-REDUCE-",
            initializer=None,
            aggregator=as_aggregator(callbacks.reducer(reducer)),
            store=store,
            value=self.value,
            emit=emit,
            name=name,
        )

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[A, V], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[K, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Fold values into an aggregate of any type; ``value`` is its serde.

        ``aggregator`` is ``(aggregate, value)`` or ``(key, value, aggregate)``. It may change the
        aggregate it is given and return it. Returning None deletes the row; the next record starts
        with the initializer again.
        """
        return self._aggregate(
            "KSTREAM-AGGREGATE-",
            initializer=callbacks.initializer(initializer),
            aggregator=callbacks.aggregator(aggregator),
            store=store,
            value=value,
            emit=emit,
            name=name,
        )

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Aggregate per key and window instead of per key."""
        from logstate.topology.session_windowed_stream import SessionWindowedKStream
        from logstate.topology.time_windowed_stream import TimeWindowedKStream

        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows)
        if isinstance(windows, Windows | SlidingWindows):
            return TimeWindowedKStream(self, windows)
        raise TopologyError(
            f"windowed_by takes windows such as TumblingWindows(size=...), found {windows!r}.",
            declared_at=declaration_site(),
        )

    @overload
    def cogroup(self, aggregator: Callable[[A, V], A | None]) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]: ...
    def cogroup(self, aggregator: Callable[..., Any]) -> CogroupedKStream[K, Any]:
        """Start an aggregate of several grouped streams; see ``CogroupedKStream``."""
        from logstate.topology.cogrouped_stream import CogroupedKStream

        return CogroupedKStream(((self, callbacks.aggregator(aggregator)),))

    def _aggregate(
        self,
        prefix: str,
        *,
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        store: str | Materialized | None,
        value: Any,
        emit: Emit,
        name: str | None,
    ) -> KTable[Any, Any]:
        options = required_store(store, "An aggregation")
        refuse_close(emit)
        node_name = self.builder.graph.names.named(name, prefix)
        spec = key_value_spec(
            options,
            self._key_serde(options.key, f"store {options.name!r}"),
            value_serde(options, value),
            self.builder.defaults,
        )
        node = AggregateNode(
            node_name,
            store=spec,
            initializer=initializer,
            aggregator=aggregator,
            emit=emit,
            declared_at=declaration_site(),
        )
        return self._table_of(node, spec, key=spec.key, output_versioned=spec.kind == "versioned")

    def _table_of(
        self,
        node: TableNode,
        spec: StoreSpec,
        *,
        key: Serde[Any],
        output_versioned: bool = False,
        grace_ms: int | None = None,
    ) -> KTable[Any, Any]:
        """The table of one aggregation node, behind the repartition topic if one is needed."""
        parent, sources = self._input_of(spec)
        logical = ProcessorLogicalNode(node, output_versioned=output_versioned)
        logical.window_grace_ms = grace_ms
        self.builder.graph.add(parent, logical)
        return KTable(self.builder, node.name, logical, sources, key, spec.value, node)

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
