"""KStream: an unbounded sequence of records, each an event of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_count
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import check_name, required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.mapping import MappingOperators
from logstate.topology.dsl.materialized import Materialized, key_value_spec, materialized
from logstate.topology.dsl.routing import RoutingOperators
from logstate.topology.dsl.side_effects import SideEffectOperators
from logstate.topology.dsl.stream_groups import GroupOperators
from logstate.topology.dsl.stream_joins import JoinOperators
from logstate.topology.dsl.stream_process import ProcessOperators
from logstate.topology.graph.logical import ProcessorLogicalNode, SinkLogicalNode
from logstate.topology.graph.nodes import Partitioner, SinkNode, TopicChooser, TopicRef
from logstate.topology.operators.tables.table_source import TableSourceNode
from logstate.topology.plan.repartition import RepartitionLogicalNode, repartition_topic

if TYPE_CHECKING:
    from logstate.topology.dsl.table import KTable
    from logstate.topology.graph.logical import LogicalNode


@dataclass(frozen=True, eq=False, repr=False)
class KStream(
    RoutingOperators[K, V],
    MappingOperators[K, V],
    SideEffectOperators[K, V],
    GroupOperators[K, V],
    ProcessOperators[K, V],
    JoinOperators[K, V],
):
    """A stream at one point of the graph; every operator makes a new one.

    >>> from logstate import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=dict, name="clicks")
    >>> clicks.filter(lambda click: click["user"] is not None, name="known").to("known-clicks")

    Made by ``StreamsBuilder.stream``. ``key`` and ``value`` are its serdes, None where an operator
    above made new objects and did not say how they become bytes. ``needs_repartition``: an operator
    above may have changed keys, so records of one key may lie on several partitions; groupings and
    joins then go through a repartition topic first.

    Source: Kafka Streams' ``KStream``.
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
        """Write the stream to a topic, or to the topic that a function names for each record.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=int)
        >>> orders.to(lambda key, cents, metadata: "large" if cents > 99 else "small")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("large", value=int), driver.read("small", value=int)
        ([('bob', 250)], [('ada', 50)])

        Semantics:
            Null key: written without a key; the producer chooses the partition.
            Null value: written without a value: a tombstone for whoever reads the topic as a table.
            Late records: like all others.
            Order: kept per partition. Outputs of one input record come in the order in which the
                graph is walked, depth first, children in the order of their declaration.
            Repartition: none. Partition = murmur2 of the key's bytes, as every JVM client places
                it; a windowed key is placed by its inner key alone, so that results stay on the
                partition of their input.
            Store: none. Topics are never created.
            Timestamp: the record's, and its headers.
            Quirk: event time 0 is written as 1 ms, because the client would turn 0 into the time of
                sending.

        Args:
            topic: a topic's name, or ``topic(key, value, metadata)``; metadata is where the record
                came from, None inside scheduled callbacks.
            key: serde of the keys; that of the stream if not given.
            value: serde of the values; that of the stream if not given.
            partitioner: ``partitioner(topic, key, value, partition_count)`` returns a partition, a
                list of partitions (one copy each; [] drops the record, which is counted), or None
                for the default.
            name: the operator's name; generated if not given.

        Returns:
            Nothing: there is no stream below, but this one can be used again.

        Raises:
            TopologyError: a serde is not known, or the topic's name is none.

        Source: Kafka Streams' ``KStream.to``; chosen topics: KIP-303; several partitions or none:
        KIP-873.
        """
        if not isinstance(topic, str):
            callbacks.of_shape(topic, "topic chooser", "(key, value, metadata)", 3)
        callbacks.partitioner(partitioner)
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
        """Read the stream as a table's changelog: each value replaces the one before it.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> moves = builder.stream("moves", value=str)
        >>> moves.to_table(store="places").to_stream().to("places")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("moves", [("ada", "Oslo", 0), ("ada", "Rome", 5), (None, "?", 6)])
        ...     driver.store("places").get("ada"), driver.dropped_total
        (ValueAndTimestamp(value='Rome', timestamp=5, headers=None), 1)

        Semantics:
            Null key: dropped and counted.
            Null value: deletes the row and is forwarded as a tombstone.
            Late records: overwrite newer rows, as they come. Only a versioned store (``history=``)
                puts them where they belong.
            Order: kept.
            Repartition: if an operator above may have changed keys; the topic is named after
                ``name``.
            Store: the one named ``store``, else none. Without one nothing below can read rows.
            Timestamp: the record's, and its headers.

        Args:
            store: name or :class:`Materialized` of the table's store.
            key: serde of the keys; that of the stream if not given.
            value: serde of the values; that of the stream if not given.
            name: the operator's name; needed where a repartition topic is.

        Returns:
            The table.

        Raises:
            TopologyError: a serde or a name is needed and missing.

        Source: Kafka Streams' ``KStream.toTable`` (KIP-523).
        """
        from logstate.topology.dsl.table import KTable

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

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=int).repartition(name="spread", partitions=12).to("out")
        >>> with TopologyTestDriver(builder.build(), application_id="app") as driver:
        ...     driver.pipe("in", "ada", 7)
        ...     list(driver.internal), driver.read("out", value=int)
        (['app-spread-repartition'], [('ada', 7)])

        Semantics:
            Null key: dropped, not counted; kept if a left or outer join below has a use for it
                (KIP-962).
            Null value: passed on.
            Late records: like all others.
            Order: kept per key; behind the topic, records from several partitions meet in no fixed
                order.
            Repartition: always; what is below runs in tasks of its own.
            Store: none. The topic is created by the application, and its records are deleted once
                they are consumed and committed.
            Timestamp: the record's, and its headers.

        Args:
            name: names the topic and its nodes; required.
            key: serde of the keys; that of the stream if not given.
            value: serde of the values; that of the stream if not given.
            partitions: the topic's partition count. If not given it follows the topics it is joined
                with, else the largest count above it.
            partitioner: ``partitioner(topic, key, value, partition_count)``, as for :meth:`to`.

        Returns:
            The stream behind the topic; it needs no further repartition.

        Raises:
            TopologyError: ``name`` or a serde is missing; at ``build()``: topics that are joined
                were given different ``partitions``.

        Source: Kafka Streams' ``KStream.repartition`` (KIP-221).
        """
        prefix = required_name(name, "A repartition", "its topic is named after it", 'name="..."')
        check_count(partitions, "partitions of a repartition")
        callbacks.partitioner(partitioner)
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
