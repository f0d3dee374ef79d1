"""stream, table and global_table: the topics that a topology reads."""

from __future__ import annotations

import re
from typing import Any, TypedDict, Unpack, overload

from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import misdeclared
from logstate.topology.dsl.flow import InternalStreamsBuilder, K, V
from logstate.topology.dsl.global_table import GlobalKTable
from logstate.topology.dsl.materialized import Materialized, materialized
from logstate.topology.dsl.stream import KStream
from logstate.topology.dsl.table import KTable
from logstate.topology.dsl.topic_declarations import (
    OffsetReset,
    global_spec,
    source_node,
    table_store,
)
from logstate.topology.graph.logical import (
    GlobalStoreLogicalNode,
    SourceLogicalNode,
    TableSourceLogicalNode,
)
from logstate.topology.graph.nodes import TimestampExtractor
from logstate.topology.graph.plan_builder import GlobalStore
from logstate.topology.operators.tables.table_source import TableSourceNode


class GlobalTableOptions(TypedDict, total=False):
    """Options of whatever reads a topic."""

    name: str | None
    timestamp_extractor: TimestampExtractor | None


class StreamOptions(GlobalTableOptions, total=False):
    """Options of a stream."""

    offset_reset: OffsetReset | None


class TableOptions(StreamOptions, total=False):
    """Options of a table."""

    store: str | Materialized | None


