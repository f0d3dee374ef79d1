"""StreamsBuilder: where a topology starts, with the topics that it reads and the stores it adds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Self, TypedDict, Unpack, overload

from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_store
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.late_binding import refuse_late_binding
from logstate.topology.declaring.naming import check_name
from logstate.topology.dsl.expired_streams import taken_expired_stream
from logstate.topology.dsl.flow import GlobalKTable, InternalStreamsBuilder, K, V
from logstate.topology.dsl.handles import KStream, KTable
from logstate.topology.dsl.late_streams import add_late_changes, taken_late_stream
from logstate.topology.dsl.materialized import Materialized, materialized
from logstate.topology.dsl.topic_declarations import (
    OffsetReset,
    global_spec,
    source_node,
    table_store,
)
from logstate.topology.graph.logical import (
    GlobalStoreLogicalNode,
    SourceLogicalNode,
    StoreLogicalNode,
    TableSourceLogicalNode,
    TopicStoreLogicalNode,
)
from logstate.topology.graph.nodes import SourceNode, TimestampExtractor
from logstate.topology.graph.plan_builder import GlobalStore
from logstate.topology.operators.streams.process import ConnectedStores, ProcessNode
from logstate.topology.operators.tables.table_source import TableSourceNode
from logstate.topology.plan.optimization import optimize, rules_of
from logstate.topology.plan.plan import Topology, make_topology
from logstate.topology.processor.processor import Processor


class GlobalTableOptions(TypedDict, total=False):
    """Options of tables and streams that read a topic."""

    name: str | None
    timestamp_extractor: TimestampExtractor | None


class StreamOptions(GlobalTableOptions, total=False):
    """Options of a stream."""

    offset_reset: OffsetReset | None


class TableOptions(StreamOptions, total=False):
    """Options of a table."""

    store: str | Materialized | None
    late: str | None


class StreamsBuilder(InternalStreamsBuilder):
    """Declares a topology, call by call, and builds it.

    >>> from logstate import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=str, name="clicks")
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

    Names: whatever ends up in the name of a topic or directory (stores, repartition topics, joins
    that keep state) has to be named; other operators get Kafka Streams' generated names, which only
    descriptions, metrics and errors show. So inserting an operator never orphans state.

    Args:
        in_memory_stores: stores of the DSL live in memory unless they say otherwise; their
            changelogs stay.
        store_headers: stores of the DSL keep record headers (KIP-1271).
        window_emit_interval: least wall-clock time between two searches for closed windows, for
            ``emit="close"``. Event time determines what a search finds, so this trades latency for
            work. The setting of ``Application`` or of the test driver overrides it. The default is
            a second; in the test driver it is zero, so that results are sent at once.
        outer_join_emit_interval: the same for the unmatched rows of left and outer stream joins.
        close_on_idle: of every operator that has the option and does not set it: windows,
            ``distinct`` in windows, suppress, left and outer stream joins, interval and as-of joins
            of streams, joins with a grace. It
            does not apply to an operator whose results its own task reads again, through the topics
            of a foreign-key join. None: they wait for a later record.

    Source: Kafka Streams' ``StreamsBuilder``; required names: KIP-1111.
    """

    _built: Topology | None = None

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
                from the extractor skips the record and counts it; a record with a negative
                timestamp stops the application.
            Quirk: reading a topic twice with the same options shares one source, because a group
                consumes a topic once.

        Args:
            topics: their names; or one ``re.compile("orders-.*")``, for all topics whose whole name
                it matches when the application starts. Topics that are made later are read after a
                restart of all instances.
            key: type or serde of the keys, str if not given.
            value: type or serde of the values; required.
            name: the operator's name; generated if not given.
            timestamp_extractor: ``extractor(key, value, record_timestamp, partition_time)``, times
                in ms; see ``logstate.topology.processor.timestamp_extractors``.
            offset_reset: where to start without a committed offset: "earliest", "latest", "none"
                (stop with an error), or a timedelta back from now. The application's if not given.

        Returns:
            The stream.

        Raises:
            TopologyError: no topic, a pattern together with topics, no value serde, or an unknown
                ``offset_reset``; at ``build()``: a topic is read twice in ways that cannot share a
                source; at start: a pattern matches nothing.

        Source: Kafka Streams' ``StreamsBuilder.stream``; reset by duration: KIP-1106.
        """
        if not topics:
            raise declaration_error(
                "stream() needs a topic: there is nothing to read. Give one or several names."
            )
        if len(topics) > 1 and any(isinstance(topic, re.Pattern) for topic in topics):
            raise declaration_error(
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
    def late(self, name: str, *, value: type[V] | Serde[V]) -> KStream[str, LateRecord[str, V]]: ...
    @overload
    def late(
        self, name: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> KStream[K, LateRecord[K, V]]: ...
    @overload
    def late(
        self, name: str, *, key: Any = ..., value: Any = ...
    ) -> KStream[Any, LateRecord[Any, Any]]: ...
    def late(
        self, name: str, *, key: Any = None, value: Any = None
    ) -> KStream[Any, LateRecord[Any, Any]]:
        """The stream of the late records of an operator that was declared with ``late=name``.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> ten = TumblingWindows(size=timedelta(milliseconds=10))
        >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(ten)
        >>> counts = clicks.count(store="n", late="late-clicks")
        >>> late = builder.late("late-clicks", key=str, value=str)
        >>> late.map_values(lambda one: f"{one.value}: {one.by_ms} ms").to("late", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "a", 3), ("ada", "b", 15), ("ada", "c", 9)])
        ...     driver.read_with_timestamps("late", value=str), driver.dropped_total
        ([('ada', 'c: 6 ms', 9)], 0)

        Semantics:
            Null key: never in it: a null key is not late, and is dropped and counted as always.
            Null value: in it, if the operator would have accepted a null value in time.
            Late records: all of the operator, once per missed window; they are not dropped.
            Order: that of their arrival; before the updates that the same record makes.
            Repartition: none; its records are where the operator reads them.
            Store: none.
            Timestamp: the record's, which is behind stream time; headers are the record's.

        Args:
            name: as in the operator's ``late=``; also the name of the node in descriptions.
            key: type or serde of the keys; that of the operator's records if not given. It is for
                type checkers, too.
            value: likewise of the operator's values. With types, late records are written as JSON
                objects; with other serdes, give ``value=`` where the stream is written.

        Returns:
            The stream. Its values are :class:`logstate.LateRecord`.

        Raises:
            TopologyError: no operator was declared with this name before.

        Source: of this library; as Flink's side output of late data.
        """
        return KStream._of(taken_late_stream(self, name, key, value))

    @overload
    def expired(self, name: str, *, value: type[V] | Serde[V]) -> KStream[str, V]: ...
    @overload
    def expired(
        self, name: str, *, key: type[K] | Serde[K], value: type[V] | Serde[V]
    ) -> KStream[K, V]: ...
    @overload
    def expired(self, name: str, *, key: Any = ..., value: Any = ...) -> KStream[Any, Any]: ...
    def expired(self, name: str, *, key: Any = None, value: Any = None) -> KStream[Any, Any]:
        """The stream of the rows that expire of the store that was declared with ``expired=name``.

        >>> from datetime import timedelta
        >>> from logstate import Materialized, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = Materialized("visits", ttl=timedelta(minutes=30), expired="ended-visits")
        >>> _ = builder.stream("clicks", value=str).group_by_key().count(store=visits)
        >>> builder.expired("ended-visits", key=str, value=int).to("ended", value=int)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "a", 0), ("ada", "b", 5)])
        ...     driver.pipe("clicks", "ada", "c", timestamp=1_800_005)
        ...     driver.read_with_timestamps("ended", value=int)
        [('ada', 2, 1800005)]

        Semantics:
            Null key: never in it: rows have keys.
            Null value: never in it: a deletion is not an expiry, and a deleted row does not expire.
            Late records: one that gives a row an earlier time lets it expire earlier; one that has
                expired already is dropped, and not in the stream.
            Order: by the times of expiry and then by the keys' bytes, before the record that
                advances stream time to them, as timers (``KeyTimers``). Each row once. By the wall
                clock (``ttl_by=``) before the next record, and while there are none.
            Repartition: none; its records are where the store is.
            Store: none; the store deletes its rows when they are emitted, and not in commits.
            Timestamp: the row's time + TTL; there are no headers.

        Args:
            name: as in the store's ``expired=``; also the name of the node in descriptions.
            key: type or serde of the keys; that of the store if not given. It is for type checkers.
            value: likewise of the store's values, which have no timestamps here. Of a map it is
                that of pairs ``(map key, value)``, of a set that of its values; say it.

        Returns:
            The stream: the key and the last value of each row.

        Raises:
            TopologyError: no store was declared with this name before, or several were, no operator
                is connected to it yet, or the stream was taken already.

        Source: of this library.
        """
        return KStream._of(taken_expired_stream(self, name, key, value))

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
        late: str | None = None,
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
            Late records: overwrite newer rows. Only a versioned store (``history=``) orders them by
                time, and marks them for operators below as not the latest (KIP-914); older than
                its history they are dropped and counted, or emitted with ``late``.
            Order: that of each partition.
            Repartition: none. A join by key needs a co-partitioned table.
            Store: the one named ``store``, else none. It is needed as soon as anything below reads
                rows: joins, group_by, queries.
            Timestamp: the record's, from the extractor if there is one; the row keeps it.
            Quirk: an update that changes nothing is forwarded all the same: dropping it would lose
                results after a crash, which is why Kafka Streams took that out again (KIP-557).

        Args:
            topic: its name.
            key: type or serde of the keys, str if not given.
            value: type or serde of the values; required.
            store: name or :class:`Materialized` of the table's store.
            name: the operator's name, its source is called name + "-source"; generated if not
                given.
            timestamp_extractor: ``extractor(key, value, record_timestamp, partition_time)``, times
                in ms; see ``logstate.topology.processor.timestamp_extractors``.
            offset_reset: where to start without a committed offset: "earliest", "latest", "none"
                (stop with an error), or a timedelta back from now. The application's if not given.
            late: name of the stream of records that are older than the history of the store; see
                :meth:`late`. For a versioned store only.

        Returns:
            The table.

        Raises:
            TopologyError: no value serde, an unknown ``offset_reset``, or ``late`` without a
                history; at ``build()``: the topic has another reader.

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
        table: KTable[Any, Any] = KTable(
            self,
            node_name,
            logical,
            frozenset({source_name}),
            source.key,
            source.value,
            node,
        )
        add_late_changes(late, table)
        return table

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
            key: type or serde of the keys, str if not given.
            value: type or serde of the values; required.
            store: name or :class:`Materialized` of its store; required. It cannot be versioned.
            name: the operator's name, its source is called name + "-source"; generated if not
                given.
            timestamp_extractor: ``extractor(key, value, record_timestamp, partition_time)``, times
                in ms; see ``logstate.topology.processor.timestamp_extractors``.

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
            raise declaration_error(
                f"Global table {options.name!r} cannot be versioned: it is not synchronized with"
                " streams, so it cannot be read as of a time. Leave out history=."
            )
        if options.capacity is not None:
            raise declaration_error(
                f"Global table {options.name!r} cannot have a capacity: its topic is its changelog,"
                " and each instance would forget other rows. Leave out capacity=."
            )
        if options.ttl is not None:
            raise _ttl_over_topic(options.name)
        source_name = self.graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = self.graph.names.named(name, "KTABLE-SOURCE-")
        source = source_node(source_name, (topic,), key, value, timestamp_extractor, None)
        spec = global_spec(table_store(options, source, self.defaults), topic)
        node = TableSourceNode(node_name, store=spec)
        logical = GlobalStoreLogicalNode(GlobalStore(spec, source, node))
        self.graph.add(self.graph.root, logical)
        return GlobalKTable(self, node_name, spec.name)

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

        Semantics: each task has a separate store, with the keys of its partition. Operators
        connected to one store become one sub-topology. The changelog is ``<application
        id>-<name>-changelog``. A store without a connected operator does not exist at run time.

        Args:
            store: the store's declaration: from :func:`key_value_store`,
                :func:`timestamped_key_value_store`, :func:`window_store`, :func:`session_store` or
                :func:`versioned_store`.

        Returns:
            The builder, to chain calls.

        Raises:
            TopologyError: the argument is not a declaration; at ``build()``: another store of that
                name.

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

        Semantics: the topic is the store's changelog: a restore copies its records without calling
        the processor, so the processor must put its input unchanged. Other processors connect to
        the store by its name and must not write to it; they run in the same tasks, so what they
        read must be co-partitioned.

        Args:
            store: the store's declaration, as for :meth:`add_store`.
            topic: the topic that the store is filled from.
            supplier: makes the processor that fills it: the class, or a function without
                parameters.
            key: type or serde of the topic's keys, str if not given.
            value: type or serde of the topic's values; required.
            name: the processor's name, its source is called name + "-source"; generated if not
                given.
            timestamp_extractor: as for :meth:`stream`.

        Returns:
            The builder, to chain calls.

        Raises:
            TopologyError: no value serde, or a supplier that needs arguments; at ``build()``:
                another store of that name, or another reader of the topic.

        Source: Kafka Streams' ``Topology.addReadOnlyStateStore`` (KIP-813).
        """
        source, node = self._source_and_processor(
            store, ConnectedStores(store), topic, supplier, key, value, name, timestamp_extractor
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

        Args:
            store: the store's declaration, as for :meth:`add_store`.
            topic: the topic that the store is filled from.
            supplier: makes the processor that fills it: the class, or a function without
                parameters.
            key: type or serde of the topic's keys, str if not given.
            value: type or serde of the topic's values; required.
            name: the processor's name, its source is called name + "-source"; generated if not
                given.
            timestamp_extractor: as for :meth:`stream`.

        Returns:
            The builder, to chain calls.

        Raises:
            TopologyError: no value serde, or a supplier that needs arguments; at ``build()``:
                another store of that name, or another reader of the topic.

        Source: Kafka Streams' ``StreamsBuilder.addGlobalStore`` (KIP-99).
        """
        source, node = self._source_and_processor(
            store,
            ConnectedStores(store.name),
            topic,
            supplier,
            key,
            value,
            name,
            timestamp_extractor,
        )
        logical = GlobalStoreLogicalNode(GlobalStore(global_spec(store, topic), source, node))
        self.graph.add(self.graph.root, logical)
        return self

    def build(self, optimization: str | Iterable[str] = "none") -> Topology:
        """Check the graph as a whole, optimise it if asked to, and freeze it.

        >>> from logstate import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str, name="in").to("out")
        >>> [source.name for source in builder.build().sub_topologies[0].sources]
        ['in']

        Semantics: results do not depend on ``optimization``, but for the order and, where rows are
        about to expire, the number of a self-join's results. Topics and stores do: switching it for
        an application that has state moves that state.

        - ``"reuse_source_topics"``: the store of ``table()`` has the source topic as its changelog.
          It should be compacted, and old values that compaction has removed are unknown after a
          restore; the start warns of both.
        - ``"merge_repartition_topics"``: several repartitions behind one new key become one topic.
        - ``"single_store_self_join"``: a stream joined with itself keeps one window store.

        Args:
            optimization: "none", "all", or a set of those three.

        Returns:
            The topology, for ``Application`` or ``TopologyTestDriver``.

        Raises:
            TopologyError: the graph cannot run, or a function reads a variable that had another
                value when it was declared; the message has file and line of the declaration.
                Also for a second call: a builder builds once.

        Source: Kafka Streams' ``StreamsBuilder.build`` and ``topology.optimization`` (KIP-295,
        KIP-862).
        """
        if self._built is not None:
            raise declaration_error(
                "This StreamsBuilder has already built its topology. Keep the result, or declare"
                " the topology in a function and call that with a new builder."
            )
        optimize(self.graph, rules_of(optimization))
        built = make_topology(self.graph.write(), self.close_on_idle_ms)
        refuse_late_binding(built.declared(), self.graph.begun)
        self._built = built
        self.graph.is_built = True
        return self._built

    def _source_and_processor(
        self,
        store: StoreSpec,
        connections: ConnectedStores,
        topic: str,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        key: Any,
        value: Any,
        name: str | None,
        timestamp_extractor: TimestampExtractor | None,
    ) -> tuple[SourceNode, ProcessNode]:
        """The source and the processor that fill a store."""
        check_store(store)
        if store.ttl_ms is not None:
            raise _ttl_over_topic(store.name)
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


def _ttl_over_topic(store: str) -> TopologyError:
    return declaration_error(
        f"Store {store!r} cannot have a ttl: its topic is its changelog, to which the application"
        " writes no tombstones. Leave out ttl=, or keep the rows in a store of their own: table(),"
        " or a processor that reads the topic as a stream."
    )
