"""stream, table and global_table: the topics that a topology reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from logstate.errors import TopologyError
from logstate.serde import Serde
from logstate.stores import StoreSpec
from logstate.topology.declared import declaration_site
from logstate.topology.flow import required_serde
from logstate.topology.global_table import GlobalKTable
from logstate.topology.graph import SourceNode, TimestampExtractor, TopicRef
from logstate.topology.logical import (
    GlobalStoreLogicalNode,
    LogicalGraph,
    SourceLogicalNode,
    TableSourceLogicalNode,
)
from logstate.topology.materialized import (
    Materialized,
    StoreDefaults,
    key_value_spec,
    materialized,
)
from logstate.topology.naming import check_name
from logstate.topology.operators.table_source import TableSourceNode
from logstate.topology.plan_builder import GlobalStore
from logstate.topology.stream import KStream
from logstate.topology.table import KTable

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from logstate.topology.builder import StreamsBuilder

K = TypeVar("K")
V = TypeVar("V")
OffsetReset = str | timedelta
_RESETS = ("earliest", "latest", "none")


class InputTopics:
    """Mixed into :class:`logstate.topology.builder.StreamsBuilder`."""

    graph: LogicalGraph
    defaults: StoreDefaults

    @property
    def _builder(self) -> StreamsBuilder:
        return cast("StreamsBuilder", self)

    @overload
    def stream(
        self,
        *topics: str,
        value: type[V] | Serde[V],
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
        offset_reset: OffsetReset | None = ...,
    ) -> KStream[str, V]: ...
    @overload
    def stream(
        self,
        *topics: str,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
        offset_reset: OffsetReset | None = ...,
    ) -> KStream[K, V]: ...
    @overload
    def stream(
        self,
        *topics: str,
        key: Any = ...,
        value: Any = ...,
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
        offset_reset: OffsetReset | None = ...,
    ) -> KStream[Any, Any]: ...
    def stream(
        self,
        *topics: str,
        key: Any = str,
        value: Any = None,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> KStream[Any, Any]:
        """A stream of the records of one or several topics.

        ``key`` (default str) and ``value`` are types or serdes. ``timestamp_extractor(key, value,
        record_timestamp, partition_time)`` gives the event time in ms; a negative one skips the
        record (counted). ``offset_reset`` ("earliest", "latest", "none", or a timedelta back from
        now) says where to start without a committed offset. Reading a topic twice shares one
        source.
        """
        if not topics:
            raise TopologyError("stream() needs a topic.", declared_at=declaration_site())
        node_name = self.graph.names.named(name, "KSTREAM-SOURCE-")
        source = source_node(node_name, topics, key, value, timestamp_extractor, offset_reset)
        logical = SourceLogicalNode(source)
        self.graph.add(self.graph.root, logical)
        return KStream(
            self._builder,
            node_name,
            logical,
            frozenset({node_name}),
            source.key,
            source.value,
            needs_repartition=False,
        )

    @overload
    def table(
        self,
        topic: str,
        *,
        value: type[V] | Serde[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
        offset_reset: OffsetReset | None = ...,
    ) -> KTable[str, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
        offset_reset: OffsetReset | None = ...,
    ) -> KTable[K, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: Any = ...,
        value: Any = ...,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
        offset_reset: OffsetReset | None = ...,
    ) -> KTable[Any, Any]: ...
    def table(
        self,
        topic: str,
        *,
        key: Any = str,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> KTable[Any, Any]:
        """A table of a topic's latest value per key.

        A null value deletes; null keys are dropped and counted. ``store`` names its store; it must
        be given if anything reads the table's rows (joins, group_by, queries).
        """
        options = materialized(store)
        if options is None:
            self.graph.new_store_name(f"{topic}-")
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, offset_reset)
        spec = None if options is None else _table_store(options, source, self.defaults)
        node = TableSourceNode(node_name, store=spec, declared_at=declaration_site())
        logical = TableSourceLogicalNode(source, node, output_versioned=node.is_versioned())
        self.graph.add(self.graph.root, logical)
        return KTable(
            self._builder,
            node_name,
            logical,
            frozenset({source_name}),
            source.key,
            source.value,
            node,
        )

    @overload
    def global_table(
        self,
        topic: str,
        *,
        value: type[V] | Serde[V],
        store: str | Materialized,
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
    ) -> GlobalKTable[str, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        store: str | Materialized,
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
    ) -> GlobalKTable[K, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: Any = ...,
        value: Any = ...,
        store: str | Materialized,
        name: str | None = ...,
        timestamp_extractor: TimestampExtractor | None = ...,
    ) -> GlobalKTable[Any, Any]: ...
    def global_table(
        self,
        topic: str,
        *,
        key: Any = str,
        value: Any = None,
        store: str | Materialized,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> GlobalKTable[Any, Any]:
        """A whole topic as a table in every instance: joins and lookups without partitioning."""
        options = materialized(store)
        assert options is not None
        if options.history is not None:
            raise TopologyError(
                f"Global table {options.name!r} cannot be versioned.",
                declared_at=declaration_site(),
            )
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, None)
        spec = global_spec(_table_store(options, source, self.defaults), topic)
        node = TableSourceNode(node_name, store=spec, declared_at=declaration_site())
        logical = GlobalStoreLogicalNode(GlobalStore(spec, source, node))
        self.graph.add(self.graph.root, logical)
        return GlobalKTable(self._builder, node_name, spec.name)


def source_node(
    name: str,
    topics: tuple[str, ...],
    key: Any,
    value: Any,
    timestamp_extractor: TimestampExtractor | None,
    offset_reset: OffsetReset | None,
) -> SourceNode:
    """The source of some topics, checked."""
    listed = ", ".join(map(repr, topics))
    if isinstance(offset_reset, str) and offset_reset not in _RESETS:
        raise TopologyError(
            f"offset_reset must be one of {', '.join(_RESETS)} or a timedelta, found"
            f" {offset_reset!r}.",
            declared_at=declaration_site(),
        )
    return SourceNode(
        name,
        tuple(TopicRef(check_name(topic, "a topic")) for topic in dict.fromkeys(topics)),
        required_serde(key, None, f"the key of topic {listed}", "key="),
        required_serde(value, None, f"the value of topic {listed}", "value="),
        timestamp_extractor=timestamp_extractor,
        offset_reset=offset_reset,
        declared_at=declaration_site(),
    )


def _table_store(options: Materialized, source: SourceNode, defaults: StoreDefaults) -> StoreSpec:
    use = f"store {options.name!r}"
    return key_value_spec(
        options,
        required_serde(options.key, source.key, f"the key of {use}", "key="),
        required_serde(options.value, source.value, f"the value of {use}", "value="),
        defaults,
    )


def global_spec(spec: StoreSpec, topic: str) -> StoreSpec:
    """The store of every instance: its topic is its log."""
    return replace(spec, is_logged=False, source_topic=topic)
