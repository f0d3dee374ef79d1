"""Check that a test reads a topic that the topology writes to.

A test that asserts that a topic is empty would always pass with a misspelled name.
"""

from __future__ import annotations

from logstate.contracts.record_parts import shown
from logstate.contracts.topic_names import changelog_topic
from logstate.testing.driver_sources import meant
from logstate.topics.internal_topics import outputs_of, own_topics
from logstate.topology.graph.nodes import SinkNode, TopicRef
from logstate.topology.plan.plan import Topology


def check_output(
    topology: Topology, application_id: str, dead_letter_topic: str | None, topic: str
) -> None:
    """Raise ValueError for a topic that nothing writes to, and for one that is not an output."""
    known = outputs_of(topology, application_id, dead_letter_topic)
    if topic in known:
        return
    if topic in own_topics(topology, application_id):
        logs = {changelog_topic(application_id, store) for store in topology.stores}
        place = f"changelog({topic!r})" if topic in logs else f"internal[{topic!r}]"
        raise ValueError(
            f"topic {topic!r} is an internal topic of the application, not an output: its"
            f" records are in driver.{place}, as bytes"
        )
    if not _chooses_topics(topology):
        raise ValueError(
            f"nothing writes to topic {shown(topic)}{meant(topic, known)}; the topology writes to"
            f" {sorted(known)}"
        )


def _chooses_topics(topology: Topology) -> bool:
    """Return whether a function chooses topics, record by record."""
    return any(
        isinstance(node, SinkNode) and not isinstance(node.topic, TopicRef)
        for sub_topology in topology.sub_topologies
        for node in sub_topology.nodes
    )
