"""KGroupedTable: table rows grouped by another key, to be aggregated with a subtractor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack, overload

from logstate.contracts.topic_names import REPARTITION_SUFFIX
from logstate.serdes.built_in import int64
from logstate.topology.declaring import callbacks
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.naming import check_name
from logstate.topology.declaring.windows import Emit
from logstate.topology.dsl.aggregations import (
    AggregateOptions,
    Aggregator,
    Fold,
    aggregate_store,
    as_aggregator,
    count_one,
)
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.dsl.materialized import Materialized
from logstate.topology.dsl.table import KTable
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.operators.aggregates.table_aggregate import TableAggregateNode
from logstate.topology.operators.tables.table_group_by import TableGroupByNode
from logstate.topology.plan.repartition import GroupedTableRepartitionLogicalNode

A = TypeVar("A")


@dataclass(frozen=True, eq=False, repr=False)
class KGroupedTable(Flow[K, V]):
    """The rows of a table grouped by another key, to be aggregated with a subtractor.

    >>> from logstate import StreamsBuilder
    >>> users = StreamsBuilder().table("users", value=str, store="users")
    >>> users.group_by(lambda who, city: (city, who), name="by", key=str, value=str).topic_name
    'by'

    Made by ``KTable.group_by``. Every change of a row takes its old value out of one group and puts
    the new one into one, on its way through the topic ``<application id>-<name>-repartition``.

    Args:
        value: type or serde of the aggregate.
        store: name or :class:`Materialized` of the store; required.
        emit: "update" sends every change, "commit" the last one per group and commit.
        name: the operator's name; generated if not given.

    Returns:
        The table of aggregates.

    Raises:
        TopologyError: no store, an unknown ``emit``, another shape of a callback, or a serde is not
            known.

    Source: Kafka Streams' ``KGroupedTable``.
    """

    topic_name: str | None

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

        Source: Kafka Streams' ``KGroupedTable.count``.
        """
        fold = Fold("KTABLE-AGGREGATE-", lambda: 0, count_one)
        return self._aggregated(
            fold, lambda _key, _value, n: n - 1, value=int64, store=store, emit=emit, name=name
        )

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
                deletes the group's row.

        Source: Kafka Streams' ``KGroupedTable.reduce``; one record for both values: KIP-904.
        """
        add = as_aggregator(callbacks.reducer(adder, "adder"))
        subtract = as_aggregator(callbacks.reducer(subtractor, "subtractor"))
        fold = Fold("KTABLE-REDUCE-", None, add)
        return self._aggregated(fold, subtract, value=self.value, store=store, emit=emit, name=name)

    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[A, V], A | None],
        subtractor: Callable[[A, V], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        **options: Unpack[AggregateOptions],
    ) -> KTable[K, A]: ...
    @overload
    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[..., A | None],
        subtractor: Callable[..., A | None],
        **options: Unpack[AggregateOptions],
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

        Source: Kafka Streams' ``KGroupedTable.aggregate``; one record for both values: KIP-904.
        """
        start = callbacks.initializer(initializer)
        fold = Fold("KTABLE-AGGREGATE-", start, callbacks.aggregator(adder, "adder"))
        subtract = callbacks.aggregator(subtractor, "subtractor")
        return self._aggregated(fold, subtract, value=value, store=store, emit=emit, name=name)

    def _aggregated(
        self, fold: Fold, subtractor: Aggregator, **options: Unpack[AggregateOptions]
    ) -> KTable[Any, Any]:
        what = "An aggregation of a grouped table"
        spec = aggregate_store(what, None, self.key, self.builder.defaults, options)
        name = options.get("name")
        graph = self.builder.graph
        sink_name = graph.names.suffixed(name, "-sink", "KSTREAM-SINK-")
        source_name = graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = graph.names.named(name, fold.prefix)
        topic = check_name(
            (self.topic_name or spec.name) + REPARTITION_SUFFIX, "a repartition topic"
        )
        repartition = self.builder.group_topics.get((self, topic))
        if repartition is None:
            use = f"repartition topic {topic!r}"
            assert isinstance(self.logical, ProcessorLogicalNode)
            assert isinstance(self.logical.node, TableGroupByNode)
            self.logical.node.keys = self._key_serde(None, use), topic
            repartition = GroupedTableRepartitionLogicalNode(
                source_name,
                topic=topic,
                key=self._key_serde(None, use),
                value=self._value_serde(None, use),
                sink_name=sink_name,
                declared_at=declaration_site(),
            )
            if self.topic_name is not None:
                self.builder.group_topics[self, topic] = repartition
        graph.add(self.logical, repartition)
        node = TableAggregateNode(
            node_name,
            store=spec,
            initializer=fold.initializer,
            adder=fold.aggregator,
            subtractor=subtractor,
            emit=options.get("emit", "update"),
        )
        logical = ProcessorLogicalNode(node, output_versioned=spec.traits.is_versioned)
        graph.add(repartition, logical)
        sources = frozenset({repartition.name})
        return KTable(self.builder, node_name, logical, sources, spec.key, spec.value, node)
