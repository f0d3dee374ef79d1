"""KGroupedTable: table rows grouped by another key, to be aggregated with a subtractor.

Every change of a row takes its old value out of one aggregate and puts the new one into one. The
changes go through the repartition topic ``<group name>-repartition``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack, overload

from logstate.serdes import int64
from logstate.topology import callbacks
from logstate.topology.aggregations import (
    as_aggregator,
    count_one,
    refuse_close,
    required_store,
    value_serde,
)
from logstate.topology.declared import declaration_site
from logstate.topology.flow import Flow, K, V
from logstate.topology.logical import ProcessorLogicalNode
from logstate.topology.materialized import Materialized, key_value_spec
from logstate.topology.naming import check_name
from logstate.topology.operators.table_aggregate import TableAggregateNode
from logstate.topology.options import AggregateOptions
from logstate.topology.repartition import SUFFIX, GroupedTableRepartitionLogicalNode
from logstate.topology.table import KTable
from logstate.topology.windows import Emit

A = TypeVar("A")
Aggregator = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True, eq=False)
class KGroupedTable(Flow[K, V]):
    """Made by ``KTable.group_by``."""

    topic_name: str | None

    def count(
        self,
        *,
        store: str | Materialized | None = None,
        emit: Emit = "update",
        name: str | None = None,
    ) -> KTable[K, int]:
        """Number of rows per group; a group that loses its last row stays, with 0."""
        return self._aggregate(
            "KTABLE-AGGREGATE-",
            lambda: 0,
            count_one,
            lambda _key, _value, aggregate: aggregate - 1,
            store=store,
            value=int64,
            emit=emit,
            name=name,
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
        """Combine rows: ``adder(aggregate, new)``, ``subtractor(aggregate, old)``."""
        add = callbacks.reducer(adder, "adder")
        subtract = callbacks.reducer(subtractor, "subtractor")
        return self._aggregate(
            "KTABLE-REDUCE-",
            None,
            as_aggregator(add),
            as_aggregator(subtract),
            store=store,
            value=self.value,
            emit=emit,
            name=name,
        )

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
        """Fold rows into an aggregate; the subtractor must undo what the adder did.

        Both are ``(aggregate, value)`` or ``(key, value, aggregate)``. For one update of a row the
        subtractor runs first. Returning None deletes the group's row.
        """
        return self._aggregate(
            "KTABLE-AGGREGATE-",
            callbacks.initializer(initializer),
            callbacks.aggregator(adder, "adder"),
            callbacks.aggregator(subtractor, "subtractor"),
            store=store,
            value=value,
            emit=emit,
            name=name,
        )

    def _aggregate(
        self,
        prefix: str,
        initializer: Callable[[], Any] | None,
        adder: Aggregator,
        subtractor: Aggregator,
        *,
        store: str | Materialized | None,
        value: Any,
        emit: Emit,
        name: str | None,
    ) -> KTable[Any, Any]:
        options = required_store(store, "An aggregation of a grouped table")
        refuse_close(emit)
        graph = self.builder.graph
        sink_name = graph.names.suffixed(name, "-sink", "KSTREAM-SINK-")
        source_name = graph.names.suffixed(name, "-source", "KSTREAM-SOURCE-")
        node_name = graph.names.named(name, prefix)
        spec = key_value_spec(
            options,
            self._key_serde(options.key, f"store {options.name!r}"),
            value_serde(options, value),
            self.builder.defaults,
        )
        topic = check_name((self.topic_name or options.name) + SUFFIX, "a repartition topic")
        repartition = self.builder.group_topics.get((self, topic))
        if repartition is None:
            use = f"repartition topic {topic!r}"
            repartition = GroupedTableRepartitionLogicalNode(
                topic,
                self._key_serde(None, use),
                self._value_serde(None, use),
                sink_name=sink_name,
                source_name=source_name,
                declared_at=declaration_site(),
            )
            if self.topic_name is not None:
                self.builder.group_topics[self, topic] = repartition
        graph.add(self.logical, repartition)
        node = TableAggregateNode(
            node_name,
            store=spec,
            initializer=initializer,
            adder=adder,
            subtractor=subtractor,
            emit=emit,
            declared_at=declaration_site(),
        )
        logical = ProcessorLogicalNode(node, output_versioned=spec.kind == "versioned")
        graph.add(repartition, logical)
        return KTable(
            self.builder,
            node_name,
            logical,
            frozenset({repartition.name}),
            spec.key,
            spec.value,
            node,
        )
