"""KTable: the latest value per key, and the stream of its changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V, optional_serde
from logstate.topology.graph import TableNode
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.naming import required_name
from logstate.topology.operators.suppress import SuppressNode
from logstate.topology.operators.table_group_by import TableGroupByNode
from logstate.topology.operators.to_stream import ToStreamNode
from logstate.topology.suppressed import Suppressed, window_grace_ms
from logstate.topology.table_joins import TableJoinOperators
from logstate.topology.table_rows import TableRowOperators

if TYPE_CHECKING:
    from logstate.topology.grouped_table import KGroupedTable
    from logstate.topology.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")


@dataclass(frozen=True, eq=False)
class KTable(TableRowOperators[K, V], TableJoinOperators[K, V]):
    """A table at one point of the graph.

    Made by ``StreamsBuilder.table``, by aggregations and by ``KStream.to_table``. It is kept in a
    store if it was given a name for one, or must be because an operator below reads its rows.
    """

    node: TableNode

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
        """The table's changes as a stream, tombstones included; ``mapper`` gives new keys."""
        from logstate.topology.stream import KStream

        node_name = self.builder.graph.names.named(name, "KTABLE-TOSTREAM-")
        node = ToStreamNode(node_name, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node)
        self.builder.graph.add(self.logical, logical)
        stream: KStream[Any, V] = KStream(
            self.builder, node_name, logical, self.source_names, self.key, self.value,
            needs_repartition=False,
        )  # fmt: skip
        return stream if mapper is None else stream.select_key(mapper, key=key)

    @overload
    def group_by(
        self,
        mapper: Callable[[V], tuple[K2, V2]],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedTable[K2, V2]: ...
    def group_by(
        self,
        mapper: Callable[..., tuple[Any, Any]],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedTable[Any, Any]:
        """Group rows by the ``(key, value)`` that the mapper returns, to aggregate them.

        Needs the table's old values, so the table must have a store somewhere above. A null key or
        value from the mapper leaves the row out.
        """
        from logstate.topology.grouped_table import KGroupedTable

        function = callbacks.mapper(mapper)
        node_name = self.builder.graph.names.named(name, "KTABLE-SELECT-")
        node = TableGroupByNode(node_name, mapper=function, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node)
        self.builder.graph.add(self.logical, logical)
        self.node.enable_sending_old_values(force=True)
        return KGroupedTable(
            self.builder,
            node_name,
            logical,
            self.source_names,
            optional_serde(key, None, f"the key of group {node_name!r}"),
            optional_serde(value, None, f"the value of group {node_name!r}"),
            topic_name=name,
        )

    def suppress(self, condition: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold updates back until their window closes, or for a time per key.

        The buffer is a store named ``<name>-store`` with a changelog. Not for versioned tables.
        """
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
            declared_at=declaration_site(),
        )
        logical = ProcessorLogicalNode(node, output_versioned=False)
        logical.refuses_versioned_input = True
        self.builder.graph.add(self.logical, logical)
        return KTable(self.builder, buffer, logical, self.source_names, self.key, self.value, node)
