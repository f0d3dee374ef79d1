"""The reasons for which operators and stores drop records, and their counters.

An operator creates a :class:`Drop` per reason when it is compiled, a store when it is opened;
records that are not dropped cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class DropReason(StrEnum):
    """The label ``reason`` of ``dropped_records_total``."""

    LATE = "late"
    EXPIRED = "expired"
    NULL_KEY = "null_key"
    NULL_VALUE = "null_value"
    NULL_MAPPED_KEY = "null_mapped_key"
    NULL_FOREIGN_KEY = "null_foreign_key"
    #: before a repartition topic; Kafka Streams does not count those
    NULL_GROUP_KEY = "null_group_key"
    NEGATIVE_TIMESTAMP = "negative_timestamp"
    NO_PARTITION = "partitioner"
    #: an update of a versioned table that is older than the row (KIP-914)
    OUT_OF_ORDER = "out_of_order"
    STALE_RESPONSE = "stale_response"
    #: a record of the same key, and of the same id if there is one, passed within the interval
    DUPLICATE = "duplicate"
    #: the window of its key has forwarded as many records as it may
    THROTTLED = "throttled"

    @property
    def is_late(self) -> bool:
        """Whether the record came too late; its drop records by how much."""
        return self in (DropReason.LATE, DropReason.EXPIRED)

    @property
    def is_expected(self) -> bool:
        """Whether it is normal in a healthy run, and needs no warning."""
        return self in _EXPECTED


_EXPECTED = frozenset(
    {
        DropReason.NULL_GROUP_KEY,
        DropReason.NO_PARTITION,
        DropReason.OUT_OF_ORDER,
        DropReason.STALE_RESPONSE,
        DropReason.DUPLICATE,
        DropReason.THROTTLED,
    }
)


class Drop(Protocol):
    """Counts the current record as dropped, by one node for one reason."""

    def __call__(self, late_ms: int = 0) -> None:
        """``late_ms``: by how much a grace period or a retention was too short for it."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The records that one node has dropped for one reason."""

    node: str
    reason: DropReason
    count: int
    #: the largest ``late_ms``; 0 if no record was late
    late_max_ms: int


def null_dropper(dropper: Callable[[str, DropReason], Drop], node: str) -> Callable[[object], None]:
    """Return ``drop(key)`` for a record without key or, if it has one, without value."""
    null_key, null_value = dropper(node, DropReason.NULL_KEY), dropper(node, DropReason.NULL_VALUE)

    def drop(key: object) -> None:
        (null_key if key is None else null_value)()

    return drop
