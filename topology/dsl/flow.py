"""What streams and tables of the DSL have in common: where they are in the graph, and serdes.

``key`` and ``value`` are None where nobody said how the objects become bytes. That is no error
until they have to: at a topic or a store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from logstate.contracts.errors import TopologyError
from logstate.contracts.serde import Serde
from logstate.topology.declaring.declaration_site import declaration_site
from logstate.topology.declaring.serde_arguments import required_serde
from logstate.topology.dsl.materialized import StoreDefaults
from logstate.topology.graph.logical import LogicalGraph, LogicalNode
from logstate.topology.graph.nodes import TableNode
from logstate.topology.plan.repartition import RepartitionLogicalNode, repartition_topic

K = TypeVar("K")
V = TypeVar("V")


class Declarations:
    """What handles see of the builder that they come from."""

    graph: LogicalGraph
    defaults: StoreDefaults
    window_emit_interval_ms: int
    outer_join_emit_interval_ms: int
    #: repartition topics that several aggregations of one named group share
    group_topics: dict[tuple[Any, str], LogicalNode]


@dataclass(frozen=True, eq=False, repr=False)
class Flow(Generic[K, V]):
    """A stream or table at one point of the graph. Immutable: every operator makes a new one."""

    builder: Declarations
    name: str
    logical: LogicalNode
    #: physical sources of its sub-topology, whose topics must be co-partitioned in a join
    source_names: frozenset[str]
    key: Serde[Any] | None
    value: Serde[Any] | None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _key_serde(self, spec: Any, use: str) -> Serde[Any]:
        """The key's serde: the given one, else the inherited one, else an error."""
        return required_serde(spec, self.key, f"the key of {use}", "key=")

    def _value_serde(self, spec: Any, use: str) -> Serde[Any]:
        return required_serde(spec, self.value, f"the value of {use}", "value=")

    def _check_same_builder(self, other: Flow[Any, Any], what: str) -> None:
        if other.builder is not self.builder:
            raise TopologyError(
                f"{what}: {self.name!r} and {other.name!r} come from different StreamsBuilders. One"
                " topology is built by one builder.",
                declared_at=declaration_site(),
            )


@dataclass(frozen=True, eq=False, repr=False)
class StreamFlow(Flow[K, V]):
    """A stream as what builds its joins and groups sees it; see ``KStream``."""

    needs_repartition: bool

    def _derive(self, name: str, logical: LogicalNode, **fields: Any) -> Any:
        """A stream of the same builder."""
        return type(self)(self.builder, name, logical, **fields)

    def _through_topic(self, prefix: str, key: Serde[Any], value: Serde[Any]) -> Any:
        """This stream behind the repartition topic that a grouping or join needs."""
        topic = repartition_topic(self.builder.graph, prefix)
        site = declaration_site()
        return self._behind(
            RepartitionLogicalNode(topic, key, value, is_optimizable=True, declared_at=site)
        )

    def _behind(self, node: RepartitionLogicalNode) -> Any:
        self.builder.graph.add(self.logical, node)
        return self._derive(
            node.name,
            node,
            key=node.key,
            value=node.value,
            source_names=frozenset({node.name}),
            needs_repartition=False,
        )


@dataclass(frozen=True, eq=False, repr=False)
class TableFlow(Flow[K, V]):
    """A table as what builds its joins sees it; see ``KTable``."""

    node: TableNode

    def _derive(self, node: TableNode, logical: LogicalNode, **fields: Any) -> Any:
        """A table of the same builder: this one but for ``fields``."""
        own = {"source_names": self.source_names, "key": self.key, "value": self.value}
        return type(self)(self.builder, node.name, logical, node=node, **(own | fields))
