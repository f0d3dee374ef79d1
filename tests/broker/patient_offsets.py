"""Committed offsets, asked for until the broker tells: a group's coordinator may be on its way."""

from __future__ import annotations

from collections.abc import Sequence

from logstate.contracts.clients import Admin, Committed
from logstate.contracts.errors import RetriableError
from logstate.contracts.records import TopicPartition
from tests.patience import until


def committed_offsets(
    admin: Admin, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Committed]:
    """As ``admin.committed_so_far`` tells them, once it does."""

    def told() -> list[dict[TopicPartition, Committed]]:
        try:
            return [dict(admin.committed_so_far(group, partitions))]
        except RetriableError:
            return []

    (found,) = until(told, f"nobody tells the offsets of {group}")
    return found
