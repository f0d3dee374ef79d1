"""filter, map_values and transform_values of a table: tables computed row by row from another.

The result is kept in a store only if it is given one; without, its rows are computed from the table
above whenever they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import Flow, K, V, optional_serde
from logstate.topology.graph import TableNode
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.materialized import Materialized, key_value_spec, materialized
from logstate.topology.operators.process import Connections
from logstate.topology.operators.table_filter import TableFilterNode
from logstate.topology.operators.table_map_values import TableMapValuesNode
from logstate.topology.operators.table_transform_values import TableTransformValuesNode
from logstate.topology.processor import ValueTransformer

if TYPE_CHECKING:
    from logstate.topology.stream_process import Stores
    from logstate.topology.table import KTable

V2 = TypeVar("V2")


class TableRowOperators(Flow[K, V]):
    """Mixed into :class:`logstate.topology.table.KTable`."""

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
        """Rows that the predicate accepts; a row that stops fitting becomes a tombstone.

        The predicate never sees None. A row that did not fit before and does not now sends a
        tombstone too, unless old values are at hand (the table or this filter has a store).
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
        """Rows that the predicate does not accept."""
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
        """A table of mapped values; tombstones stay tombstones and never reach the mapper."""
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
        """Like :meth:`map_values`, with a transformer of your own that may use ``stores``.

        It is called for tombstones too, and whenever an unmaterialised row is read.
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
        from logstate.topology.table import KTable

        logical = ProcessorLogicalNode(
            node, output_versioned=None if spec is None else spec.kind == "versioned"
        )
        self.builder.graph.add(self.logical, logical)
        return KTable(self.builder, node.name, logical, self.source_names, self.key, value, node)
