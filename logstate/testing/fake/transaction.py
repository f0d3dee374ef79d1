"""One transaction: who opened it, what it touches, how it ended."""

from __future__ import annotations

from typing import Protocol

from logstate.contracts.records import TopicPartition


class Decided(Protocol):
    """Offsets of a group that become visible, or not, when a transaction ends."""

    def decide(self, transaction: Transaction) -> None:
        """The transaction's marker arrived."""


class Transaction:
    """Compared by identity. ``is_committed`` None: not decided yet."""

    __slots__ = ("groups", "is_committed", "owner", "partitions", "started_ms")

    def __init__(self, owner: str, started_ms: int) -> None:
        #: the transactional id
        self.owner = owner
        self.started_ms = started_ms
        self.partitions: dict[TopicPartition, None] = {}
        self.groups: dict[Decided, None] = {}
        self.is_committed: bool | None = None
