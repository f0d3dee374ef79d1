"""filter, merge and split of a stream: which records go where.

Nothing here changes a record: key, value, timestamp and headers stay what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from logstate.topology.declaring import callbacks
from logstate.topology.declaring.argument_checks import check_kind
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.dsl.flow import K, V
from logstate.topology.dsl.stream_flow import StreamFlow
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.streams.filter import FilterNode
from logstate.topology.operators.streams.pass_through import PassThroughNode

if TYPE_CHECKING:
    from logstate.topology.dsl.branched import BranchedKStream
    from logstate.topology.dsl.stream import KStream


class RoutingOperators(StreamFlow[K, V]):
    """Mixed into :class:`logstate.topology.dsl.stream.KStream`."""

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

        Semantics:
            Null key: given to the predicate as None.
            Null value: given to the predicate as None.
            Late records: like all others. What is filtered out does not advance the clocks of
                windows, suppress and joins below: each has its own stream time, made of the records
                that reach it.
            Order: kept.
            Repartition: none, here or below.
            Store: none.
            Timestamp: the record's, and its headers.

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.
            name: the operator's name; generated if not given.

        Returns:
            The stream of accepted records.

        Raises:
            TopologyError: the predicate has another shape.

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

        Semantics:
            Null key: given to the predicate as None.
            Null value: given to the predicate as None.
            Late records: like all others; see :meth:`filter` for clocks below.
            Order: kept.
            Repartition: none, here or below.
            Store: none.
            Timestamp: the record's, and its headers.

        Args:
            predicate: ``predicate(value)`` or ``predicate(key, value)``; any truth value.
            name: the operator's name; generated if not given.

        Returns:
            The stream of the other records.

        Raises:
            TopologyError: the predicate has another shape.

        Source: Kafka Streams' ``KStream.filterNot``.
        """
        return self._filter(predicate, name, keeps=False)

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

        Semantics:
            Null key: passed on.
            Null value: passed on.
            Late records: like all others.
            Order: kept within each input, none between them: a task takes the record with the
                smallest timestamp among those it has, which is best effort.
            Repartition: none here; below, if one of the inputs would have needed it.
            Store: none.
            Timestamp: the record's, and its headers.
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
        merged: Any = self
        for position, other in enumerate(others):
            suffix = "" if position == len(others) - 1 else f"-{position}"
            merged = merged._merge_one(other, None if name is None else name + suffix)
        return merged  # type: ignore[no-any-return]

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

        Semantics:
            Null key: given to the predicates as None.
            Null value: given to the predicates as None.
            Late records: like all others.
            Order: kept within a branch.
            Repartition: none, here or below.
            Store: none.
            Timestamp: the record's, and its headers.

        Args:
            name: the operator's name and prefix of its branches' names; generated if not given.

        Returns:
            The split, to which branches are added; see :class:`BranchedKStream`.

        Raises:
            TopologyError: the name cannot be part of a topic's name.

        Source: Kafka Streams' ``KStream.split`` (KIP-418).
        """
        from logstate.topology.dsl.branched import BranchedKStream

        return BranchedKStream(self, name)

    def _filter(
        self, predicate: Callable[..., object], name: str | None, *, keeps: bool
    ) -> KStream[K, V]:
        node_name = self.builder.graph.names.named(name, "KSTREAM-FILTER-")
        function = callbacks.predicate(predicate)
        site = declaration_site()
        node = FilterNode(node_name, predicate=function, keeps=keeps, declared_at=site)
        return self._below(node, keeps_key=True, keeps_value=True)

    def _merge_one(self, other: KStream[K, V], name: str | None) -> KStream[K, V]:
        check_kind(other, StreamFlow, "merge", "KStreams", "Make a table one by to_stream().")
        self._check_same_builder(other, "merge")
        node_name = self.builder.graph.names.named(name, "KSTREAM-MERGE-")
        node = PassThroughNode(node_name, declared_at=declaration_site())
        logical = ProcessorLogicalNode(node, merge=True)
        self.builder.graph.add([self.logical, other.logical], logical)
        return self._derive(
            node_name,
            logical,
            key=self.key if self.key is other.key else None,
            value=self.value if self.value is other.value else None,
            source_names=self.source_names | other.source_names,
            needs_repartition=self.needs_repartition or other.needs_repartition,
        )
