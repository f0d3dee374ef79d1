"""Where the aggregations of a grouped stream read: its stream, or behind a repartition topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.dsl.table import KTable
from logstate.topology.graph.logical import LogicalNode, ProcessorLogicalNode
from logstate.topology.graph.nodes import TableNode
from logstate.topology.plan.repartition import RepartitionLogicalNode, repartition_topic


class GroupedFlow(Flow[K, V]):
    """A grouped stream as the aggregations see it."""

    if TYPE_CHECKING:
        needs_repartition: bool
        topic_name: str | None

    def _table_of(
        self,
        node: TableNode,
        spec: StoreSpec,
        *,
        key: Serde[Any],
        output_versioned: bool = False,
        grace_ms: int | None = None,
    ) -> KTable[Any, Any]:
        """The table of one aggregation node, behind the repartition topic if one is needed."""
        parent, sources = self._input_of(spec)
        logical = ProcessorLogicalNode(node, output_versioned=output_versioned)
        logical.window_grace_ms = grace_ms
        self.builder.graph.add(parent, logical)
        return KTable(self.builder, node.name, logical, sources, key, spec.value, node)

    def _input_of(self, spec: StoreSpec) -> tuple[LogicalNode, frozenset[str]]:
        """Where an aggregation over ``spec`` reads: this group, or behind its topic."""
        if not self.needs_repartition:
            return self.logical, self.source_names
        topic = repartition_topic(self.builder.graph, self.topic_name or spec.name)
        known = self.builder.group_topics.get((self, topic))
        if known is None:
            use = f"repartition topic {topic!r}"
            known = RepartitionLogicalNode(
                topic,
                self._key_serde(None, use),
                self._value_serde(None, use),
                is_optimizable=True,
                declared_at=declaration_site(),
            )
            self.builder.group_topics[self, topic] = known
        self.builder.graph.add(self.logical, known)
        return known, frozenset({known.name})
