"""SessionWindowedKStream: a grouped stream cut into sessions of activity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack, overload

from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.serdes.built_in import SessionWindowedSerde, int64
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_emit
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.windows import Emit, SessionWindows
from logstate.topology.dsl.aggregations import as_aggregator, count_one, required_store, value_serde
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_stream import KGroupedStream
from logstate.topology.dsl.materialized import Materialized, session_spec
from logstate.topology.dsl.options import AggregateOptions
from logstate.topology.dsl.table import KTable
from logstate.topology.operators.aggregates.session_aggregate import SessionAggregateNode

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class SessionWindowedKStream(Generic[K, V]):
    """A grouped stream cut into sessions of activity.

    >>> from datetime import timedelta
    >>> from logstate import SessionWindows, StreamsBuilder
    >>> clicks = StreamsBuilder().stream("clicks", value=str).group_by_key()
    >>> clicks.windowed_by(SessionWindows(gap=timedelta(minutes=30))).windows
    SessionWindows(gap_ms=1800000, grace_ms=0)

    Made by ``windowed_by(SessionWindows(...))``. The keys of results are ``Windowed(key, start_ms,
    end_ms)``, both times inclusive: the first and the last record. A session that grows or merges
    changes its key, so its old row leaves as a tombstone before the new one comes.

    ``emit="update"`` sends every change, ``"commit"`` the last one per session and commit,
    ``"close"`` only sessions that are over, without tombstones: once stream time exceeds their end
    by more than gap + grace.

    Source: Kafka Streams' ``SessionWindowedKStream`` (KIP-94).
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
        """The number of records per key and session.

        >>> from datetime import timedelta
        >>> from logstate import SessionWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = SessionWindows(gap=timedelta(milliseconds=5), grace=timedelta(milliseconds=10))
        >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(visits)
        >>> counts = clicks.count(store="n").to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}")
        >>> counts.to("n", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "a", 10), ("ada", "c", 16), ("ada", "b", 14)])
        ...     driver.read("n", value=int)
        [('10-10', 1), ('16-16', 1), ('10-10', None), ('16-16', None), ('10-16', 3)]

        Semantics:
            Null key: dropped and counted as dropped.
            Null value: counted, unlike without windows: Kafka Streams does not look at it here.
            Late records: dropped and counted if the session they would end up in is closed: stream
                time exceeds its end by more than gap + grace. A record far behind is taken if it
                reaches a session that is still open.
            Order: tombstones of the sessions that merge, by their end, then the merged one.
            Repartition: if the group needs it.
            Store: session store, named ``store``; retention = gap + grace if not given.
            Timestamp: the session's end, for tombstones too.
            Quirk: with the default retention the store hides the oldest sessions that are still
                open, so a record at a distance of exactly the gap may not find them. Give it more
                where that matters.

        Args:
            store: name or :class:`Materialized` of the store; required.
            emit: "update", "commit" or "close", see the class.
            name: the operator's name; generated if not given.

        Returns:
            The table of counts; its keys are ``Windowed``.

        Raises:
            TopologyError: no store, a retention shorter than sessions are open, an unknown
                ``emit``, or the key's serde is not known.

        Source: Kafka Streams' ``SessionWindowedKStream.count`` (KIP-94).
        """
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
        """Combine the values of each key and session into one of the same type.

        >>> from datetime import timedelta
        >>> from logstate import SessionWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = SessionWindows(gap=timedelta(milliseconds=5))
        >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(visits)
        >>> path = clicks.reduce(lambda path, page: f"{path} > {page}", store="paths", emit="close")
        >>> path.to_stream(lambda visit, path: visit.key).to("paths", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "home", 10), ("ada", "cart", 14)])
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("clicks", "bob", "home", timestamp=30)
        ...     driver.read_with_timestamps("paths", value=str)
        [('ada', 'home > cart', 14)]

        Semantics:
            Null key: dropped and counted.
            Null value: given to the reducer as None, as in Kafka Streams.
            Late records: dropped and counted, as by :meth:`count`.
            Order: tombstones of the sessions that merge, by their end, then the merged one; with
                ``emit="close"`` by end, start and the key's bytes.
            Repartition: if the group needs it.
            Store: session store, named ``store``; retention as for :meth:`count`.
            Timestamp: the session's end, for tombstones too.

        Args:
            reducer: ``reducer(old, new)``; the first value of a session is its aggregate without a
                call. It merges sessions too, in the order of time.
            store: name or :class:`Materialized` of the store; required.
            emit: "update", "commit" or "close", see the class.
            name: the operator's name; generated if not given.

        Returns:
            The table of combined values; its keys are ``Windowed``.

        Raises:
            TopologyError: no store, a retention shorter than sessions are open, an unknown
                ``emit``, another shape of reducer, or a serde is not known.

        Source: Kafka Streams' ``SessionWindowedKStream.reduce`` (KIP-94).
        """
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
        """Fold the values of each key and session into an aggregate of any type.

        >>> from datetime import timedelta
        >>> from logstate import SessionWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = SessionWindows(gap=timedelta(milliseconds=5))
        >>> orders = builder.stream("orders", value=int).group_by_key().windowed_by(visits)
        >>> spent = orders.aggregate(
        ...     int, lambda sum, cents: sum + cents, lambda a, b: a + b, store="spent", value=int
        ... )
        >>> spent.to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}").to("spent", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 250, 10), ("ada", 125, 14)])
        ...     driver.read("spent", value=int)
        [('10-10', 250), ('10-10', None), ('10-14', 375)]

        Semantics:
            Null key: dropped and counted.
            Null value: given to the aggregator as None, as in Kafka Streams.
            Late records: dropped and counted, as by :meth:`count`.
            Order: tombstones of the sessions that merge, by their end, then the merged one; with
                ``emit="close"`` by end, start and the key's bytes.
            Repartition: if the group needs it.
            Store: session store, named ``store``; retention as for :meth:`count`.
            Timestamp: the session's end, for tombstones too.
            Quirk: a session that a second record of the same millisecond updates in place sends no
                old value, so a downstream ``group_by`` keeps both; ``emit="commit"`` sends it.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new session.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                Returning None removes the session.
            merger: ``merger(a, b)`` or ``merger(key, a, b)`` unites two sessions' aggregates in the
                order of time; a fresh initializer's value comes first, the record's own value last.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update", "commit" or "close", see the class.
            name: the operator's name; generated if not given.

        Returns:
            The table of aggregates; its keys are ``Windowed``.

        Raises:
            TopologyError: no store, a retention shorter than sessions are open, an unknown
                ``emit``, another shape of a callback, or a serde is not known.

        Source: Kafka Streams' ``SessionWindowedKStream.aggregate`` (KIP-94).
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
