"""A sub-topology: sources, operators and sinks that hang together. What one task runs.

A task applies it to one partition of each source topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        return tuple(self.sinks_into)

    @cached_property
    def store_owners(self) -> Mapping[str, tuple[str, ...]]:
        """Store -> the operators that it came into being with."""
        return _names_by_store(
            (node, (one.name for one in node.own_stores())) for node in self._operators
        )

    @cached_property
    def store_users(self) -> Mapping[str, tuple[str, ...]]:
        """Store -> the operators that touch it."""
        return _names_by_store((node, node.store_names()) for node in self._operators)

    def fed_by(self, store: str) -> list[frozenset[TopicRef]]:
        """Of each operator that a store came into being with, the topics it gets records from.

        In their order, which rows or clocks depend on: the sides of a join, the groups of a
        cogroup. One set for all where the user's code decides what it writes.
        """
        by_name = {node.name: node for node in self.nodes}
        names = self.store_owners.get(store) or self.store_users.get(store, ())
        fed = [self._topics_above(name) for name in names]
        is_users = any(getattr(by_name[name], "connections", None) is not None for name in names)
        if is_users or store not in self.store_owners:
            return [frozenset[TopicRef]().union(*fed)]
        return fed

    def _topics_above(self, node: str) -> frozenset[TopicRef]:
        by_source = {source.name: source.topics for source in self.sources}
        seen, waiting = {node}, [node]
        while waiting:
            above = set(self.parents.get(waiting.pop(), ())) - seen
            seen |= above
            waiting += above
        return frozenset(topic for name in seen for topic in by_source.get(name, ()))

    @property
    def _operators(self) -> Iterator[ProcessorNode]:
        return (node for node in self.nodes if isinstance(node, ProcessorNode))

    @cached_property
    def sinks_into(self) -> Mapping[TopicRef, tuple[SinkNode, ...]]:
        """Topic -> the sinks that write to it, whatever the record."""
        found: dict[TopicRef, tuple[SinkNode, ...]] = {}
        for node in self.nodes:
            if isinstance(node, SinkNode) and isinstance(node.topic, TopicRef):
                found[node.topic] = (*found.get(node.topic, ()), node)
        return found


def writer_of(store: str, sub_topologies: Iterable[SubTopology]) -> str:
    """The name of the node that owns a store, of all that do, or else of those that use it.

    The store's own name where there is none.
    """
    parts = tuple(sub_topologies)
    owners = [name for sub in parts for name in sub.store_owners.get(store, ())]
    users = [name for sub in parts for name in sub.store_users.get(store, ())]
    return ", ".join(owners or users) or store


def _names_by_store(
    stores_of: Iterable[tuple[ProcessorNode, Iterable[str]]],
) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for node, stores in stores_of:
        for store in dict.fromkeys(stores):
            found[store] = (*found.get(store, ()), node.name)
    return found
