"""KTable: the latest value per key, and the stream of its changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind, check_options
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.mapper_results import in_pairs
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import K, PairOptions, TableFlow, V
from logstate.topology.dsl.materialized import Materialized, key_value_spec, materialized
from logstate.topology.dsl.suppressed import Suppressed, window_grace_ms
from logstate.topology.dsl.table_table_join import (
    TableJoinOptions,
    join_by_foreign_key,
    join_tables,
)
from logstate.topology.graph.nodes import Partitioner, TableNode
from logstate.topology.operators.streams.process import Connections
from logstate.topology.operators.tables.suppress import SuppressNode
from logstate.topology.operators.tables.table_filter import TableFilterNode
from logstate.topology.operators.tables.table_group_by import TableGroupByNode
from logstate.topology.operators.tables.table_map_values import TableMapValuesNode
from logstate.topology.operators.tables.table_transform_values import TableTransformValuesNode
from logstate.topology.operators.tables.to_stream import ToStreamNode
from logstate.topology.processor.processor_stores import Stores
from logstate.topology.processor.value_transformer import ValueTransformer

if TYPE_CHECKING:
    from logstate.topology.dsl.grouped_table import KGroupedTable
    from logstate.topology.dsl.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")


class TableOptions(TypedDict, total=False):
    """Options of an operator that derives a table: its store, its name."""

    store: str | Materialized | None
    name: str | None


@dataclass(frozen=True, eq=False, repr=False)
class KTable(TableFlow[K, V]):
    """A table at one point of the graph: the latest value per key, and the stream of its changes.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().table("prices", value=int, store="prices", name="prices").name
    'prices'

    Made by ``StreamsBuilder.table``, by aggregations, and by ``KStream.to_table``. It is kept in a
    store if it was given a name for one; an operator that reads rows below a table without a store
    reads those of the table above it, and if there is none, ``build()`` says where to name one.

    Semantics: of every operator, but for what it says itself:
        Null key: no row has one.
        Null value: stays a tombstone; a callback never sees it.
        Late records: as the table above has them.
        Order: kept.
        Repartition: none, here or below.
        Store: the one named ``store``, else none: rows are then read from the table above, and the
            callback is called anew each time, so it must be a function of the row.
        Timestamp: the change's, and its headers.

    Args:
        key: serde of the result's keys, where a topic or store below needs it.
        value: serde of the result's values, likewise.
        store: name or :class:`Materialized` of the result's store.
        name: the operator's name; generated if not given.

    Returns:
        The table below the operator.

    Raises:
        TopologyError: a callback has another shape, ``key`` or ``value`` is no serde, the serde of
            a store is not known, or a name cannot be part of a topic's name.

    Source: Kafka Streams' ``KTable``.
    """

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(
        self, mapper: Callable[[V], K2], *, key: Any = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    @overload
    def to_stream(
        self, mapper: Callable[[K, V], K2], *, key: Any = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    def to_stream(
        self,
        mapper: Callable[..., Any] | None = None,
        *,
        key: Any = None,
        name: str | None = None,
    ) -> KStream[Any, V]:
        """The table's changes as a stream.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int)
        >>> prices.to_stream(lambda item, price: item.upper(), key=str).to("changes")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("prices", [("tea", 3, 0), ("tea", None, 5)])
        ...     driver.read("changes", value=int)
        [('TEA', 3), ('TEA', None)]

        Semantics: as every operator, but
            Null value: a tombstone is forwarded as a null value, and given to the mapper as None.
            Late records: every change is forwarded, of a versioned table those that are not the
                latest too.
            Repartition: none here; with a mapper, a grouping or join below goes through a
                repartition topic first.
            Store: none.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)`` returns the new key; without it keys
                stay.

        Returns:
            The stream of changes. A change without effect is one too.

        Source: Kafka Streams' ``KTable.toStream``.
        """
        from logstate.topology.dsl.stream import KStream

        node = self._node(ToStreamNode, name, "KTABLE-TOSTREAM-")
        stream: KStream[Any, V] = KStream(
            self.builder, node.name, self._add(node), self.source_names, self.key, self.value,
            needs_repartition=False,
        )  # fmt: skip
        return stream if mapper is None else stream.select_key(mapper, key=key)

    @overload
    def group_by(
        self, mapper: Callable[[V], tuple[K2, V2] | None], **options: Unpack[PairOptions]
    ) -> KGroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self, mapper: Callable[[K, V], tuple[K2, V2] | None], **options: Unpack[PairOptions]
    ) -> KGroupedTable[K2, V2]: ...
    def group_by(
        self,
        mapper: Callable[..., tuple[Any, Any] | None],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedTable[Any, Any]:
        """Group the rows by a new key, to aggregate them with a subtractor.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> cities = users.group_by(lambda user, city: (city, user), name="by", key=str, value=str)
        >>> cities.count(store="users-per-city").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "Ulm", 0), ("ada", "Bonn", 1)])
        ...     driver.read("counts", value=int)
        [('Ulm', 1), ('Ulm', 0), ('Bonn', 1)]

        Semantics: as every operator, but
            Null key: no row has one; a change with one stops the application. A mapped key of None,
                or None instead of a pair, leaves that side of the change out: the row is in no
                group.
            Null value: a deleted row is taken out of its group. A mapped value of None leaves that
                side out.
            Late records: as they come; changes of a versioned table that are not the latest are
                left out.
            Order: the old side first. Both travel in one record if their key is the same (KIP-904),
                so the aggregate never shows the state between.
            Repartition: always, through ``<application id>-<name>-repartition``; named after the
                aggregation's store if ``name`` is not given.
            Store: none here. It needs old values, so the table must have a store, or one above it.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)`` returns the new ``(key, value)``, or
                None for a row that is in no group. It is called for old values too and must give
                the same for the same row.
            name: names the operator and the repartition topic.

        Returns:
            The grouped table: count, reduce or aggregate it.

        Raises:
            TopologyError: no table above has a store, another shape of mapper, or no serde.

        Source: Kafka Streams' ``KTable.groupBy``; one record for both sides: KIP-904.
        """
        from logstate.topology.dsl.grouped_table import KGroupedTable

        function = in_pairs(callbacks.mapper(mapper), "group_by()")
        node = self._node(TableGroupByNode, name, "KTABLE-SELECT-", mapper=function)
        logical = self._add(node)
        self.node.enable_sending_old_values(force=True)
        return KGroupedTable(
            self.builder,
            node.name,
            logical,
            self.source_names,
            optional_serde(key, None, f"the key of group {node.name!r}"),
            optional_serde(value, None, f"the value of group {node.name!r}"),
            topic_name=name,
        )

    def suppress(self, condition: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold updates back until their window closes, or for a time per key.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, until_time_limit
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> calm = stock.suppress(until_time_limit(timedelta(milliseconds=10)), name="calm")
        >>> calm.to_stream().to("calm-stock")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("stock", [("tea", 5, 100), ("tea", 4, 109), ("milk", 1, 110)])
        ...     driver.read_with_timestamps("calm-stock", value=int)
        [('tea', 4, 109)]

        Semantics: as every operator, but
            Null value: with a time limit tombstones are forwarded like values; of a window that was
                deleted before it closed nothing is heard.
            Late records: replace what is held for their key; they do not change when it leaves.
            Order: by the time they were due, then by the key's bytes.
            Store: a buffer named ``<name>-store``, in memory, with a changelog.
            Timestamp: that of the last update that was held, and its headers.
            Quirk: time is the operator's own stream time, so nothing leaves until a later record
                comes: an idle topic keeps its last windows waiting. A window of a session or
                sliding aggregation whose end + grace EQUALS stream time is forwarded here while the
                aggregation still accepts records for it, so it can be forwarded twice. Towards a
                downstream ``group_by`` the old value is that of the last update, not of the last
                forwarded one. All as in Kafka Streams.

        Args:
            condition: :func:`until_window_closes` or :func:`until_time_limit`.
            name: names the operator and its buffer; required.

        Returns:
            The table of what is let through.

        Raises:
            TopologyError: no name, no windows to wait for, or a serde is not known; at ``build()``:
                a versioned table is above.

        Source: Kafka Streams' ``KTable.suppress`` (KIP-328).
        """
        choice = "until_window_closes() or until_time_limit(...)"
        check_kind(condition, Suppressed, "suppress", choice, "It says what to wait for.")
        buffer = required_name(name, "suppress", "its buffer has a changelog topic", 'name="..."')
        wait_ms = condition.limit_ms
        if wait_ms is None:
            wait_ms = window_grace_ms(self.logical)
        use = f"the buffer of suppress {buffer!r}"
        spec = StoreSpec(
            name=f"{buffer}-store",
            kind="suppress_buffer",
            key=self._key_serde(None, use),
            value=self._value_serde(None, use),
            is_logged=condition.logged,
            with_headers=self.builder.defaults.with_headers,
            declared_at=declaration_site(),
        )
        node = SuppressNode(
            buffer,
            parent=self.node,
            store=spec,
            until=condition.until,
            wait_ms=wait_ms,
            max_records=condition.max_records,
            max_bytes=condition.max_bytes,
            when_full=condition.when_full,
        )
        logical = self._add(node, output_versioned=False)
        logical.refuses_versioned_input = True
        return self._derive(node.name, logical, node=node)

    @overload
    def filter(
        self, predicate: Callable[[V], object], **options: Unpack[TableOptions]
    ) -> KTable[K, V]: ...
    @overload
    def filter(
        self, predicate: Callable[[K, V], object], **options: Unpack[TableOptions]
    ) -> KTable[K, V]: ...
    def filter(
        self,
        predicate: Callable[..., object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The table of the rows that the predicate accepts.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> stock.filter(lambda n: n > 10, store="plenty").to_stream().to("plenty")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("stock", [("tea", 12, 0), ("tea", 3, 1), ("rum", 5, 2)])
        ...     driver.read("plenty", value=int)
        [('tea', 12), ('tea', None)]

        Semantics: as every operator, but
            Quirk: a row that stops fitting becomes a tombstone. One that neither fits nor fitted
                sends nothing where the table above has a store; where it has none every row that
                does not fit sends a tombstone, because without old values the filter cannot know
                (Kafka Streams' rule).

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.

        Source: Kafka Streams' ``KTable.filter``.
        """
        return self._filter(predicate, store, name, keeps=True)

    @overload
    def filter_not(
        self, predicate: Callable[[V], object], **options: Unpack[TableOptions]
    ) -> KTable[K, V]: ...
    @overload
    def filter_not(
        self, predicate: Callable[[K, V], object], **options: Unpack[TableOptions]
    ) -> KTable[K, V]: ...
    def filter_not(
        self,
        predicate: Callable[..., object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The table of the rows that the predicate does not accept.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str)
        >>> users.filter_not(lambda state: state == "closed").to_stream().to("open")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "new", 0), ("ada", "closed", 1)])
        ...     driver.read("open", value=str)
        [('ada', 'new'), ('ada', None)]

        Semantics: as :meth:`filter`.

        Args:
            predicate: as for :meth:`filter`.

        Source: Kafka Streams' ``KTable.filterNot``.
        """
        return self._filter(predicate, store, name, keeps=False)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2], *, value: Any = None, **options: Unpack[TableOptions]
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], *, value: Any = None, **options: Unpack[TableOptions]
    ) -> KTable[K, V2]: ...
    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """The table of mapped values.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=dict)
        >>> users.map_values(lambda user: user["city"], value=str).to_stream().to("cities")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", {"city": "Oslo"}, 0), ("ada", None, 1)])
        ...     driver.read("cities", value=str)
        [('ada', 'Oslo'), ('ada', None)]

        Semantics: as every operator, but
            Null value: stays a tombstone. A mapper that returns None deletes the row.
            Quirk: a change that maps to the same value is forwarded all the same (KIP-557 was taken
                back).

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``.

        Source: Kafka Streams' ``KTable.mapValues``; with the key: KIP-149.
        """
        function, prefix = callbacks.mapper(mapper), "KTABLE-MAPVALUES-"
        return self._below(TableMapValuesNode, name, prefix, store, value, mapper=function)

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer[K, V, V2]],
        *,
        stores: Stores = (),
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """Map values with a transformer of your own that has a context and may use stores.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> from logstate.topology import ValueTransformer
        >>> class Where(ValueTransformer):
        ...     def transform(self, key, value):
        ...         return value and f"{value} ({self.context.task_id})"
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str)
        >>> users.transform_values(Where, value=str).to_stream().to("where")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "Oslo", 0), ("ada", None, 1)])
        ...     driver.read("where", value=str)
        [('ada', 'Oslo (0_0)'), ('ada', None)]

        Semantics: as every operator, but
            Null value: given to the transformer as None, unlike by :meth:`map_values`.
            Store: those in ``stores``, and the one named ``store``, if any, for the result: the
                transformer may ask its context for it, and finds the rows as they were before the
                update. Without it rows are transformed anew whenever they are read.
            Quirk: the transformer is called for old values too where something below asks for them,
                so it must be a function of the row and of its stores.

        Args:
            supplier: makes one :class:`ValueTransformer` per task: the class, or a function without
                parameters.
            stores: names of stores added to the builder, or declarations of stores to add along
                with it.

        Raises:
            TopologyError: the supplier cannot be called without arguments, or a serde is not known;
                at ``build()``: a store does not exist.

        Source: Kafka Streams' ``KTable.transformValues`` (KIP-292).
        """
        return self._below(
            TableTransformValuesNode,
            name,
            "KTABLE-TRANSFORMVALUES-",
            store,
            value,
            supplier=callbacks.supplier(supplier),
            connections=Connections(stores),
            schedule_name=name or self.builder.graph.names.of_supplier(supplier),
        )

    def _filter(
        self,
        predicate: Callable[..., object],
        store: str | Materialized | None,
        name: str | None,
        *,
        keeps: bool,
    ) -> KTable[K, V]:
        below: KTable[K, V] = self._below(
            TableFilterNode,
            name,
            "KTABLE-FILTER-",
            store,
            self.value,
            predicate=callbacks.predicate(predicate),
            keeps=keeps,
        )
        return below

    def _below(
        self,
        kind: Callable[..., TableNode],
        name: str | None,
        prefix: str,
        store: str | Materialized | None,
        value: Any,
        **options: Any,
    ) -> KTable[K, Any]:
        """A table whose rows follow from this one's, with a store of its own if asked for."""
        node_name = self.builder.graph.names.named(name, prefix)
        serde = optional_serde(value, None, f"the value of table {node_name!r}")
        spec, chosen = None, materialized(store)
        if chosen is not None:
            use = f"store {chosen.name!r}"
            key = self._key_serde(chosen.key, use)
            of_value = self._value_serde(serde if chosen.value is None else chosen.value, use)
            spec = key_value_spec(chosen, key, of_value, self.builder.defaults)
            serde = spec.value
        node = kind(node_name, parent=self.node, store=spec, **options)
        is_versioned = None if spec is None else spec.traits.is_versioned
        logical = self._add(node, output_versioned=is_versioned)
        return self._derive(node.name, logical, node=node, value=serde)

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
                foreign key there is also ``<name>-subscription-store``, and the result needs one
                where an operator below reads its rows or their old values.
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

        Raises:
            TopologyError: a table without a store, another builder, another shape of a callback, or
                a name, store or serde that is missing.

        Source: Kafka Streams' ``KTable.join``; by foreign key: KIP-213, KIP-775, KIP-1104.
        """
        check_options(dict(options), TableJoinOptions, "a table join")
        return self._join("inner", other, joiner, **options)

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        **o: Unpack[TableJoinOptions],
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **o: Unpack[TableJoinOptions],
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

        Semantics: as :meth:`join`, but
            Null key: dropped and counted. A foreign key of None has a result without a right side
                (KIP-962).
            Null value: a deleted left row deletes the result; a deleted right row takes its side
                away.
            Timestamp: of a result without a right row that of the change.
            Quirk: every tombstone of a left row is forwarded, even if there was no row before,
                unless the right side has none either.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; right may be None.
            options: as for :meth:`join`.

        Source: Kafka Streams' ``KTable.leftJoin``; by foreign key: KIP-213.
        """
        check_options(dict(options), TableJoinOptions, "a table join")
        return self._join("left", other, joiner, **options)

    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        *,
        value: Any = None,
        **options: Unpack[TableOptions],
    ) -> KTable[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        *,
        value: Any = None,
        **options: Unpack[TableOptions],
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

        Semantics: as :meth:`join`, but
            Null key: dropped and counted.
            Null value: a deleted row takes its side away; with both gone a tombstone is sent.
            Timestamp: the larger of both rows'; of a result with one side that of the change.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; either may be None, not
                both.

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
        check_kind(other, KTable, "A table join", "a KTable", hint)
        self._check_same_builder(other, "join")
        callbacks.partitioner(partitioner)
        callbacks.partitioner(other_partitioner)
        if foreign_key is None:
            return join_tables(
                self, other, function, kind=kind, store=store, value=value, name=name
            )
        return join_by_foreign_key(
            self,
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
