"""KStream: an unbounded sequence of records, each an event of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logstate.topology.declared import declaration_site
from logstate.topology.flow import K, V, optional_serde
from logstate.topology.graph import Partitioner, SinkNode, TopicChooser, TopicRef
from logstate.topology.logical import ProcessorLogicalNode, SinkLogicalNode
from logstate.topology.mapping import MappingOperators
from logstate.topology.materialized import Materialized, key_value_spec, materialized
from logstate.topology.naming import check_name, required_name
from logstate.topology.operators.table_source import TableSourceNode
from logstate.topology.repartition import RepartitionLogicalNode, repartition_topic
from logstate.topology.routing import RoutingOperators
from logstate.topology.side_effects import SideEffectOperators
from logstate.topology.stream_groups import GroupOperators
from logstate.topology.stream_joins import JoinOperators
from logstate.topology.stream_process import ProcessOperators

if TYPE_CHECKING:
    from logstate.topology.logical import LogicalNode
    from logstate.topology.table import KTable


@dataclass(frozen=True, eq=False)
class KStream(
    RoutingOperators[K, V],
    MappingOperators[K, V],
    SideEffectOperators[K, V],
    GroupOperators[K, V],
    ProcessOperators[K, V],
    JoinOperators[K, V],
):
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
            self._key_serde(key, use),
            self._value_serde(value, use),
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
            parent = self._through_topic(
                prefix, self._key_serde(key, use), self._value_serde(value, use)
            )
        spec = None
        if options is not None:
            spec = key_value_spec(
                options,
                self._key_serde(options.key or key, f"store {options.name!r}"),
                self._value_serde(options.value or value, f"store {options.name!r}"),
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
            self._key_serde(key, use),
            self._value_serde(value, use),
            is_optimizable=False,
            partitions=partitions,
            partitioner=partitioner,
            declared_at=declaration_site(),
        )
        return self._behind(node)

    def _derive(self, name: str, logical: LogicalNode, **fields: Any) -> KStream[Any, Any]:
        return KStream(self.builder, name, logical, **fields)
