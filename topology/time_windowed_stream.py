"""TimeWindowedKStream: a grouped stream cut into tumbling, hopping, sliding or custom windows.

Null keys are dropped and counted; null VALUES reach the aggregator of tumbling and hopping windows
(so `count` counts them) but not that of sliding ones. That is what Kafka Streams does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack, overload

from logstate.errors import TopologyError
from logstate.records import Windowed
from logstate.serde import Serde
from logstate.serdes import WindowedSerde, int64
from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.aggregations import as_aggregator, count_one, required_store, value_serde
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V
from logstate.topology.graph import TableNode
from logstate.topology.grouped_stream import KGroupedStream
from logstate.topology.materialized import Materialized, window_spec
from logstate.topology.operators.sliding_aggregate import SlidingAggregateNode
from logstate.topology.operators.window_aggregate import WindowAggregateNode
from logstate.topology.options import AggregateOptions
from logstate.topology.table import KTable
from logstate.topology.windows import Emit, SlidingWindows, UnlimitedWindows, Windows

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class TimeWindowedKStream(Generic[K, V]):
    """Made by ``windowed_by``. Results have ``Windowed`` keys.

    ``emit="update"`` sends every change, ``"commit"`` the last one per window and commit,
    ``"close"`` one final result when stream time reaches the window's end + grace.
    """

    grouped: KGroupedStream[K, V]
    windows: Windows | SlidingWindows

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Windowed[K], int]:
        """Number of records per key and window."""
        return self._aggregate("KSTREAM-AGGREGATE-", lambda: 0, count_one, store, int64, emit, name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combine values with ``reducer(old, new)``; a window's first value is its aggregate."""
        function = as_aggregator(callbacks.reducer(reducer))
        return self._aggregate(
            "KSTREAM-REDUCE-", lambda: None, function, store, self.grouped.value, emit, name
        )

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[A, V], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[Windowed[K], A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Windowed[K], Any]:
        """Fold values into an aggregate per key and window; ``value`` is its serde."""
        return self._aggregate(
            "KSTREAM-AGGREGATE-",
            callbacks.initializer(initializer),
            callbacks.aggregator(aggregator),
            store,
            value,
            emit,
            name,
        )

    def _aggregate(
        self,
        prefix: str,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        store: str | Materialized | None,
        value: Any,
        emit: Emit,
        name: str | None,
    ) -> KTable[Any, Any]:
        grouped = self.grouped
        options = required_store(store, "A windowed aggregation")
        check_emit(emit, self.windows)
        key = grouped._key_serde(options.key, f"store {options.name!r}")
        spec = time_window_store(grouped, self.windows, options, key, value, emit)
        node_name = grouped.builder.graph.names.named(name, prefix)
        node = time_window_node(
            node_name, grouped, self.windows, spec, initializer, aggregator, emit
        )
        return grouped._table_of(
            node, spec, key=windowed_key(self.windows, key), grace_ms=self.windows.grace_ms
        )


def check_emit(emit: Emit, windows: object) -> None:
    """Refuse what does not exist."""
    if emit not in ("update", "commit", "close"):
        raise TopologyError(
            f'emit must be "update", "commit" or "close", found {emit!r}.',
            declared_at=declaration_site(),
        )
    if emit == "close" and isinstance(windows, UnlimitedWindows):
        raise TopologyError(
            'emit="close" cannot be used with UnlimitedWindows: they never close. Use "update" or'
            ' "commit".',
            declared_at=declaration_site(),
        )


def time_window_store(
    grouped: KGroupedStream[Any, Any],
    windows: Windows | SlidingWindows,
    options: Materialized,
    key: Serde[Any],
    value: Any,
    emit: Emit,
) -> StoreSpec:
    """The store of a time-windowed aggregation."""
    is_sliding = isinstance(windows, SlidingWindows)
    size_ms = windows.difference_ms if isinstance(windows, SlidingWindows) else windows.size_ms
    return window_spec(
        options,
        key,
        value_serde(options, value),
        grouped.builder.defaults,
        size_ms=size_ms,
        # A sliding record's right windows reach back twice the difference.
        needed_ms=size_ms * (2 if is_sliding else 1) + windows.grace_ms,
        keep_at_retention=emit == "close",
    )


def time_window_node(
    name: str,
    grouped: KGroupedStream[Any, Any],
    windows: Windows | SlidingWindows,
    store: StoreSpec,
    initializer: Callable[[], Any],
    aggregator: Callable[[Any, Any, Any], Any],
    emit: Emit,
) -> TableNode:
    """The aggregation node for these windows."""
    options: dict[str, Any] = {
        "store": store,
        "initializer": initializer,
        "aggregator": aggregator,
        "emit": emit,
        "emit_interval_ms": grouped.builder.window_emit_interval_ms,
        "declared_at": declaration_site(),
    }
    if isinstance(windows, SlidingWindows):
        return SlidingAggregateNode(name, windows=windows, **options)
    return WindowAggregateNode(name, windows=windows, **options)


def windowed_key(windows: Windows | SlidingWindows, key: Serde[Any]) -> Serde[Any]:
    """The serde of the result's keys."""
    if isinstance(windows, SlidingWindows):
        return WindowedSerde(key, windows.difference_ms)
    return WindowedSerde(key, windows.size_ms)
