"""map and its kin: operators of a stream that make new keys or values.

What changes keys marks the stream, so that the next grouping or join goes through a repartition
topic first; what changes values only does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.operators.streams.flat_map import FlatMapNode
from logstate.topology.operators.streams.flat_map_values import FlatMapValuesNode
from logstate.topology.operators.streams.map import MapNode
from logstate.topology.operators.streams.map_values import MapValuesNode
from logstate.topology.operators.streams.select_key import SelectKeyNode

if TYPE_CHECKING:
    from logstate.topology.dsl.stream import KStream

K2 = TypeVar("K2")
V2 = TypeVar("V2")


class MappingOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.stream.KStream`."""

    @overload
    def map(
        self,
        mapper: Callable[[V], tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def map(
        self,
        mapper: Callable[[K, V], tuple[K2, V2]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
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

        Semantics:
            Null key: given to the mapper as None.
            Null value: given to the mapper as None.
            Late records: mapped like all others.
            Order: kept.
            Repartition: none here; a grouping or join below goes through a repartition topic first,
                whether keys really change or not, because nobody can know. Use :meth:`map_values`
                where they do not.
            Store: none.
            Timestamp: the record's, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns a tuple of two.
            key: serde of the new keys, where a topic or store below needs it.
            value: serde of the new values, likewise.
            name: the operator's name; generated if not given.

        Returns:
            The stream of mapped records.

        Raises:
            TopologyError: the mapper has another shape, or a serde is none.

        Source: Kafka Streams' ``KStream.map``.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-MAP-")
        function = callbacks.mapper(mapper)
        node = MapNode(node_name, mapper=function, declared_at=declaration_site())
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

        Semantics:
            Null key: given to the mapper as None.
            Null value: given to the mapper as None; a mapper that returns None makes a null value,
                which a topic takes as a tombstone.
            Late records: mapped like all others.
            Order: kept.
            Repartition: none, here or below: the key is the same, so is the partition.
            Store: none.
            Timestamp: the record's, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``. It must not change the key in
                place.
            value: serde of the new values, where a topic or store below needs it.
            name: the operator's name; generated if not given.

        Returns:
            The stream of mapped records.

        Raises:
            TopologyError: the mapper has another shape, or ``value`` is no serde.

        Source: Kafka Streams' ``KStream.mapValues``; with the key: KIP-149.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-MAPVALUES-")
        function = callbacks.mapper(mapper)
        node = MapValuesNode(node_name, mapper=function, declared_at=declaration_site())
        return self._below(node, value_changing=True, value=value)

    @overload
    def flat_map(
        self,
        mapper: Callable[[V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        mapper: Callable[[K, V], Iterable[tuple[K2, V2]]],
        *,
        key: Any = None,
        value: Any = None,
        name: str | None = None,
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

        Semantics:
            Null key: given to the mapper as None.
            Null value: given to the mapper as None.
            Late records: mapped like all others.
            Order: that of the iterable; each pair goes all the way down before the next one is
                asked for.
            Repartition: none here; a grouping or join below goes through a repartition topic first.
            Store: none.
            Timestamp: the record's for all pairs, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns an iterable of tuples of
                two, or is a generator. For no result it returns an empty one, not None.
            key: serde of the new keys, where a topic or store below needs it.
            value: serde of the new values, likewise.
            name: the operator's name; generated if not given.

        Returns:
            The stream of all pairs.

        Raises:
            TopologyError: the mapper has another shape, or a serde is none.

        Source: Kafka Streams' ``KStream.flatMap``.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-FLATMAP-")
        function = callbacks.mapper(mapper)
        node = FlatMapNode(node_name, mapper=function, declared_at=declaration_site())
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

        Semantics:
            Null key: given to the mapper as None.
            Null value: given to the mapper as None.
            Late records: mapped like all others.
            Order: that of the iterable; each value goes all the way down before the next one is
                asked for.
            Repartition: none, here or below: the key is the same.
            Store: none.
            Timestamp: the record's for all values, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns an iterable, or is a
                generator. For no result it returns an empty one, not None.
            value: serde of the new values, where a topic or store below needs it.
            name: the operator's name; generated if not given.

        Returns:
            The stream of all values.

        Raises:
            TopologyError: the mapper has another shape, or ``value`` is no serde.

        Source: Kafka Streams' ``KStream.flatMapValues``; with the key: KIP-149.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-FLATMAPVALUES-")
        function = callbacks.mapper(mapper)
        node = FlatMapValuesNode(node_name, mapper=function, declared_at=declaration_site())
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

        Semantics:
            Null key: given to the mapper as None; a new key of None is dropped by the next
                repartition.
            Null value: given to the mapper as None.
            Late records: like all others.
            Order: kept. Behind a repartition topic, records from several partitions meet in no
                fixed order.
            Repartition: none here; a grouping or join below goes through a repartition topic first.
            Store: none.
            Timestamp: the record's, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns the new key.
            key: serde of the new keys, where a topic or store below needs it.
            name: the operator's name; generated if not given.

        Returns:
            The stream under its new keys.

        Raises:
            TopologyError: the mapper has another shape, or ``key`` is no serde.

        Source: Kafka Streams' ``KStream.selectKey``.
        """
        node_name = self.builder.graph.names.named(name, "KSTREAM-KEY-SELECT-")
        function = callbacks.mapper(mapper)
        node = SelectKeyNode(node_name, mapper=function, declared_at=declaration_site())
        return self._below(node, key_changing=True, key=key, keeps_value=True)
