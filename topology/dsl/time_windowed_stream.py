"""TimeWindowedKStream: a grouped stream cut into tumbling, hopping, sliding or custom windows.

Null keys are dropped and counted; null VALUES reach the aggregator of tumbling and hopping windows
(so `count` counts them) but not that of sliding ones. That is what Kafka Streams does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack, overload

from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.serdes.built_in import WindowedSerde, int64
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_emit
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.windows import Emit, SlidingWindows, Windows
from logstate.topology.dsl.aggregations import as_aggregator, count_one, required_store, value_serde
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_stream import KGroupedStream
from logstate.topology.dsl.materialized import Materialized, window_spec
from logstate.topology.dsl.options import AggregateOptions
from logstate.topology.dsl.table import KTable
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.aggregates.sliding_aggregate import SlidingAggregateNode
from logstate.topology.operators.aggregates.window_aggregate import WindowAggregateNode

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class TimeWindowedKStream(Generic[K, V]):
    """A grouped stream cut into tumbling, hopping, sliding, unlimited or custom windows.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TumblingWindows
    >>> clicks = StreamsBuilder().stream("clicks", value=str).group_by_key()
    >>> clicks.windowed_by(TumblingWindows(size=timedelta(minutes=1))).windows
    TumblingWindows(size_ms=60000, grace_ms=0)

    Made by ``KGroupedStream.windowed_by``. The keys of results are ``Windowed(key, start_ms,
    end_ms)``.

    ``emit="update"`` sends every change, ``"commit"`` the last one per window and commit.
    ``"close"`` sends one final result per window, once stream time has reached its end + grace; it
    looks for such windows only when a record arrives, and at most once per ``window_emit_interval``
    of the builder. With the store's default retention a jump in event time can take closed windows
    out of the store before they are emitted; give it more (``Materialized(retention=)``) where
    event time jumps.

    Source: Kafka Streams' ``TimeWindowedKStream``; final results: KIP-825.
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
        """The number of records per key and window.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> ten = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
        >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(ten)
        >>> counts = clicks.count(store="clicks")
        >>> counts.to_stream(lambda w, n: f"{w.key}@{w.start_ms}").to("n", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "a", 3), ("ada", "b", 15), ("ada", "c", 9)])
        ...     driver.read("n", value=int), driver.dropped_total
        ([('ada@0', 1), ('ada@10', 1)], 1)

        Semantics:
            Null key: dropped and counted as dropped.
            Null value: counted, unlike without windows. Kafka Streams' documentation says
                otherwise, its code and results do not. Sliding windows drop it.
            Late records: dropped once PER window that is closed, and counted as dropped: a window
                is closed once the operator's own stream time, this record included, reaches its end
                + grace (sliding: exceeds it).
            Order: windows ascending by start; sliding ones as in
                ``operators/sliding_aggregate.py``.
            Repartition: if the group needs it.
            Store: timestamped window store, named ``store``; retention = size + grace (sliding:
                twice the difference + grace) if not given.
            Timestamp: the largest of the window's records.

        Args:
            store: name or :class:`Materialized` of the store; required.
            emit: "update", "commit" or "close", see the class.
            name: the operator's name; generated if not given.

        Returns:
            The table of counts; its keys are ``Windowed``.

        Raises:
            TopologyError: no store, a retention shorter than windows are open, an ``emit`` that
                does not exist for these windows, or the key's serde is not known.

        Source: Kafka Streams' ``TimeWindowedKStream.count``; no implicit grace: KIP-633.
        """
        return self._aggregate("KSTREAM-AGGREGATE-", lambda: 0, count_one, store, int64, emit, name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each key and window into one of the same type.

        >>> from datetime import timedelta
        >>> from logstate import HoppingWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> half = HoppingWindows(size=timedelta(seconds=2), advance=timedelta(seconds=1))
        >>> bids = builder.stream("bids", value=int).group_by_key().windowed_by(half)
        >>> best = bids.reduce(lambda best, bid: max(best, bid), store="best")
        >>> best.to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}").to("best", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("bids", [("lamp", 7, 1_500), ("lamp", 5, 2_100)])
        ...     driver.read("best", value=int)
        [('0-2000', 7), ('1000-3000', 7), ('1000-3000', 7), ('2000-4000', 5)]

        Semantics:
            Null key: dropped and counted.
            Null value: given to the reducer as None, as in Kafka Streams; sliding windows drop it.
            Late records: dropped and counted once per closed window, as by :meth:`count`.
            Order: windows ascending by start; sliding ones as in
                ``operators/sliding_aggregate.py``.
            Repartition: if the group needs it.
            Store: timestamped window store, named ``store``; retention as for :meth:`count`.
            Timestamp: the largest of the window's records.

        Args:
            reducer: ``reducer(old, new)``; the first value of a window is its aggregate without a
                call. Returning None deletes the row.
            store: name or :class:`Materialized` of the store; required.
            emit: "update", "commit" or "close", see the class.
            name: the operator's name; generated if not given.

        Returns:
            The table of combined values; its keys are ``Windowed``.

        Raises:
            TopologyError: no store, a retention shorter than windows are open, an ``emit`` that
                does not exist for these windows, another shape of reducer, or a serde is not known.

        Source: Kafka Streams' ``TimeWindowedKStream.reduce``.
        """
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
        """Fold the values of each key and window into an aggregate of any type.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=int).group_by_key()
        >>> minute = orders.windowed_by(TumblingWindows(size=timedelta(minutes=1)))
        >>> spent = minute.aggregate(int, lambda s, n: s + n, value=int, store="s", emit="close")
        >>> spent.to_stream(lambda window, cents: window.key).to("spent", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 250, 0), ("ada", 125, 5_000)])
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("orders", "bob", 900, timestamp=60_000)
        ...     driver.read_with_timestamps("spent", value=int)
        [('ada', 375, 5000)]

        Semantics:
            Null key: dropped and counted.
            Null value: given to the aggregator as None, as in Kafka Streams; sliding windows drop
                it.
            Late records: dropped and counted once per closed window, as by :meth:`count`.
            Order: windows ascending by start, sliding ones as in
                ``operators/sliding_aggregate.py``; with ``emit="close"`` by start, then by the
                key's bytes.
            Repartition: if the group needs it.
            Store: timestamped window store, named ``store``; retention as for :meth:`count`.
            Timestamp: the largest of the window's records, with ``emit="close"`` too.
            Quirk: towards a downstream ``group_by`` the row before a window's first record is the
                initializer's value, not absent, as in Kafka Streams.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new window.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                Returning None deletes the row.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update", "commit" or "close", see the class.
            name: the operator's name; generated if not given.

        Returns:
            The table of aggregates; its keys are ``Windowed``.

        Raises:
            TopologyError: no store, a retention shorter than windows are open, an ``emit`` that
                does not exist for these windows, another shape of a callback, or a serde is not
                known.

        Source: Kafka Streams' ``TimeWindowedKStream.aggregate``; final results: KIP-825.
        """
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
