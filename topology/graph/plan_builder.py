"""Collects the physical nodes that the logical graph writes, and checks their names.

Nodes keep the order in which they are written: it is the order in which a node's children are
called, and so the order of outputs. Stores are tied to the nodes that use them when everything is
written, because a join may be written before the table whose store it reads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Node, ProcessorNode, SinkNode, SourceNode, TopicRef

InternalTopicKind = Literal["repartition", "foreign_key"]


@dataclass(frozen=True)
class InternalTopic:
    """A topic the application creates for itself. ``partitions`` None: derived when it starts."""

    topic: TopicRef
    kind: InternalTopicKind
    partitions: int | None = None


@dataclass
class GlobalStore:
    """A store filled from a whole topic in every instance, outside any task."""

    spec: StoreSpec
    source: SourceNode
    processor: ProcessorNode


@dataclass
class PlanBuilder:
    """What the logical nodes write into."""

    nodes: dict[str, Node] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stores: dict[str, StoreSpec] = field(default_factory=dict)
    #: processor -> stores it is connected to, in order
    connections: dict[str, list[str]] = field(default_factory=dict)
    global_stores: dict[str, GlobalStore] = field(default_factory=dict)
    internal_topics: dict[str, InternalTopic] = field(default_factory=dict)
    #: groups of source names whose topics must have equal partition counts
    copartitioned: list[set[str]] = field(default_factory=list)
    #: source topic -> source name
    readers: dict[str, str] = field(default_factory=dict)
    #: the same for patterns of topics
    patterns: dict[str, str] = field(default_factory=dict)

    def add_source(self, source: SourceNode) -> None:
        """A source. A topic has one source node at most."""
        for topic in source.topics:
            known = self.patterns if topic.is_pattern else self.readers
            reader = known.setdefault(topic.name, source.name)
            if reader == source.name:
                reader = self._reader_by_pattern(topic) or reader
            if reader != source.name:
                raise TopologyError(
                    f"Topic {topic.name!r} is read twice, by {reader!r} and {source.name!r}. Both"
                    " would consume it in the same group. Read it once and use the stream or"
                    " table twice.",
                    declared_at=source.declared_at,
                )
        self._add(source, ())

    def _reader_by_pattern(self, topic: TopicRef) -> str | None:
        """The other source that reads a topic by a pattern, or one that this pattern matches."""
        if topic.is_pattern:
            return next((r for t, r in self.readers.items() if re.fullmatch(topic.name, t)), None)
        return next((r for p, r in self.patterns.items() if re.fullmatch(p, topic.name)), None)

    def add_processor(self, node: ProcessorNode, parents: Sequence[str]) -> None:
        """An operator with the stores it owns and those it only uses."""
        self._add(node, parents)
        for spec in node.own_stores():
            self.add_store(spec)
        self.connect(node.name, node.store_names())

    def add_sink(self, sink: SinkNode, parents: Sequence[str]) -> None:
        """A sink."""
        self._add(sink, parents)

    def add_store(self, spec: StoreSpec) -> None:
        """A store; nodes may share it, but then they must share the very same declaration."""
        known = self.stores.setdefault(spec.name, spec)
        if known is not spec or spec.name in self.global_stores:
            first = known.declared_at or "elsewhere"
            raise TopologyError(
                f"There are two stores named {spec.name!r}; the other one is declared at {first}."
                " They would share one changelog topic and one directory. Rename one, or add the"
                " store once and connect both processors to it by name.",
                declared_at=spec.declared_at,
            )

    def add_global_store(self, store: GlobalStore) -> None:
        """A global store with its own source and processor."""
        self.add_source(store.source)
        self._add(store.processor, (store.source.name,))
        if store.spec.name in self.stores or store.spec.name in self.global_stores:
            known = self.stores.get(store.spec.name) or self.global_stores[store.spec.name].spec
            raise TopologyError(
                f"There are two stores named {store.spec.name!r}; the other one is declared at"
                f" {known.declared_at or 'elsewhere'}. Queries could not distinguish them. Rename"
                " one.",
                declared_at=store.spec.declared_at,
            )
        self.global_stores[store.spec.name] = store

    def reuse_topic(self, store: str, source: SourceNode, *, keeps_headers: bool = True) -> None:
        """Let the topic of a source be the changelog of the store that holds it."""
        self.stores[store] = replace(
            self.stores[store],
            source_topic=source.topics[0].name,
            source_extractor=source.timestamp_extractor,
            source_serdes=(source.key, source.value),
            keeps_source_headers=keeps_headers,
        )

    def connect(self, processor: str, stores: Sequence[str]) -> None:
        """Tie a processor to stores; they need not exist yet."""
        known = self.connections.setdefault(processor, [])
        known.extend(name for name in stores if name not in known)

    def add_internal_topic(
        self, name: str, *, kind: InternalTopicKind, partitions: int | None = None
    ) -> TopicRef:
        """An internal topic, named without the application id."""
        topic = TopicRef(name, is_internal=True)
        self.internal_topics[name] = InternalTopic(topic, kind, partitions)
        return topic

    def copartition(self, sources: Sequence[str] | set[str] | frozenset[str]) -> None:
        """Topics of these sources must have the same partition count."""
        self.copartitioned.append(set(sources))

    def _add(self, node: Node, parents: Sequence[str]) -> None:
        known = self.nodes.get(node.name)
        if known is not None:
            first = known.declared_at or "elsewhere"
            raise TopologyError(
                f"There are two operators named {node.name!r}; the other one is declared at"
                f" {first}. Names identify an operator in descriptions, metrics and errors. Rename"
                " one.",
                declared_at=node.declared_at,
            )
        for parent in parents:
            if parent not in self.nodes:
                raise TopologyError(
                    f"Operator {node.name!r} comes before its input {parent!r}: the graph has a"
                    " cycle. Send records back through a topic instead.",
                    declared_at=node.declared_at,
                )
        self.nodes[node.name] = node
        self.parents[node.name] = tuple(parents)
