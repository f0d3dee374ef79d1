"""WindowedCogroupedKStream: one aggregate per key and window, fed by several grouped streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import misdeclared
from logstate.topology.declaring.windows import Emit, SessionWindows
from logstate.topology.dsl.aggregations import AggregateOptions
from logstate.topology.dsl.flow import K
from logstate.topology.dsl.grouped_flow import Groups, cogrouped
from logstate.topology.dsl.materialized import AnyWindows, Materialized
from logstate.topology.dsl.table import KTable

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class WindowedCogroupedKStream(Generic[K, A]):
    """One aggregate per key and window, fed by several grouped streams.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TumblingWindows
    >>> ups = StreamsBuilder().stream("ups", value=int).group_by_key()
    >>> votes = ups.cogroup(lambda n, up: n + up)
    >>> hourly = votes.windowed_by(TumblingWindows(size=timedelta(hours=1)))
    >>> hourly.windows
    TumblingWindows(size_ms=3600000, grace_ms=0)

    Made by ``CogroupedKStream.windowed_by``; arguments are those of :class:`CogroupedKStream`, and
    ``emit="close"`` as in :class:`TimeWindowedKStream`.

    Source: Kafka Streams' ``TimeWindowedCogroupedKStream`` and ``SessionWindowedCogroupedKStream``
    (KIP-150).
    """

    groups: Groups
    windows: AnyWindows

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[..., A] | None = None,
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[Any, A]:
        """The table of aggregates per key and window.

        >>> from datetime import timedelta
        >>> from logstate import SessionWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> views = builder.stream("views", value=str).group_by_key()
        >>> buys = builder.stream("buys", value=int).group_by_key()
        >>> both = views.cogroup(lambda n, page: n + 1).cogroup(buys, lambda n, cents: n + 10)
        >>> visits = both.windowed_by(SessionWindows(gap=timedelta(minutes=30)))
        >>> scores = visits.aggregate(int, lambda a, b: a + b, store="scores", value=int)
        >>> scores.to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}", key=str).to("scores")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("views", "ada", "tea", timestamp=1)
        ...     driver.pipe("buys", "ada", 250, timestamp=9)
        ...     driver.read("scores", value=int)
        [('1-1', 1), ('1-1', None), ('1-9', 11)]

        Semantics: as :meth:`CogroupedKStream.aggregate`, but
            Null value: reaches the aggregators; sliding windows drop and count it.
            Late records: each group judges by its OWN stream time, so one that lags is not made
                late by another. With ``emit="close"``, which Kafka Streams does not have here, all
                groups share one stream time: what one of them has finished no other may change.
            Order: as for one group, see :class:`TimeWindowedKStream` and
                :class:`SessionWindowedKStream`.
            Timestamp: as for one group: the largest of the window's records, of a session its end.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new window.
            merger: for sessions, and only for them: ``merger(a, b)`` or ``merger(key, a, b)``.

        Raises:
            TopologyError: no store, no merger or one too many, an unknown ``emit``, or a serde is
                not known.

        Source: Kafka Streams' windowed ``CogroupedKStream`` (KIP-150).
        """
        is_session = isinstance(self.windows, SessionWindows)
        if merger is not None and not is_session:
            raise misdeclared(
                f"merger is for session windows, found {self.windows!r}: other windows never merge."
                " Leave it out."
            )
        if merger is None and is_session:
            raise misdeclared(
                "A session aggregation needs a merger: sessions can grow together, and only you"
                " know how their aggregates unite. Give merger(a, b) after the initializer."
            )
        start = callbacks.initializer(initializer)
        merge = None if merger is None else callbacks.merger(merger)
        options = AggregateOptions(value=value, store=store, emit=emit, name=name)
        return cogrouped(self.groups, self.windows, start, merge, **options)
