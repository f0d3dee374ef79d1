"""StreamsBuilder: where a topology starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar, overload

from logstate.errors import TopologyError
from logstate.serde import Serde
from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import required_serde
from logstate.topology.global_table import GlobalKTable
from logstate.topology.graph import SourceNode, TimestampExtractor, TopicRef
from logstate.topology.logical import (
    GlobalStoreLogicalNode,
    LogicalGraph,
    LogicalNode,
    SourceLogicalNode,
    StoreLogicalNode,
    TableSourceLogicalNode,
    TopicStoreLogicalNode,
)
from logstate.topology.materialized import (
    Materialized,
    StoreDefaults,
    key_value_spec,
    materialized,
)
from logstate.topology.naming import check_name
from logstate.topology.operators.process import Connections, ProcessNode
from logstate.topology.operators.table_source import TableSourceNode
from logstate.topology.optimization import optimize, rules_of
from logstate.topology.plan import Topology, make_topology
from logstate.topology.plan_builder import GlobalStore
from logstate.topology.processor import Processor
from logstate.topology.stream import KStream
from logstate.topology.table import KTable
from logstate.topology.windows import to_ms

K = TypeVar("K")
V = TypeVar("V")
OffsetReset = str | timedelta
_RESETS = ("earliest", "latest", "none")


class StreamsBuilder:
    """Declares a topology, step by step, and builds it.

    ``in_memory_stores``: stores of the DSL live in memory unless they say otherwise (their
    changelogs stay). ``store_headers``: they keep record headers (KIP-1271).
    ``window_emit_interval`` and ``outer_join_emit_interval``: least wall-clock time between two
    looks for closed windows and for unmatched rows; event time decides what they find, so they
    only trade latency for work.

    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", key=str, value=str, name="clicks")
    >>> clicks.map_values(str.upper, value=str, name="upper").to("loud", name="out")
    >>> print(builder.build().describe(), end="")
    Topologies:
       Sub-topology: 0
        Source: clicks (topics: [clicks])
          --> upper
        Processor: upper (stores: [])
          --> out
          <-- clicks
        Sink: out (topic: loud)
          <-- upper
    <BLANKLINE>
    """

    def __init__(
        self,
        *,
        in_memory_stores: bool = False,
        store_headers: bool = False,
        window_emit_interval: timedelta = timedelta(seconds=1),
        outer_join_emit_interval: timedelta = timedelta(seconds=1),
    ) -> None:
        self.graph = LogicalGraph()
        self.defaults = StoreDefaults(in_memory_stores, store_headers)
        self.window_emit_interval_ms = to_ms(window_emit_interval, "window_emit_interval")
        self.outer_join_emit_interval_ms = to_ms(
            outer_join_emit_interval, "outer_join_emit_interval"
        )
        #: repartition topics that several aggregations of one named group share
        self.group_topics: dict[tuple[Any, str], LogicalNode] = {}
        self._built: Topology | None = None

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
        source = self._source(node_name, topics, key, value, timestamp_extractor, offset_reset)
        logical = SourceLogicalNode(source)
        self.graph.add(self.graph.root, logical)
        return KStream(
            self,
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
        source = self._source(source_name, (topic,), key, value, timestamp_extractor, offset_reset)
        spec = None if options is None else self._table_store(options, source)
        node = TableSourceNode(node_name, store=spec, declared_at=declaration_site())
        logical = TableSourceLogicalNode(source, node, output_versioned=node.is_versioned())
        self.graph.add(self.graph.root, logical)
        return KTable(
            self, node_name, logical, frozenset({source_name}), source.key, source.value, node
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
        source = self._source(source_name, (topic,), key, value, timestamp_extractor, None)
        spec = self._global_spec(self._table_store(options, source), topic)
        node = TableSourceNode(node_name, store=spec, declared_at=declaration_site())
        logical = GlobalStoreLogicalNode(GlobalStore(spec, source, node))
        self.graph.add(self.graph.root, logical)
        return GlobalKTable(self, node_name, spec.name)

    def add_store(self, store: StoreSpec) -> StreamsBuilder:
        """Add a store that processors connect to by name; see ``key_value_store`` and its kin."""
        check_name(store.name, "a store")
        self.graph.add(self.graph.root, StoreLogicalNode(store))
        return self

    def add_read_only_store(
        self,
        store: StoreSpec,
        topic: str,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        *,
        key: Any = str,
        value: Any = None,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> StreamsBuilder:
        """Add a store that a processor of yours fills from a topic, partition by partition.

        The topic is its changelog (KIP-813): a restore copies records from it, past the processor,
        so the processor must put what it is given. Other processors connect to the store by name
        and must not write to it.
        """
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = self._source(source_name, (topic,), key, value, timestamp_extractor, None)
        check_name(store.name, "a store")
        node = ProcessNode(
            node_name,
            supplier=callbacks.supplier(supplier),
            connections=Connections(store),
            declared_at=declaration_site(),
        )
        self.graph.add(self.graph.root, TopicStoreLogicalNode(source, node, store))
        return self

    def add_global_store(
        self,
        store: StoreSpec,
        topic: str,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        *,
        key: Any = str,
        value: Any = None,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> StreamsBuilder:
        """Add a store that every instance fills from a whole topic with a processor of yours.

        Restoring runs the same processor, so what it writes need not be what the topic holds.
        """
        check_name(store.name, "a store")
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = self._source(source_name, (topic,), key, value, timestamp_extractor, None)
        node = ProcessNode(
            node_name,
            supplier=callbacks.supplier(supplier),
            connections=Connections(store.name),
            declared_at=declaration_site(),
        )
        spec = self._global_spec(store, topic)
        logical = GlobalStoreLogicalNode(GlobalStore(spec, source, node))
        self.graph.add(self.graph.root, logical)
        return self

    def build(self, optimization: str | Iterable[str] = "none") -> Topology:
        """Check and freeze. ``optimization``: "none", "all", or a set of rule names.

        Raises TopologyError, with the user's file and line, for a graph that cannot run. A builder
        builds once.
        """
        if self._built is not None:
            raise TopologyError(
                "This StreamsBuilder has already built its topology. Keep the result, or declare"
                " the topology in a function and call that with a new builder."
            )
        optimize(self.graph, rules_of(optimization))
        self._built = make_topology(self.graph.write())
        return self._built

    def _source(
        self,
        name: str,
        topics: tuple[str, ...],
        key: Any,
        value: Any,
        timestamp_extractor: TimestampExtractor | None,
        offset_reset: OffsetReset | None,
    ) -> SourceNode:
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

    def _table_store(self, options: Materialized, source: SourceNode) -> StoreSpec:
        use = f"store {options.name!r}"
        return key_value_spec(
            options,
            required_serde(options.key, source.key, f"the key of {use}", "key="),
            required_serde(options.value, source.value, f"the value of {use}", "value="),
            self.defaults,
        )

    def _global_spec(self, spec: StoreSpec, topic: str) -> StoreSpec:
        return replace(spec, is_logged=False, source_topic=topic)
