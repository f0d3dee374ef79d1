"""Whether the application itself decides which partition a row is in, by the hash of its key. Pure.

It does where a task reads repartition topics only, whose producer is the application and whose
partitioner is the default one, and where its own operators keep the store: their rows have the keys
of the records that they process. A processor of the user's may put any key, and a store whose keys
are written otherwise than those of its input has rows where the input's bytes are hashed to.
"""

from __future__ import annotations

from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Node, TopicRef
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.key_bytes import key_bytes_agree
from logstate.topology.plan.plan import Topology

#: in a manifest, of a store whose keys are in the partition that the hash says
BY_HASH = "murmur2"


def placed_by(topology: Topology, sub_topology: SubTopology, spec: StoreSpec) -> str | None:
    """``murmur2``, or None where nobody knows."""
    inputs = sub_topology.source_topics
    if not inputs or not all(_is_placed_by_hash(topology, topic) for topic in inputs):
        return None
    if any(spec.name in _stores_of_user(node) for node in sub_topology.nodes):
        return None
    sources = [source.key.describe() for source in sub_topology.sources]
    if any(key_bytes_agree(key, spec.key.describe()) is False for key in sources):
        return None
    return BY_HASH


def _is_placed_by_hash(topology: Topology, topic: TopicRef) -> bool:
    if not topic.is_internal:
        return False
    sinks = [one for sub in topology.sub_topologies for one in sub.sinks_into.get(topic, ())]
    return bool(sinks) and all(one.partitioner is None for one in sinks)


def _stores_of_user(node: Node) -> tuple[str, ...]:
    """Stores that the user's code in a node is given."""
    connections = getattr(node, "connections", None)
    return () if connections is None else tuple(connections.names)
