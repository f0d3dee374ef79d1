"""KGroupedStream: a stream grouped by key, ready to be aggregated, windowed or cogrouped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_windows
from logstate.topology.declaring.windows import SessionWindows, SlidingWindows, Windows
from logstate.topology.dsl.cogrouped_stream import CogroupedKStream
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_flow import GroupedFlow
from logstate.topology.dsl.session_windowed_stream import SessionWindowedKStream
from logstate.topology.dsl.stream_aggregations import StreamAggregations
from logstate.topology.dsl.time_windowed_stream import TimeWindowedKStream

A = TypeVar("A")


@dataclass(frozen=True, eq=False, repr=False)
class KGroupedStream(GroupedFlow[K, V], StreamAggregations[K, K, V]):
    """A stream grouped by key, ready to be aggregated.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().stream("clicks", value=str).group_by_key(name="by-user").topic_name
    'by-user'

    Made by ``KStream.group_by`` and ``group_by_key``. ``topic_name`` is the name that was given to
    the group; it names the repartition topic, if ``needs_repartition``.

    Source: Kafka Streams' ``KGroupedStream``.
    """

    def _grouping(self) -> tuple[GroupedFlow[Any, V], None]:
        return self, None

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
        return CogroupedKStream(((self, callbacks.aggregator(aggregator)),))
