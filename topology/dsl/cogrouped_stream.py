"""CogroupedKStream: one aggregate fed by several grouped streams, each with its own aggregator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_emit, check_kind, check_windows
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.windows import Emit, SessionWindows, SlidingWindows, Windows
from logstate.topology.dsl.aggregations import required_store, value_serde
from logstate.topology.dsl.cogroup_shape import Aggregator, Groups, build_cogroup
from logstate.topology.dsl.flow import K
from logstate.topology.dsl.grouped_stream import KGroupedStream
from logstate.topology.dsl.materialized import Materialized, key_value_spec
from logstate.topology.dsl.table import KTable
from logstate.topology.dsl.windowed_cogrouped_stream import WindowedCogroupedKStream
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.aggregates.aggregate import AggregateNode

A = TypeVar("A")
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class CogroupedKStream(Generic[K, A]):
    """One aggregate fed by several grouped streams, each with its own aggregator.

    >>> from logstate import StreamsBuilder
    >>> sold = StreamsBuilder().stream("sold", value=int).group_by_key()
    >>> len(sold.cogroup(lambda stock, n: stock - n).groups)
    1

    Made by ``KGroupedStream.cogroup``. ``groups`` are the grouped streams with their aggregators;
    their topics must be co-partitioned.

    Source: Kafka Streams' ``CogroupedKStream`` (KIP-150).
    """

    groups: Groups

    @overload
    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[A, V], A | None]
    ) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(
        self, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, A], A | None]
    ) -> CogroupedKStream[K, A]: ...
    def cogroup(
        self, grouped: KGroupedStream[K, Any], aggregator: Callable[..., Any]
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

        Semantics:
            Null key: the aggregation drops and counts it.
            Null value: the aggregation decides.
            Late records: the aggregation decides.
            Order: that in which records come.
            Repartition: of the group, if it needs it. All groups must be co-partitioned.
            Store: none here; the aggregation has one, which all groups share.
            Timestamp: see the aggregation.

        Args:
            grouped: another grouped stream with keys of the same type.
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
        check_kind(grouped, KGroupedStream, "cogroup", "a KGroupedStream", "Group it first.")
        self.groups[0][0]._check_same_builder(grouped, "cogroup")
        if any(known is grouped for known, _ in self.groups):
            raise TopologyError(
                f"The grouped stream {grouped.name!r} is cogrouped twice: each of its records would"
                " count twice. Give it one aggregator that does both.",
                declared_at=declaration_site(),
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

        Semantics:
            Null key: dropped and counted.
            Null value: dropped and counted.
            Late records: aggregated as they come; without windows there is no late.
            Order: one update per record, in their order.
            Repartition: of each group that needs it.
            Store: one timestamped key-value store, named ``store``, for all groups.
            Timestamp: the largest of the key's records so far, of all groups.
            Quirk: as with :meth:`KGroupedStream.aggregate`, the initializer's value is the old
                value before the first record.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new key.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key and commit.
            name: prefix of the operators' names; generated if not given.

        Returns:
            The table of aggregates.

        Raises:
            TopologyError: no store, an unknown ``emit``, or a serde is not known.

        Source: Kafka Streams' ``CogroupedKStream.aggregate`` (KIP-150).
        """
        check_emit(emit, None)
        first = self.groups[0][0]
        options = required_store(store, "A cogroup aggregation")
        key = first._key_serde(options.key, f"store {options.name!r}")
        spec = key_value_spec(options, key, value_serde(options, value), first.builder.defaults)
        start = callbacks.initializer(initializer)

        def make(node_name: str, spec: StoreSpec, aggregator: Aggregator) -> TableNode:
            return AggregateNode(
                node_name,
                store=spec,
                initializer=start,
                aggregator=aggregator,
                emit=emit,
                declared_at=declaration_site(),
            )

        is_versioned = spec.kind == "versioned"
        return build_cogroup(
            self.groups, spec, make, name=name, key=key, output_versioned=is_versioned
        )

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

        Semantics:
            Null key: the aggregation drops and counts it.
            Null value: reaches the aggregators of all windows but sliding ones, which drop and
                count it.
            Late records: the aggregation decides.
            Order: that in which records come.
            Repartition: of each group that needs it.
            Store: none here; the aggregation has one, which all groups share.
            Timestamp: see the aggregation.

        Args:
            windows: tumbling, hopping, sliding, session, unlimited, or a subclass of
                :class:`Windows`.

        Returns:
            The windowed cogrouped stream: aggregate it.

        Raises:
            TopologyError: ``windows`` are no windows.

        Source: Kafka Streams' ``CogroupedKStream.windowedBy`` (KIP-150).
        """
        check_windows(windows)
        return WindowedCogroupedKStream(self.groups, windows)
