"""The prefix of an environment, in front of the name of every topic that users declare.

A topology with a prefix is another topology: its sources, sinks and patterns have the names that
brokers have. Internal topics keep their names, which begin with the application id.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from logstate.contracts.errors import TopologyError
from logstate.contracts.record_parts import is_topic, shown
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.description import (
    Description,
    NodeDescription,
    SubTopologyDescription,
)
from logstate.topology.graph.java_order import hash_order
from logstate.topology.graph.nodes import Node, SinkNode, SourceNode, TopicRef
from logstate.topology.graph.sub_topology import SubTopology

#: flags of a whole pattern, which Python accepts at its beginning only
_GLOBAL_FLAGS = re.compile(r"\(\?([aLimsux]+)\)")


def prefixed_pattern(prefix: str, pattern: str) -> str:
    r"""The pattern of topics with a prefix; flags apply to the part that they were written for.

    >>> prefixed_pattern("eu.", "orders-.*|payments"), prefixed_pattern("eu.", "(?i)orders")
    ('eu\\.(?:orders-.*|payments)', 'eu\\.(?i:orders)')
    """
    found = _GLOBAL_FLAGS.match(pattern)
    flags = "" if found is None else found[1]
    rest = pattern if found is None else pattern[found.end() :]
    end = "\n" if "x" in flags else ""  # ends a comment
    return f"{re.escape(prefix)}(?{flags}:{rest}{end})"


def prefixed_ref(ref: TopicRef, prefix: str, declared_at: str | None = None) -> TopicRef:
    """The topic with the prefix; internal ones have none. Raises TopologyError if it is invalid."""
    if ref.is_internal:
        return ref
    if ref.is_pattern:
        return ref._replace(name=prefixed_pattern(prefix, ref.name))
    name = prefix + ref.name
    if not is_topic(name):
        raise TopologyError(
            f"With the prefix {shown(prefix)} topic {ref.name!r} has no valid name: Kafka's have 1"
            f" to 249 letters, digits, '.', '_' and '-', and {shown(name)} has {len(name)}"
            " characters. Correct or shorten the prefix, or the name of the topic.",
            declared_at=declared_at,
        )
    return ref._replace(name=name)


def _node(node: Node, prefix: str) -> Node:
    if isinstance(node, SourceNode):
        source = copy.copy(node)
        source.topics = tuple(prefixed_ref(ref, prefix, node.declared_at) for ref in node.topics)
        return source
    if isinstance(node, SinkNode):
        sink = copy.copy(node)
        if isinstance(node.topic, TopicRef):
            sink.topic = prefixed_ref(node.topic, prefix, node.declared_at)
        else:
            sink.topic_prefix = prefix + node.topic_prefix
        return sink
    return node


def _spec(spec: StoreSpec, prefix: str) -> StoreSpec:
    if spec.source_topic is None:
        return spec
    return replace(spec, source_topic=prefix + spec.source_topic)


def prefixed_specs(specs: Mapping[str, StoreSpec], prefix: str) -> Mapping[str, StoreSpec]:
    """The stores by their names: those that are kept in a topic of the user are in that with it."""
    return MappingProxyType({name: _spec(spec, prefix) for name, spec in specs.items()})


def prefixed_sub_topology(sub: SubTopology, prefix: str) -> SubTopology:
    """The sub-topology with the prefix before the topics that it reads and writes."""
    return replace(
        sub,
        nodes=tuple(_node(node, prefix) for node in sub.nodes),
        stores=tuple(_spec(spec, prefix) for spec in sub.stores),
    )


def prefixed_description(
    found: Description, subs: Iterable[SubTopology], prefix: str
) -> Description:
    """The description of a topology whose sub-topologies are now these."""
    parts = {sub.id: sub for sub in subs}
    return Description(
        tuple(
            SubTopologyDescription(
                part.id, tuple(_described(node, parts[part.id], prefix) for node in part.nodes)
            )
            for part in found.sub_topologies
        ),
        tuple(
            replace(
                part,
                source=_described(part.source, parts[part.id], prefix),
                processor=_described(part.processor, parts[part.id], prefix),
            )
            for part in found.global_stores
        ),
    )


def _described(found: NodeDescription, sub: SubTopology, prefix: str) -> NodeDescription:
    """The description of a node with the topics and the label that it has in ``sub``."""
    node = next(one for one in sub.nodes if one.name == found.name)
    found = replace(found, label=sub.operator_labels.get(found.name))
    if found.pattern is not None:
        return replace(found, pattern=prefixed_pattern(prefix, found.pattern))
    if isinstance(node, SourceNode):
        names = [ref.name for ref in node.topics]
        return replace(found, topics=tuple(hash_order(names, copied=True)))
    if isinstance(node, SinkNode) and isinstance(node.topic, TopicRef):
        return replace(found, topic=node.topic.name)
    return found
