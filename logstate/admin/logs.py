"""Reads the logs of a cluster while no instance runs.

:class:`KafkaLogs` reads from brokers. Operations on a stopped application take a
:class:`Logs`, so that the same code runs on a cluster in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.kafka.log_reader import LogBounds, latest_values, log_bounds, read_partition


class Logs(Protocol):
    """The logs of one cluster. Offsets are next offsets."""

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        """Return the start, the last stable offset and the end of each partition."""

    def read(
        self, partition: TopicPartition, start: int, end: int, *, queue_kib: int | None = None
    ) -> Iterator[list[FetchedRecord]]:
        """Return batches of the committed records with ``start <= offset < end``, in offset order.

        A log that begins after ``start`` is read from its beginning. ``queue_kib`` limits how much
        the client fetches ahead. Waits for transactions that are open below ``end``.
        """

    def latest_values(self, partition: TopicPartition) -> dict[bytes, bytes]:
        """Return the latest committed value of each key, once all open transactions have ended."""


@dataclass(frozen=True)
class KafkaLogs:
    """The logs of the brokers that ``settings`` (of the Kafka client) name."""

    settings: Mapping[str, Any]

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return log_bounds(self.settings, partitions)

    def read(
        self, partition: TopicPartition, start: int, end: int, *, queue_kib: int | None = None
    ) -> Iterator[list[FetchedRecord]]:
        limit = {} if queue_kib is None else {"queued.max.messages.kbytes": queue_kib}
        config = {**self.settings, **limit}
        return read_partition(config, partition, start=start, end=end, may_skip=True)

    def latest_values(self, partition: TopicPartition) -> dict[bytes, bytes]:
        return latest_values(self.settings, partition, waits=True)
