"""What the mixins of KStream share: making the stream below one more step of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.serde_arguments import optional_serde
from logstate.topology.dsl.flow import Flow, K, V
from logstate.topology.graph.logical import ProcessorLogicalNode
from logstate.topology.graph.nodes import ProcessorNode
from logstate.topology.plan.repartition import RepartitionLogicalNode, repartition_topic

if TYPE_CHECKING:
    from logstate.topology.dsl.stream import KStream


class StreamFlow(Flow[K, V]):
    """A stream as its mixins see it."""

    if TYPE_CHECKING:
        needs_repartition: bool

    def _below(
        self,
        node: ProcessorNode,
        *,
        key_changing: bool = False,
        value_changing: bool = False,
        keeps_key: bool = False,
        keeps_value: bool = False,
        key: Any = None,
        value: Any = None,
    ) -> KStream[Any, Any]:
        """The stream below one new operator."""
        logical = ProcessorLogicalNode(
            node, key_changing=key_changing, value_changing=value_changing
        )
        self.builder.graph.add(self.logical, logical)
        inherited_key = self.key if keeps_key or not key_changing else None
        inherited_value = self.value if keeps_value else None
        return self._derive(
            node.name,
            logical,
            key=optional_serde(key, inherited_key, f"the key of {node.name!r}"),
            value=optional_serde(value, inherited_value, f"the value of {node.name!r}"),
            source_names=self.source_names,
            needs_repartition=self.needs_repartition or key_changing,
        )

    def _derive(self, name: str, logical: Any, **fields: Any) -> KStream[Any, Any]:
        """A stream of the same builder."""
        raise NotImplementedError

    def _through_topic(self, prefix: str, key: Serde[Any], value: Serde[Any]) -> KStream[K, V]:
        """This stream behind the repartition topic that a grouping or join needs."""
        topic = repartition_topic(self.builder.graph, prefix)
        return self._behind(
            RepartitionLogicalNode(
                topic, key, value, is_optimizable=True, declared_at=declaration_site()
            )
        )

    def _behind(self, node: RepartitionLogicalNode) -> KStream[K, V]:
        self.builder.graph.add(self.logical, node)
        return self._derive(
            node.name,
            node,
            key=node.key,
            value=node.value,
            source_names=frozenset({node.name}),
            needs_repartition=False,
        )
