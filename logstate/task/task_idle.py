"""Wait for records of inputs that are read to their ends (Kafka Streams' ``max.task.idle.ms``)."""

from __future__ import annotations

from collections.abc import Iterable

from logstate.contracts.records import TopicPartition
from logstate.task.queues import PartitionQueue


class TaskIdle:
    """How long records of other partitions wait for a partition that is at its end.

    The time of a partition begins when a record of another one could be processed first, and ends
    when a record of it arrives (KIP-353). So the records of inputs that are written at about the
    same time are processed in the order of their timestamps.

    >>> left, right = TopicPartition("left", 0), TopicPartition("right", 0)
    >>> queues = {left: PartitionQueue(left, 0), right: PartitionQueue(right, 0)}
    >>> queues[right].is_at_end = True
    >>> idle = TaskIdle(500)
    >>> idle.waits(queues.values(), now_ms=0), idle.waits(queues.values(), now_ms=500)
    (True, False)
    """

    def __init__(self, max_idle_ms: float) -> None:
        self._max_idle_ms = max_idle_ms
        self._ends_ms: dict[TopicPartition, float] = {}

    def waits(self, queues: Iterable[PartitionQueue], now_ms: float) -> bool:
        """Return whether a partition without records still has time."""
        return bool([one for one in queues if self._has_time(one, now_ms)])

    def awaited(self, now_ms: float) -> list[TopicPartition]:
        """Return the partitions that have time, as of the last check; from any thread."""
        return [partition for partition, end_ms in [*self._ends_ms.items()] if now_ms < end_ms]

    def _has_time(self, queue: PartitionQueue, now_ms: float) -> bool:
        if len(queue) or not queue.is_at_end:
            self._ends_ms.pop(queue.partition, None)
            return False
        return now_ms < self._ends_ms.setdefault(queue.partition, now_ms + self._max_idle_ms)
