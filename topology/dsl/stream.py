"""KStream: an unbounded sequence of records, each an event of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar, Unpack, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import (
    check_count,
    check_join_windows,
    check_kind,
    check_options,
)
from logstate.topology.declaring.declaration_site import declaration_site, misdeclared
from logstate.topology.declaring.naming import check_name, required_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.dsl.branched import BranchedKStream
from logstate.topology.dsl.flow import K, PairOptions, StreamFlow, V
from logstate.topology.dsl.global_table import GlobalKTable
from logstate.topology.dsl.grouped_stream import KGroupedStream
from logstate.topology.dsl.materialized import Materialized, key_value_spec, materialized
from logstate.topology.dsl.stream_stream_join import StreamJoinOptions, StreamStreamJoin
from logstate.topology.dsl.stream_table_join import (
    GlobalTableJoinOptions,
    StreamTableJoinOptions,
    join_global_table,
    join_table,
)
from logstate.topology.dsl.table import KTable
from logstate.topology.graph.logical import ProcessorLogicalNode, SinkLogicalNode
from logstate.topology.graph.nodes import Partitioner, SinkNode, TopicChooser, TopicRef
from logstate.topology.operators.streams.filter import FilterNode
from logstate.topology.operators.streams.flat_map import FlatMapNode
from logstate.topology.operators.streams.flat_map_values import FlatMapValuesNode
from logstate.topology.operators.streams.map import MapNode
from logstate.topology.operators.streams.map_values import MapValuesNode
from logstate.topology.operators.streams.pass_through import PassThroughNode
from logstate.topology.operators.streams.peek import PeekNode
from logstate.topology.operators.streams.print import PrintNode
from logstate.topology.operators.streams.process import Connections, ProcessNode
from logstate.topology.operators.streams.select_key import SelectKeyNode
from logstate.topology.operators.tables.table_source import TableSourceNode
from logstate.topology.plan.repartition import RepartitionLogicalNode, repartition_topic
from logstate.topology.processor.processor import Processor
from logstate.topology.processor.processor_stores import Stores

K2 = TypeVar("K2")
V2 = TypeVar("V2")
R = TypeVar("R")
Joiner = Callable[..., Any]


@dataclass(frozen=True, eq=False, repr=False)
class KStream(StreamFlow[K, V]):
    """A stream at one point of the graph; every operator makes a new one.

    >>> from logstate import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=dict, name="clicks")
    >>> clicks.filter(lambda click: click["user"] is not None, name="known").to("known-clicks")

    Made by ``StreamsBuilder.stream``. ``key`` and ``value`` are its serdes, None where an operator
    above made new objects and did not say how they become bytes. ``needs_repartition``: an operator
    above may have changed keys, so records of one key may lie on several partitions; groupings and
    joins then go through a repartition topic first. Operators that may change keys are ``map``,
    ``flat_map``, ``select_key`` and ``process``, whether keys really change or not, because nobody
    can know; the ones for values only spare the topic.

    Semantics: of every operator, but for what it says itself:
        Null key: passed on; a callback is given None.
        Null value: passed on; a callback is given None.
        Late records: like all others: only what keeps state has a notion of late.
        Order: kept.
        Repartition: none, here or below.
        Store: none.
        Timestamp: the record's, and its headers.

    Args:
        name: the operator's name; generated if not given.
        key: serde of the result's keys, where a topic or store below needs it.
        value: serde of the result's values, likewise.

    Returns:
        The stream below the operator.

    Raises:
        TopologyError: a callback has another shape, ``key`` or ``value`` is no serde, or a name
            cannot be part of a topic's name.

    Source: Kafka Streams' ``KStream``.
    """

    # -- records go where: nothing here changes one

    @overload
    def filter(
        self, predicate: Callable[[V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    @overload
    def filter(
        self, predicate: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    def filter(self, predicate: Callable[..., object], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records that the predicate accepts.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("orders", value=int).filter(lambda cents: cents >= 100).to("large")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("large", value=int)
        [('bob', 250)]

        Semantics: as every operator, but
            Late records: what is filtered out does not advance the clocks of windows, suppress and
                joins below: each has its own stream time, made of the records that reach it.

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.

        Source: Kafka Streams' ``KStream.filter``.
        """
        return self._filter(predicate, name, keeps=True)

    @overload
    def filter_not(
        self, predicate: Callable[[V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    @overload
    def filter_not(
        self, predicate: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    def filter_not(
        self, predicate: Callable[..., object], *, name: str | None = None
    ) -> KStream[K, V]:
        """Drop the records that the predicate accepts.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).filter_not(lambda page: page == "ping").to("pages")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "home", 0), ("bob", "ping", 1)])
        ...     driver.read("pages", value=str)
        [('ada', 'home')]

        Semantics: as :meth:`filter`.

        Args:
            predicate: as for :meth:`filter`.

        Source: Kafka Streams' ``KStream.filterNot``.
        """
        return self._filter(predicate, name, keeps=False)

    def _filter(
        self, predicate: Callable[..., object], name: str | None, *, keeps: bool
    ) -> KStream[K, V]:
        function = callbacks.predicate(predicate)
        node = self._node(FilterNode, name, "KSTREAM-FILTER-", predicate=function, keeps=keeps)
        return self._below(node, keeps_value=True)

    def merge(self, *others: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """One stream of the records of this and all others.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> web = builder.stream("web", value=str)
        >>> web.merge(builder.stream("app", value=str)).to("all", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("web", "ada", "home")
        ...     driver.pipe("app", "bob", "cart")
        ...     driver.read("all", value=str)
        [('ada', 'home'), ('bob', 'cart')]

        Semantics: as every operator, but
            Order: kept within each input, none between them: a task takes the record with the
                smallest timestamp among those it has, which is best effort.
            Repartition: none here; below, if one of the inputs would have needed it.
            Quirk: topics that are merged belong to one sub-topology, whose tasks are as many as the
                topic with most partitions has: partition 3 of all of them is one task's.

        Args:
            others: streams of the same builder, with keys and values of the same types.
            name: the operator's name; generated if not given. With several others, all but the last
                merge get a number behind it.

        Returns:
            The merged stream. Its serdes are known only where all inputs have the same one.

        Raises:
            TopologyError: a stream comes from another builder.

        Source: Kafka Streams' ``KStream.merge`` (KIP-202).
        """
        merged = self
        for position, other in enumerate(others):
            suffix = "" if position == len(others) - 1 else f"-{position}"
            merged = merged._merge_one(other, None if name is None else name + suffix)
        return merged

    def _merge_one(self, other: KStream[K, V], name: str | None) -> KStream[K, V]:
        check_kind(other, KStream, "merge", "KStreams", "Make a table one by to_stream().")
        self._check_same_builder(other, "merge")
        node = self._node(PassThroughNode, name, "KSTREAM-MERGE-")
        logical = ProcessorLogicalNode(node, merge=True)
        self.builder.graph.add([self.logical, other.logical], logical)
        return self._derive(
            node.name,
            logical,
            key=self.key if self.key is other.key else None,
            value=self.value if self.value is other.value else None,
            source_names=self.source_names | other.source_names,
            needs_repartition=self.needs_repartition or other.needs_repartition,
        )

    def split(self, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Route every record to the first branch whose predicate accepts it.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders", value=int).split(name="by-size-")
        >>> split = split.branch(lambda cents: cents > 99, name="large")
        >>> branches = split.default_branch(name="small")
        >>> branches["by-size-small"].to("small")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("small", value=int)
        [('ada', 50)]

        Semantics: as every operator, but
            Order: kept within a branch.

        Args:
            name: the operator's name and prefix of its branches' names; generated if not given.

        Returns:
            The split, to which branches are added; see :class:`BranchedKStream`.

        Source: Kafka Streams' ``KStream.split`` (KIP-418).
        """
        return BranchedKStream(self, name)

    # -- new keys or values

    @overload
    def map(
        self, mapper: Callable[[V], tuple[K2, V2]], **options: Unpack[PairOptions]
    ) -> KStream[K2, V2]: ...
    @overload
    def map(
        self, mapper: Callable[[K, V], tuple[K2, V2]], **options: Unpack[PairOptions]
    ) -> KStream[K2, V2]: ...
    def map(
        self,
        mapper: Callable[..., tuple[Any, Any]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Replace every record by the ``(key, value)`` pair that the mapper returns.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str)
        >>> clicks.map(lambda user, page: (page, user), key=str, value=str).to("visitors")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        ...     driver.read("visitors", value=str)
        [('home', 'ada')]

        Semantics: as every operator, but
            Repartition: none here; a grouping or join below goes through a repartition topic first.
                Use :meth:`map_values` where keys do not change.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns a tuple of two. A text, a
                dict or a set of two is refused when it shows: it is no pair.

        Source: Kafka Streams' ``KStream.map``.
        """
        node = self._node(MapNode, name, "KSTREAM-MAP-", mapper=callbacks.mapper(mapper))
        return self._below(node, key_changing=True, key=key, value=value)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    def map_values(
        self, mapper: Callable[..., Any], *, value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Replace every value by what the mapper returns; keys stay.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("in", value=str).map_values(len, value=int).to("lengths")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("in", "ada", "home")
        ...     driver.read("lengths", value=int)
        [('ada', 4)]

        Semantics: as every operator, but
            Null value: given to the mapper as None; a mapper that returns None makes a null value,
                which a topic takes as a tombstone.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``. It must not change the key in
                place.

        Source: Kafka Streams' ``KStream.mapValues``; with the key: KIP-149.
        """
        function = callbacks.mapper(mapper)
        node = self._node(MapValuesNode, name, "KSTREAM-MAPVALUES-", mapper=function)
        return self._below(node, value_changing=True, value=value)

    @overload
    def flat_map(
        self, mapper: Callable[[V], Iterable[tuple[K2, V2]]], **options: Unpack[PairOptions]
    ) -> KStream[K2, V2]: ...
    @overload
    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], **options: Unpack[PairOptions]
    ) -> KStream[K2, V2]: ...
    def flat_map(
        self,
        mapper: Callable[..., Iterable[tuple[Any, Any]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[Any, Any]:
        """Replace every record by any number of ``(key, value)`` pairs.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> carts = builder.stream("carts", value=list)
        >>> carts.flat_map(lambda u, items: [(i, u) for i in items], key=str, value=str).to("items")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("carts", [("ada", ["tea", "milk"], 0), ("bob", [], 1)])
        ...     driver.read("items", value=str)
        [('tea', 'ada'), ('milk', 'ada')]

        Semantics: as :meth:`map`, but
            Order: that of the iterable; each pair goes all the way down before the next one is
                asked for.
            Timestamp: the record's for all pairs, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns an iterable of tuples of
                two, or is a generator. For no result it returns an empty one, not None. A text, a
                dict or a set is refused when it shows.

        Source: Kafka Streams' ``KStream.flatMap``.
        """
        node = self._node(
            FlatMapNode, name, "KSTREAM-FLATMAP-", mapper=callbacks.mapper(mapper, yields=True)
        )
        return self._below(node, key_changing=True, key=key, value=value)

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[V2]], *, value: Any = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self, mapper: Callable[..., Iterable[Any]], *, value: Any = None, name: str | None = None
    ) -> KStream[K, Any]:
        """Replace every value by any number of values under the same key.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("lines", value=str).flat_map_values(str.split, value=str).to("words")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("lines", "ada", "to be")
        ...     driver.read("words", value=str)
        [('ada', 'to'), ('ada', 'be')]

        Semantics: as every operator, but
            Order: that of the iterable; each value goes all the way down before the next one is
                asked for.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns an iterable, or is a
                generator. For no result it returns an empty one, not None. A text, a dict, a set
                or a named tuple is refused when it shows: it is one value, not a sequence of them.

        Source: Kafka Streams' ``KStream.flatMapValues``; with the key: KIP-149.
        """
        function = callbacks.mapper(mapper, yields=True)
        node = self._node(FlatMapValuesNode, name, "KSTREAM-FLATMAPVALUES-", mapper=function)
        return self._below(node, value_changing=True, value=value)

    @overload
    def select_key(
        self, mapper: Callable[[V], K2], *, key: Any = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    @overload
    def select_key(
        self, mapper: Callable[[K, V], K2], *, key: Any = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    def select_key(
        self, mapper: Callable[..., Any], *, key: Any = None, name: str | None = None
    ) -> KStream[Any, V]:
        """Give every record the key that the mapper returns.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=dict)
        >>> orders.select_key(lambda order: order["city"], key=str).to("by-city")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("orders", "o-1", {"city": "Oslo"})
        ...     driver.read("by-city", value=dict)
        [('Oslo', {'city': 'Oslo'})]

        Semantics: as :meth:`map`, but
            Null key: given to the mapper as None; a new key of None is dropped by the next
                repartition.
            Order: kept. Behind a repartition topic, records from several partitions meet in no
                fixed order.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns the new key.

        Source: Kafka Streams' ``KStream.selectKey``.
        """
        function = callbacks.mapper(mapper)
        node = self._node(SelectKeyNode, name, "KSTREAM-KEY-SELECT-", mapper=function)
        return self._below(node, key_changing=True, key=key, keeps_value=True)

    # -- the user's own code: side effects and processors

    @overload
    def peek(self, action: Callable[[V], object], *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def peek(
        self, action: Callable[[K, V], object], *, name: str | None = None
    ) -> KStream[K, V]: ...
    def peek(self, action: Callable[..., object], *, name: str | None = None) -> KStream[K, V]:
        """Call the action for every record, then pass the record on.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> seen = []
        >>> builder.stream("clicks", value=str).peek(seen.append).to("same")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        ...     seen, driver.read("same", value=str)
        (['home'], [('ada', 'home')])

        Semantics: as every operator, but
            Order: kept; the action is over before the record goes on.
            Quirk: the action happens at least once, under exactly-once too: a record that is
                processed again after a crash has its side effect again, because nothing can take
                one back.

        Args:
            action: ``action(value)`` or ``action(key, value)``; its result is not used. Do not
                change the value in place: operators beside this one see the same object.

        Source: Kafka Streams' ``KStream.peek``.
        """
        node = self._node(PeekNode, name, "KSTREAM-PEEK-", action=callbacks.action(action))
        return self._below(node, keeps_value=True)

    @overload
    def foreach(self, action: Callable[[V], object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: Callable[[K, V], object], *, name: str | None = None) -> None: ...
    def foreach(self, action: Callable[..., object], *, name: str | None = None) -> None:
        """Call the action for every record; the stream ends here.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).foreach(lambda user, page: print(user, page))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        ada home

        Semantics: as :meth:`peek`, but
            Timestamp: nothing is forwarded.
            Quirk: the action happens at least once, under exactly-once too. What has to happen
                exactly once must be a record on a topic.

        Args:
            action: ``action(value)`` or ``action(key, value)``; its result is not used.

        Source: Kafka Streams' ``KStream.foreach``.
        """
        self._add(self._node(PeekNode, name, "KSTREAM-FOREACH-", action=callbacks.action(action)))

    def print(
        self,
        *,
        label: str | None = None,
        file: TextIO | None = None,
        mapper: Callable[..., str] | None = None,
        name: str | None = None,
    ) -> None:
        """Write a line per record, ``[label]: key, value``; the stream ends here.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).print(label="clicks")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home")
        [clicks]: ada, home

        Semantics: as :meth:`foreach`, but
            Quirk: lines are written at least once, as with :meth:`peek`; they are not flushed.

        Args:
            label: text in the brackets; the stream's name if not given.
            file: an open text file; standard output of the moment if not given.
            mapper: ``mapper(value)`` or ``mapper(key, value)`` makes the text after the label.

        Source: Kafka Streams' ``KStream.print(Printed)`` (KIP-160).
        """
        label = self.name if label is None else label
        function = None if mapper is None else callbacks.mapper(mapper)
        prefix = "KSTREAM-PRINTER-"
        self._add(self._node(PrintNode, name, prefix, label=label, file=file, mapper=function))

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

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver, key_value_store
        >>> class Changes(Processor):
        ...     def process(self, record):
        ...         store = self.context.store("last")
        ...         if store.get(record.key) != record.value:
        ...             store.put(record.key, record.value)
        ...             self.context.forward(record)
        >>> builder = StreamsBuilder().add_store(key_value_store("last", str, int))
        >>> rooms = builder.stream("rooms", value=int)
        >>> rooms.process(Changes, stores="last", key=str, value=int, name="changes").to("changes")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("rooms", [("hall", 20, 0), ("hall", 20, 1), ("hall", 21, 2)])
        ...     driver.read("changes", value=int)
        [('hall', 20), ('hall', 21)]

        Semantics: as every operator, but
            Late records: given to the processor; ``context.current_stream_time_ms()`` tells how
                late.
            Order: what is forwarded goes all the way down before ``forward`` returns.
            Repartition: none here; a grouping or join below goes through a repartition topic first,
                because keys may have changed. :meth:`process_values` avoids it.
            Store: those in ``stores``. Operators that share a store run in the same task.
            Timestamp: that of the forwarded record, which may be any from 0 on, and its headers.

        Args:
            supplier: makes one processor per task: the class, or a function without parameters.
            stores: names of stores added to the builder, or declarations of stores to add along
                with it.

        Raises:
            TopologyError: the supplier cannot be called without arguments; at ``build()``: a store
                does not exist.

        Source: Kafka Streams' ``KStream.process`` (KIP-820).
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
        """Run a processor of your own that keeps keys.

        >>> from logstate import Processor, StreamsBuilder, TopologyTestDriver
        >>> class Stamp(Processor):
        ...     def process(self, record):
        ...         self.context.forward(record._replace(value=f"{record.value}+{record.key}"))
        >>> builder = StreamsBuilder()
        >>> builder.stream("clicks", value=str).process_values(Stamp, value=str).to("stamped")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("clicks", "ada", "home", timestamp=5)
        ...     driver.read("stamped", value=str)
        [('ada', 'home+ada')]

        Semantics: as :meth:`process`, but
            Repartition: none, here or below: forwarding another key than the record's raises
                ValueError. Only a scheduled callback, which has no record, may forward any key, and
                has to stay within those of its partition.

        Args:
            supplier: as for :meth:`process`.
            stores: as for :meth:`process`.

        Raises:
            TopologyError: as for :meth:`process`.

        Source: Kafka Streams' ``KStream.processValues`` (KIP-820).
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
            schedule_name=name or graph.names.of_supplier(supplier),
        )
        return self._derive(
            node_name,
            self._add(node),
            key=optional_serde(key, self.key if keeps_key else None, f"the key of {node_name!r}"),
            value=optional_serde(value, None, f"the value of {node_name!r}"),
            needs_repartition=self.needs_repartition or not keeps_key,
        )

    # -- groups

    @overload
    def group_by(
        self, mapper: Callable[[V], K2], **options: Unpack[PairOptions]
    ) -> KGroupedStream[K2, V]: ...
    @overload
    def group_by(
        self, mapper: Callable[[K, V], K2], **options: Unpack[PairOptions]
    ) -> KGroupedStream[K2, V]: ...
    def group_by(
        self,
        mapper: Callable[..., Any],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedStream[Any, V]:
        """Group the records by a new key, to aggregate them.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=dict)
        >>> by_city = orders.group_by(lambda order: order["city"], name="by-city", key=str)
        >>> by_city.count(store="orders-per-city").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("orders", "o-1", {"city": "Oslo"})
        ...     driver.pipe("orders", "o-2", {"city": "Oslo"})
        ...     driver.read("counts", value=int)
        [('Oslo', 1), ('Oslo', 2)]

        Semantics: as :meth:`group_by_key`, but
            Null key: given to the mapper as None; a new key of None is dropped before the topic and
                not counted.
            Order: records of one new key that come from several partitions meet in no fixed order.
            Repartition: always, through ``<application id>-<name>-repartition``; named after the
                aggregation's store if ``name`` is not given. Several aggregations of one named
                group share one topic.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns the new key.
            name: names the operator and the repartition topic.
            key: serde of the new keys.
            value: serde of the values; that of the stream if not given.

        Returns:
            The grouped stream: count, reduce, aggregate, windowed_by or cogroup it.

        Source: Kafka Streams' ``KStream.groupBy``; names: KIP-372.
        """
        function = callbacks.mapper(mapper)
        node = self._node(SelectKeyNode, name, "KSTREAM-KEY-SELECT-", mapper=function)
        return KGroupedStream(
            self.builder,
            node.name,
            self._add(node, key_changing=True),
            self.source_names,
            optional_serde(key, None, f"the key of group {node.name!r}"),
            optional_serde(value, self.value, f"the value of group {node.name!r}"),
            needs_repartition=True,
            topic_name=name,
        )

    def group_by_key(
        self, *, name: str | None = None, key: Any = None, value: Any = None
    ) -> KGroupedStream[K, V]:
        """Group the records by the key they have, to aggregate them.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> clicks.count(store="clicks-per-user").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "home", 0), ("ada", "cart", 1)])
        ...     driver.read("counts", value=int)
        [('ada', 1), ('ada', 2)]

        Semantics: as every operator, but
            Null key: passed on; the aggregation drops it. Dropped, not counted, where there is a
                repartition topic.
            Null value: passed on; the aggregation decides.
            Late records: the aggregation decides.
            Repartition: only if an operator above may have changed keys; through ``<application
                id>-<name>-repartition``, named after the aggregation's store if ``name`` is not
                given.
            Store: none here; the aggregation has one.

        Args:
            name: names the repartition topic, if there is one.
            key: serde of the keys; that of the stream if not given.
            value: serde of the values; that of the stream if not given.

        Returns:
            The grouped stream: count, reduce, aggregate, windowed_by or cogroup it.

        Raises:
            TopologyError: ``key`` or ``value`` is no serde; the aggregation raises it for serdes
                that are missing.

        Source: Kafka Streams' ``KStream.groupByKey``; names: KIP-372.
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

    # -- joins

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[GlobalTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[GlobalTableJoinOptions],
    ) -> KStream[K, R]: ...
    def join(self, other: Any, joiner: Joiner, **options: Any) -> KStream[K, Any]:
        """Inner join: a result for every match. What a match is depends on the other side.

        With a stream, records match that are near enough in time; both sides trigger:

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=str)
        >>> paid = builder.stream("payments", value=str)
        >>> near = JoinWindows.symmetric(timedelta(milliseconds=5))
        >>> both = orders.join(paid, lambda o, p: f"{o}+{p}", windows=near, name="paid")
        >>> both.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("orders", "ada", "tea", timestamp=10)
        ...     driver.pipe("payments", "ada", "card", timestamp=15)
        ...     driver.pipe("payments", "ada", "cash", timestamp=16)
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'tea+card', 15)]

        With a table, a record meets the row of its key; only the stream triggers. With a global
        table it meets the row under ``key_mapper(value)`` or ``key_mapper(key, value)``:

        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> cities = builder.global_table("cities", value=str, store="cities")
        >>> clicks = builder.stream("clicks", value=str)
        >>> located = clicks.join(users, lambda page, zip_code: f"{zip_code}:{page}")
        >>> city = located.join(cities, lambda _, city: city, key_mapper=lambda hit: hit[:4])
        >>> city.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("cities", "0150", "Oslo")
        ...     driver.pipe("users", "ada", "0150")
        ...     driver.pipe_all("clicks", [("ada", "home", 1), ("bob", "home", 2)])
        ...     driver.read("out", value=str)
        [('ada', 'Oslo')]

        Semantics:
            Null key: dropped and counted; with a global table it is the mapped key that counts.
            Null value: dropped and counted.
            Late records: between streams there is no test: a record joins whatever the other side's
                store still shows. With a table a record meets the row of NOW, of a versioned table
                the row as of its own time; with ``grace`` (versioned tables only) it waits that
                long for late rows, and a record that is later still is joined at once.
            Order: a record's partners by their timestamps, then as they came; with ``grace``
                results leave by timestamp.
            Repartition: a stream whose keys may have changed goes through
                ``<name>-left-repartition`` and ``<name>-right-repartition`` (with a table
                ``<name>-repartition``). Both sides must be co-partitioned, but with a global table
                neither matters.
            Store: of two streams ``<store>-this-join-store`` and ``<store>-other-join-store`` with
                retention before + after + grace. With ``grace`` a buffer, ``<name>-Buffer``. The
                table must have a store.
            Timestamp: of two streams the larger one, with tables the stream record's. Headers are
                those of the record that triggered the result.
            Quirk: with before = after = grace = 0 nothing ever joins: the stores' retention is 0
                then, as in Kafka Streams. A stream joined with itself pairs each record with
                itself, too.

        Args:
            other: a KStream, KTable or GlobalKTable of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``.
            options: with a stream ``windows`` (required), ``name`` (required), ``store`` (base of
                the stores' names, the name if not given), ``key``, ``left_value`` and
                ``right_value`` (serdes of both sides where they are not known); with a table
                ``grace``, ``key``, ``left_value``, ``name`` (required where there is a repartition
                or a grace); with a global table ``key_mapper`` (required), ``name``; with all
                ``value``, the serde of the result.

        Returns:
            The joined stream; without ``value`` its values have no serde until one is given.

        Raises:
            TopologyError: an option that this join does not have, or one that is missing; a table
                without a store; another builder; another shape of a callback.

        Source: Kafka Streams' ``KStream.join``; names: KIP-479; grace: KIP-923; versioned: KIP-914.
        """
        joined: KStream[K, Any] = self._join(other, joiner, "inner", options)
        return joined

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[GlobalTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[GlobalTableJoinOptions],
    ) -> KStream[K, R]: ...
    def left_join(self, other: Any, joiner: Joiner, **options: Any) -> KStream[K, Any]:
        """Left join: every record of this stream has a result; without a match right is None.

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=str)
        >>> paid = builder.stream("payments", value=str)
        >>> near = JoinWindows.symmetric(timedelta(milliseconds=5))
        >>> both = orders.left_join(paid, lambda o, p: f"{o}+{p}", windows=near, name="paid")
        >>> both.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", "tea", 10), ("bob", "rum", 13)])
        ...     driver.pipe("payments", "ada", "card", timestamp=12)
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("payments", "eve", "cash", timestamp=26)
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'tea+card', 12), ('bob', 'rum+None', 13)]

        Semantics: as :meth:`join`, but
            Null key: has a result without a match, at once (KIP-962); on the right side dropped and
                counted. With a global table a mapped key of None has no match.
            Late records: as with :meth:`join`. A record without a match that is older than its
                window allows has its result at once, although its grace is not over and a match may
                still come.
            Order: matches as with :meth:`join`; unmatched records by timestamp, then key.
            Repartition: as with :meth:`join`; null keys go through the topic here.
            Store: as with :meth:`join`, and ``<store>-left-shared-join-store`` for what waits
                unmatched.
            Timestamp: of an unmatched record its own; otherwise as with :meth:`join`.
            Quirk: between streams an unmatched record's result comes when stream time has PASSED
                its window and grace (KIP-633), and only when a record as new as stream time comes
                and the builder's ``outer_join_emit_interval`` has passed: an idle topic flushes
                nothing. Kafka Streams looks that rarely to save work.

        Args:
            other: a KStream, KTable or GlobalKTable of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; right may be None.
            options: as for :meth:`join`.

        Raises:
            TopologyError: as for :meth:`join`.

        Source: Kafka Streams' ``KStream.leftJoin``; no spurious results: KIP-633; null keys:
        KIP-962.
        """
        joined: KStream[K, Any] = self._join(other, joiner, "left", options)
        return joined

    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        **options: Unpack[StreamJoinOptions],
    ) -> KStream[K, R]: ...
    def outer_join(
        self, other: KStream[K, Any], joiner: Joiner, *, windows: JoinWindows, **options: Any
    ) -> KStream[K, Any]:
        """Outer join of two streams: every record of both sides has a result.

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> asked = builder.stream("asked", value=str)
        >>> told = builder.stream("told", value=str)
        >>> near = JoinWindows(after=timedelta(milliseconds=5))
        >>> both = asked.outer_join(told, lambda a, t: f"{a}/{t}", windows=near, name="talk")
        >>> both.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("told", "ada", "yes", timestamp=9)
        ...     driver.pipe("asked", "ada", "tea?", timestamp=10)
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("told", "bob", "no", timestamp=30)
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'None/yes', 9), ('ada', 'tea?/None', 10)]

        Semantics: as :meth:`left_join`, but
            Null key: has a result without a match, at once, on both sides (KIP-962).
            Order: as with :meth:`left_join`; of unmatched records with one timestamp the right
                side's first.
            Store: ``<store>-outer-this-join-store``, ``<store>-outer-other-join-store``, and
                ``<store>-outer-shared-join-store`` for what waits unmatched.
            Quirk: an idle topic flushes nothing.

        Args:
            other: a KStream of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; either may be None, not
                both.
            windows: how far apart matches may be.
            options: ``name`` (required), ``store``, ``key``, ``left_value``, ``right_value``,
                ``value``, as for :meth:`join`.

        Raises:
            TopologyError: as for :meth:`join`.

        Source: Kafka Streams' ``KStream.outerJoin``; no spurious results: KIP-633; null keys:
        KIP-962.
        """
        options["windows"] = windows
        joined: KStream[K, Any] = self._join(other, joiner, "outer", options)
        return joined

    def _join(self, other: Any, joiner: Joiner, kind: Any, options: dict[str, Any]) -> Any:
        options = {name: given for name, given in options.items() if given is not None}
        if isinstance(other, KTable):
            check_options(options, StreamTableJoinOptions, "a stream-table join")
            self._check_same_builder(other, "join")
            return join_table(self, other, joiner, is_left=kind == "left", **options)
        if isinstance(other, GlobalKTable):
            check_options(options, GlobalTableJoinOptions, "a stream-global-table join")
            return join_global_table(self, other, joiner, is_left=kind == "left", **options)
        if not isinstance(other, KStream):
            raise misdeclared(
                f"A stream is joined with a KStream, KTable or GlobalKTable, found {other!r}. Read"
                " it from a topic first, or aggregate it."
            )
        check_options(options, StreamJoinOptions, "a stream-stream join")
        if "windows" not in options:
            raise misdeclared(
                "A stream-stream join needs windows=: without a time span every record of one side"
                " would have to wait for ever. Give JoinWindows(before=..., after=..., grace=...),"
                " or join with a table."
            )
        check_join_windows(options["windows"])
        self._check_same_builder(other, "join")
        options["store"] = materialized(options.get("store"))
        return StreamStreamJoin(self, other, joiner, kind=kind, **options).build()

    # -- the way out: topics and tables

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

        Semantics: as every operator, but
            Null key: written without a key; the producer chooses the partition.
            Null value: written without a value: a tombstone for whoever reads the topic as a table.
            Order: kept per partition. Outputs of one input record come in the order in which the
                graph is walked, depth first, children in the order of their declaration.
            Repartition: none. Partition = murmur2 of the key's bytes, as every JVM client places
                it; a windowed key is placed by its inner key alone, so that results stay on the
                partition of their input.
            Store: none. Topics are never created.
            Quirk: event time 0 is written as 1 ms, because the client would turn 0 into the time of
                sending.

        Args:
            topic: a topic's name, or ``topic(key, value, metadata)``; metadata is where the record
                came from, None inside scheduled callbacks.
            key: serde of the keys; that of the stream if not given.
            value: likewise of the values.
            partitioner: ``partitioner(topic, key, value, partition_count)`` returns a partition, a
                list of partitions (one copy each; [] drops the record, which is counted), or None
                for the default.

        Raises:
            TopologyError: a serde is not known, or the topic's name is not valid.

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

        Semantics: as every operator, but
            Null key: dropped and counted.
            Null value: deletes the row and is forwarded as a tombstone.
            Late records: overwrite newer rows, as they come. Only a versioned store (``history=``)
                puts them where they belong.
            Repartition: if an operator above may have changed keys; the topic is named after
                ``name``.
            Store: the one named ``store``, else none. Without one nothing below can read rows.

        Args:
            store: name or :class:`Materialized` of the table's store.
            key: serde of the keys; that of the stream if not given.
            value: likewise of the values.
            name: the operator's name; needed where a repartition topic is.

        Raises:
            TopologyError: a serde or a name is needed and missing.

        Source: Kafka Streams' ``KStream.toTable`` (KIP-523).
        """
        graph = self.builder.graph
        node_name = graph.names.named(name, "KSTREAM-TOTABLE-")
        options = materialized(store)
        if options is None:
            graph.new_store_name("KSTREAM-TOTABLE-")
        use = f"table {node_name!r}"
        key_serde = optional_serde(key, self.key, f"the key of {use}")
        value_serde = optional_serde(value, self.value, f"the value of {use}")
        parent = self
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
            store_use = f"store {options.name!r}"
            spec = key_value_spec(
                options,
                self._key_serde(options.key or key, store_use),
                self._value_serde(options.value or value, store_use),
                self.builder.defaults,
            )
        node = TableSourceNode(node_name, store=spec)
        logical = parent._add(node, output_versioned=node.is_versioned())
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

        Semantics: as every operator, but
            Null key: dropped, not counted; kept if a left or outer join below has a use for it
                (KIP-962).
            Order: kept per key; behind the topic, records from several partitions meet in no fixed
                order.
            Repartition: always; what is below runs in tasks of its own.
            Store: none. The topic is created by the application, and its records are deleted once
                they are consumed and committed.

        Args:
            name: names the topic and its nodes; required.
            key: serde of the keys; that of the stream if not given.
            value: likewise of the values.
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
