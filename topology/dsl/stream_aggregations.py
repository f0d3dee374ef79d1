"""count, reduce and aggregate of grouped streams, declared once: plain, in windows, in sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, Unpack, overload

from logstate.serdes.built_in import int64
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.windows import Emit
from logstate.topology.dsl.aggregations import COUNT, AggregateOptions, Fold, reduction
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_flow import GroupedFlow, aggregated
from logstate.topology.dsl.materialized import AnyWindows, Materialized
from logstate.topology.dsl.table import KTable

A = TypeVar("A")
#: the keys of results: those of the records, or ``Windowed`` ones
R = TypeVar("R")


class CountAndReduce(ABC, Generic[R, V]):
    """Mixed into all grouped streams: plain, time-windowed and session-windowed ones.

    Args:
        value: type or serde of the aggregate.
        store: name or :class:`Materialized` of the store; required.
        emit: "update" sends every change, "commit" the last one per key (and window) and commit;
            "close" one final result per window, see the windowed stream's class.
        name: the operator's name; generated if not given.

    Returns:
        The table of aggregates; its keys are ``Windowed`` if the stream is.

    Raises:
        TopologyError: no store, a retention shorter than windows are open, an ``emit`` that does
            not exist (for these windows), another shape of a callback, or a serde is not known.
    """

    @abstractmethod
    def _grouping(self) -> tuple[GroupedFlow[Any, V], AnyWindows | None]:
        """The group that is aggregated, and by which windows."""

    def _aggregated(self, fold: Fold, **options: Unpack[AggregateOptions]) -> KTable[Any, Any]:
        grouped, windows = self._grouping()
        return aggregated(grouped, windows, fold, **options)

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[R, int]:
        """The number of records per key; of a windowed stream per key and window.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows, windowed
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> clicks.count(store="clicks-per-user").to_stream().to("counts")
        >>> minutes = clicks.windowed_by(TumblingWindows(size=timedelta(minutes=1)))
        >>> minutes.count(store="clicks-per-minute").to_stream().to("counts-per-minute")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "tea", 5), ("bob", None, 6), ("ada", "rum", 3)])
        ...     print(driver.read_with_timestamps("counts", value=int), driver.dropped_total)
        ...     driver.read("counts-per-minute", key=windowed(str, 60_000), value=int)[:2]
        [('ada', 1, 5), ('ada', 2, 5)] 1
        [(Windowed(key='ada', start_ms=0, end_ms=60000), 1),
         (Windowed(key='bob', start_ms=0, end_ms=60000), 1)]

        Semantics:
            Null key: dropped and counted as dropped.
            Null value: dropped and counted as dropped, without windows and by sliding ones. Other
                windows count it: Kafka Streams' documentation says otherwise, its code and results
                do not.
            Late records: counted; without windows there is no late. What belongs to closed windows
                is dropped and counted as dropped: when they close is said at
                :class:`TimeWindowedKStream` and :class:`SessionWindowedKStream`.
            Order: one update per record, in their order, whether the result changed or not; those
                of several windows as said at their class. With ``emit="commit"`` the last per key
                and commit, in the order of the last writes.
            Repartition: if the group needs it.
            Store: named ``store``: timestamped key-value (versioned with
                ``Materialized(history=)``), timestamped window, or session store.
            Timestamp: the largest of the key's records so far, in the window; a session's end.
            Quirk: towards a downstream ``group_by`` the row before the first record is 0, not
                absent, so a subtractor sees it: Kafka Streams forwards the initializer's value as
                the old one. Sessions and some sliding windows do not.

        Source: Kafka Streams' ``count`` of ``KGroupedStream``, ``TimeWindowedKStream`` and
        ``SessionWindowedKStream`` (KIP-94); ``emit="commit"`` is its record cache made exact
        (KIP-63).
        """
        return self._aggregated(COUNT, value=int64, store=store, emit=emit, name=name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[R, V]:
        """Combine the values of each key, or key and window, into one of the same type.

        >>> from datetime import timedelta
        >>> from logstate import HoppingWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> bids = builder.stream("bids", value=int).group_by_key()
        >>> bids.reduce(lambda best, bid: max(best, bid), store="best-bids").to_stream().to("best")
        >>> half = HoppingWindows(size=timedelta(seconds=2), advance=timedelta(seconds=1))
        >>> lately = bids.windowed_by(half).reduce(lambda best, bid: max(best, bid), store="lately")
        >>> lately.to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}").to("lately", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("bids", [("lamp", 7, 1_500), ("lamp", 5, 2_100)])
        ...     driver.read("best", value=int), driver.read("lately", value=int)
        ([('lamp', 7), ('lamp', 7)],
         [('0-2000', 7), ('1000-3000', 7), ('1000-3000', 7), ('2000-4000', 5)])

        Semantics: as :meth:`count`, but
            Null value: what :meth:`count` counts is given to the reducer as None.
            Quirk: there is no initializer: before the first record there is no row.

        Args:
            reducer: ``reducer(old, new)``; the first value of a key, in the window, is its
                aggregate without a call. Returning None deletes the row. It merges sessions too, in
                the order of time.

        Source: Kafka Streams' ``reduce`` of ``KGroupedStream``, ``TimeWindowedKStream`` and
        ``SessionWindowedKStream`` (KIP-94).
        """
        return self._aggregated(
            reduction(reducer), value=self._grouping()[0].value, store=store, emit=emit, name=name
        )


class StreamAggregations(CountAndReduce[R, V], Generic[K, R, V]):
    """Mixed into plain and time-windowed grouped streams; sessions need a merger too."""

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[A, V], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[R, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[R, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[R, Any]:
        """Fold the values of each key, or key and window, into an aggregate of any type.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=int).group_by_key()
        >>> spent = orders.aggregate(int, lambda sum, cents: sum + cents, store="spent", value=int)
        >>> spent.to_stream().to("spent")
        >>> minute = orders.windowed_by(TumblingWindows(size=timedelta(minutes=1)))
        >>> final = minute.aggregate(int, lambda s, n: s + n, value=int, store="s", emit="close")
        >>> final.to_stream(lambda window, cents: window.key).to("final", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 250, 0), ("ada", 125, 5_000)])
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("orders", "bob", 900, timestamp=60_000)
        ...     print(driver.read("spent", value=int))
        ...     driver.read_with_timestamps("final", value=int)
        [('ada', 250), ('ada', 375), ('bob', 900)]
        [('ada', 375, 5000)]

        Semantics: as :meth:`count`, but
            Null value: what :meth:`count` counts is given to the aggregator as None.
            Quirk: the row before the first record is towards a downstream ``group_by`` the
                initializer's value where it is 0 for :meth:`count`.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new key or window: ``int``,
                ``dict``, a class.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                It may change the aggregate it is given, and has to return it. Returning None
                deletes the row; the next record starts with the initializer again.

        Source: Kafka Streams' ``aggregate`` of ``KGroupedStream`` and ``TimeWindowedKStream``;
        final results: KIP-825.
        """
        fold = Fold(
            "KSTREAM-AGGREGATE-",
            callbacks.initializer(initializer),
            callbacks.aggregator(aggregator),
        )
        return self._aggregated(fold, value=value, store=store, emit=emit, name=name)
