"""Determine whether the application places a row's partition itself, by the hash of its key.

It does if a task reads only repartition topics, whose producer is the application with the default
partitioner, and if its own operators write the store: their rows have the keys of the records that
they process. A user's processor may write any key, and a store whose keys are serialized otherwise
than those of its input has its rows where the input's bytes are hashed to.

A windowed key is hashed whole in repartition topics, and without its (outer) window when windowed
keys are written to other topics, as Kafka Streams' own sinks do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.partitioner import StorePlace
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import changelog_topic
from logstate.topics.row_places import windows_of, windows_of_rows
from logstate.topology.graph.nodes import Node, SourceNode, TopicRef
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.key_bytes import key_bytes_agree
from logstate.topology.plan.plan import Topology

#: in a manifest, of a store whose keys are placed by their hash
BY_HASH = "murmur2"


def placed_by(topology: Topology, sub_topology: SubTopology, spec: StoreSpec) -> str | None:
    """Return ``murmur2``, or None if the placement is unknown."""
    inputs = sub_topology.source_topics
    if not inputs or not all(_is_placed_by_hash(topology, topic) for topic in inputs):
        return None
    if any(spec.name in _stores_of_user(node) for node in sub_topology.nodes):
        return None
    sources = [source.key.describe() for source in sub_topology.sources]
    if any(key_bytes_agree(key, spec.key.describe()) is False for key in sources):
        return None
    return BY_HASH


def places_of(topology: Topology, application_id: str) -> dict[str, StorePlace]:
    """Return the places of all queryable stores."""

    def place(sub: SubTopology, spec: StoreSpec) -> StorePlace:
        topic = spec.source_topic or changelog_topic(application_id, spec.name)
        is_placed = sub.is_global or placed_by(topology, sub, spec) is not None
        encode_key = spec.key.serializer(topic, True)
        matches = any(topic.is_pattern for topic in sub.source_topics)
        return StorePlace(spec, sub.id, sub.is_global, encode_key, is_placed, matches)

    subs = (*topology.sub_topologies, *topology.global_sub_topologies)
    return {spec.name: place(sub, spec) for sub in subs for spec in sub.stores}


def is_placed_whole(topology: Topology, topic: TopicRef) -> bool:
    """Return whether a topic places windowed keys by the hash of the whole key."""
    sinks = [one for sub in topology.sub_topologies for one in sub.sinks_into.get(topic, ())]
    return any(one.places_whole_keys and one.partitioner is None for one in sinks)


def hashed_windows(
    topology: Topology,
    sub_topology: SubTopology,
    spec: StoreSpec,
    without: Collection[TopicRef] = (),
) -> int | None:
    """Return how many windows in the keys of a store's rows are hashed; None if inputs differ.

    ``without``: repartition topics that an earlier version has written.
    """
    windows = len(windows_of_rows(kind_of(spec), spec.key.describe()))
    fed_by = frozenset[TopicRef]().union(*sub_topology.fed_by(spec.name))
    feeding = [source for source in sub_topology.sources if fed_by.intersection(source.topics)]
    return _hashed_by_all(topology, windows, (feeding, sub_topology.sources), without)


def hashed_windows_of_left(
    topology: Topology, sub_topology: SubTopology, key: Mapping[str, Any]
) -> int | None:
    """Return the same for keys of a foreign-key join's left rows, in their sub-topology."""
    return _hashed_by_all(topology, len(windows_of(key)), (sub_topology.sources,), ())


def _hashed_by_all(
    topology: Topology,
    windows: int,
    candidates: Iterable[Sequence[SourceNode]],
    without: Collection[TopicRef],
) -> int | None:
    """Use the first candidate sources whose topics have a known placement."""
    if not windows:
        return 0
    for sources in candidates:
        found = {*_hashed_by(topology, sources, without)}
        if found:
            return min(windows, found.pop()) if len(found) == 1 else None
    return None


def _hashed_by(
    topology: Topology, sources: Sequence[SourceNode], without: Collection[TopicRef]
) -> Iterator[int]:
    for source in sources:
        windows = len(windows_of(source.key.describe()))
        for topic in source.topics:
            if is_placed_whole(topology, topic) and topic not in without:
                yield windows
            elif not topic.is_internal or topic in without:
                yield max(0, windows - 1)


def _is_placed_by_hash(topology: Topology, topic: TopicRef) -> bool:
    if not topic.is_internal:
        return False
    sinks = [one for sub in topology.sub_topologies for one in sub.sinks_into.get(topic, ())]
    return bool(sinks) and all(one.partitioner is None for one in sinks)


def _stores_of_user(node: Node) -> tuple[str, ...]:
    """Return the stores that the user's code in a node can access."""
    connections = getattr(node, "connections", None)
    return () if connections is None else tuple(connections.names)
