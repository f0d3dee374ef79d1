"""SessionWindowedKStream: a grouped stream cut into sessions of activity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack, overload

from logstate.contracts.records import Windowed
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.windows import Emit, SessionWindows
from logstate.topology.dsl.aggregations import AggregateOptions, Fold
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_flow import GroupedFlow
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.dsl.stream_aggregations import CountAndReduce
from logstate.topology.dsl.table import KTable

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class SessionWindowedKStream(CountAndReduce[Windowed[K], V], Generic[K, V]):
    """A grouped stream cut into sessions of activity.

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

    Made by ``windowed_by(SessionWindows(...))``. The keys of results are ``Windowed(key, start_ms,
    end_ms)``, both times inclusive: the first and the last record. A session that grows or merges
    changes its key, so its old row leaves as a tombstone before the new one comes.

    Late records: dropped and counted if the session they would end up in is closed: stream time
    exceeds its end by more than gap + grace. A record far behind is taken if it reaches a session
    that is still open.

    Order: tombstones of the sessions that merge, by their end, then the merged one; with
    ``emit="close"`` by end, start and the key's bytes.

    Store: its retention is gap + grace if not given. So it hides the oldest sessions that are still
    open, and a record at a distance of exactly the gap may not find them. Give it more where that
    matters.

    ``emit="update"`` sends every change, ``"commit"`` the last one per session and commit,
    ``"close"`` only sessions that are over, without tombstones: once stream time exceeds their end
    by more than gap + grace, when a record arrives, at most once per ``window_emit_interval``. A
    session that the store has given up by then is lost, as in Kafka Streams, but counted
    (``expired_results_total``) and told: give the store as much retention as event time may jump
    (docs/late-records.md).

    Source: Kafka Streams' ``SessionWindowedKStream`` (KIP-94).
    """

    grouped: GroupedFlow[K, V]
    windows: SessionWindows

    def _grouping(self) -> tuple[GroupedFlow[Any, V], SessionWindows]:
        return self.grouped, self.windows

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

        Semantics: as :meth:`count`, but
            Null value: given to the aggregator as None, as in Kafka Streams.
            Quirk: a session that a second record of the same millisecond updates in place sends no
                old value, so a downstream ``group_by`` keeps both; ``emit="commit"`` sends it.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new session.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                Returning None removes the session.
            merger: ``merger(a, b)`` or ``merger(key, a, b)`` unites two sessions' aggregates in the
                order of time; a fresh initializer's value comes first, the record's own value last.

        Source: Kafka Streams' ``SessionWindowedKStream.aggregate`` (KIP-94).
        """
        fold = Fold(
            "KSTREAM-AGGREGATE-",
            callbacks.initializer(initializer),
            callbacks.aggregator(aggregator),
            callbacks.merger(merger),
        )
        return self._aggregated(fold, value=value, store=store, emit=emit, name=name)
