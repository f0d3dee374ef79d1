"""How many partitions written topics have: known from the start, or asked for once.

A sink whose topic a function chooses writes to topics that no plan knows. The first record for one
asks the cluster, which takes milliseconds; from then on the count is known, and renewed whenever
the topics are looked at (:mod:`logstate.worker.planned_topics`).
"""

from __future__ import annotations

from collections.abc import Mapping

from logstate.contracts.clients import Admin
from logstate.contracts.errors import TopicError


class SinkPartitionCounts(dict[str, int]):
    """Topic -> partitions; ``counts[topic]`` asks for what is not known."""

    def __init__(self, known: Mapping[str, int], admin: Admin) -> None:
        super().__init__(known)
        self._admin = admin

    def __missing__(self, topic: str) -> int:
        found = self._admin.describe_topics([topic]).get(topic)
        if found is None:
            raise TopicError(
                f"topic {topic!r}, which the function chose that was given to to(), does not exist."
                " Topics of others are never created here. Create it, or correct what the function"
                " returns"
            )
        self[topic] = found.partitions
        return found.partitions
