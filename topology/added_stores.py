"""add_store and its kin: stores that processors fill and share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.graph import TimestampExtractor
from logstate.topology.input_topics import global_spec, source_node
from logstate.topology.logical import (
    GlobalStoreLogicalNode,
    LogicalGraph,
    StoreLogicalNode,
    TopicStoreLogicalNode,
)
from logstate.topology.naming import check_name
from logstate.topology.operators.process import Connections, ProcessNode
from logstate.topology.plan_builder import GlobalStore
from logstate.topology.processor import Processor


class AddedStores:
    """Mixed into :class:`logstate.topology.builder.StreamsBuilder`."""

    graph: LogicalGraph

    def add_store(self, store: StoreSpec) -> Self:
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
    ) -> Self:
        """Add a store that a processor of yours fills from a topic, partition by partition.

        The topic is its changelog (KIP-813): a restore copies records from it, past the processor,
        so the processor must put what it is given. Other processors connect to the store by name
        and must not write to it.
        """
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, None)
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
    ) -> Self:
        """Add a store that every instance fills from a whole topic with a processor of yours.

        Restoring runs the same processor, so what it writes need not be what the topic holds.
        """
        check_name(store.name, "a store")
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, None)
        node = ProcessNode(
            node_name,
            supplier=callbacks.supplier(supplier),
            connections=Connections(store.name),
            declared_at=declaration_site(),
        )
        spec = global_spec(store, topic)
        logical = GlobalStoreLogicalNode(GlobalStore(spec, source, node))
        self.graph.add(self.graph.root, logical)
        return self
