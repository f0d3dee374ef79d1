"""Which operators feed which, through the internal topics between their sub-topologies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from logstate.topology.graph.nodes import Node, SourceNode, TopicRef
from logstate.topology.graph.sub_topology import SubTopology


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
