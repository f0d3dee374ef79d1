"""A sub-topology: sources, operators and sinks that hang together. What one task runs.

A task applies it to one partition of each source topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Node, ProcessorNode, SinkNode, SourceNode, TopicRef


@dataclass(frozen=True)
class SubTopology:
    """What one task runs. ``nodes`` are in the order of writing: parents before children."""

    id: int
    nodes: tuple[Node, ...]
    parents: Mapping[str, tuple[str, ...]]
    children: Mapping[str, tuple[str, ...]]
    stores: tuple[StoreSpec, ...]
    is_global: bool = False

    @cached_property
    def sources(self) -> tuple[SourceNode, ...]:
        """Its source nodes."""
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @cached_property
    def source_topics(self) -> tuple[TopicRef, ...]:
        """Topics its tasks read."""
        return tuple(topic for source in self.sources for topic in source.topics)

    @cached_property
    def sink_topics(self) -> tuple[TopicRef, ...]:
        """Topics it writes, except those chosen per record."""
        topics = (node.topic for node in self.nodes if isinstance(node, SinkNode))
        return tuple(dict.fromkeys(topic for topic in topics if isinstance(topic, TopicRef)))

    @property
    def has_dynamic_sinks(self) -> bool:
        """Whether a sink chooses its topic per record."""
        return any(
            isinstance(node, SinkNode) and not isinstance(node.topic, TopicRef)
            for node in self.nodes
        )


def writer_of(store: str, sub_topologies: Iterable[SubTopology]) -> str:
    """The name of the node that owns a store, of all that do, or else of those that use it.

    The store's own name where there is none.
    """
    nodes = [node for sub in sub_topologies for node in sub.nodes]
    operators = [node for node in nodes if isinstance(node, ProcessorNode)]
    owners = [node for node in operators if any(one.name == store for one in node.own_stores())]
    users = [node for node in operators if store in node.store_names()]
    return ", ".join(node.name for node in owners or users) or store
