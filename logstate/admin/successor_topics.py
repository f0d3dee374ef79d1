"""The topics that replace others when state moves, and the manifest entries of the old topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.contracts.clients import Admin, NewTopic, TopicDescription
from logstate.topics.internal_topics import required_topics
from logstate.topics.manifest_changes import MOVED_AWAY
from logstate.topics.store_moves import Moves

#: settings of a changelog that its successor keeps; the broker's defaults apply to the others
_KEPT_SETTINGS = (
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "retention.ms",
    "segment.bytes",
    "segment.ms",
)


def successors(
    moves: Moves,
    found: Mapping[str, TopicDescription],
    admin: Admin,
    replication_factor: int,
    topic_config: Mapping[str, str],
) -> list[NewTopic]:
    """Return the topics to create, with the settings of those that they replace."""
    followed = {move.target: move.source for move in moves.stores}
    kept = admin.topic_configs(sorted({*followed.values()} & found.keys()))
    wanted = []
    for topic in required_topics(moves.plan, replication_factor, {}):
        if topic.name in moves.targets:
            before = kept.get(followed.get(topic.name, ""), {})
            config = {name: before[name] for name in _KEPT_SETTINGS if before.get(name)}
            wanted.append(topic._replace(config={**topic.config, **config, **topic_config}))
    return wanted


def moved_away(moves: Moves, found: Mapping[str, TopicDescription]) -> dict[str, Any]:
    """Return the old topics as entries of dropped stores, so ``logstate reset`` deletes them."""
    return {
        topic: {
            "kind": "before it was moved",
            "changelog_topic": topic,
            "changelog_topic_id": found[topic].topic_id if topic in found else None,
            MOVED_AWAY: True,
        }
        for topic in moves.unused_topics
    }
