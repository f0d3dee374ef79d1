"""The handles that users hold: streams, tables, and what they are split into, grouped and windowed.

They are in one module because each has methods that return the others: a stream becomes a table,
a table a stream. A method here has its arguments, its types, its contract, and a line or two; the
flows and joins in other modules, which do not know the handles, add it to the graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Literal, TextIO, TypeVar, Unpack, overload

from logstate.contracts.pane import Pane
from logstate.contracts.records import Change, Windowed
from logstate.contracts.serde_types import SerdeLike, Untyped
from logstate.topology.declaring import argument_checks, callbacks
from logstate.topology.declaring.argument_checks import check_kind, check_options, check_windows
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.mapper_results import in_pairs, items_of
from logstate.topology.declaring.naming import check_name, joined_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.declaring.windows import (
    CountWindows,
    Emit,
    SessionWindows,
    SlidingWindows,
    Windows,
)
from logstate.topology.dsl.aggregate_plan import AggregatePlan
from logstate.topology.dsl.aggregate_records import (
    GroupAggregates,
    RecordOf,
    planned,
    planned_groups,
)
from logstate.topology.dsl.aggregates import Aggregate
from logstate.topology.dsl.aggregations import (
    COUNT,
    TABLE_COUNT,
    A,
    AggregateOptions,
    Fold,
    FoldOptions,
    as_aggregator,
    reduction,
)
from logstate.topology.dsl.as_of_join import (
    AsOfKind,
    AsOfStreamOptions,
    AsOfTableOptions,
    as_of_joined,
)
from logstate.topology.dsl.async_mapping import AsyncOptions, TypedAsyncOptions, mapped_async
from logstate.topology.dsl.count_windows import CountOptions, batched, counted
from logstate.topology.dsl.flow import (
    GlobalKTable,
    K,
    PairOptions,
    R,
    TypedValueOptions,
    V,
    ValueOptions,
)
from logstate.topology.dsl.grouped_flow import (
    COGROUP_PREFIX,
    GroupedFlow,
    GroupedTableFlow,
    Groups,
    aggregated,
    check_groups,
    cogroup_fold,
    cogrouped,
    of_group,
)
from logstate.topology.dsl.interval_join import IntervalJoinOptions, interval_joined
from logstate.topology.dsl.late_streams import add_late_changes
from logstate.topology.dsl.materialized import AnyWindows, Materialized
from logstate.topology.dsl.panes import Early, pane_stream
from logstate.topology.dsl.record_selection import RecordSelection
from logstate.topology.dsl.scanning import ScanOptions, Step, T, scanned
from logstate.topology.dsl.stream_flow import Also, StreamTableOptions
from logstate.topology.dsl.stream_joins import join_stream
from logstate.topology.dsl.stream_stream_join import JoinKind, StreamJoinOptions
from logstate.topology.dsl.stream_table_join import GlobalTableJoinOptions, StreamTableJoinOptions
from logstate.topology.dsl.suppressed import Suppressed
from logstate.topology.dsl.table_flow import (
    DerivedTableOptions,
    TableFlow,
    TypedTableOptions,
    UntypedTableOptions,
)
from logstate.topology.dsl.table_table_join import TableJoinOptions, join_tables
from logstate.topology.dsl.top_n import TopNOptions, top_n
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.graph.nodes import Partitioner, TopicChooser
from logstate.topology.operators.streams.filters import BranchNode
from logstate.topology.operators.streams.mappers import (
    FlatMapNode,
    FlatMapValuesNode,
    MapNode,
    MapValuesNode,
    SelectKeyNode,
)
from logstate.topology.operators.streams.pass_through import PassThroughNode, PeekNode, PrintNode
from logstate.topology.operators.streams.process import ConnectedStores
from logstate.topology.operators.tables.derived_tables import (
    AggregateResultsNode,
    TableMapValuesNode,
)
from logstate.topology.operators.tables.table_group_by import TableGroupByNode
from logstate.topology.operators.tables.table_transform_values import TableTransformValuesNode
from logstate.topology.operators.tables.to_stream import ToChangeStreamNode, ToStreamNode
from logstate.topology.processor.processor import Processor
from logstate.topology.processor.processor_stores import Stores
from logstate.topology.processor.value_transformer import ValueTransformer

K2 = TypeVar("K2")
V2 = TypeVar("V2")
#: keys of aggregates: those of the records, or ``Windowed`` ones
G = TypeVar("G")
Joiner = Callable[..., Any]
#: makes something of a branch: another stream, or None if it ends there
Chain = Callable[["KStream[Any, Any]"], "KStream[Any, Any] | None"]


@dataclass(frozen=True, eq=False, repr=False)
class KStream(RecordSelection[K, V]):
    """A stream at one point of the graph; every operator makes a new one.

    >>> from logstate import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks = builder.stream("clicks", value=dict, name="clicks")
    >>> clicks.filter(lambda click: click["user"] is not None, name="known").to("known-clicks")

    Made by ``StreamsBuilder.stream``. ``key`` and ``value`` are its serdes, None if an operator
    above made new objects without a serde. ``needs_repartition``: an operator above may have
    changed keys, so records of one key may be in several partitions; groupings and joins then go
    through a repartition topic first. Operators that may change keys are ``map``,
    ``flat_map``, ``select_key`` and ``process``, whether keys really change or not, because that
    is unknown; operators on values avoid the topic.

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
        key: serde of the result's keys, if a topic or store below needs it.
        value: serde of the result's values, likewise.

    Returns:
        The stream below the operator.

    Raises:
        TopologyError: a callback has another signature, ``key`` or ``value`` is not a serde, or a
            name cannot be part of a topic's name.

    Source: Kafka Streams' ``KStream``.
    """

    def batch(
        self,
        n: int,
        *,
        within: timedelta,
        close_on_idle: timedelta | None = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KStream[K, list[V]]:
        """Collect the values of each key into lists of ``n``, or fewer when the time is up.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> from logstate.serdes import list_of
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str)
        >>> clicks.batch(2, within=timedelta(seconds=5), store="batches").to("batches")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "a", 0), ("ada", "b", 10), ("ada", "c", 4_000)])
        ...     driver.pipe_all("clicks", [("bob", "d", 8_000), ("bob", "e", 9_000)])
        ...     driver.read("batches", value=list_of(str))
        [('ada', ['a', 'b']), ('ada', ['c']), ('bob', ['d', 'e'])]

        Semantics:
            Null key: dropped and counted as dropped.
            Null value: dropped and counted as dropped.
            Late records: there are none: a batch has the values in the order of their arrival. Its
                time begins at the stream time at which its first value arrives.
            Order: a batch is sent when it has ``n`` values. Those whose time is up come before the
                record that advances stream time, by the end of their time and then by the key's
                bytes.
            Repartition: only if an operator above may have changed keys.
            Store: named ``store``, with a row per key; ``<store>-values`` has the values of the
                open batches, one row each, and ``<store>-timers`` a row per key. A crash, a move
                and a restore change nothing.
            Timestamp: the largest of the values. Headers: of the record that closed the batch.

        Args:
            n: values of a batch, at least 1.
            within: how much stream time after its first value a batch is sent at the latest, at
                least 1 ms.
            close_on_idle: send open batches without a later record, too, once the inputs of the
                task have been idle for this long, at least 1 ms; see the page about idle topics.
            store: name or :class:`Materialized` of the store; required.
            name: the operator's name; generated if not given.

        Returns:
            The stream of lists, written as Kafka's ``ListSerializer`` does; ``map_values`` with
            another ``value=`` for JSON.

        Raises:
            TopologyError: ``n`` or ``within`` is too small, no store, a store with a retention, a
                history, a capacity or headers, or a serde is not known.

        Source: Bytewax's ``collect``, Akka Streams' ``groupedWithin``; in Flink, a ``countWindow``
        with a trigger.
        """
        grouped = self.group_by_key()
        return KStream._of(batched(grouped, n, within, close_on_idle, store, name))

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
            The merged stream. Its serdes are known only if all inputs have the same one.

        Raises:
            TopologyError: a stream comes from another builder.

        Source: Kafka Streams' ``KStream.merge`` (KIP-202).
        """
        return self._merged(others, name)

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
        self, mapper: Callable[[V], tuple[K2, V2]], **options: Unpack[PairOptions[K2, V2]]
    ) -> KStream[K2, V2]: ...
    @overload
    def map(
        self, mapper: Callable[[K, V], tuple[K2, V2]], **options: Unpack[PairOptions[K2, V2]]
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
                Use :meth:`map_values` if keys do not change.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns a tuple of two. A string, a
                dict or a set of two is refused at run time.

        Source: Kafka Streams' ``KStream.map``.
        """
        node = self._node(MapNode, name, "KSTREAM-MAP-", mapper=callbacks.mapper(mapper))
        return self._below(node, key_changing=True, key=key, value=value)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2 | None], **options: Unpack[TypedValueOptions[V2]]
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2 | None], **options: Unpack[TypedValueOptions[V2]]
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[V], V2], *, value: Untyped = None, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], *, value: Untyped = None, name: str | None = None
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
        function = callbacks.mapper(mapper, value=value)
        node = self._node(MapValuesNode, name, "KSTREAM-MAPVALUES-", mapper=function)
        return self._below(node, value_changing=True, value=value)

    @overload
    def map_values_async(
        self,
        mapper: Callable[[V], Awaitable[V2 | None]],
        **options: Unpack[TypedAsyncOptions[V2]],
    ) -> KStream[K, V2]: ...
    @overload
    def map_values_async(
        self,
        mapper: Callable[[K, V], Awaitable[V2 | None]],
        **options: Unpack[TypedAsyncOptions[V2]],
    ) -> KStream[K, V2]: ...
    @overload
    def map_values_async(
        self, mapper: Callable[[V], Awaitable[V2]], **options: Unpack[AsyncOptions]
    ) -> KStream[K, V2]: ...
    @overload
    def map_values_async(
        self, mapper: Callable[[K, V], Awaitable[V2]], **options: Unpack[AsyncOptions]
    ) -> KStream[K, V2]: ...
    def map_values_async(self, mapper: Callable[..., Any], **options: Any) -> KStream[K, Any]:
        """Replace every value by what an asynchronous mapper returns, with many calls at a time.

        >>> import asyncio
        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> async def city_of(user):
        ...     await asyncio.sleep(0.001)  # a request to a service
        ...     return {"ada": "London"}.get(user)
        >>> builder = StreamsBuilder()
        >>> builder.stream("users", value=str).map_values_async(city_of, value=str).to("cities")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("1", "ada", 0), ("2", "bob", 1)])
        ...     driver.read("cities", value=str)
        [('1', 'London'), ('2', None)]

        A record starts its call, and the task continues with the next one. Before a commit the task
        waits for all calls and forwards the results. With exactly-once outputs, consumers cannot
        read a result earlier than that in any case.

        Semantics: as every operator, but
            Null value: given to the mapper as None; a mapper that returns None makes a null value.
            Late records: an operator below sees a record when its result is forwarded, so after the
                records of other streams that arrived before the commit. A join with a table finds
                the table's row as of then, and schedules by stream time may come before it.
            Order: that in which the records arrived, whatever the calls take. All results of a
                commit come at its end.
            Store: none. A crash makes the calls since the last commit again: what they do happens
                at least once, as with :meth:`peek`.
            Quirk: the mapper runs in the event loop of the process, in its own thread. It must not
                block that thread, use stores, or change the key or the value in place.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; an ``async def`` function, or one
                that returns something else that can be awaited. What it raises is an error of its
                record: handlers may skip the record, send a dead letter or try again.
            options: ``concurrency``, how many calls of a task may be unfinished, 100 if not given:
                the next record waits for one of them to end; ``timeout``, a :class:`timedelta` of
                at least 1 ms, how long one call may take, 10 seconds if not given; ``value``, the
                serde of the results; ``name``, that of the operator.

        Raises:
            TopologyError: as every operator; the mapper is a generator; ``concurrency`` or
                ``timeout`` is too small.

        Source: ``orderedWait`` of Flink's asynchronous I/O; Akka Streams' ``mapAsync``.
        """
        return mapped_async(self, mapper, options)

    @overload
    def flat_map(
        self, mapper: Callable[[V], Iterable[tuple[K2, V2]]], **options: Unpack[PairOptions[K2, V2]]
    ) -> KStream[K2, V2]: ...
    @overload
    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2, V2]]], **o: Unpack[PairOptions[K2, V2]]
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
        self, mapper: Callable[[V], Iterable[V2]], **options: Unpack[ValueOptions[V2]]
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[V2]], **options: Unpack[ValueOptions[V2]]
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

    def flatten(self, **options: Unpack[ValueOptions[V2]]) -> KStream[K, V2]:
        """Forward each item of a value that is a list, or any other sequence, under the same key.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("baskets", value=list[str]).flatten(value=str).to("items")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("baskets", "ada", ["tea", "rum"])
        ...     driver.read("items", value=str)
        [('ada', 'tea'), ('ada', 'rum')]

        Semantics: as :meth:`flat_map_values`, but
            Null value: has no items, so nothing is forwarded.

        Args:
            options: ``value``, the serde of the items; ``name``.

        Source: Polars' ``explode``; in Kafka Streams ``flatMapValues`` with the identity.
        """
        return self.flat_map_values(items_of, **options)

    def scan(
        self,
        initializer: Callable[[], T],
        step: Step[T, V, R, K],
        **options: Unpack[ScanOptions[T, R]],
    ) -> KStream[K, R]:
        """Carry a state per key from record to record, and forward a result for each record.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> readings = builder.stream("readings", value=int)
        >>> rises = readings.scan(
        ...     lambda: 0, lambda last, new: (new, new - last), state=int, value=int, store="last"
        ... )
        >>> rises.to("rises")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("readings", [("a", 5, 0), ("b", 1, 0), ("a", 7, 1), ("a", 6, 2)])
        ...     driver.read("rises", value=int)
        [('a', 5), ('b', 1), ('a', 2), ('a', -1)]

        Use :meth:`~KGroupedStream.aggregate` where the state is the result and a table is wanted.

        Semantics: as every operator, but
            Null key: dropped and counted.
            Null value: dropped and counted.
            Late records: none is: records are taken in the order of their arrival.
            Repartition: only if an operator above may have changed keys; through ``<application
                id>-<name>-repartition``, named after the store if ``name`` is not given.
            Store: the one named ``store``, else ``name``: a row with the state for each key, and
                the largest timestamp of its records. With a TTL a key begins again after it, and a
                record that is older than stream time by the TTL is dropped and counted. A crash, a
                restore and a move change nothing.
            Timestamp: the record's. Headers: the record's.

        Args:
            initializer: returns the state of a key without one: a new object each time.
            step: ``step(state, value)`` or ``step(key, value, state)``; returns the pair ``(state,
                result)``. A state of None deletes the row.
            options: ``state``, the serde of the states; ``value``, that of the results; ``store``,
                a name or :class:`Materialized` of the operator's store; ``key``, the serde of the
                keys if it is not known; ``name``.

        Raises:
            TopologyError: neither a store nor a name is given; the serde of the keys or states is
                missing; a store with a history or a capacity; another shape of a function.

        Source: the ``scan`` of Rust's iterators and of JAX; Bytewax's ``stateful_map``.
        """
        return KStream._of(scanned(self, initializer, step, options))

    @overload
    def select_key(
        self, mapper: Callable[[V], K2], *, key: SerdeLike[K2] = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    @overload
    def select_key(
        self, mapper: Callable[[K, V], K2], *, key: SerdeLike[K2] = None, name: str | None = None
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
        function = callbacks.mapper(mapper, key=key)
        node = self._node(SelectKeyNode, name, "KSTREAM-KEY-SELECT-", mapper=function)
        return self._below(node, key_changing=True, key=key, keeps_value=True)

    # -- the user's own code: side effects and processors

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
        argument_checks.check_file(file)
        function = None if mapper is None else callbacks.mapper(mapper)
        prefix = "KSTREAM-PRINTER-"
        self._add(self._node(PrintNode, name, prefix, label=label, file=file, mapper=function))

    def process(
        self,
        supplier: Callable[[], Processor[K, V, K2, V2]],
        *,
        stores: Stores = (),
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
        also: Also = (),
        close_on_idle: timedelta | None = None,
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
            Late records: given to the processor; ``context.current_stream_time_ms()`` returns
                stream time.
            Order: a forwarded record is processed completely before ``forward`` returns.
            Repartition: none here; a grouping or join below goes through a repartition topic first,
                because keys may have changed. :meth:`process_values` avoids it.
            Store: those in ``stores``. Operators that share a store run in the same task.
            Timestamp: that of the forwarded record, which may be any from 0 on, and its headers.

        Args:
            supplier: makes one processor per task: the class, or a function without parameters.
            stores: names of stores added to the builder, or declarations of stores to add along
                with it.
            also: further streams of the same builder that go to the same processor, which is one
                per task for all of them, without an operator that merges them first. Their
                topics are then of one sub-topology, as for :meth:`merge`.
            close_on_idle: let timers by stream time (:class:`KeyTimers`) run without a later record
                once the inputs of the task have been idle for this long, at least 1 ms; None: they
                wait for a later record.

        Raises:
            TopologyError: the supplier cannot be called without arguments; a stream in ``also``
                is given twice or comes from another builder; at ``build()``: a store does not
                exist.

        Source: Kafka Streams' ``KStream.process`` (KIP-820); ``also``: ``Topology.addProcessor``
        with several parents.
        """
        below: KStream[Any, Any] = self._processed(
            supplier, stores, name, also, close_on_idle, key=key, value=value, keeps_key=False
        )
        return below

    def process_values(
        self,
        supplier: Callable[[], Processor[K, V, K, V2]],
        *,
        stores: Stores = (),
        value: SerdeLike[V2] = None,
        name: str | None = None,
        also: Also = (),
        close_on_idle: timedelta | None = None,
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
            also: as for :meth:`process`.
            close_on_idle: as for :meth:`process`.

        Raises:
            TopologyError: as for :meth:`process`.

        Source: Kafka Streams' ``KStream.processValues`` (KIP-820).
        """
        below: KStream[K, Any] = self._processed(
            supplier, stores, name, also, close_on_idle, key=None, value=value, keeps_key=True
        )
        return below

    # -- groups

    @overload
    def group_by(
        self, mapper: Callable[[V], K2], **options: Unpack[PairOptions[K2, V]]
    ) -> KGroupedStream[K2, V]: ...
    @overload
    def group_by(
        self, mapper: Callable[[K, V], K2], **options: Unpack[PairOptions[K2, V]]
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
        function = callbacks.mapper(mapper, key=key)
        node = self._node(SelectKeyNode, name, "KSTREAM-KEY-SELECT-", mapper=function)
        logical = self._add(node, key_changing=True)
        return KGroupedStream(
            self.builder,
            node.name,
            logical,
            self.source_names,
            self._new_serde(logical, "key", key, f"the key of group {node.name!r}"),
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
            Null key: passed on; the aggregation drops it. Dropped, not counted, if there is a
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
            TopologyError: ``key`` or ``value`` is not a serde; the aggregation raises it for
                missing serdes.

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
        self, other: KStream[K, V2], joiner: Callable[[V, V2], R], **o: Unpack[StreamJoinOptions[R]]
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[StreamTableJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2], R],
        **options: Unpack[GlobalTableJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[StreamJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[StreamTableJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[GlobalTableJoinOptions[R]],
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
            Late records: between streams there is no check: a record joins all rows that the other
                side's store still returns. With a table a record meets the CURRENT row, of a
                versioned table the row at its own time; with ``grace`` (versioned tables only) it
                waits that long for late rows, and a record that is even later is joined at once.
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
                the stores' names, the name if not given; as a ``Materialized`` also the storage and
                the logging of both sides), ``left_store`` and ``right_store`` (of one side alone,
                under the given name), ``key``, ``left_value`` and
                ``right_value`` (serdes of both sides if they are not known); with a table
                ``grace``, ``key``, ``left_value``, ``name`` (required if there is a repartition
                or a grace); with a global table ``key_mapper`` (required), ``name``; with all
                ``value``, the serde of the result.
                With a stream, and with ``grace``, ``late`` names the stream of late records
                (``StreamsBuilder.late``), which are not joined then.

        Returns:
            The joined stream; without ``value`` its values have no serde until one is given.

        Raises:
            TopologyError: an option that this join does not have, or one that is missing; a table
                without a store; another builder; another shape of a callback.

        Source: Kafka Streams' ``KStream.join``; names: KIP-479; grace: KIP-923; versioned: KIP-914.
        """
        return join_stream(self, other, joiner, "inner", options)

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[StreamJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        **options: Unpack[GlobalTableJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[StreamJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[StreamTableJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **options: Unpack[GlobalTableJoinOptions[R]],
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
                and the ``outer_join_emit_interval`` of the application, or of the builder, has
                passed: an idle topic flushes nothing. Kafka Streams looks that rarely to save work.

        Args:
            other: a KStream, KTable or GlobalKTable of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; right may be None.
            options: as for :meth:`join`.

        Raises:
            TopologyError: as for :meth:`join`.

        Source: Kafka Streams' ``KStream.leftJoin``; no spurious results: KIP-633; null keys:
        KIP-962.
        """
        return join_stream(self, other, joiner, "left", options)

    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        **options: Unpack[StreamJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        **options: Unpack[StreamJoinOptions[R]],
    ) -> KStream[K, R]: ...
    def outer_join(self, other: KStream[K, Any], joiner: Joiner, **options: Any) -> KStream[K, Any]:
        """Outer join of two streams: every record of both sides has a result.

        >>> from datetime import timedelta
        >>> from logstate import JoinWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> asked = builder.stream("asked", value=str)
        >>> answered = builder.stream("answered", value=str)
        >>> near = JoinWindows(after=timedelta(milliseconds=5))
        >>> both = asked.outer_join(answered, lambda a, t: f"{a}/{t}", windows=near, name="talk")
        >>> both.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("answered", "ada", "yes", timestamp=9)
        ...     driver.pipe("asked", "ada", "tea?", timestamp=10)
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("answered", "bob", "no", timestamp=30)
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
            options: ``windows`` and ``name`` (both required), ``store``, ``key``, ``left_value``,
                ``right_value``, ``value``, as for :meth:`join`.

        Raises:
            TopologyError: as for :meth:`join`, and for a table, with which there is none.

        Source: Kafka Streams' ``KStream.outerJoin``; no spurious results: KIP-633; null keys:
        KIP-962.
        """
        return join_stream(self, other, joiner, "outer", options)

    # -- joins by time

    @overload
    def interval_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        how: Literal["inner"] = "inner",
        **options: Unpack[IntervalJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def interval_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        how: Literal["left"],
        **options: Unpack[IntervalJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def interval_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        *,
        how: Literal["outer"],
        **options: Unpack[IntervalJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def interval_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        how: Literal["inner"] = "inner",
        **options: Unpack[IntervalJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def interval_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        how: Literal["left"],
        **options: Unpack[IntervalJoinOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def interval_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        *,
        how: Literal["outer"],
        **options: Unpack[IntervalJoinOptions[R]],
    ) -> KStream[K, R]: ...
    def interval_join(
        self,
        other: KStream[K, Any],
        joiner: Joiner,
        *,
        how: JoinKind = "inner",
        **options: Any,
    ) -> KStream[K, Any]:
        """Join each record with those of another stream in an interval around its timestamp: with
        all of them, the first, or the last one.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=str)
        >>> paid = builder.stream("payments", value=str)
        >>> soon = timedelta(0), timedelta(milliseconds=10)
        >>> first = orders.interval_join(
        ...     paid, lambda o, p: f"{o}+{p}", how="left", within=soon, match="first", name="paid"
        ... )
        >>> first.to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", "tea", 10), ("bob", "rum", 12)])
        ...     driver.pipe_all("payments", [("ada", "card", 15), ("ada", "cash", 13)])
        ...     driver.pipe("payments", "eve", "card", timestamp=30)  # closes both intervals
        ...     driver.read_with_timestamps("out", value=str)
        [('ada', 'tea+cash', 13), ('bob', 'rum+None', 12)]

        Semantics:
            Null key: dropped and counted. With ``how="left"`` a record of this stream has a result
                without a match, at once; with "outer" one of the other stream, too.
            Null value: of this stream dropped and counted. Of the other stream likewise with
                ``match="all"``; else it is a heartbeat, which only advances stream time.
            Late records: with ``match="all"`` as with :meth:`join`. Else a record of this stream is
                late if its interval is closed when it comes; it is joined at once with what is
                still stored. A record of the other stream is late if it is older than stream time -
                grace: an interval that contains it may be closed. It can still be chosen by those
                that are open. Both are counted; with ``late`` they are emitted instead.
            Order: with ``match="all"`` as with :meth:`join` and :meth:`left_join`. Else by the
                timestamps of this stream's records, then by the key's bytes, then as they came.
            Repartition: as with :meth:`join`.
            Store: with ``match="all"`` as with :meth:`join`, :meth:`left_join` and
                :meth:`outer_join`. Else ``<store>-left-buffer`` for records that wait, and
                ``<store>-right-store`` for those of the other stream, with a retention of
                before + after + grace + 1 ms.
            Timestamp: the larger one of the pair; of an unmatched record its own. Headers: with
                ``match="all"`` of the record that triggered the result, else of this stream's.
            Quirk: with "first" and "last" stream time is that of the OTHER stream, its heartbeats
                included, and a result comes when it has passed the end of the interval by the
                grace. So it does not matter which topic is read faster, but no result comes while
                the other topic is idle, except with ``close_on_idle``.

        Args:
            other: a KStream of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``.
            how: "inner" sends matches only; "left" also records of this stream without a match, for
                which right is None; "outer" (with ``match="all"``) those of both.
            options: ``within`` (required), how much earlier and how much later than a record of
                this stream its matches may be, two timedeltas, both ends included; either may be
                negative. ``name`` (required). ``match``: "all" (the default), "first" for the one
                match with the smallest timestamp, or "last" for the largest; of several with one
                timestamp the one that came first or last. ``grace``: how long after its end an
                interval waits for records out of order; 0 if not given. ``close_on_idle``: send
                results without a later record once the inputs of the task have been idle for this
                long, at least 1 ms; not with "all" in an inner join. ``heartbeat(value)`` or
                ``heartbeat(key, value)``: whether a record of the other stream only advances stream
                time (with "first" and "last"). ``store`` (base of the stores' names, the name if
                not given; as a ``Materialized`` also their storage and logging), ``key``,
                ``left_value``, ``right_value``, ``value`` and ``late`` as for :meth:`join`.

        Returns:
            The joined stream; without ``value`` its values have no serde until one is given.

        Raises:
            TopologyError: an option that this join does not have, or one that is missing; "outer"
                with "first" or "last"; no timedeltas in whole milliseconds; an interval without
                length; a table; another builder; another shape of a callback.

        Source: Flink's ``KeyedStream.intervalJoin``, whose ``between(-before, after)`` is
        ``within``; Quix Streams' ``join_interval``; with "all", Kafka Streams' ``KStream.join``.
        """
        return interval_joined(self, other, joiner, how, options)

    @overload
    def as_of_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        how: Literal["inner"] = "inner",
        **options: Unpack[AsOfStreamOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def as_of_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        how: Literal["left"],
        **options: Unpack[AsOfStreamOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def as_of_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], R],
        *,
        how: Literal["inner"] = "inner",
        **options: Unpack[AsOfTableOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def as_of_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        how: Literal["left"],
        **options: Unpack[AsOfTableOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def as_of_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        how: Literal["inner"] = "inner",
        **options: Unpack[AsOfStreamOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def as_of_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        how: Literal["left"],
        **options: Unpack[AsOfStreamOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def as_of_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        how: Literal["inner"] = "inner",
        **options: Unpack[AsOfTableOptions[R]],
    ) -> KStream[K, R]: ...
    @overload
    def as_of_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        how: Literal["left"],
        **options: Unpack[AsOfTableOptions[R]],
    ) -> KStream[K, R]: ...
    def as_of_join(
        self, other: Any, joiner: Joiner, *, how: AsOfKind = "inner", **options: Any
    ) -> KStream[K, Any]:
        """Join each record with the newest record of its key that is not after it: the row that a
        table with a history had then, or the last record of another stream.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> trades = builder.stream("trades", value=int)
        >>> quotes = builder.stream("quotes", value=float)
        >>> recent = timedelta(milliseconds=10)
        >>> priced = trades.as_of_join(
        ...     quotes, lambda n, price: n * price, tolerance=recent, name="priced"
        ... )
        >>> priced.to("out", value=float)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("trades", [("tea", 3, 15), ("tea", 2, 40)])
        ...     driver.pipe_all("quotes", [("tea", 1.5, 9), ("tea", 2.5, 14), ("tea", 9.0, 16)])
        ...     driver.pipe("quotes", "rum", 7.0, timestamp=41)
        ...     driver.read_with_timestamps("out", value=float)
        [('tea', 7.5, 15)]

        Semantics:
            Null key: dropped and counted; with ``how="left"`` it has a result without a match, at
                once.
            Null value: of this stream dropped and counted. In a table it ends the row before it; of
                another stream it is a heartbeat, which only advances stream time.
            Late records: with a stream, as with :meth:`interval_join`. With a table as with
                :meth:`join`; versions that are older than its history are those of the table.
            Order: with a table, results come at once, or with ``grace`` by timestamp. With a stream
                by the timestamps of this stream's records, then by the key's bytes, then as they
                came.
            Repartition: as with :meth:`join`.
            Store: with a table, that of the table, and with ``grace`` ``<name>-Buffer``. With a
                stream ``<store>-left-buffer`` for records that wait, and ``<store>-right-store``
                with a retention of tolerance + grace + 1 ms.
            Timestamp: that of this stream's record. Headers: likewise.
            Quirk: with a stream, a result comes when the OTHER stream's time, its heartbeats
                included, has passed the record's timestamp by the grace. Of several records with
                one timestamp the last one that came is taken, as in Polars and pandas.

        Args:
            other: a KTable whose store has a ``history``, or a KStream, of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``.
            how: "inner" sends records with a match only; "left" all, right is None without one.
            options: ``tolerance``, how much older than the record its match may be, exactly that
                old included; required with a stream. ``grace``: how long records wait for matches
                that come later, of a table up to its history. ``close_on_idle``: send results
                without a later record once the inputs of the task have been idle for this long, at
                least 1 ms; with a table only with ``grace``. ``key``, ``left_value``, ``value``,
                ``name`` (required but with a table without grace) and ``late`` as for :meth:`join`.
                With a stream also ``heartbeat``, ``store`` and ``right_value`` as for
                :meth:`interval_join`.

        Returns:
            The joined stream; without ``value`` its values have no serde until one is given.

        Raises:
            TopologyError: a table without a history, a global table, two streams without a
                tolerance, an option that this join does not have, or one that is missing; another
                builder; another shape of a callback.

        Source: Polars' ``join_asof`` with ``strategy="backward"``; with a table, Kafka Streams'
        join with a versioned table (KIP-914, KIP-923).
        """
        return as_of_joined(self, other, joiner, how, options)

    # -- the way out: topics and tables

    def to(
        self,
        topic: str | TopicChooser,
        *,
        key: Any = None,
        value: Any = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
        also: Also = (),
    ) -> None:
        """Write the stream to a topic, or to the topic that a function names for each record.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=int)
        >>> orders.to(lambda key, cents: "large" if cents > 99 else "small")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("large", value=int), driver.read("small", value=int)
        ([('bob', 250)], [('ada', 50)])

        Semantics: as every operator, but
            Null key: written without a key; the producer chooses the partition.
            Null value: written without a value: a tombstone for readers of the topic as a table.
            Order: kept per partition. Outputs of one input record come in the order in which the
                graph is walked, depth first, children in the order of their declaration.
            Repartition: none. Partition = murmur2 of the key's bytes, as every JVM client places
                it; a windowed key is placed by its inner key alone, so that results stay on the
                partition of their input.
            Store: none. Topics are never created.
            Quirk: event time 0 is written as 1 ms, because the client would turn 0 into the time of
                sending.

        Args:
            topic: a topic's name, or ``topic(key, value)`` or ``topic(key, value, context)``; the
                :class:`RecordContext` has the record's timestamp and headers, and where it came
                from.
            key: serde of the keys; that of the stream if not given.
            value: likewise of the values.
            partitioner: ``partitioner(topic, key, value, partition_count)`` returns a partition, a
                list of partitions (one copy each; [] drops the record, which is counted), or None
                for the default.
            also: further streams of the same builder that the same sink writes. The serdes have to
                be given unless all have the same.

        Raises:
            TopologyError: a serde is not known, the topic's name is not valid, or a stream in
                ``also`` is given twice or comes from another builder.

        Source: Kafka Streams' ``KStream.to``; chosen topics: KIP-303; several partitions or none:
        KIP-873; ``also``: ``Topology.addSink`` with several parents.
        """
        self._write(topic, key, value, partitioner, name, also)

    def to_table(self, **options: Unpack[StreamTableOptions]) -> KTable[K, V]:
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
                puts them where they belong; older than its history they are dropped and counted, or
                emitted with ``late``.
            Repartition: if an operator above may have changed keys; the topic is named after
                ``name``.
            Store: the one named ``store``, else none. Without one nothing below can read rows.

        Args:
            options: ``store``, a name or :class:`Materialized` of the table's store; ``key`` and
                ``value``, the serdes of the rows, those of the stream if not given; ``name``,
                needed if there is a repartition topic; ``late``, the name of the stream of records
                that are older than the history of a versioned store (``StreamsBuilder.late``).

        Raises:
            TopologyError: a serde or a name is needed and missing, or ``late`` without a history.

        Source: Kafka Streams' ``KStream.toTable`` (KIP-523).
        """
        return KTable._of(add_late_changes(options.get("late"), self._as_table(options)))

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
            Repartition: always; the operators below run in separate tasks.
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
        return self._repartitioned(name, key, value, partitions, partitioner)


class BranchedKStream(Generic[K, V]):
    """The branches of one ``split()``; a record goes to the first that accepts it, and to no other.

    >>> from logstate import StreamsBuilder
    >>> split = StreamsBuilder().stream("orders", value=int).split(name="by-size-")
    >>> sorted(split.branch(lambda cents: cents > 99, name="large").default_branch(name="small"))
    ['by-size-large', 'by-size-small']

    Semantics: see :meth:`KStream.split`. Without any branch all records are dropped.

    Source: Kafka Streams' ``BranchedKStream`` (KIP-418).
    """

    def __init__(self, stream: KStream[K, V], name: str | None) -> None:
        self._stream = stream
        self._graph = stream.builder.graph
        self._name = self._graph.names.named(name, "KSTREAM-BRANCH-")
        self._node = BranchNode(self._name)
        self._logical = stream._add(self._node)
        self._branches: dict[str, KStream[K, V]] = {}

    def branch(
        self,
        predicate: Callable[..., object],
        *,
        name: str | None = None,
        chain: Chain | None = None,
    ) -> BranchedKStream[K, V]:
        """A branch for what the predicate accepts and no branch before it did.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders", value=int).split()
        >>> split = split.branch(lambda cents: cents > 99, chain=lambda large: large.to("large"))
        >>> _ = split.branch(lambda cents: cents > 9, chain=lambda medium: medium.to("medium"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1), ("eve", 5, 2)])
        ...     driver.read("large", value=int), driver.read("medium", value=int)
        ([('bob', 250)], [('ada', 50)])

        Semantics: as :meth:`KStream.split`, but
            Order: kept within the branch; predicates are asked in the order of the calls.

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.
            name: the branch is called split name + this; its number, from 1, if not given.
            chain: a function of the branch. The map of branches has the stream it returns, or no
                entry if it returns None.

        Returns:
            The split itself, for the next branch.

        Raises:
            TopologyError: the predicate has another shape, or there is a default branch already.

        Source: Kafka Streams' ``BranchedKStream.branch`` (KIP-418).
        """
        self._check_is_open()
        number = len(self._node.branches) + 1
        child = self._child_name(name, number)
        self._node.branches.append((callbacks.predicate(predicate), child))
        self._add(child, chain)
        return self

    def default_branch(
        self, *, name: str | None = None, chain: Chain | None = None
    ) -> dict[str, KStream[K, V]]:
        """A branch for what no other branch accepted; ends the split.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders", value=int).split(name="by-size-")
        >>> branches = split.branch(lambda cents: cents > 99, name="large").default_branch()
        >>> branches["by-size-0"].to("rest")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("rest", value=int)
        [('ada', 50)]

        Semantics: as :meth:`KStream.split`.

        Args:
            name: the branch is called split name + this; split name + "0" if not given.
            chain: as in :meth:`branch`.

        Returns:
            All branches by name, in the order of the calls.

        Raises:
            TopologyError: the name cannot be part of a topic's name.

        Source: Kafka Streams' ``BranchedKStream.defaultBranch`` (KIP-418).
        """
        self._check_is_open()
        child = self._child_name(name, 0)
        self._node.default = child
        self._add(child, chain)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End the split; records that no branch accepted are dropped.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> split = builder.stream("orders", value=int).split()
        >>> (large,) = split.branch(lambda cents: cents > 99).no_default_branch().values()
        >>> large.to("large")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 50, 0), ("bob", 250, 1)])
        ...     driver.read("large", value=int), driver.dropped_total
        ([('bob', 250)], 0)

        Semantics: as :meth:`KStream.split`, but
            Quirk: records dropped here are not counted: they are left out on purpose.

        Returns:
            All branches by name, in the order of the calls.

        Source: Kafka Streams' ``BranchedKStream.noDefaultBranch`` (KIP-418).
        """
        return self._branches

    def _check_is_open(self) -> None:
        if self._node.default is not None:
            raise declaration_error(
                f"split {self._name!r} already has its default branch, which takes all that is"
                " left: nothing would reach another one. Call branch() before default_branch()."
            )

    def _child_name(self, name: str | None, number: int) -> str:
        return joined_name(self._name, str(number) if name is None else name, "a branch")

    def _add(self, child: str, chain: Chain | None) -> None:
        self._graph.names.skip_number()
        node = PassThroughNode(child)
        logical = ProcessorLogicalNode(node)
        self._graph.add(self._logical, logical)
        branch = self._stream._derive(child, logical)
        result = branch if chain is None else chain(branch)
        if result is not None:
            self._branches[child] = result


class CountAndReduce(ABC, Generic[G, V]):
    """The methods of all grouped streams: plain, time-windowed and session-windowed ones."""

    @abstractmethod
    def _grouping(self) -> tuple[GroupedFlow[Any, V], AnyWindows | None]:
        """The group that is aggregated, and by which windows."""

    def _aggregated(self, fold: Fold, **options: Unpack[FoldOptions[Any]]) -> KTable[Any, Any]:
        grouped, windows = self._grouping()
        return KTable._of(aggregated(grouped, windows, fold, **options))

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
        late: str | None = None,
    ) -> KTable[G, int]:
        """The number of records per key; of a windowed stream per key and window.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows, windowed
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> clicks.count(store="clicks-per-user").to_stream().to("counts")
        >>> minutes = clicks.windowed_by(TumblingWindows(size=timedelta(minutes=1)))
        >>> minutes.count(store="clicks-per-minute").to_stream().to("counts-per-minute")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "tea", 5), ("bob", None, 6), ("ada", "rum", 3)])
        ...     print(driver.read_with_timestamps("counts", value=int), driver.dropped_total)
        ...     driver.read("counts-per-minute", key=windowed(str, 60_000), value=int)[:2]
        [('ada', 1, 5), ('ada', 2, 5)] 1
        [(Windowed(key='ada', start_ms=0, end_ms=60000), 1),
         (Windowed(key='bob', start_ms=0, end_ms=60000), 1)]

        Semantics:
            Null key: dropped and counted as dropped.
            Null value: dropped and counted as dropped, without windows and by sliding ones. Other
                windows count it: Kafka Streams' documentation says otherwise, its code and results
                do not.
            Late records: counted; without windows no record is late, unless the store is versioned
                and the record older than its history. Those and records of closed windows are
                dropped and counted as dropped: for when windows close see
                :class:`TimeWindowedKStream` and :class:`SessionWindowedKStream`.
            Order: one update per record, in their order, whether the result changed or not; those
                of several windows as said at their class. With ``emit="commit"`` the last per key
                and commit, in the order of the last writes.
            Repartition: if the group needs it.
            Store: named ``store``: timestamped key-value (versioned with
                ``Materialized(history=)``), timestamped window, or session store.
            Timestamp: the largest of the key's records so far, in the window; a session's end.
            Quirk: towards a downstream ``group_by`` the row before the first record is 0, not
                absent, so a subtractor sees it: Kafka Streams forwards the initializer's value as
                the old one. Sessions and some sliding windows do not, and nothing does with
                ``emit="commit"``: aggregate aggregates with that.

        Args:
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key (and window) and
                commit; "close" one final result per window, see the windowed stream's class;
                "delta" what was added since the commit before, see docs/panes.md.
            name: the operator's name; generated if not given.
            late: name of the stream of late records: they are emitted there instead of dropped; see
                ``StreamsBuilder.late``. For windows and versioned stores only.

        Returns:
            The table of aggregates; its keys are ``Windowed`` if the stream is.

        Raises:
            TopologyError: no store, a retention shorter than windows are open, an ``emit`` that
                does not exist (for these windows), another shape of a callback, or a serde is not
                known.

        Source: Kafka Streams' ``count`` of ``KGroupedStream``, ``TimeWindowedKStream`` and
        ``SessionWindowedKStream`` (KIP-94); ``emit="commit"`` is its record cache made exact
        (KIP-63).
        """
        return self._aggregated(COUNT, store=store, emit=emit, name=name, late=late)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        difference: Callable[[V, V], V] | None = None,
        name: str | None = None,
        late: str | None = None,
    ) -> KTable[G, V]:
        """Combine the values of each key, or key and window, into one of the same type.

        >>> from datetime import timedelta
        >>> from logstate import HoppingWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> bids = builder.stream("bids", value=int).group_by_key()
        >>> bids.reduce(lambda best, bid: max(best, bid), store="best-bids").to_stream().to("best")
        >>> half = HoppingWindows(size=timedelta(seconds=2), advance=timedelta(seconds=1))
        >>> lately = bids.windowed_by(half).reduce(lambda best, bid: max(best, bid), store="lately")
        >>> lately.to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}").to("lately", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("bids", [("lamp", 7, 1_500), ("lamp", 5, 2_100)])
        ...     driver.read("best", value=int), driver.read("lately", value=int)
        ([('lamp', 7), ('lamp', 7)],
         [('0-2000', 7), ('1000-3000', 7), ('1000-3000', 7), ('2000-4000', 5)])

        Semantics: as :meth:`count`, but
            Null value: what :meth:`count` counts is given to the reducer as None.
            Quirk: there is no initializer: before the first record the row does not exist.

        Args:
            reducer: ``reducer(old, new)``; the first value of a key, in the window, is its
                aggregate without a call. Returning None deletes the row. It merges sessions too, in
                the order of time.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key (and window) and
                commit; "close" one final result per window, see the windowed stream's class;
                "delta" what was added since the commit before, see docs/panes.md.
            difference: for ``emit="delta"``: ``difference(new, old)`` returns what has to be added
                to ``old`` to get ``new``; without it only ``count`` and ``agg`` have deltas.
            name: the operator's name; generated if not given.
            late: name of the stream of late records: they are emitted there instead of dropped; see
                ``StreamsBuilder.late``. For windows and versioned stores only.

        Returns:
            The table of aggregates; its keys are ``Windowed`` if the stream is.

        Raises:
            TopologyError: no store, a retention shorter than windows are open, an ``emit`` that
                does not exist (for these windows), another shape of a callback, or a serde is not
                known.

        Source: Kafka Streams' ``reduce`` of ``KGroupedStream``, ``TimeWindowedKStream`` and
        ``SessionWindowedKStream`` (KIP-94).
        """
        fold = reduction(reducer, self._grouping()[0].value)
        options = FoldOptions(store=store, emit=emit, difference=difference, name=name, late=late)
        return self._aggregated(fold, **options)

    @overload
    def agg(
        self,
        record: RecordOf[V, A],
        /,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
        late: str | None = None,
    ) -> KTable[G, A]: ...
    @overload
    def agg(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
        late: str | None = None,
        **aggregates: Aggregate[V, Any, Any],
    ) -> KTable[G, Any]: ...
    def agg(  # type: ignore[misc]  # mypy finds "record" among the names of the second overload
        self,
        record: Any = None,
        /,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
        late: str | None = None,
        **aggregates: Any,
    ) -> KTable[G, Any]:
        """Compute several aggregates of each key, or key and window, as the fields of one record.

        >>> from logstate import Count, Max, Mean, StreamsBuilder, Sum, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=int).group_by_key()
        >>> spend = orders.agg(
        ...     total=Sum(lambda cents: cents),
        ...     orders=Count(),
        ...     mean=Mean(lambda cents: cents),
        ...     store="spend",
        ... )
        >>> spend.to_stream().to("spend")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 250, 0), ("ada", 125, 5)])
        ...     driver.read("spend", value=dict)
        [('ada', {'total': 250, 'orders': 1, 'mean': 250.0}),
         ('ada', {'total': 375, 'orders': 2, 'mean': 187.5})]

        With a class of :class:`Aggregates` in place of the names type checkers know the fields.

        Semantics: as :meth:`count`, but
            Null value: what :meth:`count` counts is counted by ``Count()`` and ignored by the other
                aggregates. They ignore a None that their function returns, too; a result without
                values is None, 0 or ``()``.
            Order: records are added in the order in which they arrive, in sessions too; sessions
                that become one are merged in the order of time.
            Store: its rows are the records, with further columns for states that are more than
                their results. JSON.
            Quirk: none: before the first record the row does not exist.

        Args:
            record: a class of :class:`Aggregates`.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key (and window) and
                commit; "close" one final result per window, see the windowed stream's class;
                "delta" what was added since the commit before, see docs/panes.md.
            name: the operator's name; generated if not given.
            late: name of the stream of late records: they are emitted there instead of dropped; see
                ``StreamsBuilder.late``. For windows and versioned stores only.
            aggregates: the aggregates by the names of their fields.

        Returns:
            The table of records; its keys are ``Windowed`` if the stream is.

        Raises:
            TopologyError: no store, no aggregates, a name that a record cannot have, a retention
                shorter than windows are open, or an ``emit`` that does not exist (for these
                windows).

        Source: SQL's ``GROUP BY`` and Flink's ``select`` of aggregates.
        """
        plan = planned(record, aggregates, self._grouping()[0].value)
        fold = plan.fold("KSTREAM-AGGREGATE-")
        table = self._aggregated(fold, store=store, emit=emit, name=name, late=late)
        return _results_of(table, plan, name)


class StreamAggregations(CountAndReduce[G, V], Generic[K, G, V]):
    """The methods of plain and time-windowed grouped streams; sessions need a merger, too."""

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[A, V], A | None],
        **options: Unpack[FoldOptions[A]],
    ) -> KTable[G, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        **options: Unpack[FoldOptions[A]],
    ) -> KTable[G, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        difference: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
        late: str | None = None,
    ) -> KTable[G, Any]:
        """Fold the values of each key, or key and window, into an aggregate of any type.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> orders = builder.stream("orders", value=int).group_by_key()
        >>> spent = orders.aggregate(int, lambda sum, cents: sum + cents, store="spent", value=int)
        >>> spent.to_stream().to("spent")
        >>> minute = orders.windowed_by(TumblingWindows(size=timedelta(minutes=1)))
        >>> final = minute.aggregate(int, lambda s, n: s + n, value=int, store="s", emit="close")
        >>> final.to_stream(lambda window, cents: window.key).to("final", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 250, 0), ("ada", 125, 5_000)])
        ...     driver.advance_wall_clock(1_000)
        ...     driver.pipe("orders", "bob", 900, timestamp=60_000)
        ...     print(driver.read("spent", value=int))
        ...     driver.read_with_timestamps("final", value=int)
        [('ada', 250), ('ada', 375), ('bob', 900)]
        [('ada', 375, 5000)]

        Semantics: as :meth:`count`, but
            Null value: what :meth:`count` counts is given to the aggregator as None.
            Quirk: the row before the first record is towards a downstream ``group_by`` the
                initializer's value where it is 0 for :meth:`count`.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new key or window: ``int``,
                ``dict``, a class.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                It may change the aggregate it is given, and has to return it. Returning None
                deletes the row; the next record starts with the initializer again.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key (and window) and
                commit; "close" one final result per window, see the windowed stream's class;
                "delta" what was added since the commit before, see docs/panes.md.
            difference: for ``emit="delta"``: ``difference(new, old)`` returns what has to be added
                to ``old`` to get ``new``; without it only ``count`` and ``agg`` have deltas.
            name: the operator's name; generated if not given.
            late: name of the stream of late records: they are emitted there instead of dropped; see
                ``StreamsBuilder.late``. For windows and versioned stores only.

        Returns:
            The table of aggregates; its keys are ``Windowed`` if the stream is.

        Raises:
            TopologyError: no store, a retention shorter than windows are open, an ``emit`` that
                does not exist (for these windows), another shape of a callback, or a serde is not
                known.

        Source: Kafka Streams' ``aggregate`` of ``KGroupedStream`` and ``TimeWindowedKStream``;
        final results: KIP-825.
        """
        fold = Fold(
            "KSTREAM-AGGREGATE-",
            callbacks.initializer(initializer),
            callbacks.aggregator(aggregator),
        )
        options = FoldOptions(
            value=value, store=store, emit=emit, difference=difference, name=name, late=late
        )
        return self._aggregated(fold, **options)


@dataclass(frozen=True, eq=False, repr=False)
class KGroupedStream(GroupedFlow[K, V], StreamAggregations[K, K, V]):
    """A stream grouped by key, ready to be aggregated.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().stream("clicks", value=str).group_by_key(name="by-user").topic_name
    'by-user'

    Made by ``KStream.group_by`` and ``group_by_key``. ``topic_name`` is the name that was given to
    the group; it names the repartition topic, if ``needs_repartition``.

    Source: Kafka Streams' ``KGroupedStream``.
    """

    def _grouping(self) -> tuple[GroupedFlow[Any, V], None]:
        return self, None

    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: CountWindows) -> CountWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows | CountWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V] | CountWindowedKStream[K, V]:
        """Aggregate per key and window instead of per key.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows, windowed
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> per_minute = clicks.windowed_by(TumblingWindows(size=timedelta(minutes=1)))
        >>> per_minute.count(store="clicks-per-minute").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "home", 5_000), ("ada", "cart", 61_000)])
        ...     driver.read("counts", key=windowed(str, 60_000), value=int)
        [(Windowed(key='ada', start_ms=0, end_ms=60000), 1),
         (Windowed(key='ada', start_ms=60000, end_ms=120000), 1)]

        Semantics:
            Null key: the aggregation drops and counts it.
            Null value: reaches the aggregator of all windows but sliding ones, which drop and count
                it.
            Late records: the aggregation drops and counts what belongs to closed windows only.
            Order: that of the stream.
            Repartition: if the group needs it.
            Store: none here; the aggregation has one.
            Timestamp: see the aggregations.

        Args:
            windows: tumbling, hopping, sliding, session, unlimited, count, or a subclass of
                :class:`Windows`.

        Returns:
            The windowed stream; that of sessions also takes a merger, and the results of count
            windows are a stream.

        Raises:
            TopologyError: ``windows`` has another type.

        Source: Kafka Streams' ``KGroupedStream.windowedBy``; sliding: KIP-450; sessions: KIP-94.
        """
        if isinstance(windows, CountWindows):
            return CountWindowedKStream(self, windows)
        check_windows(windows)
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows)
        return TimeWindowedKStream(self, windows)

    def top_n(
        self, n: int, by: Callable[[V], object], **options: Unpack[TopNOptions]
    ) -> KTable[K, list[V]]:
        """Keep the ``n`` values of each key with the greatest scores, greatest first.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> from logstate.serdes import list_of
        >>> builder = StreamsBuilder()
        >>> bids = builder.stream("bids", value=int).group_by_key()
        >>> bids.top_n(2, lambda cents: cents, score=int, store="best").to_stream().to("best")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("bids", [("lamp", 7, 0), ("lamp", 9, 1), ("lamp", 5, 2)])
        ...     driver.read("best", value=list_of(int))
        [('lamp', [7]), ('lamp', [9, 7])]

        Semantics:
            Null key: dropped and counted as dropped.
            Null value: dropped and counted as dropped. A value whose score is None is not ranked.
            Late records: none is; records count whenever they come. For the greatest of each window
                use ``agg(best=TopN(...))``.
            Order: equal scores are in the order of the values' bytes. A list is sent only if it
                has changed.
            Repartition: only if an operator above may have changed keys.
            Store: timestamped key-value, named ``store``, with the list of each key; and
                ``<store>-rows`` with a row for each value in it.
            Timestamp: the largest of those that changed the list.

        Args:
            n: values per key, at least 1.
            by: ``by(value)`` returns the score.
            options: ``store``, name or :class:`Materialized` of the store, required; ``score``, the
                type of the scores, one that ``serdes.ordered`` takes, if neither an annotation of
                ``by`` nor the type of the values says it; ``emit``, ``"update"`` for every change
                of a list or ``"commit"`` for the last one per key and commit; ``name``.

        Returns:
            The table of lists, written as Kafka's ``ListSerializer`` does.

        Raises:
            TopologyError: no store; one with a retention, a history, a capacity, a TTL or indexes;
                ``n`` is not positive; the type of the scores is not known or has no order by bytes;
                a serde is not known; ``emit`` is none of these.

        Source: Flink SQL's Top-N (``ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) <= n``).
        """
        return KTable._of(top_n(self, n, by, options))

    @overload
    def cogroup(self, aggregator: Callable[[A, V], A | None]) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(self, aggregator: Callable[[K, V, A], A | None]) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(self, **aggregates: Aggregate[V, Any, Any]) -> CogroupedKStream[K, Any]: ...
    def cogroup(  # type: ignore[misc]  # mypy finds "aggregator" among the names of the third one
        self, aggregator: Callable[..., Any] | None = None, **aggregates: Any
    ) -> CogroupedKStream[K, Any]:
        """Start one aggregate that several grouped streams feed, each with its own aggregator.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> sold = builder.stream("sold", value=int).group_by_key()
        >>> bought = builder.stream("bought", value=int).group_by_key()
        >>> stock = bought.cogroup(lambda left, n: left + n).cogroup(sold, lambda left, n: left - n)
        >>> stock.aggregate(int, store="stock", value=int).to_stream().to("stock")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("bought", "tea", 10)
        ...     driver.pipe("sold", "tea", 3)
        ...     driver.read("stock", value=int)
        [('tea', 10), ('tea', 7)]

        Semantics:
            Null key: the aggregation drops and counts it.
            Null value: the aggregation decides.
            Late records: the aggregation decides.
            Order: that in which records come; between streams the smallest timestamp first, as far
                as known.
            Repartition: of each group that needs it. All groups must be co-partitioned.
            Store: none here; the aggregation has one, which all groups share.
            Timestamp: see the aggregation.

        Args:
            aggregator: for this group: ``aggregator(aggregate, value)`` or ``aggregator(key, value,
                aggregate)``.
            aggregates: instead of it, the aggregates of this group by name, for
                :meth:`CogroupedKStream.agg`.

        Returns:
            The cogrouped stream: add groups, then aggregate it.

        Raises:
            TopologyError: the aggregator has another shape, or there are aggregates, too.

        Source: Kafka Streams' ``KGroupedStream.cogroup`` (KIP-150).
        """
        return CogroupedKStream(((self, of_group(self, aggregator, aggregates)),))


@dataclass(frozen=True, eq=False)
class TimeWindowedKStream(StreamAggregations[K, Windowed[K], V]):
    """A grouped stream cut into tumbling, hopping, sliding, unlimited or custom windows.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
    >>> builder = StreamsBuilder()
    >>> ten = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
    >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(ten)
    >>> counts = clicks.count(store="clicks")
    >>> counts.to_stream(lambda w, n: f"{w.key}@{w.start_ms}").to("n", key=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "a", 3), ("ada", "b", 15), ("ada", "c", 9)])
    ...     driver.read("n", value=int), driver.dropped_total
    ([('ada@0', 1), ('ada@10', 1)], 1)

    Made by ``KGroupedStream.windowed_by``. The keys of results are ``Windowed(key, start_ms,
    end_ms)``.

    Late records: dropped once PER window that is closed, and counted as dropped: a window is closed
    once the operator's own stream time, this record included, reaches its end + grace (sliding:
    exceeds it).

    Order: windows ascending by start; sliding ones as in
    ``operators/aggregates/sliding_aggregate.py``; with ``emit="close"`` by start, then by the key's
    bytes.

    Store: its retention is size + grace (sliding: twice the difference + grace) if not given.

    ``emit="update"`` sends every change, ``"commit"`` the last one per window and commit.
    ``"close"`` sends one final result per window, once stream time has reached its end + grace; it
    searches for such windows only when a record arrives, and at most once per
    ``window_emit_interval`` of the application or the builder. With the store's default retention a
    jump in event time can take closed windows out of the store before they are emitted: they are
    lost, as in Kafka Streams, but counted (``expired_results_total``) and logged. Give the store
    more (``Materialized(retention=)``) if event time jumps (docs/late-records.md).

    Source: Kafka Streams' ``TimeWindowedKStream``; final results: KIP-825; no implicit grace:
    KIP-633.
    """

    grouped: GroupedFlow[K, V]
    windows: Windows | SlidingWindows

    def _grouping(self) -> tuple[GroupedFlow[Any, V], Windows | SlidingWindows]:
        return self.grouped, self.windows


@dataclass(frozen=True, eq=False)
class SessionWindowedKStream(CountAndReduce[Windowed[K], V], Generic[K, V]):
    """A grouped stream cut into sessions of activity.

    >>> from datetime import timedelta
    >>> from logstate import SessionWindows, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> visits = SessionWindows(gap=timedelta(milliseconds=5), grace=timedelta(milliseconds=10))
    >>> clicks = builder.stream("clicks", value=str).group_by_key().windowed_by(visits)
    >>> counts = clicks.count(store="n").to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}")
    >>> counts.to("n", key=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.pipe_all("clicks", [("ada", "a", 10), ("ada", "c", 16), ("ada", "b", 14)])
    ...     driver.read("n", value=int)
    [('10-10', 1), ('16-16', 1), ('10-10', None), ('16-16', None), ('10-16', 3)]

    Made by ``windowed_by(SessionWindows(...))``. The keys of results are ``Windowed(key, start_ms,
    end_ms)``, both times inclusive: the first and the last record. A session that grows or merges
    changes its key, so its old row leaves as a tombstone before the new one comes.

    Late records: dropped and counted if the session they would end up in is closed: stream time
    exceeds its end by more than gap + grace. A record far behind is taken if it reaches a session
    that is still open.

    Order: tombstones of the sessions that merge, by their end, then the merged one; with
    ``emit="close"`` by end, start and the key's bytes.

    Store: its retention is gap + grace if not given. So it hides the oldest sessions that are still
    open, and a record at a distance of exactly the gap may not find them. Give it more where that
    matters.

    ``emit="update"`` sends every change, ``"commit"`` the last one per session and commit,
    ``"close"`` only sessions that are over, without tombstones: once stream time exceeds their end
    by more than gap + grace, when a record arrives, at most once per ``window_emit_interval``. A
    session that the store has expired by then is lost, as in Kafka Streams, but counted
    (``expired_results_total``) and logged: give the store as much retention as event time may jump
    (docs/late-records.md).

    Source: Kafka Streams' ``SessionWindowedKStream`` (KIP-94).
    """

    grouped: GroupedFlow[K, V]
    windows: SessionWindows

    def _grouping(self) -> tuple[GroupedFlow[Any, V], SessionWindows]:
        return self.grouped, self.windows

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[A, V], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A],
        **options: Unpack[FoldOptions[A]],
    ) -> KTable[Windowed[K], A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        merger: Callable[[A, A], A] | Callable[[K, A, A], A],
        **options: Unpack[FoldOptions[A]],
    ) -> KTable[Windowed[K], A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        merger: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        difference: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
        late: str | None = None,
    ) -> KTable[Windowed[K], Any]:
        """Fold the values of each key and session into an aggregate of any type.

        >>> from datetime import timedelta
        >>> from logstate import SessionWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> visits = SessionWindows(gap=timedelta(milliseconds=5))
        >>> orders = builder.stream("orders", value=int).group_by_key().windowed_by(visits)
        >>> spent = orders.aggregate(
        ...     int, lambda sum, cents: sum + cents, lambda a, b: a + b, store="spent", value=int
        ... )
        >>> spent.to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}").to("spent", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("orders", [("ada", 250, 10), ("ada", 125, 14)])
        ...     driver.read("spent", value=int)
        [('10-10', 250), ('10-10', None), ('10-14', 375)]

        Semantics: as :meth:`count`, but
            Null value: given to the aggregator as None, as in Kafka Streams.
            Quirk: a session that a second record of the same millisecond updates in place sends no
                old value, so a downstream ``group_by`` keeps both; ``emit="commit"`` sends it.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new session.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                Returning None removes the session.
            merger: ``merger(a, b)`` or ``merger(key, a, b)`` unites two sessions' aggregates in the
                order of time; a fresh initializer's value comes first, the record's own value last.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key (and window) and
                commit; "close" one final result per window, see the windowed stream's class;
                "delta" what was added since the commit before, see docs/panes.md.
            difference: for ``emit="delta"``: ``difference(new, old)`` returns what has to be added
                to ``old`` to get ``new``; without it only ``count`` and ``agg`` have deltas.
            name: the operator's name; generated if not given.
            late: name of the stream of late records: they are emitted there instead of dropped; see
                ``StreamsBuilder.late``. For windows and versioned stores only.

        Returns:
            The table of aggregates; its keys are ``Windowed`` if the stream is.

        Raises:
            TopologyError: no store, a retention shorter than windows are open, an ``emit`` that
                does not exist (for these windows), another shape of a callback, or a serde is not
                known.

        Source: Kafka Streams' ``SessionWindowedKStream.aggregate`` (KIP-94).
        """
        fold = Fold(
            "KSTREAM-AGGREGATE-",
            callbacks.initializer(initializer),
            callbacks.aggregator(aggregator),
            callbacks.merger(merger),
        )
        options = FoldOptions(
            value=value, store=store, emit=emit, difference=difference, name=name, late=late
        )
        return self._aggregated(fold, **options)


@dataclass(frozen=True, eq=False)
class CountWindowedKStream(Generic[K, V]):
    """A grouped stream cut into windows of so many values of a key.

    >>> from datetime import timedelta
    >>> from logstate import CountWindows, StreamsBuilder, TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> prices = builder.stream("prices", value=float).group_by_key()
    >>> last_three = prices.windowed_by(CountWindows(3, timeout=timedelta(seconds=5)))
    >>> last_three.reduce(lambda a, b: max(a, b), store="peaks").to("peaks")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     prices = [2.0, None, 3.0, 1.0, 1.5]
    ...     driver.pipe_all("prices", [("tea", price, ms) for ms, price in enumerate(prices)])
    ...     driver.read("peaks", value=float), driver.dropped_total
    ([('tea', 3.0), ('tea', 3.0)], 1)

    Made by ``KGroupedStream.windowed_by``. When windows close, and which values they have:
    :class:`CountWindows`.

    Semantics:
        Null key: dropped and counted as dropped.
        Null value: dropped and counted as dropped; it is in no window.
        Late records: there are none: windows have the values in the order of their arrival.
        Order: the results of a key by the starts of their windows; those that a timeout closes come
            before the record that advances stream time, by the end of the pause and then by the
            key's bytes.
        Repartition: if the group needs it.
        Store: named ``store``, a key-value store with a row per key: side by side the aggregate of
            the open window, else the number of values, with the values in ``<store>-values``, one
            row each. ``<store>-timers`` has a row per key. All of them are empty once every key has
            paused for the timeout. A crash, a move and a restore change nothing: rows and clocks
            are committed with the input offsets.
        Timestamp: the largest of the window's values. Headers: of the record that closed it.

    The results are a stream under the keys of the values: a window is final when it closes.
    ``to_table(store=...)`` has the last result of each key.

    Source: Flink's ``KeyedStream.countWindow``.
    """

    grouped: GroupedFlow[K, V]
    windows: CountWindows

    def _counted(self, fold: Fold, **options: Any) -> KStream[K, Any]:
        return KStream._of(counted(self.grouped, self.windows, fold, **options))

    def count(
        self, *, store: str | Materialized | None = None, name: str | None = None
    ) -> KStream[K, int]:
        """The number of values of each window: ``n``, or less if a timeout has closed it.

        >>> from datetime import timedelta
        >>> from logstate import CountWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> pairs = CountWindows(2, step=2, timeout=timedelta(seconds=5))
        >>> clicks.windowed_by(pairs).count(store="clicks").to("n")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "a", 0), ("ada", "b", 1), ("ada", "c", 2)])
        ...     driver.pipe("clicks", "bob", "d", timestamp=5_002)
        ...     driver.read("n", value=int)
        [('ada', 2), ('ada', 1)]

        Semantics: see :class:`CountWindowedKStream`.

        Args:
            store: name or :class:`Materialized` of the store; required.
            name: the operator's name; generated if not given.

        Returns:
            The stream of results.

        Raises:
            TopologyError: no store, a store with a retention, a history, a capacity or headers, or
                a serde is not known.

        Source: Flink's ``countWindow(...).aggregate``.
        """
        return self._counted(COUNT, store=store, name=name)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Combine the values of each window into one of the same type.

        >>> from logstate import CountWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> bids = builder.stream("bids", value=int).group_by_key()
        >>> pairs = bids.windowed_by(CountWindows(2))
        >>> pairs.reduce(lambda a, b: max(a, b), store="bids").to("best")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("bids", [("lamp", 7, 0), ("lamp", 5, 1), ("lamp", 4, 2)])
        ...     driver.read("best", value=int)
        [('lamp', 7), ('lamp', 5)]

        Semantics: see :class:`CountWindowedKStream`. A result of None is not sent.

        Args:
            reducer: ``reducer(old, new)``; the first value of a window is its aggregate without a
                call. After None the next value is the aggregate.
            store: name or :class:`Materialized` of the store; required.
            name: the operator's name; generated if not given.

        Returns:
            The stream of results.

        Raises:
            TopologyError: as :meth:`count`, or another shape of the callback.

        Source: Flink's ``countWindow(...).reduce``.
        """
        fold = reduction(reducer, self.grouped.value)
        return self._counted(fold, store=store, name=name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[A, V], A | None],
        **options: Unpack[CountOptions[A]],
    ) -> KStream[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        **options: Unpack[CountOptions[A]],
    ) -> KStream[K, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KStream[K, Any]:
        """Fold the values of each window into an aggregate of any type.

        >>> from logstate import CountWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> bids = builder.stream("bids", value=int).group_by_key()
        >>> pairs = bids.windowed_by(CountWindows(2))
        >>> pairs.aggregate(list, lambda found, bid: [*found, bid], value=list, store="s").to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("bids", [("lamp", 7, 0), ("lamp", 5, 1), ("lamp", 4, 2)])
        ...     driver.read("out", value=list)
        [('lamp', [7, 5]), ('lamp', [5, 4])]

        Semantics: see :class:`CountWindowedKStream`. A result of None is not sent.

        Args:
            initializer: ``initializer()`` makes the aggregate of a window: ``int``, a class.
            aggregator: ``aggregator(aggregate, value)`` or ``aggregator(key, value, aggregate)``.
                It may change the aggregate it is given, and has to return it. After None the next
                value starts with the initializer again.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            name: the operator's name; generated if not given.

        Returns:
            The stream of results.

        Raises:
            TopologyError: as :meth:`count`, or another shape of a callback.

        Source: Flink's ``countWindow(...).aggregate``.
        """
        fold = Fold(
            "KSTREAM-COUNT-WINDOWS-",
            callbacks.initializer(initializer),
            callbacks.aggregator(aggregator),
        )
        return self._counted(fold, value=value, store=store, name=name)

    @overload
    def agg(
        self,
        record: RecordOf[V, A],
        /,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KStream[K, A]: ...
    @overload
    def agg(
        self,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: Aggregate[V, Any, Any],
    ) -> KStream[K, Any]: ...
    def agg(  # type: ignore[misc]  # mypy finds "record" among the names of the second overload
        self,
        record: Any = None,
        /,
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
        **aggregates: Any,
    ) -> KStream[K, Any]:
        """Compute several aggregates of each window as the fields of one record.

        >>> from logstate import CountWindows, Max, Mean, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.stream("prices", value=int).group_by_key().windowed_by(CountWindows(2))
        >>> moving = prices.agg(mean=Mean(lambda n: n), high=Max(lambda n: n), store="moving")
        >>> moving.to("moving")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("prices", [("tea", 7, 0), ("tea", 5, 1), ("tea", 4, 2)])
        ...     driver.read("moving", value=dict)
        [('tea', {'mean': 6.0, 'high': 7}), ('tea', {'mean': 4.5, 'high': 5})]

        Semantics: see :class:`CountWindowedKStream`. Aggregates ignore a None that their function
        returns; the value is in the window, and ``Count()`` counts it.

        Args:
            record: a class of :class:`Aggregates`.
            store: name or :class:`Materialized` of the store; required.
            name: the operator's name; generated if not given.
            aggregates: the aggregates by the names of their fields.

        Returns:
            The stream of records.

        Raises:
            TopologyError: as :meth:`count`, no aggregates, or a name that a record cannot have.

        Source: SQL's ``OVER (ROWS BETWEEN ... PRECEDING AND CURRENT ROW)``.
        """
        plan = planned(record, aggregates, self.grouped.value)
        fold = plan.fold("KSTREAM-COUNT-WINDOWS-")
        result = None if plan.row is plan.record else (plan.result, plan.result_serde())
        return self._counted(fold, store=store, name=name, result=result)


@dataclass(frozen=True, eq=False)
class CogroupedKStream(Generic[K, A]):
    """One aggregate fed by several grouped streams, each with its own aggregator.

    >>> from logstate import StreamsBuilder
    >>> sold = StreamsBuilder().stream("sold", value=int).group_by_key()
    >>> len(sold.cogroup(lambda stock, n: stock - n).groups)
    1

    Made by ``KGroupedStream.cogroup``. ``groups`` are the grouped streams with their aggregators;
    their topics must be co-partitioned.

    Returns:
        The table of aggregates.

    Raises:
        TopologyError: no store, an unknown ``emit``, another shape of a callback, or a serde is not
            known.

    Source: Kafka Streams' ``CogroupedKStream`` (KIP-150).
    """

    groups: Groups

    @overload
    def cogroup(
        self, grouped: GroupedFlow[K, V], aggregator: Callable[[A, V], A | None]
    ) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(
        self, grouped: GroupedFlow[K, V], aggregator: Callable[[K, V, A], A | None]
    ) -> CogroupedKStream[K, A]: ...
    @overload
    def cogroup(
        self, grouped: GroupedFlow[K, V], **aggregates: Aggregate[V, Any, Any]
    ) -> CogroupedKStream[K, A]: ...
    def cogroup(  # type: ignore[misc]  # mypy finds "aggregator" among the names of the third one
        self,
        grouped: GroupedFlow[K, Any],
        aggregator: Callable[..., Any] | None = None,
        **aggregates: Any,
    ) -> CogroupedKStream[K, A]:
        """Add one more group, with the aggregator for its values.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> views = builder.stream("views", value=str).group_by_key()
        >>> buys = builder.stream("buys", value=int).group_by_key()
        >>> last = views.cogroup(lambda seen, page: [page, seen[1]])
        >>> last = last.cogroup(buys, lambda seen, cents: [seen[0], cents])
        >>> last.aggregate(lambda: ["", 0], store="last", value=list).to_stream().to("last")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("views", "ada", "tea")
        ...     driver.pipe("buys", "ada", 250)
        ...     driver.read("last", value=list)
        [('ada', ['tea', 0]), ('ada', ['tea', 250])]

        Semantics: as :meth:`KGroupedStream.cogroup`.

        Args:
            grouped: another ``KGroupedStream`` with keys of the same type.
            aggregator: for its values: ``aggregator(aggregate, value)`` or ``aggregator(key, value,
                aggregate)``.
            aggregates: instead of it, the aggregates of its values by name, for :meth:`agg`.

        Returns:
            The cogrouped stream with one more group.

        Raises:
            TopologyError: the aggregator has another shape, the group is in it already, or it comes
                from another builder.

        Source: Kafka Streams' ``CogroupedKStream.cogroup`` (KIP-150).
        """
        check_kind(grouped, GroupedFlow, "cogroup", "a KGroupedStream", "Group it first.")
        function = of_group(grouped, aggregator, aggregates)
        self.groups[0][0]._check_same_builder(grouped, "cogroup")
        if any(known is grouped for known, _ in self.groups):
            raise declaration_error(
                f"The grouped stream {grouped.name!r} is cogrouped twice: each of its records would"
                " count twice. Give it one aggregator that does both."
            )
        return CogroupedKStream((*self.groups, (grouped, function)))

    def aggregate(
        self,
        initializer: Callable[[], A],
        *,
        value: SerdeLike[A] = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        difference: Callable[[A, A], A] | None = None,
        name: str | None = None,
    ) -> KTable[K, A]:
        """The table of aggregates per key.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> sold = builder.stream("sold", value=int).group_by_key()
        >>> bought = builder.stream("bought", value=int).group_by_key()
        >>> stock = bought.cogroup(lambda left, n: left + n).cogroup(sold, lambda left, n: left - n)
        >>> stock.aggregate(int, store="stock", value=int).to_stream().to("stock")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("bought", "tea", 10, timestamp=7)
        ...     driver.pipe("sold", "tea", 3, timestamp=5)
        ...     driver.read_with_timestamps("stock", value=int)
        [('tea', 10, 7), ('tea', 7, 7)]

        Semantics: as :meth:`KGroupedStream.aggregate`, but
            Repartition: of each group that needs it.
            Store: one for all groups.
            Timestamp: the largest of the key's records so far, of all groups.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new key.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key and commit, "delta"
                what was added since the commit before, see docs/panes.md.
            difference: for ``emit="delta"``: ``difference(new, old)`` returns what has to be added
                to ``old`` to get ``new``; without it only ``count`` and ``agg`` have deltas.
            name: prefix of the operators' names; generated if not given.

        Source: Kafka Streams' ``CogroupedKStream.aggregate`` (KIP-150).
        """
        options = FoldOptions(value=value, store=store, emit=emit, difference=difference, name=name)
        fold = cogroup_fold(self.groups, initializer)
        return KTable._of(cogrouped(self.groups, None, fold, **options))

    def agg(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, Any]:
        """The table of records of the aggregates of all groups.

        >>> from logstate import Count, StreamsBuilder, Sum, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> views = builder.stream("views", value=str).group_by_key()
        >>> buys = builder.stream("buys", value=int).group_by_key()
        >>> both = views.cogroup(pages=Count()).cogroup(buys, cents=Sum(lambda cents: cents))
        >>> both.agg(store="visits").to_stream().to("visits")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("views", "ada", "tea")
        ...     driver.pipe("buys", "ada", 250)
        ...     driver.read("visits", value=dict)
        [('ada', {'pages': 1, 'cents': None}), ('ada', {'pages': 1, 'cents': 250})]

        Semantics: as :meth:`KGroupedStream.agg`, but
            Repartition: of each group that needs it.
            Store: one for all groups.
            Timestamp: the largest of the key's records so far, of all groups.

        Args:
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key and commit, "delta"
                what was added since the commit before, see docs/panes.md.
            name: prefix of the operators' names; generated if not given.

        Raises:
            TopologyError: a group has an aggregator, two groups an aggregate of one name, or as
                :meth:`aggregate`.

        Source: SQL's ``GROUP BY`` of a ``UNION ALL``.
        """
        return _groups_aggregated(self.groups, None, store=store, emit=emit, name=name)

    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> WindowedCogroupedKStream[K, A]:
        """Aggregate per key and window instead of per key.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, TumblingWindows
        >>> builder = StreamsBuilder()
        >>> ups = builder.stream("ups", value=int).group_by_key()
        >>> downs = builder.stream("downs", value=int).group_by_key()
        >>> votes = ups.cogroup(lambda n, up: n + up).cogroup(downs, lambda n, down: n - down)
        >>> hourly = votes.windowed_by(TumblingWindows(size=timedelta(hours=1)))
        >>> table = hourly.aggregate(int, store="votes", value=int)
        >>> table.to_stream(lambda window, n: window.key).to("votes", key=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("ups", "tea", 1)
        ...     driver.pipe("downs", "tea", 2)
        ...     driver.read("votes", value=int)
        [('tea', 1), ('tea', -1)]

        Semantics: as :meth:`KGroupedStream.windowed_by`, but
            Repartition: of each group that needs it.
            Store: none here; the aggregation has one, which all groups share.

        Args:
            windows: as for :meth:`KGroupedStream.windowed_by`.

        Returns:
            The windowed cogrouped stream: aggregate it.

        Raises:
            TopologyError: ``windows`` has another type.

        Source: Kafka Streams' ``CogroupedKStream.windowedBy`` (KIP-150).
        """
        check_windows(windows)
        return WindowedCogroupedKStream(self.groups, windows)


@dataclass(frozen=True, eq=False)
class WindowedCogroupedKStream(Generic[K, A]):
    """One aggregate per key and window, fed by several grouped streams.

    >>> from datetime import timedelta
    >>> from logstate import StreamsBuilder, TumblingWindows
    >>> ups = StreamsBuilder().stream("ups", value=int).group_by_key()
    >>> votes = ups.cogroup(lambda n, up: n + up)
    >>> hourly = votes.windowed_by(TumblingWindows(size=timedelta(hours=1)))
    >>> hourly.windows
    TumblingWindows(size_ms=3600000, grace_ms=0)

    Made by ``CogroupedKStream.windowed_by``.

    Source: Kafka Streams' ``TimeWindowedCogroupedKStream`` and ``SessionWindowedCogroupedKStream``
    (KIP-150).
    """

    groups: Groups
    windows: AnyWindows

    def aggregate(
        self,
        initializer: Callable[[], A],
        merger: Callable[..., A] | None = None,
        *,
        value: SerdeLike[A] = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        difference: Callable[[A, A], A] | None = None,
        name: str | None = None,
        late: str | None = None,
    ) -> KTable[Any, A]:
        """The table of aggregates per key and window.

        >>> from datetime import timedelta
        >>> from logstate import SessionWindows, StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> views = builder.stream("views", value=str).group_by_key()
        >>> buys = builder.stream("buys", value=int).group_by_key()
        >>> both = views.cogroup(lambda n, page: n + 1).cogroup(buys, lambda n, cents: n + 10)
        >>> visits = both.windowed_by(SessionWindows(gap=timedelta(minutes=30)))
        >>> scores = visits.aggregate(int, lambda a, b: a + b, store="scores", value=int)
        >>> scores.to_stream(lambda w, n: f"{w.start_ms}-{w.end_ms}", key=str).to("scores")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("views", "ada", "tea", timestamp=1)
        ...     driver.pipe("buys", "ada", 250, timestamp=9)
        ...     driver.read("scores", value=int)
        [('1-1', 1), ('1-1', None), ('1-9', 11)]

        Semantics: as :meth:`CogroupedKStream.aggregate`, but
            Null value: reaches the aggregators; sliding windows drop and count it.
            Late records: each group judges by its OWN stream time, so one that lags is not made
                late by another. With ``emit="close"``, which Kafka Streams does not have here, all
                groups share one stream time: what one of them has finished no other may change.
            Order: as for one group, see :class:`TimeWindowedKStream` and
                :class:`SessionWindowedKStream`.
            Timestamp: as for one group: the largest of the window's records, of a session its end.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new window.
            merger: for sessions, and only for them: ``merger(a, b)`` or ``merger(key, a, b)``.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key, window and commit,
                "close" one final result per window, as by :class:`TimeWindowedKStream`, "delta"
                what was added since the commit before, see docs/panes.md.
            difference: for ``emit="delta"``: ``difference(new, old)`` returns what has to be added
                to ``old`` to get ``new``; without it only ``count`` and ``agg`` have deltas.
            name: prefix of the operators' names; generated if not given.
            late: name of the stream of the late records of all groups, which are emitted there
                instead of dropped; see ``StreamsBuilder.late``.

        Returns:
            The table of aggregates; its keys are ``Windowed``.

        Raises:
            TopologyError: no store, no merger or one too many, an unknown ``emit``, or a serde is
                not known.

        Source: Kafka Streams' windowed ``CogroupedKStream`` (KIP-150).
        """
        is_session = isinstance(self.windows, SessionWindows)
        if merger is not None and not is_session:
            raise declaration_error(
                f"merger is for session windows, found {self.windows!r}: other windows never merge."
                " Leave it out."
            )
        if merger is None and is_session:
            raise declaration_error(
                "A session aggregation needs a merger: sessions can grow together, and only you"
                " know how their aggregates unite. Give merger(a, b) after the initializer."
            )
        fold = cogroup_fold(self.groups, initializer, merger)
        options = FoldOptions(
            value=value, store=store, emit=emit, difference=difference, name=name, late=late
        )
        return KTable._of(cogrouped(self.groups, self.windows, fold, **options))

    def agg(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
        late: str | None = None,
    ) -> KTable[Any, Any]:
        """The table of records of the aggregates of all groups, per key and window.

        >>> from datetime import timedelta
        >>> from logstate import Count, SessionWindows, StreamsBuilder, Sum, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> views = builder.stream("views", value=str).group_by_key()
        >>> buys = builder.stream("buys", value=int).group_by_key()
        >>> both = views.cogroup(pages=Count()).cogroup(buys, cents=Sum(lambda cents: cents))
        >>> visits = both.windowed_by(SessionWindows(gap=timedelta(minutes=30))).agg(store="visits")
        >>> visits.to_stream(lambda w, _: f"{w.start_ms}-{w.end_ms}", key=str).to("visits")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("views", "ada", "tea", timestamp=1)
        ...     driver.pipe("buys", "ada", 250, timestamp=9)
        ...     driver.read("visits", value=dict)
        [('1-1', {'pages': 1, 'cents': None}), ('1-1', None), ('1-9', {'pages': 1, 'cents': 250})]

        Semantics: as :meth:`aggregate`, but
            Null value: counted by ``Count()`` of its group, ignored by the other aggregates;
                sliding windows drop and count it.
            Quirk: none: before the first record the row does not exist.

        Args:
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per key, window and commit,
                "close" one final result per window, as by :class:`TimeWindowedKStream`, "delta"
                what was added since the commit before, see docs/panes.md.
            name: prefix of the operators' names; generated if not given.
            late: name of the stream of the late records of all groups, which are emitted there
                instead of dropped; see ``StreamsBuilder.late``.

        Returns:
            The table of records; its keys are ``Windowed``.

        Raises:
            TopologyError: a group has an aggregator, two groups an aggregate of one name, no store,
                or an unknown ``emit``.

        Source: as :meth:`CogroupedKStream.agg`.
        """
        return _groups_aggregated(
            self.groups, self.windows, store=store, emit=emit, name=name, late=late
        )


@dataclass(frozen=True, eq=False, repr=False)
class KTable(TableFlow[K, V]):
    """A table at one point of the graph: the latest value per key, and the stream of its changes.

    >>> from logstate import StreamsBuilder
    >>> StreamsBuilder().table("prices", value=int, store="prices", name="prices").name
    'prices'

    Made by ``StreamsBuilder.table``, by aggregations, and by ``KStream.to_table``. It is kept in a
    store if it was given a name for one; an operator that reads rows below a table without a store
    reads those of the table above it, and if there is none, ``build()`` says where to name one.

    Semantics: of every operator, but for what it says itself:
        Null key: no row has one.
        Null value: stays a tombstone; a callback never sees it.
        Late records: as the table above has them.
        Order: kept.
        Repartition: none, here or below.
        Store: the one named ``store``, else none: rows are then read from the table above, and the
            callback is called again each time, so it must be a function of the row.
        Timestamp: the change's, and its headers.

    Args:
        key: serde of the result's keys, if a topic or store below needs it.
        value: serde of the result's values, likewise.
        store: name or :class:`Materialized` of the result's store.
        name: the operator's name; generated if not given.

    Returns:
        The table below the operator.

    Raises:
        TopologyError: a callback has another signature, ``key`` or ``value`` is not a serde, the
            serde of a store is not known, or a name cannot be part of a topic's name.

    Source: Kafka Streams' ``KTable``.
    """

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(
        self, mapper: Callable[[V], K2], *, key: SerdeLike[K2] = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    @overload
    def to_stream(
        self, mapper: Callable[[K, V], K2], *, key: SerdeLike[K2] = None, name: str | None = None
    ) -> KStream[K2, V]: ...
    def to_stream(
        self,
        mapper: Callable[..., Any] | None = None,
        *,
        key: Any = None,
        name: str | None = None,
    ) -> KStream[Any, V]:
        """The table's changes as a stream.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int)
        >>> prices.to_stream(lambda item, price: item.upper(), key=str).to("changes")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("prices", [("tea", 3, 0), ("tea", None, 5)])
        ...     driver.read("changes", value=int)
        [('TEA', 3), ('TEA', None)]

        Semantics: as every operator, but
            Null value: a tombstone is forwarded as a null value, and given to the mapper as None.
            Late records: every change is forwarded, of a versioned table those that are not the
                latest too.
            Repartition: none here; with a mapper, a grouping or join below goes through a
                repartition topic first.
            Store: none.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)`` returns the new key; without it keys
                stay.
            key: type or serde of the new keys; without a mapper refused.

        Returns:
            The stream of changes. A change without effect is one too.

        Source: Kafka Streams' ``KTable.toStream``.
        """
        argument_checks.check_key_is_of_mapper(mapper, key)
        node = self._node(ToStreamNode, name, "KTABLE-TOSTREAM-")
        stream: KStream[Any, V] = KStream(
            self.builder, node.name, self._add(node), self.source_names, self.key, self.value,
            needs_repartition=False,
        )  # fmt: skip
        return stream if mapper is None else stream.select_key(mapper, key=key)

    def to_change_stream(self, *, name: str | None = None) -> KStream[K, Change[V]]:
        """The table's changes as a stream, each with the row's new and its old value.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int, store="prices")
        >>> changes = prices.to_change_stream()
        >>> changes.map_values(lambda change: f"{change.old} -> {change.new}").to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("prices", [("tea", 3, 0), ("tea", 4, 5), ("tea", None, 7)])
        ...     driver.read("out", value=str)
        [('tea', 'None -> 3'), ('tea', '3 -> 4'), ('tea', '4 -> None')]

        Semantics: as every operator, but
            Null value: none comes: a deleted row is ``Change(new=None, old=...)``. A tombstone for
                a row that was not there is ``Change(None, None)``.
            Late records: every change of the current row is forwarded. What a versioned table puts
                below a newer value changes no current row, and is left out.
            Order: the old value of a change is the new value of the row's change before it, for all
                tables, windows and each ``emit``, also after a crash: a repeated change has the
                same old value. So new values minus old values add up to the rows.
            Repartition: none here.
            Store: none here. It needs old values, so the table must have a store, or one above it.
            Timestamp: that of the change, and its headers, as in ``to_stream``.
            Quirk: where Kafka Streams' old values are not the values that were sent before, other
                operators below the table get the exact ones, too: of the first change of an
                aggregate (None instead of the initializer's value), of sessions and sliding
                windows, and below ``suppress``. A final session (``emit="close"``) that a later one
                takes in is deleted, for ``to_stream`` as well. A row that expires sends nothing,
                and the next change of its key has no old value.

        Args:
            name: names the operator; generated if not given.

        Returns:
            The stream of changes. Its values are :class:`Change`, which has no serde: map them
            before they go to a topic or a store, or say there with ``value=`` how they are written.

        Raises:
            TopologyError: no table above has a store.

        Source: Kafka Streams has changes with both values between its operators only.
        """
        node = self._node(ToChangeStreamNode, name, "KTABLE-TOCHANGESTREAM-")
        logical = self._add(node)
        self.node.enable_sending_old_values(force=True)
        self.node.enable_exact_changes()
        return KStream(
            self.builder, node.name, logical, self.source_names, self.key, None,
            needs_repartition=False,
        )  # fmt: skip

    def to_pane_stream(
        self, trigger: Early | None = None, *, name: str | None = None
    ) -> KStream[K, Pane[V]]:
        """The results of each window as panes: early ones, one on time at its end, and late ones.

        >>> from datetime import timedelta
        >>> from logstate import Pane, StreamsBuilder, TopologyTestDriver, TumblingWindows, early
        >>> builder = StreamsBuilder()
        >>> ten = TumblingWindows(size=timedelta(seconds=10), grace=timedelta(seconds=5))
        >>> counts = builder.stream("clicks", value=str).group_by_key().windowed_by(ten)
        >>> panes = counts.count(store="n").to_pane_stream(early(records=2), name="panes")
        >>> panes.select_key(lambda window, _: f"{window.key} {window.start_ms}", key=str).to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     clicks = [("ada", "a", 1_000), ("ada", "b", 2_000), ("ada", "c", 3_000)]
        ...     driver.pipe_all("clicks", [*clicks, ("bob", "d", 12_000), ("ada", "e", 9_000)])
        ...     for key, pane in driver.read("out", key=str, value=Pane[int]):
        ...         print(key, pane)
        ada 0 Pane(value=2, old=None, timing='early', number=0)
        ada 0 Pane(value=3, old=2, timing='on_time', number=1)
        ada 0 Pane(value=4, old=3, timing='late', number=2)

        Semantics: as every operator, but
            Null value: none comes. A row that is deleted, such as a session that has grown, is a
                pane without a value if one with a value was sent.
            Late records: within the grace each update is a late pane; after that the aggregation
                drops them. A window whose first record comes after its end has late panes only.
            Order: what the end of windows, or ``early(every=...)``, makes due is sent before the
                update that advances stream time, by time and the key's bytes.
            Repartition: none here.
            Store: two, with changelogs: ``<name>`` with a row per window until it closes, and
                ``<name>-timers``.
            Timestamp: that of the row. Headers: of the record that caused the pane.
            Quirk: time is the largest timestamp of the table's updates. An idle topic sends no
                panes, except with ``close_on_idle`` of the windows.

        Args:
            trigger: :func:`early`; without it there are no early panes.
            name: the operator's name, and that of its store; required.

        Returns:
            The stream of panes, under the windowed keys.

        Raises:
            TopologyError: no name, or the table is not one of windows of one grouped stream with
                ``emit="update"``.

        Source: Beam's panes (``PaneInfo``).
        """
        return KStream._of(pane_stream(self, trigger, name))

    @overload
    def group_by(
        self, mapper: Callable[[V], tuple[K2, V2] | None], **options: Unpack[PairOptions[K2, V2]]
    ) -> KGroupedTable[K2, V2]: ...
    @overload
    def group_by(
        self, mapper: Callable[[K, V], tuple[K2, V2] | None], **options: Unpack[PairOptions[K2, V2]]
    ) -> KGroupedTable[K2, V2]: ...
    def group_by(
        self,
        mapper: Callable[..., tuple[Any, Any] | None],
        *,
        name: str | None = None,
        key: Any = None,
        value: Any = None,
    ) -> KGroupedTable[Any, Any]:
        """Group the rows by a new key, to aggregate them with a subtractor.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> cities = users.group_by(lambda user, city: (city, user), name="by", key=str, value=str)
        >>> cities.count(store="users-per-city").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "Ulm", 0), ("ada", "Bonn", 1)])
        ...     driver.read("counts", value=int)
        [('Ulm', 1), ('Ulm', 0), ('Bonn', 1)]

        Semantics: as every operator, but
            Null key: no row has one; a change with one stops the application. A mapped key of None,
                or None instead of a pair, leaves that side of the change out: the row is in no
                group.
            Null value: a deleted row is taken out of its group. A mapped value of None leaves that
                side out.
            Late records: as they come; changes of a versioned table that are not the latest are
                left out.
            Order: the old side first. Both travel in one record if their key is the same (KIP-904),
                so the aggregate never shows the state between.
            Repartition: always, through ``<application id>-<name>-repartition``; named after the
                aggregation's store if ``name`` is not given.
            Store: none here. It needs old values, so the table must have a store, or one above it.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)`` returns the new ``(key, value)``, or
                None for a row that is in no group. It is called for old values too and must give
                the same for the same row.
            name: names the operator and the repartition topic.

        Returns:
            The grouped table: count, reduce or aggregate it.

        Raises:
            TopologyError: no table above has a store, another shape of mapper, or no serde.

        Source: Kafka Streams' ``KTable.groupBy``; one record for both sides: KIP-904.
        """
        function = in_pairs(callbacks.mapper(mapper), "group_by()")
        node = self._node(TableGroupByNode, name, "KTABLE-SELECT-", mapper=function)
        logical = self._add(node)
        self.node.enable_sending_old_values(force=True)
        return KGroupedTable(
            self.builder,
            node.name,
            logical,
            self.source_names,
            self._new_serde(logical, "key", key, f"the key of group {node.name!r}"),
            self._new_serde(logical, "value", value, f"the value of group {node.name!r}"),
            topic_name=name,
        )

    def suppress(self, condition: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold updates back until their window closes, or for a time per key.

        >>> from datetime import timedelta
        >>> from logstate import StreamsBuilder, TopologyTestDriver, until_time_limit
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> calm = stock.suppress(until_time_limit(timedelta(milliseconds=10)), name="calm")
        >>> calm.to_stream().to("calm-stock")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("stock", [("tea", 5, 100), ("tea", 4, 109), ("milk", 1, 110)])
        ...     driver.read_with_timestamps("calm-stock", value=int)
        [('tea', 4, 109)]

        Semantics: as every operator, but
            Null value: with a time limit tombstones are forwarded like values; for a window that
                was deleted before it closed nothing is forwarded.
            Late records: replace the buffered value of their key, but not the time when it leaves.
            Order: by the time they were due, then by the key's bytes.
            Store: a buffer named ``<name>-store``, in memory, with a changelog.
            Timestamp: that of the last update that was held, and its headers.
            Quirk: time is the operator's own stream time, so nothing leaves until a later record
                comes: an idle topic keeps its last windows waiting. A window of a session or
                sliding aggregation whose end + grace EQUALS stream time is forwarded here while the
                aggregation still accepts records for it, so it can be forwarded twice. Towards a
                downstream ``group_by`` the old value is that of the last update, not of the last
                forwarded one. All as in Kafka Streams.

        Args:
            condition: :func:`until_window_closes` or :func:`until_time_limit`.
            name: names the operator and its buffer; required.

        Returns:
            The table of the forwarded rows.

        Raises:
            TopologyError: no name, no windows to wait for, or a serde is not known; at ``build()``:
                a versioned table is above.

        Source: Kafka Streams' ``KTable.suppress`` (KIP-328).
        """
        return self._suppressed(condition, name)

    @overload
    def filter(
        self, predicate: Callable[[V], object], **options: Unpack[DerivedTableOptions]
    ) -> KTable[K, V]: ...
    @overload
    def filter(
        self, predicate: Callable[[K, V], object], **options: Unpack[DerivedTableOptions]
    ) -> KTable[K, V]: ...
    def filter(
        self,
        predicate: Callable[..., object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The table of the rows that the predicate accepts.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> stock.filter(lambda n: n > 10, store="plenty").to_stream().to("plenty")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("stock", [("tea", 12, 0), ("tea", 3, 1), ("rum", 5, 2)])
        ...     driver.read("plenty", value=int)
        [('tea', 12), ('tea', None)]

        Semantics: as every operator, but
            Quirk: a row that stops fitting becomes a tombstone. One that neither fits nor fitted
                sends nothing if the table above has a store; if it has none every row that
                does not fit sends a tombstone, because without old values the filter cannot know
                (Kafka Streams' rule).

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.

        Source: Kafka Streams' ``KTable.filter``.
        """
        return self._filtered(predicate, store, name, keeps=True)

    @overload
    def filter_not(
        self, predicate: Callable[[V], object], **options: Unpack[DerivedTableOptions]
    ) -> KTable[K, V]: ...
    @overload
    def filter_not(
        self, predicate: Callable[[K, V], object], **options: Unpack[DerivedTableOptions]
    ) -> KTable[K, V]: ...
    def filter_not(
        self,
        predicate: Callable[..., object],
        *,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """The table of the rows that the predicate does not accept.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str)
        >>> users.filter_not(lambda state: state == "closed").to_stream().to("open")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "new", 0), ("ada", "closed", 1)])
        ...     driver.read("open", value=str)
        [('ada', 'new'), ('ada', None)]

        Semantics: as :meth:`filter`.

        Args:
            predicate: as for :meth:`filter`.

        Source: Kafka Streams' ``KTable.filterNot``.
        """
        return self._filtered(predicate, store, name, keeps=False)

    @overload
    def map_values(
        self, mapper: Callable[[V], V2 | None], **options: Unpack[TypedTableOptions[V2]]
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2 | None], **options: Unpack[TypedTableOptions[V2]]
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[V], V2], **options: Unpack[UntypedTableOptions]
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], **options: Unpack[UntypedTableOptions]
    ) -> KTable[K, V2]: ...
    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """The table of mapped values.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=dict)
        >>> users.map_values(lambda user: user["city"], value=str).to_stream().to("cities")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", {"city": "Oslo"}, 0), ("ada", None, 1)])
        ...     driver.read("cities", value=str)
        [('ada', 'Oslo'), ('ada', None)]

        Semantics: as every operator, but
            Null value: stays a tombstone. A mapper that returns None deletes the row.
            Quirk: a change that maps to the same value is forwarded all the same (KIP-557 was taken
                back).

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``.

        Source: Kafka Streams' ``KTable.mapValues``; with the key: KIP-149.
        """
        function, prefix = callbacks.mapper(mapper, value=value), "KTABLE-MAPVALUES-"
        return self._below(TableMapValuesNode, name, prefix, store, value, mapper=function)

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformer[K, V, V2]],
        *,
        stores: Stores = (),
        value: SerdeLike[V2] = None,
        store: str | Materialized | None = None,
        name: str | None = None,
    ) -> KTable[K, V2]:
        """Map values with a transformer of your own that has a context and may use stores.

        >>> from logstate import StreamsBuilder, TopologyTestDriver, ValueTransformer
        >>> class Where(ValueTransformer):
        ...     def transform(self, key, value):
        ...         return value and f"{value} ({self.context.task_id})"
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str)
        >>> users.transform_values(Where, value=str).to_stream().to("where")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "Oslo", 0), ("ada", None, 1)])
        ...     driver.read("where", value=str)
        [('ada', 'Oslo (0_0)'), ('ada', None)]

        Semantics: as every operator, but
            Null value: given to the transformer as None, unlike by :meth:`map_values`.
            Store: those in ``stores``, and the one named ``store``, if any, for the result: the
                transformer may get it from its context, and finds the rows as they were before the
                update. Without it rows are transformed again whenever they are read.
            Quirk: the transformer is called for old values too if something below asks for them,
                so it must be a function of the row and of its stores.

        Args:
            supplier: makes one :class:`ValueTransformer` per task: the class, or a function without
                parameters.
            stores: names of stores added to the builder, or declarations of stores to add along
                with it.

        Raises:
            TopologyError: the supplier cannot be called without arguments, or a serde is not known;
                at ``build()``: a store does not exist.

        Source: Kafka Streams' ``KTable.transformValues`` (KIP-292).
        """
        below: KTable[K, Any] = self._below(
            TableTransformValuesNode,
            name,
            "KTABLE-TRANSFORMVALUES-",
            store,
            value,
            supplier=callbacks.supplier(supplier),
            connections=ConnectedStores(stores),
            schedule_name=name or self.builder.graph.names.of_supplier(supplier),
        )
        return below

    @overload
    def join(
        self, other: KTable[Any, V2], joiner: Callable[[V, V2], R], **o: Unpack[TableJoinOptions[R]]
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2], R],
        **options: Unpack[TableJoinOptions[R]],
    ) -> KTable[K, R]: ...
    def join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        **options: Unpack[TableJoinOptions[R]],
    ) -> KTable[K, Any]:
        """Inner join: a row if both tables have one.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int, store="prices")
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> prices.join(stock, lambda price, n: price * n).to_stream().to("worth", value=int)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("prices", "tea", 3, timestamp=10)
        ...     driver.pipe("stock", "tea", 7, timestamp=5)
        ...     driver.pipe("prices", "tea", None, timestamp=20)
        ...     driver.read_with_timestamps("worth", value=int)
        [('tea', 21, 10), ('tea', None, 20)]

        With ``foreign_key`` a row of this table meets the row of the other that its foreign key
        names:

        >>> builder = StreamsBuilder()
        >>> flights = builder.table("flights", value=str, store="flights")
        >>> airports = builder.table("airports", value=str, store="airports")
        >>> routes = flights.join(
        ...     airports, lambda flight, airport: f"{flight} = {airport}",
        ...     foreign_key=lambda flight: flight[-3:], store="routes", value=str, name="route",
        ... )
        >>> routes.to_stream().to("routes")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("flights", "LH1", "to TXL", timestamp=9)
        ...     driver.pipe("airports", "TXL", "Tegel", timestamp=5)
        ...     driver.read_with_timestamps("routes", value=str)
        [('LH1', 'to TXL = Tegel', 5)]

        Semantics:
            Null key: dropped and counted. A foreign key of None joins nothing; it is counted as
                dropped.
            Null value: a deleted row deletes the result, with a tombstone.
            Late records: as they come; updates of a versioned table that are not the latest are
                dropped and counted, and the other table's current row is read (KIP-914).
            Order: one result per change, in their order. By foreign key there is none between rows,
                and while answers are under way a result may be missing or stale; the last one is
                right.
            Repartition: none; both topics must be co-partitioned. By foreign key they need not be:
                rows subscribe to each other through two internal topics,
                ``<name>-subscription-registration-topic`` and ``-response-topic``.
            Store: both tables need one; the result has the one named ``store``, else none. By
                foreign key there is also ``<name>-subscription-store``, and the result needs one
                if an operator below reads its rows or their old values.
            Timestamp: the larger of both rows'. By foreign key: of the change that triggered it,
                even if the other row is newer, as in Kafka Streams.
            Quirk: a tombstone on one side is forwarded whenever the other side has a row, even if
                there was no result before.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``.
            options: ``foreign_key`` (``(value)`` or ``(key, value)`` of this table's rows returns a
                key of the other's), ``store`` and ``value`` (the result's store and serde),
                ``partitioner`` and ``other_partitioner`` (of a foreign-key join whose tables have
                a custom partitioner; called with the key and None), ``name``
                (required with ``foreign_key``).

        Raises:
            TopologyError: a table without a store, another builder, another shape of a callback, or
                a name, store or serde that is missing.

        Source: Kafka Streams' ``KTable.join``; by foreign key: KIP-213, KIP-775, KIP-1104.
        """
        check_options(dict(options), TableJoinOptions, "a table join")
        return join_tables(self, other, joiner, "inner", **options)

    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[V, V2 | None], R],
        **o: Unpack[TableJoinOptions[R]],
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[Any, V2],
        joiner: Callable[[K, V, V2 | None], R],
        **o: Unpack[TableJoinOptions[R]],
    ) -> KTable[K, R]: ...
    def left_join(
        self,
        other: KTable[Any, Any],
        joiner: Callable[..., Any],
        **options: Unpack[TableJoinOptions[R]],
    ) -> KTable[K, Any]:
        """Left join: a row for every row of this table; the right side is None if the other has
        none.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> plans = builder.table("plans", value=str, store="plans")
        >>> users.left_join(plans, lambda u, plan: f"{u}/{plan}").to_stream().to("out", value=str)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("users", "1", "ada", timestamp=3)
        ...     driver.pipe("plans", "1", "gold", timestamp=5)
        ...     driver.pipe("plans", "1", None, timestamp=7)
        ...     driver.read_with_timestamps("out", value=str)
        [('1', 'ada/None', 3), ('1', 'ada/gold', 5), ('1', 'ada/None', 7)]

        Semantics: as :meth:`join`, but
            Null key: dropped and counted. A foreign key of None has a result without a right side
                (KIP-962).
            Null value: a deleted left row deletes the result; a deleted right row takes its side
                away.
            Timestamp: of a result without a right row that of the change.
            Quirk: every tombstone of a left row is forwarded, even if there was no row before,
                unless the right side has none either.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; right may be None.
            options: as for :meth:`join`.

        Source: Kafka Streams' ``KTable.leftJoin``; by foreign key: KIP-213.
        """
        check_options(dict(options), TableJoinOptions, "a table join")
        return join_tables(self, other, joiner, "left", **options)

    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        *,
        value: SerdeLike[R] = None,
        **options: Unpack[DerivedTableOptions],
    ) -> KTable[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        *,
        value: SerdeLike[R] = None,
        **options: Unpack[DerivedTableOptions],
    ) -> KTable[K, R]: ...
    def outer_join(
        self,
        other: KTable[K, Any],
        joiner: Callable[..., Any],
        *,
        store: str | Materialized | None = None,
        value: Any = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Outer join: a row if either table has one.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> day = builder.table("day", value=int, store="day")
        >>> night = builder.table("night", value=int, store="night")
        >>> total = day.outer_join(night, lambda a, b: (a or 0) + (b or 0))
        >>> total.to_stream().to("total", value=int)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe("night", "kwh", 4)
        ...     driver.pipe("day", "kwh", 9)
        ...     driver.pipe("day", "kwh", None)
        ...     driver.pipe("night", "kwh", None)
        ...     driver.read("total", value=int)
        [('kwh', 4), ('kwh', 13), ('kwh', 4), ('kwh', None)]

        Semantics: as :meth:`join`, but
            Null key: dropped and counted.
            Null value: a deleted row takes its side away; with both gone a tombstone is sent.
            Timestamp: the larger of both rows'; of a result with one side that of the change.

        Args:
            other: a table of the same builder.
            joiner: ``joiner(left, right)`` or ``joiner(key, left, right)``; either may be None, not
                both.

        Raises:
            TopologyError: a table without a store, another builder, another shape of joiner, or a
                serde that is missing.

        Source: Kafka Streams' ``KTable.outerJoin``.
        """
        return join_tables(self, other, joiner, "outer", store=store, value=value, name=name)


@dataclass(frozen=True, eq=False, repr=False)
class KGroupedTable(GroupedTableFlow[K, V]):
    """The rows of a table grouped by another key, to be aggregated with a subtractor.

    >>> from logstate import StreamsBuilder
    >>> users = StreamsBuilder().table("users", value=str, store="users")
    >>> users.group_by(lambda who, city: (city, who), name="by", key=str, value=str).topic_name
    'by'

    Made by ``KTable.group_by``. Every change of a row takes its old value out of one group and puts
    the new one into one, on its way through the topic ``<application id>-<name>-repartition``.

    Returns:
        The table of aggregates.

    Raises:
        TopologyError: no store, an unknown ``emit``, another shape of a callback, or a serde is not
            known.

    Source: Kafka Streams' ``KGroupedTable``.
    """

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, int]:
        """The number of rows per group.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> cities = users.group_by(lambda who, city: (city, who), name="by", key=str, value=str)
        >>> cities.count(store="users-per-city").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "Ulm", 0), ("bob", "Ulm", 1), ("bob", "Aix", 2)])
        ...     driver.read("counts", value=int)
        [('Ulm', 1), ('Ulm', 2), ('Ulm', 1), ('Aix', 1)]

        Semantics:
            Null key: no row has one.
            Null value: a row that is deleted is subtracted.
            Late records: applied as they come; a versioned table sends none that is not the latest.
            Order: a row that moves leaves its old group first. Rows of one group that come from
                several partitions meet in no fixed order.
            Repartition: always.
            Store: timestamped key-value, named ``store``.
            Timestamp: the largest of the group's changes so far.
            Quirk: a group that loses its last row stays, with 0, as in Kafka Streams: a count has
                no result that means "delete".

        Args:
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per group and commit, "delta"
                what was added since the commit before, see docs/panes.md.
            name: the operator's name; generated if not given.

        Source: Kafka Streams' ``KGroupedTable.count``.
        """
        table = self._aggregated(
            TABLE_COUNT, lambda _key, _value, n: n - 1, store=store, emit=emit, name=name
        )
        return KTable._of(table)

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, V]:
        """Combine the rows of each group into a value of the same type.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> shops = stock.group_by(lambda item, n: (item[0], n), name="by-shop", key=str, value=int)
        >>> total = shops.reduce(lambda a, new: a + new, lambda a, old: a - old, store="total")
        >>> total.to_stream().to("total")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("stock", [("A-tea", 5, 0), ("A-milk", 2, 1), ("A-tea", 4, 2)])
        ...     driver.read("total", value=int)
        [('A', 5), ('A', 7), ('A', 6)]

        Semantics: as :meth:`count`, but
            Order: for one change the subtractor first, then the adder; both in one update if the
                row stays in its group (KIP-904).
            Quirk: the group's first row is its aggregate without a call; the subtractor is not
                called for a group that has none.

        Args:
            adder: ``adder(aggregate, new)``.
            subtractor: ``subtractor(aggregate, old)``; must undo what the adder did. Returning None
                deletes the group's row. With ``emit="delta"`` it is the difference, too:
                ``subtractor(new aggregate, aggregate of the commit before)``.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per group and commit, "delta"
                what was added since the commit before, see docs/panes.md.
            name: the operator's name; generated if not given.

        Source: Kafka Streams' ``KGroupedTable.reduce``; one record for both values: KIP-904.
        """
        add = as_aggregator(callbacks.reducer(adder, "adder"))
        subtract = as_aggregator(callbacks.reducer(subtractor, "subtractor"))
        minus = None if emit != "delta" else callbacks.reducer(subtractor, "subtractor")
        fold = Fold("KTABLE-REDUCE-", None, add, value=self.value, difference=minus)
        table = self._aggregated(fold, subtract, store=store, emit=emit, name=name)
        return KTable._of(table)

    def top_n(
        self, n: int, by: Callable[[V], object], **options: Unpack[TopNOptions]
    ) -> KTable[K, list[V]]:
        """Keep the ``n`` rows of each group with the greatest scores, greatest first.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> from logstate.serdes import list_of
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> shops = stock.group_by(lambda item, n: (item[0], n), name="by-shop", key=str, value=int)
        >>> shops.top_n(2, lambda n: n, score=int, store="most").to_stream().to("most")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("stock", [("A-tea", 5, 0), ("A-rum", 9, 1), ("A-gin", 2, 2)])
        ...     driver.pipe("stock", "A-rum", None, timestamp=3)
        ...     driver.read("most", value=list_of(int))
        [('A', [5]), ('A', [9, 5]), ('A', [5, 2])]

        Semantics: as :meth:`count`, but
            Null value: a row that is deleted leaves its group, and the next one enters the list. A
                row whose score is None is not ranked.
            Order: as of :meth:`count`. Equal scores are in the order of the values' bytes. A list
                is sent only if it has changed.
            Store: timestamped key-value, named ``store``, with the list of each group; and
                ``<store>-rows`` with a row for each value of the group.
            Timestamp: the largest of those that changed the list.
            Quirk: a group that loses its last row is deleted.

        Args:
            n: values per group, at least 1.
            by: ``by(value)`` returns the score.
            options: ``store``, name or :class:`Materialized` of the store, required; ``score``, the
                type of the scores, one that ``serdes.ordered`` takes, if neither an annotation of
                ``by`` nor the type of the values says it; ``emit``, ``"update"`` for every change
                of a list or ``"commit"`` for the last one per key and commit; ``name``.

        Returns:
            The table of lists, written as Kafka's ``ListSerializer`` does.

        Raises:
            TopologyError: no store; one with a retention, a history, a capacity, a TTL or indexes;
                ``n`` is not positive; the type of the scores is not known or has no order by bytes;
                a serde is not known; ``emit`` is none of these.

        Source: Flink SQL's Top-N over an updating table.
        """
        return KTable._of(top_n(self, n, by, options))

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[A, V], A | None],
        subtractor: Callable[[A, V], A | None],
        **options: Unpack[AggregateOptions[A]],
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        **options: Unpack[AggregateOptions[A]],
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[..., A | None],
        subtractor: Callable[..., A | None],
        **options: Unpack[AggregateOptions[A]],
    ) -> KTable[K, A]: ...
    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[..., Any],
        subtractor: Callable[..., Any],
        *,
        value: Any = None,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        difference: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
    ) -> KTable[K, Any]:
        """Fold the rows of each group into an aggregate of any type.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> users = builder.table("users", value=str, store="users")
        >>> cities = users.group_by(lambda who, city: (city, who), name="by", key=str, value=str)
        >>> who = cities.aggregate(
        ...     list,
        ...     lambda names, user: [*names, user],
        ...     lambda names, user: [name for name in names if name != user],
        ...     store="who",
        ...     value=list,
        ... )
        >>> who.to_stream().to("who")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("users", [("ada", "Ulm", 0), ("bob", "Ulm", 1), ("ada", None, 2)])
        ...     driver.read("who", value=list)
        [('Ulm', ['ada']), ('Ulm', ['ada', 'bob']), ('Ulm', ['bob'])]

        Semantics: as :meth:`reduce`, but
            Quirk: the subtractor is not called for a group that has no aggregate.

        Args:
            initializer: ``initializer()`` makes the aggregate of a new group.
            adder: ``adder(aggregate, value)`` or ``adder(key, value, aggregate)``.
            subtractor: of the same shapes; must undo what the adder did. Returning None deletes the
                group's row.
            value: type or serde of the aggregate.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per group and commit, "delta"
                what was added since the commit before, see docs/panes.md.
            difference: for ``emit="delta"``: ``difference(new, old)`` returns what has to be added
                to ``old`` to get ``new``; without it only ``count`` and ``agg`` have deltas.
            name: the operator's name; generated if not given.

        Source: Kafka Streams' ``KGroupedTable.aggregate``; one record for both values: KIP-904.
        """
        start = callbacks.initializer(initializer)
        fold = Fold("KTABLE-AGGREGATE-", start, callbacks.aggregator(adder, "adder"))
        subtract = callbacks.aggregator(subtractor, "subtractor")
        options = AggregateOptions(
            value=value, store=store, emit=emit, difference=difference, name=name
        )
        return KTable._of(self._aggregated(fold, subtract, **options))

    @overload
    def agg(
        self,
        record: RecordOf[V, A],
        /,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, A]: ...
    @overload
    def agg(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
        **aggregates: Aggregate[V, Any, Any],
    ) -> KTable[K, Any]: ...
    def agg(  # type: ignore[misc]  # mypy finds "record" among the names of the second overload
        self,
        record: Any = None,
        /,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
        **aggregates: Any,
    ) -> KTable[K, Any]:
        """Compute several aggregates of each group's rows, as the fields of one record.

        >>> from logstate import Count, StreamsBuilder, Sum, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> stock = builder.table("stock", value=int, store="stock")
        >>> shops = stock.group_by(lambda item, n: (item[0], n), name="by-shop", key=str, value=int)
        >>> shops.agg(items=Count(), pieces=Sum(lambda n: n), store="s").to_stream().to("shops")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("stock", [("A-tea", 5, 0), ("A-rum", 2, 1), ("A-tea", None, 2)])
        ...     driver.pipe("stock", "A-rum", None, timestamp=3)
        ...     driver.read("shops", value=dict)
        [('A', {'items': 1, 'pieces': 5}), ('A', {'items': 2, 'pieces': 7}),
         ('A', {'items': 1, 'pieces': 2}), ('A', None)]

        Semantics: as :meth:`aggregate`, but
            Null value: aggregates ignore a None that their function returns.
            Quirk: a group that loses its last row is deleted, as in SQL; :meth:`count` keeps it.

        Args:
            record: a class of :class:`Aggregates`, whose aggregates can subtract.
            store: name or :class:`Materialized` of the store; required.
            emit: "update" sends every change, "commit" the last one per group and commit, "delta"
                what was added since the commit before, see docs/panes.md.
            name: the operator's name; generated if not given.
            aggregates: the aggregates by the names of their fields.

        Raises:
            TopologyError: an aggregate cannot subtract (``Min``, ``Max``, ``First``, ``Last``,
                ``TopN``, ``Collect`` with a limit); the error names an alternative.

        Source: SQL's ``GROUP BY`` and Flink's aggregates with retraction.
        """
        plan = planned(record, aggregates, self.value, of_table=True)
        fold, subtract = plan.fold("KTABLE-AGGREGATE-"), plan.subtractor()
        table = self._aggregated(fold, subtract, store=store, emit=emit, name=name)
        return _results_of(KTable._of(table), plan, name)


def _results_of(rows: KTable[Any, Any], plan: AggregatePlan, name: str | None) -> KTable[Any, Any]:
    """Return the table of the records of an ``agg``, which may be only a part of its rows."""
    if plan.row is plan.record:
        return rows
    serde = plan.result_serde()
    own = None if name is None else joined_name(name, "-results", "an operator")
    return rows._below(
        AggregateResultsNode, own, "KTABLE-MAPVALUES-", None, serde, mapper=plan.mapper()
    )


def _groups_aggregated(
    groups: Groups, windows: AnyWindows | None, **options: Any
) -> KTable[Any, Any]:
    check_groups(groups, have_aggregates=True)
    own: list[GroupAggregates] = [one for _, one in groups]
    plan = planned_groups(own)
    functions = tuple(
        (grouped, plan.group_aggregator(one.aggregates))
        for (grouped, _), one in zip(groups, own, strict=True)
    )
    table = cogrouped(functions, windows, plan.fold(COGROUP_PREFIX), **options)
    return _results_of(KTable._of(table), plan, options["name"])
