"""Sources that read by a pattern: which topics of a cluster they mean.

In the plan such a source has one :class:`TopicRef` with ``is_pattern``. What exists is known only
when an application starts: :func:`with_matching_topics` then puts the matching topics in its place.
Everything after that works on names alone.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from logstate.contracts.errors import TopologyError
from logstate.topology.graph.nodes import Node, SourceNode, TopicRef
from logstate.topology.plan.plan import Topology


def patterns_of(topology: Topology) -> list[SourceNode]:
    """The sources that read by a pattern and are not resolved yet."""
    return [
        source
        for sub_topology in topology.sub_topologies
        for source in sub_topology.sources
        if any(topic.is_pattern for topic in source.topics)
    ]


def with_matching_topics(topology: Topology, existing: Iterable[str]) -> Topology:
    """The topology that reads what matches of the topics that exist; itself without patterns.

    Raises TopologyError if a pattern matches nothing, or a topic would be read twice.
    """
    sources = patterns_of(topology)
    if not sources:
        return topology
    known = sorted(existing)
    matching = {source.name: _matching(source, known) for source in sources}
    _check_unique(topology, matching)
    by_pattern = {source.topics[0]: matching[source.name] for source in sources}
    return replace(
        topology,
        sub_topologies=tuple(
            replace(sub, nodes=tuple(_resolved(node, matching) for node in sub.nodes))
            for sub in topology.sub_topologies
        ),
        copartition_groups=tuple(
            tuple(one for topic in group for one in by_pattern.get(topic, (topic,)))
            for group in topology.copartition_groups
        ),
    )


def _matching(source: SourceNode, existing: list[str]) -> tuple[TopicRef, ...]:
    pattern = source.topics[0].name
    found = tuple(TopicRef(name) for name in existing if re.fullmatch(pattern, name))
    if not found:
        raise TopologyError(
            f"Source {source.name!r} reads topics like {pattern!r}, and none exists. Topics:"
            f" {', '.join(map(repr, existing)) or 'none'}. Create one first, or correct the pattern"
            " (it has to match the whole name).",
            declared_at=source.declared_at,
        )
    return found


def _check_unique(topology: Topology, matching: Mapping[str, tuple[TopicRef, ...]]) -> None:
    readers: dict[str, str] = {}
    for sub_topology in (*topology.sub_topologies, *topology.global_sub_topologies):
        for source in sub_topology.sources:
            for topic in matching.get(source.name, source.topics):
                reader = readers.setdefault(topic.name, source.name)
                if reader != source.name:
                    raise TopologyError(
                        f"Topic {topic.name!r} is read twice, by {reader!r} and {source.name!r},"
                        " whose patterns both match it. Make the patterns narrower, or read the"
                        " topic once and use the stream twice.",
                        declared_at=source.declared_at,
                    )


def _resolved(node: Node, matching: Mapping[str, tuple[TopicRef, ...]]) -> Node:
    topics = matching.get(node.name)
    if topics is None or not isinstance(node, SourceNode):
        return node
    source = copy.copy(node)
    source.topics = topics
    return source
