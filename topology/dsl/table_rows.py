"""filter, map_values and transform_values of a table: tables computed row by row from another.

The result is kept in a store only if it is given one; without, its rows are computed from the table
above whenever they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import Flow, K, Stores, V
from logstate.topology.dsl.materialized import Materialized, key_value_spec, materialized
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.graph.nodes import TableNode
from logstate.topology.operators.streams.process import Connections
from logstate.topology.operators.tables.table_filter import TableFilterNode
from logstate.topology.operators.tables.table_map_values import TableMapValuesNode
from logstate.topology.operators.tables.table_transform_values import TableTransformValuesNode
from logstate.topology.processor.value_transformer import ValueTransformer

if TYPE_CHECKING:
    from logstate.topology.dsl.table import KTable

V2 = TypeVar("V2")


class TableRowOperators(Flow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.table.KTable`."""

    if TYPE_CHECKING:
        node: TableNode

    @overload
    def filter(
        self,
        predicate: Callable[[V], object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def filter(
        self,
        predicate: Callable[[K, V], object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
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

        Semantics:
            Null key: no row has one.
            Null value: stays a tombstone; the predicate never sees it.
            Late records: as the table above has them.
            Order: kept.
            Repartition: none, here or below.
            Store: the one named ``store``, else none: rows are then read from the table above and
                filtered.
            Timestamp: the change's, and its headers.
            Quirk: a row that stops fitting becomes a tombstone. One that neither fits nor fitted
                sends nothing where the table above has a store; where it has none every row that
                does not fit sends a tombstone, because without old values the filter cannot know
                (Kafka Streams' rule).

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.
            store: name or :class:`Materialized` of the table's store.
            name: the operator's name; generated if not given.

        Returns:
            The filtered table.

        Raises:
            TopologyError: the predicate has another shape, or a serde is not known.

        Source: Kafka Streams' ``KTable.filter``.
        """
        return self._filter(predicate, store, name, keeps=True)

    @overload
    def filter_not(
        self,
        predicate: Callable[[V], object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]: ...
    @overload
    def filter_not(
        self,
        predicate: Callable[[K, V], object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
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

        Semantics:
            Null key: no row has one.
            Null value: stays a tombstone; the predicate never sees it.
            Late records: as the table above has them.
            Order: kept.
            Repartition: none, here or below.
            Store: the one named ``store``, else none: rows are then read from the table above and
                filtered.
            Timestamp: the change's, and its headers.
            Quirk: superfluous tombstones below a table without a store, as with :meth:`filter`.

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.
            store: name or :class:`Materialized` of the table's store.
            name: the operator's name; generated if not given.

        Returns:
            The filtered table.

        Raises:
            TopologyError: the predicate has another shape, or a serde is not known.

        Source: Kafka Streams' ``KTable.filterNot``.
        """
        return self._filter(predicate, store, name, keeps=False)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], V2],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
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

        Semantics:
            Null key: no row has one.
            Null value: stays a tombstone; the mapper never sees it. A mapper that returns None
                deletes the row.
            Late records: as the table above has them.
            Order: kept.
            Repartition: none, here or below.
            Store: the one named ``store``, else none: rows are then read from the table above and
                mapped anew each time, so the mapper must be a function of the row.
            Timestamp: the change's, and its headers.
            Quirk: a change that maps to the same value is forwarded all the same (KIP-557 was taken
                back).

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``.
            value: serde of the new values, where a topic or store needs it.
            store: name or :class:`Materialized` of the table's store.
            name: the operator's name; generated if not given.

        Returns:
            The mapped table.

        Raises:
            TopologyError: the mapper has another shape, or a serde is not known.

        Source: Kafka Streams' ``KTable.mapValues``; with the key: KIP-149.
        """
        function = callbacks.mapper(mapper)
        node_name = self.builder.graph.names.named(name, "KTABLE-MAPVALUES-")
        serde = optional_serde(value, None, f"the value of table {node_name!r}")
        spec = self._spec(store, value)
        node = TableMapValuesNode(
            node_name,
            parent=self.node,
            mapper=function,
            store=spec,
            declared_at=declaration_site(),
        )
        return self._below(node, spec, value=spec.value if spec is not None else serde)

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

        Semantics:
            Null key: no row has one.
            Null value: given to the transformer as None, unlike by :meth:`map_values`.
            Late records: as the table above has them.
            Order: kept.
            Repartition: none, here or below.
            Store: those in ``stores``, and the one named ``store``, if any, for the result. Without
                it rows are transformed anew whenever they are read.
            Timestamp: the change's, and its headers.
            Quirk: the transformer is called for old values too where something below asks for them,
                so it must be a function of the row and of its stores.

        Args:
            supplier: makes one :class:`ValueTransformer` per task: the class, or a function without
                parameters.
            stores: names of stores added to the builder, or declarations of stores to add along
                with it.
            value: serde of the new values, where a topic or store needs it.
            store: name or :class:`Materialized` of the table's store.
            name: the operator's name; generated if not given.

        Returns:
            The transformed table.

        Raises:
            TopologyError: the supplier cannot be called without arguments, or a serde is not known;
                at ``build()``: a store does not exist.

        Source: Kafka Streams' ``KTable.transformValues`` (KIP-292).
        """
        node_name = self.builder.graph.names.named(name, "KTABLE-TRANSFORMVALUES-")
        serde = optional_serde(value, None, f"the value of table {node_name!r}")
        spec = self._spec(store, value)
        node = TableTransformValuesNode(
            node_name,
            parent=self.node,
            supplier=callbacks.supplier(supplier),
            connections=Connections(stores),
            store=spec,
            schedule_name=name or self.builder.graph.names.of_supplier(supplier),
            declared_at=declaration_site(),
        )
        return self._below(node, spec, value=spec.value if spec is not None else serde)

    def _filter(
        self,
        predicate: Callable[..., object],
        store: str | Materialized | None,
        name: str | None,
        *,
        keeps: bool,
    ) -> KTable[K, V]:
        function = callbacks.predicate(predicate)
        node_name = self.builder.graph.names.named(name, "KTABLE-FILTER-")
        spec = self._spec(store, None)
        node = TableFilterNode(
            node_name,
            parent=self.node,
            predicate=function,
            keeps=keeps,
            store=spec,
            declared_at=declaration_site(),
        )
        return self._below(node, spec, value=self.value if spec is None else spec.value)

    def _spec(self, store: str | Materialized | None, value: Any) -> StoreSpec | None:
        """The store of a derived table, where it was asked for."""
        options = materialized(store)
        if options is None:
            return None
        use = f"store {options.name!r}"
        return key_value_spec(
            options,
            self._key_serde(options.key, use),
            self._value_serde(value if options.value is None else options.value, use),
            self.builder.defaults,
        )

    def _below(self, node: TableNode, spec: StoreSpec | None, *, value: Any) -> KTable[K, Any]:
        from logstate.topology.dsl.table import KTable

        logical = ProcessorLogicalNode(
            node, output_versioned=None if spec is None else spec.kind == "versioned"
        )
        self.builder.graph.add(self.logical, logical)
        return KTable(self.builder, node.name, logical, self.source_names, self.key, value, node)
