"""KTable: the latest value per key, and the stream of its changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import K, TableFlow, V
from logstate.topology.dsl.suppressed import Suppressed, window_grace_ms
from logstate.topology.dsl.table_joins import TableJoinOperators
from logstate.topology.dsl.table_rows import TableRowOperators
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.tables.suppress import SuppressNode
from logstate.topology.operators.tables.table_group_by import TableGroupByNode
from logstate.topology.operators.tables.to_stream import ToStreamNode

if TYPE_CHECKING:
    from logstate.topology.dsl.grouped_table import KGroupedTable
    from logstate.topology.dsl.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")


@dataclass(frozen=True, eq=False, repr=False)
class KTable(TableRowOperators[K, V], TableJoinOperators[K, V], TableFlow[K, V]):
    """A table at one point of the graph: the latest value per key, and the stream of its changes.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().table("prices", value=int, store="prices", name="prices").name
    'prices'

    Made by ``StreamsBuilder.table``, by aggregations, and by ``KStream.to_table``. It is kept in a
    store if it was given a name for one; an operator that reads rows below a table without a store
    reads those of the table above it, and if there is none, ``build()`` says where to name one.

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

        Semantics:
            Null key: no row has one.
            Null value: a tombstone is forwarded as a null value, and given to the mapper as None.
            Late records: every change is forwarded, of a versioned table those that are not the
                latest too.
            Order: kept.
            Repartition: none here; with a mapper, a grouping or join below goes through a
                repartition topic first.
            Store: none.
            Timestamp: the change's, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)`` returns the new key; without it keys
                stay.
            key: serde of the new keys, where a topic or store below needs it.
            name: the operator's name; generated if not given.

        Returns:
            The stream of changes. A change without effect is one too.

        Raises:
            TopologyError: the mapper has another shape, or ``key`` is no serde.

        Source: Kafka Streams' ``KTable.toStream``.
        """
        from logstate.topology.dsl.stream import KStream

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

        Semantics:
            Null key: no row has one; a change with one stops the application. A mapped key of None
                leaves that side of the change out.
            Null value: a deleted row is taken out of its group. A mapped value of None leaves that
                side out.
            Late records: as they come; changes of a versioned table that are not the latest are
                left out.
            Order: the old side first. Both travel in one record if their key is the same (KIP-904),
                so the aggregate never shows the state between.
            Repartition: always, through ``<application id>-<name>-repartition``; named after the
                aggregation's store if ``name`` is not given.
            Store: none here. It needs old values, so the table must have a store, or one above it.
            Timestamp: the change's, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)`` returns the new ``(key, value)``. It
                is called for old values too and must give the same for the same row.
            name: names the operator and the repartition topic.
            key: serde of the new keys.
            value: serde of the new values.

        Returns:
            The grouped table: count, reduce or aggregate it.

        Raises:
            TopologyError: no table above has a store, another shape of mapper, or a serde is none.

        Source: Kafka Streams' ``KTable.groupBy``; one record for both sides: KIP-904.
        """
        from logstate.topology.dsl.grouped_table import KGroupedTable

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

        Semantics:
            Null key: no row has one.
            Null value: with a time limit tombstones are forwarded like values; of a window that was
                deleted before it closed nothing is heard.
            Late records: replace what is held for their key; they do not change when it leaves.
            Order: by the time they were due, then by the key's bytes.
            Repartition: none.
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
            declared_at=declaration_site(),
        )
        logical = ProcessorLogicalNode(node, output_versioned=False)
        logical.refuses_versioned_input = True
        self.builder.graph.add(self.logical, logical)
        return KTable(self.builder, buffer, logical, self.source_names, self.key, self.value, node)
