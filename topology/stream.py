"""KStream: an unbounded sequence of records, each an event of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from logstate.serde import Serde
from logstate.stores import StoreSpec
from logstate.topology import callbacks
from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V, optional_serde
from logstate.topology.graph import Partitioner, SinkNode, TopicChooser, TopicRef
from logstate.topology.grouped_stream import KGroupedStream
from logstate.topology.logical import ProcessorLogicalNode, SinkLogicalNode
from logstate.topology.materialized import Materialized, key_value_spec, materialized
from logstate.topology.naming import check_name, required_name
from logstate.topology.operators.process import Connections, ProcessNode
from logstate.topology.operators.select_key import SelectKeyNode
from logstate.topology.operators.table_source import TableSourceNode
from logstate.topology.processor import Processor
from logstate.topology.repartition import RepartitionLogicalNode, repartition_topic
from logstate.topology.stateless import StatelessOperators
from logstate.topology.stream_joins import JoinOperators

if TYPE_CHECKING:
    from logstate.topology.logical import LogicalNode
    from logstate.topology.table import KTable

K2 = TypeVar("K2")
V2 = TypeVar("V2")
#: names of stores added to the builder, or declarations of stores to add with the operator
Stores = str | StoreSpec | Iterable[str | StoreSpec]


@dataclass(frozen=True, eq=False)
class KStream(StatelessOperators[K, V], JoinOperators[K, V]):
    """A stream at one point of the graph.

    Made by ``StreamsBuilder.stream``. ``needs_repartition``: an operator above may have changed
    keys, so records of one key may lie on several partitions; groupings and joins then go through
    a repartition topic first.

    >>> from logstate.topology import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=dict, name="clicks")
    >>> clicks.filter(lambda click: click["user"] is not None, name="known").to("known-clicks")
    """

    needs_repartition: bool

    def to(
        self,
        topic: str | TopicChooser,
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write the stream to a topic, or to the one ``topic(key, value, metadata)`` names.

        Partition: by the key's murmur2 hash as every JVM client, windowed keys by their inner key;
        or what ``partitioner(topic, key, value, partitions)`` returns: a partition, several, []
        (drop), None (default). A null value is a tombstone. Topics are not created.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-SINK-")
        use = f"topic {topic!r}" if isinstance(topic, str) else f"the topics of sink {node_name!r}"
        sink = SinkNode(
            node_name,
            TopicRef(check_name(topic, "a topic")) if isinstance(topic, str) else topic,
            self.key_serde(key, use),
            self.value_serde(value, use),
            partitioner=partitioner,
            declared_at=declaration_site(),
        )
        self.builder.graph.add(self.logical, SinkLogicalNode(sink))

    def to_table(
        self,
        *,
        store: str | Materialized | None = None,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The stream read as upserts: a null value deletes, null keys are dropped and counted."""
        from logstate.topology.table import KTable

        graph = self.builder.graph
        node_name = graph.names.named(name, "KSTREAM-TOTABLE-")
        options = materialized(store)
        if options is None:
            graph.new_store_name("KSTREAM-TOTABLE-")
        use = f"table {node_name!r}"
        key_serde = optional_serde(key, self.key, f"the key of {use}")
        value_serde = optional_serde(value, self.value, f"the value of {use}")
        parent: KStream[K, V] = self
        if self.needs_repartition:
            prefix = required_name(
                name,
                "A table of a stream whose key was changed",
                "the stream goes through a repartition topic first",
                'name="..."',
            )
            parent = self.through_topic(
                prefix, self.key_serde(key, use), self.value_serde(value, use)
            )
        spec = None
        if options is not None:
            spec = key_value_spec(
                options,
                self.key_serde(options.key or key, f"store {options.name!r}"),
                self.value_serde(options.value or value, f"store {options.name!r}"),
                self.builder.defaults,
            )
        node = TableSourceNode(node_name, store=spec, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node, output_versioned=node.is_versioned())
        graph.add(parent.logical, logical)
        return KTable(
            self.builder, node_name, logical, parent.source_names, key_serde, value_serde, node
        )

    def repartition(
        self,
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> KStream[K, V]:
        """Send the stream through the internal topic ``<application id>-<name>-repartition``.

        ``partitions`` fixes its partition count; otherwise it follows what it is joined with, or
        the inputs. Null keys are dropped. The topic's records are deleted when they are consumed.
        """
        prefix = required_name(name, "A repartition", "its topic is named after it", 'name="..."')
        use = f"repartition topic {prefix!r}"
        topic = repartition_topic(self.builder.graph, prefix)
        node = RepartitionLogicalNode(
            topic,
            self.key_serde(key, use),
            self.value_serde(value, use),
            is_optimizable=False,
            partitions=partitions,
            partitioner=partitioner,
            declared_at=declaration_site(),
        )
        return self._behind(node)

    @overload
    def group_by(
        self,
        mapper: Callable[[V], K2],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedStream[K2, V]: ...
    @overload
    def group_by(
        self,
        mapper: Callable[[K, V], K2],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedStream[K2, V]: ...
    def group_by(
        self,
        mapper: Callable[..., Any],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedStream[Any, V]:
        """Group by a new key; always through a repartition topic named ``name``.

        Without ``name`` the topic is named after the aggregation's store. Null keys are dropped.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-KEY-SELECT-")
        function = callbacks.mapper(mapper)
        node = SelectKeyNode(node_name, mapper=function, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node, key_changing=True)
        self.builder.graph.add(self.logical, logical)
        return KGroupedStream(
            self.builder,
            node_name,
            logical,
            self.source_names,
            optional_serde(key, None, f"the key of group {node_name!r}"),
            optional_serde(value, self.value, f"the value of group {node_name!r}"),
            needs_repartition=True,
            topic_name=name,
        )

    def group_by_key(
        self, *, name: str | None = None, key: Any = None, value: Any = None
    ) -> KGroupedStream[K, V]:
        """Group by the key the records have.

        Goes through a repartition topic (named ``name``, else after the aggregation's store) only
        if an operator above may have changed keys.
        """
        return KGroupedStream(
            self.builder,
            self.name,
            self.logical,
            self.source_names,
            optional_serde(key, self.key, f"the key of group {name or self.name!r}"),
            optional_serde(value, self.value, f"the value of group {name or self.name!r}"),
            needs_repartition=self.needs_repartition,
            topic_name=None if name is None else check_name(name, "a group"),
        )

    def process(
        self,
        supplier: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Stores = (),
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Run a processor of your own; what it forwards is the result.

        ``supplier`` makes one processor per task: give the class. ``stores`` are names of stores
        added to the builder, or declarations of stores to add; operators that share a store run in
        the same task. It may change keys, so groupings and joins below go through a repartition
        topic.
        """
        return self._process(supplier, stores, name, key=key, value=value, keeps_key=False)

    def process_values(
        self,
        supplier: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Stores = (),
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, V2]:
        """Like :meth:`process` for processors that keep keys: nothing is repartitioned below.

        Forwarding another key raises ValueError.
        """
        return self._process(supplier, stores, name, key=None, value=value, keeps_key=True)

    def _process(
        self,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        stores: Stores,
        name: str | None,
        *,
        key: Any,
        value: Any,
        keeps_key: bool,
    ) -> KStream[Any, Any]:
        prefix = "KSTREAM-PROCESSVALUES-" if keeps_key else "KSTREAM-PROCESSOR-"
        # The one kind of operator that burns no number when it is named.
        graph = self.builder.graph
        node_name = graph.new_name(prefix) if name is None else check_name(name, "an operator")
        node = ProcessNode(
            node_name,
            supplier=callbacks.supplier(supplier),
            connections=Connections(stores),
            keeps_key=keeps_key,
            declared_at=declaration_site(),
        )
        logical = ProcessorLogicalNode(node)
        graph.add(self.logical, logical)
        inherited = self.key if keeps_key else None
        return self.derive(
            node_name,
            logical,
            key=optional_serde(key, inherited, f"the key of {node_name!r}"),
            value=optional_serde(value, None, f"the value of {node_name!r}"),
            source_names=self.source_names,
            needs_repartition=self.needs_repartition or not keeps_key,
        )

    def through_topic(self, prefix: str, key: Serde[Any], value: Serde[Any]) -> KStream[K, V]:
        """This stream behind the repartition topic that a grouping or join needs."""
        topic = repartition_topic(self.builder.graph, prefix)
        return self._behind(
            RepartitionLogicalNode(
                topic, key, value, is_optimizable=True, declared_at=declaration_site()
            )
        )

    def _behind(self, node: RepartitionLogicalNode) -> KStream[K, V]:
        self.builder.graph.add(self.logical, node)
        return self.derive(
            node.name,
            node,
            key=node.key,
            value=node.value,
            source_names=frozenset({node.name}),
            needs_repartition=False,
        )

    def derive(self, name: str, logical: LogicalNode, **fields: Any) -> KStream[Any, Any]:
        return KStream(self.builder, name, logical, **fields)