class InputTopics(InternalStreamsBuilder):
    """Mixed into :class:`logstate.topology.dsl.builder.StreamsBuilder`.

    Args:
        key: type or serde of the keys, str if not given.
        value: type or serde of the values; required.
        name: the operator's name, the source of a table's is called name + "-source"; generated if
            not given.
        timestamp_extractor: ``extractor(key, value, record_timestamp, partition_time)``, times in
            ms; see ``logstate.topology.processor.timestamp_extractors``.
        offset_reset: where to start without a committed offset: "earliest", "latest", "none" (stop
            with an error), or a timedelta back from now. The application's if not given.
    """

    @overload
    def stream(
        self,
        *topics: str | re.Pattern[str],
        value: type[V] | Serde[V],
        **options: Unpack[StreamOptions],
    ) -> KStream[str, V]: ...
    @overload
    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        **options: Unpack[StreamOptions],
    ) -> KStream[K, V]: ...
    @overload
    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: Any = ...,
        value: Any = ...,
        **options: Unpack[StreamOptions],
    ) -> KStream[Any, Any]: ...
    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: Any = str,
        value: Any = None,
        name: str | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: OffsetReset | None = None,
    ) -> KStream[Any, Any]:
        """Read one or several topics as a stream.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("web", "app", value=str).to("all")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("web", "ada", "home")
        ...     driver.pipe("app", "bob", "cart")
        ...     driver.read("all", value=str)
        [('ada', 'home'), ('bob', 'cart')]

        Semantics:
            Null key: passed on.
            Null value: passed on.
            Late records: passed on: a stream has no notion of late, operators below have.
            Order: that of each partition; between partitions of one task the smallest timestamp
                first.
            Repartition: none. There are as many tasks as the topic with most partitions has
                partitions.
            Store: none.
            Timestamp: what ``timestamp_extractor`` returns, else the record's own. A negative one
                from the extractor skips the record and counts it; a negative one of its own stops
                the application.
            Quirk: reading a topic twice with the same options shares one source, because a group
                consumes a topic once.

        Args:
            topics: their names; or one ``re.compile("orders-.*")``, for all topics whose whole name
                it matches when the application starts. Topics that are made later are read after a
                restart of all instances.

        Returns:
            The stream.

        Raises:
            TopologyError: no topic, a pattern beside other topics, no value serde, or an unknown
                ``offset_reset``; at ``build()``: a topic is read twice in ways that cannot share a
                source; at start: a pattern matches nothing.

        Source: Kafka Streams' ``StreamsBuilder.stream``; reset by duration: KIP-1106.
        """
        if not topics:
            raise misdeclared(
                "stream() needs a topic: there is nothing to read. Give one or several names."
            )
        if len(topics) > 1 and any(isinstance(topic, re.Pattern) for topic in topics):
            raise misdeclared(
                f"stream() takes names of topics or one pattern, found {topics!r}. Write all of"
                " them into one pattern, or merge() two streams."
            )
        node_name = self.graph.names.named(name, "KSTREAM-SOURCE-")
        source = source_node(node_name, topics, key, value, timestamp_extractor, offset_reset)
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
        **options: Unpack[TableOptions],
    ) -> KTable[str, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        **options: Unpack[TableOptions],
    ) -> KTable[K, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: Any = ...,
        value: Any = ...,
        **options: Unpack[TableOptions],
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
        """Read a topic as a table: the latest value per key.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.table("prices", value=int, store="prices").to_stream().to("changes")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("prices", [("tea", 3, 0), ("tea", 4, 5), ("milk", 1, 6)])
        ...     driver.pipe("prices", "milk", None, timestamp=7)
        ...     [row for row in driver.store("prices").all()]
        [('tea', ValueAndTimestamp(value=4, timestamp=5, headers=None))]

        Semantics:
            Null key: dropped and counted.
            Null value: deletes the row and is forwarded as a tombstone.
            Late records: overwrite newer rows, as they come. Only a versioned store (``history=``)
                puts them where they belong, and tells operators below that they are not the latest
                (KIP-914).
            Order: that of each partition.
            Repartition: none. A table is joined by key with what is co-partitioned.
            Store: the one named ``store``, else none. It is needed as soon as anything below reads
                rows: joins, group_by, queries.
            Timestamp: the record's, from the extractor if there is one; the row keeps it.
            Quirk: an update that changes nothing is forwarded all the same: dropping it would lose
                results after a crash, which is why Kafka Streams took that out again (KIP-557).

        Args:
            topic: its name.
            store: name or :class:`Materialized` of the table's store.

        Returns:
            The table.

        Raises:
            TopologyError: no value serde, or an unknown ``offset_reset``; at ``build()``: the topic
                has another reader.

        Source: Kafka Streams' ``StreamsBuilder.table``; versioned: KIP-914.
        """
        options = materialized(store)
        if options is None:
            self.graph.new_store_name(f"{topic}-")
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, offset_reset)
        spec = None if options is None else table_store(options, source, self.defaults)
        node = TableSourceNode(node_name, store=spec)
        logical = TableSourceLogicalNode(source, node, output_versioned=node.is_versioned())
        self.graph.add(self.graph.root, logical)
        return KTable(
            self,
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
        **options: Unpack[GlobalTableOptions],
    ) -> GlobalKTable[str, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: type[K] | Serde[K],
        value: type[V] | Serde[V],
        store: str | Materialized,
        **options: Unpack[GlobalTableOptions],
    ) -> GlobalKTable[K, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: Any = ...,
        value: Any = ...,
        store: str | Materialized,
        **options: Unpack[GlobalTableOptions],
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
        """Read a whole topic as a table into every instance, to join with it by any key.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> cities = builder.global_table("cities", value=str, store="cities")
        >>> orders = builder.stream("orders", value=dict)
        >>> named = orders.join(cities, lambda o, city: city, key_mapper=lambda order: order["zip"])
        >>> named.to("order-cities", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("cities", "0150", "Oslo")
        ...     driver.pipe("orders", "o-1", {"zip": "0150"})
        ...     driver.read("order-cities", value=str)
        [('o-1', 'Oslo')]

        Semantics:
            Null key: dropped and counted.
            Null value: deletes the row.
            Late records: overwrite newer rows, as they come.
            Order: that of each partition.
            Repartition: none, and no co-partitioning: every instance reads all partitions, and has
                read them before its tasks start.
            Store: the one named ``store``. It has no changelog: the topic is its log.
            Timestamp: the record's, from the extractor if there is one; the row keeps it.
            Quirk: the table is not synchronised in time with streams: a record meets the row of
                now, and the same input may give another result when it is processed again.

        Args:
            topic: its name.
            store: name or :class:`Materialized` of its store; required. It cannot be versioned.

        Returns:
            The global table, for ``KStream.join`` and ``left_join``, and for processors by its
                store.

        Raises:
            TopologyError: no value serde, or a versioned store.

        Source: Kafka Streams' ``StreamsBuilder.globalTable`` (KIP-99).
        """
        options = materialized(store)
        assert options is not None
        if options.history is not None:
            raise misdeclared(
                f"Global table {options.name!r} cannot be versioned: it is not in step with any"
                " stream, so there is no time to read it as of. Leave out history=."
            )
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, None)
        spec = global_spec(table_store(options, source, self.defaults), topic)
        node = TableSourceNode(node_name, store=spec)
        logical = GlobalStoreLogicalNode(GlobalStore(spec, source, node))
        self.graph.add(self.graph.root, logical)
        return GlobalKTable(self, node_name, spec.name)
