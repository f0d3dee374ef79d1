"""SessionWindowedKStream: a grouped stream cut into sessions of activity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack, overload

from logstate.records import Windowed
from logstate.serde import Serde
from logstate.serdes import SessionWindowedSerde, int64
from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.aggregations import as_aggregator, count_one, required_store, value_serde
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V
from logstate.topology.grouped_stream import KGroupedStream
from logstate.topology.materialized import Materialized, session_spec
from logstate.topology.operators.session_aggregate import SessionAggregateNode
from logstate.topology.options import AggregateOptions
from logstate.topology.table import KTable
from logstate.topology.time_windowed_stream import check_emit
from logstate.topology.windows import Emit, SessionWindows

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class SessionWindowedKStream(Generic[K, V]):
    """Made by ``windowed_by(SessionWindows(...))``. Results have ``Windowed`` keys.

    A record that joins two sessions makes one of them: tombstones for both, then the merged one.
    Null keys are dropped and counted; null values reach the aggregator, as in Kafka Streams.
    """

    grouped: KGroupedStream[K, V]
    windows: SessionWindows

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Windowed[K], int]:
        """Number of records per key and session."""
        return self._aggregate(
            "KSTREAM-AGGREGATE-",
            lambda: 0,
            count_one,
            lambda _key, a, b: a + b,
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
    ) -> KTable[Windowed[K], V]:
        """Combine values with ``reducer(old, new)``; it merges sessions too."""
        function = as_aggregator(callbacks.reducer(reducer))
        return self._aggregate(
            "KSTREAM-REDUCE-",
            lambda: None,
            function,
            # Merging folds found sessions into a fresh aggregate, so the left one may be None.
            lambda key, a, b: function(key, b, a),
            store=store,
            value=self.grouped.value,
            emit=emit,
            name=name,
        )

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[A, V], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A],
        **options: Unpack[AggregateOptions],
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A],
        **options: Unpack[AggregateOptions],
    ) -> KTable[Windowed[K], A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        merger: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Windowed[K], Any]:
        """Fold values into an aggregate per session.

        ``merger(a, b)`` or ``merger(key, a, b)`` unites the aggregates of two sessions, in the
        order of time; it is called with a fresh initializer's value first.
        """
        return self._aggregate(
            "KSTREAM-AGGREGATE-",
            callbacks.initializer(initializer),
            callbacks.aggregator(aggregator),
            callbacks.merger(merger),
            store=store,
            value=value,
            emit=emit,
            name=name,
        )

    def _aggregate(
        self,
        prefix: str,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any],
        *,
        store: str | Materialized | None,
        value: Any,
        emit: Emit,
        name: str | None,
    ) -> KTable[Any, Any]:
        grouped = self.grouped
        options = required_store(store, "A session aggregation")
        check_emit(emit, self.windows)
        key = grouped._key_serde(options.key, f"store {options.name!r}")
        spec = session_store_spec(grouped, self.windows, options, key, value)
        node_name = grouped.builder.graph.names.named(name, prefix)
        node = SessionAggregateNode(
            node_name,
            store=spec,
            windows=self.windows,
            initializer=initializer,
            aggregator=aggregator,
            merger=merger,
            emit=emit,
            emit_interval_ms=grouped.builder.window_emit_interval_ms,
            declared_at=declaration_site(),
        )
        return grouped._table_of(
            node,
            spec,
            key=SessionWindowedSerde(key),
            grace_ms=self.windows.grace_ms + self.windows.gap_ms,
        )


def session_store_spec(
    grouped: KGroupedStream[Any, Any],
    windows: SessionWindows,
    options: Materialized,
    key: Serde[Any],
    value: Any,
) -> StoreSpec:
    """The store of a session aggregation."""
    return session_spec(
        options,
        key,
        value_serde(options, value),
        grouped.builder.defaults,
        needed_ms=windows.gap_ms + windows.grace_ms,
    )
