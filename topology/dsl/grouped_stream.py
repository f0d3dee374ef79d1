"""KGroupedStream: a stream grouped by key, ready to be aggregated.

All aggregations without windows: null keys and null values are dropped and counted; the result's
timestamp is the largest of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from logstate.serdes.built_in import int64
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_emit, check_windows
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.windows import Emit, SessionWindows, SlidingWindows, Windows
from logstate.topology.dsl.aggregations import (
    as_aggregator,
    count_one,
    required_store,
    value_serde,
)
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_flow import GroupedFlow
from logstate.topology.dsl.materialized import Materialized, key_value_spec
from logstate.topology.dsl.options import AggregateOptions
from logstate.topology.dsl.table import KTable
from logstate.topology.operators.aggregates.aggregate import AggregateNode

if TYPE_CHECKING:
    from logstate.topology.dsl.cogrouped_stream import CogroupedKStream
    from logstate.topology.dsl.session_windowed_stream import SessionWindowedKStream
    from logstate.topology.dsl.time_windowed_stream import TimeWindowedKStream

A = TypeVar("A")


@dataclass(frozen=True, eq=False, repr=False)
class KGroupedStream(GroupedFlow[K, V]):
    """A stream grouped by key, ready to be aggregated.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().stream("clicks", value=str).group_by_key(name="by-user").topic_name
    'by-user'

    Made by ``KStream.group_by`` and ``group_by_key``. ``topic_name`` is the name that was given to
    the group; it names the repartition topic, if ``needs_repartition``.

    Source: Kafka Streams' ``KGroupedStream``.
    """

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
        """The number of records per key.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> clicks.count(store="clicks-per-user").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "tea", 5), ("bob", None, 6), ("ada", "rum", 3)])
        ...     driver.read_with_timestamps("counts", value=int), driver.dropped_total
        ([('ada', 1, 5), ('ada', 2, 5)], 1)

        Semantics:
            Null key: dropped and counted as dropped.
            Null value: dropped and counted as dropped. (Windowed counts do count it.)
            Late records: counted; without windows there is no late.
            Order: one update per record, in their order. With ``emit="commit"`` the last per key
                and commit, in the order of the last writes.
            Repartition: if the group needs it.
            Store: timestamped key-value, named ``store``.
            Timestamp: the largest of the key's records so far.
            Quirk: towards a downstream ``group_by`` the row before the first record is 0, not
                absent, so a subtractor sees it: Kafka Streams forwards the initializer's value as
                the old one.

        Args:
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key and commit.
            name: the operator's name; generated if not given.

        Returns:
            The table of counts.

        Raises:
            TopologyError: no store, an unknown ``emit``, or the key's serde is not known.

        Source: Kafka Streams' ``KGroupedStream.count``; ``emit="commit"`` is its record cache made
        exact (KIP-63).
        """
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
        """Combine the values of each key into one of the same type.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> bids = builder.stream("bids", value=int).group_by_key()
        >>> bids.reduce(lambda best, bid: max(best, bid), store="best-bids").to_stream().to("best")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("bids", [("lamp", 7, 0), ("lamp", 5, 1), ("lamp", 9, 2)])
        ...     driver.read("best", value=int)
        [('lamp', 7), ('lamp', 7), ('lamp', 9)]

        Semantics:
            Null key: dropped and counted.
            Null value: dropped and counted.
            Late records: reduced as they come; without windows there is no late.
            Order: one update per record, in their order, whether the result changed or not. With
                ``emit="commit"`` the last per key and commit, in the order of the last writes.
            Repartition: if the group needs it.
            Store: timestamped key-value, named ``store``.
            Timestamp: the largest of the key's records so far.

        Args:
            reducer: ``reducer(old, new)``; the first value of a key is its aggregate without a
                call. Returning None deletes the row.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key and commit.
            name: the operator's name; generated if not given.

        Returns:
            The table of combined values.

        Raises:
            TopologyError: no store, an unknown ``emit``, another shape of reducer, or a serde is
                not known.

        Source: Kafka Streams' ``KGroupedStream.reduce``.
        """
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
        """Fold the values of each key into an aggregate of any type.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=int).group_by_key()
        >>> spent = orders.aggregate(int, lambda sum, cents: sum + cents, store="spent", value=int)
        >>> spent.to_stream().to("spent")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 250, 0), ("bob", 900, 1), ("ada", 125, 2)])
        ...     driver.read("spent", value=int)
        [('ada', 250), ('bob', 900), ('ada', 375)]

        Semantics:
            Null key: dropped and counted.
            Null value: dropped and counted.
            Late records: aggregated as they come; without windows there is no late.
            Order: one update per record, in their order. With ``emit="commit"`` the last per key
                and commit, in the order of the last writes.
            Repartition: if the group needs it.
            Store: timestamped key-value, named ``store``; versioned with
                ``Materialized(history=)``.
            Timestamp: the largest of the key's records so far.
            Quirk: towards a downstream ``group_by`` the row before the first record is the
                initializer's value, not absent: a subtractor sees it, as in Kafka Streams.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new key: ``int``, ``dict``, a
                class.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                It may change the aggregate it is given, and has to return it. Returning None
                deletes the row; the next record starts with the initializer again.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key and commit.
            name: the operator's name; generated if not given.

        Returns:
            The table of aggregates.

        Raises:
            TopologyError: no store, an unknown ``emit``, another shape of a callback, or a serde is
                not known.

        Source: Kafka Streams' ``KGroupedStream.aggregate``.
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
        """Aggregate per key and window instead of per key.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows, windowed
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> per_minute = clicks.windowed_by(TumblingWindows(size=timedelta(minutes=1)))
        >>> per_minute.count(store="clicks-per-minute").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "home", 5_000), ("ada", "cart", 61_000)])
        ...     driver.read("counts", key=windowed(str, 60_000), value=int)
        [(Windowed(key='ada', start_ms=0, end_ms=60000), 1),
         (Windowed(key='ada', start_ms=60000, end_ms=120000), 1)]

        Semantics:
            Null key: the aggregation drops and counts it.
            Null value: reaches the aggregator of all windows but sliding ones, which drop and count
                it.
            Late records: the aggregation drops and counts what belongs to closed windows only.
            Order: that of the stream.
            Repartition: if the group needs it.
            Store: none here; the aggregation has one.
            Timestamp: see the aggregations.

        Args:
            windows: tumbling, hopping, sliding, session, unlimited, or a subclass of
                :class:`Windows`.

        Returns:
            The windowed stream; that of sessions also takes a merger.

        Raises:
            TopologyError: ``windows`` are no windows.

        Source: Kafka Streams' ``KGroupedStream.windowedBy``; sliding: KIP-450; sessions: KIP-94.
        """
        from logstate.topology.dsl.session_windowed_stream import SessionWindowedKStream
        from logstate.topology.dsl.time_windowed_stream import TimeWindowedKStream

        check_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows)
        return TimeWindowedKStream(self, windows)

    @overload
    def cogroup(self, aggregator: Callable[[A, V], A | None]) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]: ...
    def cogroup(self, aggregator: Callable[..., Any]) -> CogroupedKStream[K, Any]:
        """Start one aggregate that several grouped streams feed, each with its own aggregator.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> sold = builder.stream("sold", value=int).group_by_key()
        >>> bought = builder.stream("bought", value=int).group_by_key()
        >>> stock = bought.cogroup(lambda left, n: left + n).cogroup(sold, lambda left, n: left - n)
        >>> stock.aggregate(int, store="stock", value=int).to_stream().to("stock")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("bought", "tea", 10)
        ...     driver.pipe("sold", "tea", 3)
        ...     driver.read("stock", value=int)
        [('tea', 10), ('tea', 7)]

        Semantics:
            Null key: the aggregation drops and counts it.
            Null value: the aggregation decides.
            Late records: the aggregation decides.
            Order: that in which records come; between streams the smallest timestamp first, as far
                as known.
            Repartition: of each group that needs it. All groups must be co-partitioned.
            Store: none here; the aggregation has one, which all groups share.
            Timestamp: see the aggregation.

        Args:
            aggregator: for this group: ``aggregator(aggregate, value)`` or ``aggregator(key, value,
                aggregate)``.

        Returns:
            The cogrouped stream: add groups, then aggregate it.

        Raises:
            TopologyError: the aggregator has another shape.

        Source: Kafka Streams' ``KGroupedStream.cogroup`` (KIP-150).
        """
        from logstate.topology.dsl.cogrouped_stream import CogroupedKStream

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
        check_emit(emit, None)
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
