"""group_by and group_by_key of a stream: the way to every aggregation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.grouped_stream import KGroupedStream
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.streams.select_key import SelectKeyNode

K2 = TypeVar("K2")


class GroupOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.stream.KStream`."""

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

        Semantics:
            Null key: given to the mapper as None; a new key of None is dropped before the topic and
                not counted.
            Null value: given to the mapper as None and passed on; the aggregation decides.
            Late records: the aggregation decides.
            Order: records of one new key that come from several partitions meet in no fixed order.
            Repartition: always, through ``<application id>-<name>-repartition``; named after the
                aggregation's store if ``name`` is not given. Several aggregations of one named
                group share one topic.
            Store: none here; the aggregation has one.
            Timestamp: the record's, and its headers.

        Args:
            mapper: ``mapper(value)`` or ``mapper(key, value)``; returns the new key.
            name: names the operator and the repartition topic.
            key: serde of the new keys.
            value: serde of the values; that of the stream if not given.

        Returns:
            The grouped stream: count, reduce, aggregate, windowed_by or cogroup it.

        Raises:
            TopologyError: the mapper has another shape, or a serde is none; the aggregation raises
                it for serdes that are missing.

        Source: Kafka Streams' ``KStream.groupBy``; names: KIP-372.
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
        """Group the records by the key they have, to aggregate them.

        >>> from logstate import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> clicks = builder.stream("clicks", value=str).group_by_key()
        >>> clicks.count(store="clicks-per-user").to_stream().to("counts")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.pipe_all("clicks", [("ada", "home", 0), ("ada", "cart", 1)])
        ...     driver.read("counts", value=int)
        [('ada', 1), ('ada', 2)]

        Semantics:
            Null key: passed on; the aggregation drops it. Dropped, not counted, where there is a
                repartition topic.
            Null value: passed on; the aggregation decides.
            Late records: the aggregation decides.
            Order: kept.
            Repartition: only if an operator above may have changed keys; through ``<application
                id>-<name>-repartition``, named after the aggregation's store if ``name`` is not
                given.
            Store: none here; the aggregation has one.
            Timestamp: the record's, and its headers.

        Args:
            name: names the repartition topic, if there is one.
            key: serde of the keys; that of the stream if not given.
            value: serde of the values; that of the stream if not given.

        Returns:
            The grouped stream: count, reduce, aggregate, windowed_by or cogroup it.

        Raises:
            TopologyError: a serde is none; the aggregation raises it for serdes that are missing.

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
