"""What a test driver's inputs are encoded with: the serdes of the source that reads the topic."""

from __future__ import annotations

from typing import Any

from logstate.contracts.serde import Serde
from logstate.contracts.topic_names import topic_name
from logstate.topology.plan.plan import Topology


def source_serdes(
    topology: Topology, application_id: str, topic: str
) -> tuple[Serde[Any], Serde[Any]]:
    """Of keys and of values; raises ValueError for a topic that no source reads."""
    known: set[str] = set()
    for sub_topology in (*topology.sub_topologies, *topology.global_sub_topologies):
        for source in sub_topology.sources:
            topics = {
                topic_name(application_id, ref.name, is_internal=ref.is_internal)
                for ref in source.topics
            }
            if topic in topics:
                return source.key, source.value
            known |= topics
    raise ValueError(f"no source reads topic {topic!r}; the topology reads {sorted(known)}")
