"""A sub-topology: sources, operators and sinks that hang together. What one task runs.

A task applies it to one partition of each source topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from logstate.contracts.serde import Serde
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Node, ProcessorNode, SinkNode, SourceNode, TopicRef
from logstate.topology.graph.operator_labels import operator_labels


def feeding(sub_topology: SubTopology, every: Iterable[SubTopology]) -> list[SubTopology]:
    """Return the sub-topologies whose results a sub-topology reads, directly or through others.

    That includes itself if it reads what it caused, as in a foreign-key join.
    """
    parts = list(every)
    numbers = {part.id for part, _ in _sub_topologies_above(sub_topology, parts)}
    return [part for part in parts if part.id in numbers]


def operators_feeding(sub_topology: SubTopology, every: Iterable[SubTopology]) -> list[Node]:
    """Return the nodes of all sub-topologies whose results a sub-topology reads."""
    return list(dict.fromkeys(node for _, node in _sub_topologies_above(sub_topology, list(every))))


def _sub_topologies_above(
    sub_topology: SubTopology, parts: list[SubTopology]
) -> Iterator[tuple[SubTopology, Node]]:
    waiting = [ref for ref in sub_topology.source_topics if ref.is_internal]
    seen: set[TopicRef] = set()
    while waiting:
        topic = waiting.pop()
        if topic in seen:
            continue
        seen.add(topic)
        for part in parts:
            nodes = {node.name: node for node in part.nodes}
            names = [sink.name for sink in part.sinks_into.get(topic, ())]
            while names:
                node = nodes[names.pop()]
                yield part, node
                names += part.parents[node.name]
                if isinstance(node, SourceNode):
                    waiting += [ref for ref in node.topics if ref.is_internal]


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

    @cached_property
    def operator_labels(self) -> Mapping[str, str]:
        """Generated name of an operator -> what it does, with which store or topic."""
        return operator_labels(self.nodes, self.parents)

    def declared(self) -> Iterator[object]:
        """The functions and serdes that its operators and stores were declared with."""
        for node in self.nodes:
            for one in fields(node):
                yield from _given_stores(getattr(node, one.name))
        for spec in self.stores:
            yield from (spec.key, spec.value)

    def fed_by(self, store: str) -> list[frozenset[TopicRef]]:
        """Of each operator that a store came into being with, the topics it gets records from.

        In their order, which rows or clocks depend on: the sides of a join, the groups of a
        cogroup. One set for all where the user's code decides what it writes.
        """
        names = self.store_owners.get(store, ())
        owners = [node for node in self._operators if node.name in names]
        if owners and all(getattr(node, "connections", None) is None for node in owners):
            return [self._topics_above[name] for name in names]
        users = names or self.store_users.get(store, ())
        return [frozenset[TopicRef]().union(*(self._topics_above[name] for name in users))]

    @cached_property
    def _topics_above(self) -> Mapping[str, frozenset[TopicRef]]:
        """Node -> the topics that its records come of."""
        found: dict[str, frozenset[TopicRef]] = {}
        for node in self.nodes:  # parents come before their children
            own = node.topics if isinstance(node, SourceNode) else ()
            above = (found[parent] for parent in self.parents.get(node.name, ()))
            found[node.name] = frozenset(own).union(*above)
        return found

    @cached_property
    def closes_on_idle(self) -> bool:
        """Whether stream time of an operator advances while the inputs are idle."""
        return any(node.close_on_idle_ms is not None for node in self._operators)

    @property
    def _operators(self) -> Iterator[ProcessorNode]:
        return (node for node in self.nodes if isinstance(node, ProcessorNode))

    def sink_topics_from(self, topic: TopicRef) -> tuple[TopicRef, ...]:
        """Topics that results of a source topic are written to, except those chosen per record.

        Where there are stores that is every sink: the node that writes a row need not be above the
        node that reads it.
        """
        if self.stores:
            return self.sink_topics
        above = self._topics_above
        return tuple(
            sink_topic
            for sink_topic, sinks in self.sinks_into.items()
            if any(topic in above[sink.name] for sink in sinks)
        )

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


def _given_stores(given: Any) -> Iterator[object]:
    if isinstance(given, list | tuple):
        for one in given:
            yield from _given_stores(one)
    elif callable(given) or isinstance(given, Serde):
        yield given
