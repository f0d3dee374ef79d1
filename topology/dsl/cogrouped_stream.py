"""CogroupedKStream: one aggregate fed by several grouped streams, each with its own aggregator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind, check_windows
from logstate.topology.declaring.declaration_site import misdeclared
from logstate.topology.declaring.windows import Emit, SessionWindows, SlidingWindows, Windows
from logstate.topology.dsl.aggregations import AggregateOptions
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_flow import GroupedFlow, Groups, cogrouped
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.dsl.table import KTable
from logstate.topology.dsl.windowed_cogrouped_stream import WindowedCogroupedKStream

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class CogroupedKStream(Generic[K, A]):
    """One aggregate fed by several grouped streams, each with its own aggregator.

    >>> from logstate import StreamsBuilder
    >>> sold = StreamsBuilder().stream("sold", value=int).group_by_key()
    >>> len(sold.cogroup(lambda stock, n: stock - n).groups)
    1

    Made by ``KGroupedStream.cogroup``. ``groups`` are the grouped streams with their aggregators;
    their topics must be co-partitioned.

    Args:
        value: type or serde of the aggregate.
        store: name or :class:`Materialized` of the store; required.
        emit: "update" sends every change, "commit" the last one per key and commit.
        name: prefix of the operators' names; generated if not given.

    Returns:
        The table of aggregates.

    Raises:
        TopologyError: no store, an unknown ``emit``, another shape of a callback, or a serde is not
            known.

    Source: Kafka Streams' ``CogroupedKStream`` (KIP-150).
    """

    groups: Groups

    @overload
    def cogroup(
        self, grouped: GroupedFlow[K, V], aggregator: Callable[[A, V], A | None]
    ) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(
        self, grouped: GroupedFlow[K, V], aggregator: Callable[[K, V, A], A | None]
    ) -> CogroupedKStream[K, A]: ...
    def cogroup(
        self, grouped: GroupedFlow[K, Any], aggregator: Callable[..., Any]
    ) -> CogroupedKStream[K, A]:
        """Add one more group, with the aggregator for its values.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> views = builder.stream("views", value=str).group_by_key()
        >>> buys = builder.stream("buys", value=int).group_by_key()
        >>> last = views.cogroup(lambda seen, page: [page, seen[1]])
        >>> last = last.cogroup(buys, lambda seen, cents: [seen[0], cents])
        >>> last.aggregate(lambda: ["", 0], store="last", value=list).to_stream().to("last")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("views", "ada", "tea")
        ...     driver.pipe("buys", "ada", 250)
        ...     driver.read("last", value=list)
        [('ada', ['tea', 0]), ('ada', ['tea', 250])]

        Semantics: as :meth:`KGroupedStream.cogroup`.

        Args:
            grouped: another ``KGroupedStream`` with keys of the same type.
            aggregator: for its values: ``aggregator(aggregate, value)`` or ``aggregator(key, value,
                aggregate)``.

        Returns:
            The cogrouped stream with one more group.

        Raises:
            TopologyError: the aggregator has another shape, the group is in it already, or it comes
                from another builder.

        Source: Kafka Streams' ``CogroupedKStream.cogroup`` (KIP-150).
        """
        function = callbacks.aggregator(aggregator)
        check_kind(grouped, GroupedFlow, "cogroup", "a KGroupedStream", "Group it first.")
        self.groups[0][0]._check_same_builder(grouped, "cogroup")
        if any(known is grouped for known, _ in self.groups):
            raise misdeclared(
                f"The grouped stream {grouped.name!r} is cogrouped twice: each of its records would"
                " count twice. Give it one aggregator that does both."
            )
        return CogroupedKStream((*self.groups, (grouped, function)))

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, A]:
        """The table of aggregates per key.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> sold = builder.stream("sold", value=int).group_by_key()
        >>> bought = builder.stream("bought", value=int).group_by_key()
        >>> stock = bought.cogroup(lambda left, n: left + n).cogroup(sold, lambda left, n: left - n)
        >>> stock.aggregate(int, store="stock", value=int).to_stream().to("stock")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("bought", "tea", 10, timestamp=7)
        ...     driver.pipe("sold", "tea", 3, timestamp=5)
        ...     driver.read_with_timestamps("stock", value=int)
        [('tea', 10, 7), ('tea', 7, 7)]

        Semantics: as :meth:`KGroupedStream.aggregate`, but
            Repartition: of each group that needs it.
            Store: one for all groups.
            Timestamp: the largest of the key's records so far, of all groups.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new key.

        Source: Kafka Streams' ``CogroupedKStream.aggregate`` (KIP-150).
        """
        start = callbacks.initializer(initializer)
        options = AggregateOptions(value=value, store=store, emit=emit, name=name)
        return cogrouped(self.groups, None, start, None, **options)

    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> WindowedCogroupedKStream[K, A]:
        """Aggregate per key and window instead of per key.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> ups = builder.stream("ups", value=int).group_by_key()
        >>> downs = builder.stream("downs", value=int).group_by_key()
        >>> votes = ups.cogroup(lambda n, up: n + up).cogroup(downs, lambda n, down: n - down)
        >>> hourly = votes.windowed_by(TumblingWindows(size=timedelta(hours=1)))
        >>> table = hourly.aggregate(int, store="votes", value=int)
        >>> table.to_stream(lambda window, n: window.key).to("votes", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("ups", "tea", 1)
        ...     driver.pipe("downs", "tea", 2)
        ...     driver.read("votes", value=int)
        [('tea', 1), ('tea', -1)]

        Semantics: as :meth:`KGroupedStream.windowed_by`, but
            Repartition: of each group that needs it.
            Store: none here; the aggregation has one, which all groups share.

        Args:
            windows: as for :meth:`KGroupedStream.windowed_by`.

        Returns:
            The windowed cogrouped stream: aggregate it.

        Raises:
            TopologyError: ``windows`` are no windows.

        Source: Kafka Streams' ``CogroupedKStream.windowedBy`` (KIP-150).
        """
        check_windows(windows)
        return WindowedCogroupedKStream(self.groups, windows)
