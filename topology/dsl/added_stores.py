"""add_store and its kin: stores that processors fill and share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_store
from logstate.topology.declaring.naming import check_name
from logstate.topology.dsl.flow import InternalStreamsBuilder
from logstate.topology.dsl.topic_declarations import global_spec, source_node
from logstate.topology.graph.logical import (
    GlobalStoreLogicalNode,
    StoreLogicalNode,
    TopicStoreLogicalNode,
)
from logstate.topology.graph.nodes import SourceNode, TimestampExtractor
from logstate.topology.graph.plan_builder import GlobalStore
from logstate.topology.operators.streams.process import Connections, ProcessNode
from logstate.topology.processor.processor import Processor


class AddedStores(InternalStreamsBuilder):
    """Mixed into :class:`logstate.topology.dsl.builder.StreamsBuilder`.

    Args:
        store: the store's declaration: from :func:`key_value_store`,
            :func:`timestamped_key_value_store`, :func:`window_store`, :func:`session_store` or
            :func:`versioned_store`.
        topic: the topic that the store is filled from.
        supplier: makes the processor that fills it: the class, or a function without parameters.
        key: type or serde of the topic's keys, str if not given.
        value: type or serde of the topic's values; required.
        name: the processor's name, its source is called name + "-source"; generated if not given.
        timestamp_extractor: as for :meth:`stream`.

    Returns:
        The builder, to chain calls.

    Raises:
        TopologyError: no value serde, or a supplier that needs arguments; at ``build()``: another
            store of that name, or another reader of the topic.
    """

    def add_store(self, store: StoreSpec) -> Self:
        """Add a store that processors connect to by its name.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, key_value_store
        >>> class Remember(Processor):
        ...     def process(self, record):
        ...         self.context.store("seen").put(record.key, record.value)
        >>> builder = StreamsBuilder().add_store(key_value_store("seen", str, int))
        >>> _ = builder.stream("in", value=int).process(Remember, stores="seen")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("in", "ada", 7)
        ...     driver.store("seen").get("ada")
        7

        Semantics: each task has a store of its own, with the keys of its partition. Operators
        connected to one store become one sub-topology. The changelog is ``<application
        id>-<name>-changelog``. A store nobody connects to does not exist at run time.

        Source: Kafka Streams' ``StreamsBuilder.addStateStore``.
        """
        check_store(store)
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
    ) -> Self:
        """Add a store that a processor of yours fills from a topic, partition by partition.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, key_value_store
        >>> class Copy(Processor):
        ...     def process(self, record):
        ...         self.context.store("rules").put(record.key, record.value)
        >>> builder = StreamsBuilder()
        >>> rules = key_value_store("rules", str, int)
        >>> _ = builder.add_read_only_store(rules, "rules-topic", Copy, value=int)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("rules-topic", "limit", 7)
        ...     driver.store("rules").get("limit")
        7

        Semantics: the topic is the store's changelog: a restore copies its records past the
        processor, so the processor must put what it is given, as it is. Other processors connect to
        the store by its name and must not write to it; they run in the same tasks, so what they
        read must be co-partitioned.

        Source: Kafka Streams' ``Topology.addReadOnlyStateStore`` (KIP-813).
        """
        source, node = self._filling(
            store, Connections(store), topic, supplier, key, value, name, timestamp_extractor
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
    ) -> Self:
        """Add a store that every instance fills from a whole topic with a processor of yours.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, key_value_store
        >>> class ByCity(Processor):
        ...     def process(self, record):
        ...         self.context.store("zips").put(record.value, record.key)
        >>> builder = StreamsBuilder()
        >>> zips = key_value_store("zips", str, str)
        >>> _ = builder.add_global_store(zips, "cities", ByCity, value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("cities", "0150", "Oslo")
        ...     driver.store("zips").get("Oslo")
        '0150'

        Semantics: restoring runs the same processor, so what it writes need not be what the topic
        holds (Kafka Streams copied the bytes past it until 3.8, KAFKA-7663). The store has no
        changelog. Every processor of the topology may read it, without connecting; none may write
        to it but this one.

        Source: Kafka Streams' ``StreamsBuilder.addGlobalStore`` (KIP-99).
        """
        source, node = self._filling(
            store, Connections(store.name), topic, supplier, key, value, name, timestamp_extractor
        )
        logical = GlobalStoreLogicalNode(GlobalStore(global_spec(store, topic), source, node))
        self.graph.add(self.graph.root, logical)
        return self

    def _filling(
        self,
        store: StoreSpec,
        connections: Connections,
        topic: str,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        key: Any,
        value: Any,
        name: str | None,
        timestamp_extractor: TimestampExtractor | None,
    ) -> tuple[SourceNode, ProcessNode]:
        """The source and the processor that fill a store."""
        check_store(store)
        check_name(store.name, "a store")
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, None)
        node = ProcessNode(
            node_name,
            supplier=callbacks.supplier(supplier),
            connections=connections,
            schedule_name=name or self.graph.names.of_supplier(supplier),
        )
        return source, node
