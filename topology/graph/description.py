"""`describe()`: the topology as text, byte for byte in Kafka Streams' form.

Its visualisers and diff tests therefore work. An operator with ``close_on_idle``, which Kafka
Streams does not have, has one more line; visualisers skip it. Nodes are sorted by the size of the
graph below them, largest first, then by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from logstate.topology.graph.java_order import SortedSet, hash_order
from logstate.topology.graph.nodes import ProcessorNode, SinkNode, SourceNode, TopicRef
from logstate.topology.graph.plan_builder import PlanBuilder
from logstate.topology.graph.sub_topology import SubTopology

Kind = Literal["source", "processor", "sink"]
_BELOW = "\n      --> "
_ABOVE = "\n      <-- "


@dataclass(frozen=True)
class NodeDescription:
    """One node. ``topics`` of a source; ``topic`` of a sink, or the name of its ``chooser``.

    ``pattern`` instead of topics if a source reads what matches a regular expression.
    """

    name: str
    kind: Kind
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    topic: str | None = None
    chooser: str | None = None
    stores: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()
    #: what it does, if it has a generated name; not part of the text
    label: str | None = None
    #: how long its inputs must be idle before it closes what is open; None: it waits for records
    close_on_idle_ms: int | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """What a source reads: topics, or a pattern of them."""
        return (self.pattern,) if self.pattern is not None else self.topics

    def __str__(self) -> str:
        below = ", ".join(self.successors) or "none"
        above = ", ".join(self.predecessors) or "none"
        if self.kind == "source":
            topics = self.pattern or f"[{', '.join(self.topics)}]"
            return f"Source: {self.name} (topics: {topics}){_BELOW}{below}"
        if self.kind == "processor":
            stores = ", ".join(self.stores)
            idle_ms = self.close_on_idle_ms
            idle = "" if idle_ms is None else f"\n      closes on idle: {idle_ms} ms"
            return (
                f"Processor: {self.name} (stores: [{stores}]){idle}{_BELOW}{below}{_ABOVE}{above}"
            )
        where = f"topic: {self.topic}" if self.topic else f"extractor class: {self.chooser}"
        return f"Sink: {self.name} ({where}){_ABOVE}{above}"


@dataclass(frozen=True)
class SubTopologyDescription:
    """One sub-topology."""

    id: int
    nodes: tuple[NodeDescription, ...]

    def __str__(self) -> str:
        lines = "".join(f"    {node}\n" for node in self.nodes)
        return f"Sub-topology: {self.id}\n{lines}\n"


@dataclass(frozen=True)
class GlobalStoreDescription:
    """A global store: it has a number but no tasks."""

    id: int
    source: NodeDescription
    processor: NodeDescription

    def __str__(self) -> str:
        return (
            f"Sub-topology: {self.id} for global store (will not generate tasks)\n"
            f"    {self.source}\n    {self.processor}\n"
        )


@dataclass(frozen=True)
class Description:
    """The whole topology."""

    sub_topologies: tuple[SubTopologyDescription, ...]
    global_stores: tuple[GlobalStoreDescription, ...]

    def __str__(self) -> str:
        parts: list[SubTopologyDescription | GlobalStoreDescription] = [
            *self.sub_topologies,
            *self.global_stores,
        ]
        parts.sort(key=lambda part: part.id)
        return "Topologies:\n " + "".join(f"  {part}" for part in parts)


@dataclass
class _NodeDraft:
    """A node while its adjacent nodes are collected; ``size`` grows with the linked nodes below."""

    name: str
    kind: Kind
    size: int = 1
    above: list[_NodeDraft] = field(default_factory=list)
    successors: SortedSet[_NodeDraft] = field(default_factory=lambda: SortedSet(_sort_key))
    predecessors: SortedSet[_NodeDraft] = field(default_factory=lambda: SortedSet(_sort_key))

    def grow(self, delta: int) -> None:
        growing = [self]
        while growing:  # once for each way up
            draft = growing.pop()
            draft.size += delta
            growing.extend(draft.above)


def _sort_key(draft: _NodeDraft) -> tuple[int, str]:
    return (-draft.size, draft.name)


def describe_plan(
    plan: PlanBuilder, tasks: Sequence[SubTopology], globals_: Sequence[SubTopology]
) -> Description:
    """Describe finished sub-topologies."""
    return Description(
        tuple(SubTopologyDescription(part.id, _describe(plan, part)) for part in tasks),
        tuple(_describe_global(plan, part) for part in globals_),
    )


def _describe(plan: PlanBuilder, part: SubTopology) -> tuple[NodeDescription, ...]:
    drafts = {node.name: _NodeDraft(node.name, _kind(plan, node.name)) for node in part.nodes}
    # A set of names, copied into a map: both iterate by hash.
    for name in hash_order(hash_order(part.parents)):
        draft = drafts[name]
        for parent in part.parents[name]:
            above = drafts[parent]
            draft.predecessors.add(above)
            draft.above.append(above)
            above.successors.add(draft)
            above.grow(draft.size)
    return tuple(
        _finish(plan, draft, part.operator_labels)
        for draft in sorted(drafts.values(), key=_sort_key)
    )


def _kind(plan: PlanBuilder, name: str) -> Kind:
    node = plan.nodes[name]
    if isinstance(node, SourceNode):
        return "source"
    return "sink" if isinstance(node, SinkNode) else "processor"


def _finish(plan: PlanBuilder, draft: _NodeDraft, labels: Mapping[str, str]) -> NodeDescription:
    node = plan.nodes[draft.name]
    topics: tuple[str, ...] = ()
    topic = chooser = pattern = None
    if isinstance(node, SourceNode) and node.topics[0].is_pattern:
        pattern = node.topics[0].name
    elif isinstance(node, SourceNode):
        topics = tuple(hash_order([ref.name for ref in node.topics], copied=True))
    elif isinstance(node, SinkNode) and isinstance(node.topic, TopicRef):
        topic = node.topic.name
    elif isinstance(node, SinkNode):
        chooser = getattr(node.topic, "__name__", type(node.topic).__name__)
    return NodeDescription(
        name=draft.name,
        kind=draft.kind,
        topics=topics,
        pattern=pattern,
        topic=topic,
        chooser=chooser,
        stores=tuple(hash_order(plan.connections.get(draft.name, ()), copied=True)),
        successors=tuple(below.name for below in draft.successors.in_order()),
        predecessors=tuple(above.name for above in draft.predecessors.in_order()),
        label=labels.get(draft.name),
        close_on_idle_ms=node.close_on_idle_ms if isinstance(node, ProcessorNode) else None,
    )


def _describe_global(plan: PlanBuilder, part: SubTopology) -> GlobalStoreDescription:
    store = next(
        store for store in plan.global_stores.values() if store.source.name == part.sources[0].name
    )
    source, processor = store.source, store.processor
    return GlobalStoreDescription(
        part.id,
        NodeDescription(
            source.name,
            "source",
            topics=tuple(ref.name for ref in source.topics),
            successors=(processor.name,),
            label=part.operator_labels.get(source.name),
        ),
        NodeDescription(
            processor.name,
            "processor",
            stores=(store.spec.name,),
            predecessors=(source.name,),
            label=part.operator_labels.get(processor.name),
        ),
    )
