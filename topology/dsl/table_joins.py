"""The joins of a table: with a co-partitioned table by key, with any table by foreign key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind, check_options
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.dsl.table_table_join import (
    TableJoinOptions,
    join_by_foreign_key,
    join_tables,
)
from logstate.topology.graph.nodes import Partitioner

if TYPE_CHECKING:
    from logstate.topology.dsl.table import KTable

_OPTIONS = set(TableJoinOptions.__annotations__)

V2 = TypeVar("V2")
R = TypeVar("R")


class TableJoinOperators(Flow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.table.KTable`."""

    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    def join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, Any]:
        """Inner join: a row where both tables have one.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int, store="prices")
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> prices.join(stock, lambda price, n: price * n).to_stream().to("worth", value=int)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("prices", "tea", 3, timestamp=10)
        ...     driver.pipe("stock", "tea", 7, timestamp=5)
        ...     driver.pipe("prices", "tea", None, timestamp=20)
        ...     driver.read_with_timestamps("worth", value=int)
        [('tea', 21, 10), ('tea', None, 20)]

        With ``foreign_key`` a row of this table meets the row of the other that its foreign key
        names:

        >>> builder = StreamsBuilder()
        >>> flights = builder.table("flights", value=str, store="flights")
        >>> airports = builder.table("airports", value=str, store="airports")
        >>> routes = flights.join(
        ...     airports, lambda flight, airport: f"{flight} = {airport}",
        ...     foreign_key=lambda flight: flight[-3:], store="routes", value=str, name="route",
        ... )
        >>> routes.to_stream().to("routes")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("flights", "LH1", "to TXL", timestamp=9)
        ...     driver.pipe("airports", "TXL", "Tegel", timestamp=5)
        ...     driver.read_with_timestamps("routes", value=str)
        [('LH1', 'to TXL = Tegel', 5)]

        Semantics:
            Null key: dropped and counted. A foreign key of None joins nothing; it is counted as
                dropped.
            Null value: a deleted row deletes the result, with a tombstone.
            Late records: as they come; updates of a versioned table that are not the latest are
                dropped and counted, and the other table is read as it is now (KIP-914).
            Order: one result per change, in their order. By foreign key there is none between rows,
                and while answers are under way a result may be missing or stale; the last one is
                right.
            Repartition: none; both topics must be co-partitioned. By foreign key they need not be:
                rows subscribe to each other through two internal topics,
                ``<name>-subscription-registration-topic`` and ``-response-topic``.
            Store: both tables need one; the result has the one named ``store``, else none. By
                foreign key there is also ``<name>-subscription-store``.
            Timestamp: the larger of both rows'. By foreign key: of the change that triggered it,
                even if the other row is newer, as in Kafka Streams.
            Quirk: a tombstone on one side is forwarded whenever the other side has a row, even if
                there was no result before.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``.
            options: ``foreign_key`` (``(value)`` or ``(key, value)`` of this table's rows returns a
                key of the other's), ``store`` and ``value`` (the result's store and serde),
                ``partitioner`` and ``other_partitioner`` (of a foreign-key join whose tables are
                placed by a partitioner of their own; called with the key and None), ``name``
                (required with ``foreign_key``).

        Returns:
            The joined table.

        Raises:
            TopologyError: a table without a store, another builder, another shape of a callback, or
                a name, store or serde that is missing.

        Source: Kafka Streams' ``KTable.join``; by foreign key: KIP-213, KIP-775, KIP-1104.
        """
        check_options(dict(options), _OPTIONS, "a table join")
        return self._join("inner", other, joiner, **options)

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    def left_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        **options: Unpack[TableJoinOptions],
    ) -> KTable[K, Any]:
        """Left join: a row for every row of this table; the right side is None where the other has
        none.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> plans = builder.table("plans", value=str, store="plans")
        >>> users.left_join(plans, lambda u, plan: f"{u}/{plan}").to_stream().to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("users", "1", "ada", timestamp=3)
        ...     driver.pipe("plans", "1", "gold", timestamp=5)
        ...     driver.pipe("plans", "1", None, timestamp=7)
        ...     driver.read_with_timestamps("out", value=str)
        [('1', 'ada/None', 3), ('1', 'ada/gold', 5), ('1', 'ada/None', 7)]

        Semantics:
            Null key: dropped and counted. A foreign key of None has a result without a right side
                (KIP-962).
            Null value: a deleted left row deletes the result; a deleted right row takes its side
                away.
            Late records: as with :meth:`join`.
            Order: as with :meth:`join`.
            Repartition: as with :meth:`join`.
            Store: as with :meth:`join`.
            Timestamp: as with :meth:`join`; of a result without a right row that of the change.
            Quirk: every tombstone of a left row is forwarded, even if there was no row before,
                unless the right side has none either.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; right may be None.
            options: as for :meth:`join`.

        Returns:
            The joined table.

        Raises:
            TopologyError: as for :meth:`join`.

        Source: Kafka Streams' ``KTable.leftJoin``; by foreign key: KIP-213.
        """
        check_options(dict(options), _OPTIONS, "a table join")
        return self._join("left", other, joiner, **options)

    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        *,
        store: str | Materialized | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        *,
        store: str | Materialized | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, R]: ...
    def outer_join(
        self,
        other: KTable[K, Any],
        joiner: Callable[..., Any],
        *,
        store: str | Materialized | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Outer join: a row where either table has one.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> day = builder.table("day", value=int, store="day")
        >>> night = builder.table("night", value=int, store="night")
        >>> total = day.outer_join(night, lambda a, b: (a or 0) + (b or 0))
        >>> total.to_stream().to("total", value=int)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("night", "kwh", 4)
        ...     driver.pipe("day", "kwh", 9)
        ...     driver.pipe("day", "kwh", None)
        ...     driver.pipe("night", "kwh", None)
        ...     driver.read("total", value=int)
        [('kwh', 4), ('kwh', 13), ('kwh', 4), ('kwh', None)]

        Semantics:
            Null key: dropped and counted.
            Null value: a deleted row takes its side away; with both gone a tombstone is sent.
            Late records: as with :meth:`join`.
            Order: one result per change, in their order.
            Repartition: none; both topics must be co-partitioned.
            Store: both tables need one; the result has the one named ``store``, else none.
            Timestamp: the larger of both rows'; of a result with one side that of the change.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; either may be None, not
                both.
            store: name or :class:`Materialized` of the result's store.
            value: serde of the results, where a topic or store needs it.
            name: the operator's name; generated if not given.

        Returns:
            The joined table.

        Raises:
            TopologyError: a table without a store, another builder, another shape of joiner, or a
                serde that is missing.

        Source: Kafka Streams' ``KTable.outerJoin``.
        """
        return self._join("outer", other, joiner, store=store, value=value, name=name)

    def _join(
        self,
        kind: Literal["inner", "left", "outer"],
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        *,
        foreign_key: Callable[..., Any] | None = None,
        store: str | Materialized | None = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
        other_partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> KTable[Any, Any]:
        function = callbacks.joiner(joiner)
        hint = "Make a stream one by to_table(); a stream can join a table the other way round."
        check_kind(other, TableJoinOperators, "A table join", "a KTable", hint)
        self._check_same_builder(other, "join")
        callbacks.partitioner(partitioner)
        callbacks.partitioner(other_partitioner)
        this: Any = self
        if foreign_key is None:
            return join_tables(
                this, other, function, kind=kind, store=store, value=value, name=name
            )
        return join_by_foreign_key(
            this,
            other,
            function,
            foreign_key=callbacks.mapper(foreign_key, "foreign key function"),
            is_left=kind == "left",
            store=store,
            value=value,
            partitioner=partitioner,
            other_partitioner=other_partitioner,
            name=name,
        )
