"""The partition counts of output topics: known from the start, or looked up once.

A sink whose topic is chosen by a function writes to topics that no plan contains. The first record
for one asks the cluster, which takes milliseconds; then the count is known, and refreshed with the
metadata of all topics (:mod:`logstate.worker.planned_topics`).
"""

from __future__ import annotations

from collections.abc import Mapping

from logstate.contracts.clients import Admin
from logstate.contracts.errors import TopicError


class SinkPartitionCounts(dict[str, int]):
    """Topic -> partitions; ``counts[topic]`` looks up unknown topics."""

    def __init__(self, known: Mapping[str, int], admin: Admin) -> None:
        super().__init__(known)
        self._admin = admin

    def __missing__(self, topic: str) -> int:
        found = self._admin.describe_topics([topic]).get(topic)
        if found is None:
            raise TopicError(
                f"topic {topic!r}, which the function passed to to() returned, does not exist."
                " Output topics are never created here. Create it, or correct what the function"
                " returns"
            )
        self[topic] = found.partitions
        return found.partitions
