"""The records that a task has fetched but not processed, and the choice of the next one.

A task takes the record with the smallest timestamp among the heads of its partitions, so that a
table's older rows are available before a stream's newer records look them up (KIP-695). If one of
its partitions is empty and not known to be at its end, the task waits: the next fetch may return an
older record. With one partition there is nothing to choose and records pass through. The compared
timestamps are the extracted event times, so a record is decoded when it becomes the head.

The order of equal timestamps matters. One record may write to several internal topics, and if their
records have equal timestamps, results depend on the order of reading: an out-of-order correction or
an intermediate row occurs or not. Kafka Streams keeps its partitions in a binary heap
(``java.util.PriorityQueue``), which is not stable: with three equal heads the LAST one follows the
first. This module uses the same `heap`, so that a topology gives the same results record by record
in the test driver. If records arrive together in large fetches, this order is as arbitrary as in
Kafka Streams.

Invariants: per partition, records leave in offset order; offsets below ``position`` are dropped on
arrival (a fetch from before a seek). A partition is in the heap, or waits to enter it, exactly if
its queue has records, except for the one that is being processed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from logstate.contracts.records import FetchedRecord, TopicPartition

T = TypeVar("T")


def offer(heap: list[T], member: T, time_of: Callable[[T], int]) -> None:
    """Add a member."""
    time = time_of(member)
    heap.append(member)
    at = len(heap) - 1
    while at > 0:
        above = (at - 1) >> 1
        if time >= time_of(heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = member


def poll(heap: list[T], time_of: Callable[[T], int]) -> T:
    """Remove and return the first member of a non-empty heap."""
    first, last = heap[0], heap.pop()
    if heap:
        _sift_down(heap, last, time_of)
    return first


def _sift_down(heap: list[T], member: T, time_of: Callable[[T], int]) -> None:
    time = time_of(member)
    size, at = len(heap), 0
    while at < size >> 1:
        below = 2 * at + 1
        right = below + 1
        if right < size and time_of(heap[below]) > time_of(heap[right]):
            below = right
        if time <= time_of(heap[below]):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = member


class PartitionQueue:
    """Fetched records of one partition."""

    __slots__ = ("head", "is_at_end", "partition", "position", "records")

    def __init__(self, partition: TopicPartition, position: int) -> None:
        self.partition = partition
        self.records: deque[FetchedRecord] = deque()
        #: decoded first record, or None if the head was not decoded yet
        self.head: tuple[int, object, object, FetchedRecord] | None = None
        #: next offset expected from the fetcher
        self.position = position
        #: the consumer reported the end of the partition and nothing arrived since
        self.is_at_end = False

    def extend(self, records: Sequence[FetchedRecord]) -> None:
        """Add fetched records in offset order, dropping those before the expected position."""
        if not records:
            return
        first, last = records[0].offset(), records[-1].offset()
        assert first is not None
        assert last is not None
        if first >= self.position:
            self.records.extend(records)
            self.position = last + 1
            self.is_at_end = False
            return
        for record in records:
            offset = record.offset()
            assert offset is not None
            if offset >= self.position:
                self.records.append(record)
                self.position = offset + 1
                self.is_at_end = False

    def is_awaited(self) -> bool:
        """Return True if it is empty and the next fetch may return an older record than any
        other.
        """
        return not (self.is_at_end or self.records or self.head is not None)

    def make_head(self, timestamp: int, key: object, value: object, record: FetchedRecord) -> None:
        """Keep a decoded record as the head."""
        self.head = (timestamp, key, value, record)

    def copy(self) -> PartitionQueue:
        """Return an independent copy of the queue."""
        queue = PartitionQueue(self.partition, self.position)
        queue.records = self.records.copy()
        queue.head, queue.is_at_end = self.head, self.is_at_end
        return queue

    def __len__(self) -> int:
        return len(self.records) + (self.head is not None)


class QueueOrder:
    """The partitions with records. ``time_of(partition)`` is the time of its decoded head.

    A partition enters when it gets its first record, in order of arrival. It leaves when it is
    chosen, and enters again at once if it has more.
    """

    __slots__ = ("_heap", "_time_of", "_waiting")

    def __init__(self, time_of: Callable[[TopicPartition], int]) -> None:
        self._time_of = time_of
        self._heap: list[TopicPartition] = []
        self._waiting: list[TopicPartition] = []

    def arrived(self, partition: TopicPartition) -> None:
        """Handle that the partition has records; has no effect if that was known."""
        if partition not in self._waiting and partition not in self._heap:
            self._waiting.append(partition)

    def admit(self, has_head: Callable[[TopicPartition], bool]) -> None:
        """Add waiting partitions, oldest first. ``has_head`` decodes the head, and may raise."""
        while self._waiting:
            partition = self._waiting[0]
            if has_head(partition):
                offer(self._heap, partition, self._time_of)
            del self._waiting[0]

    def take(self) -> TopicPartition | None:
        """Remove and return the partition to read from, or None if none has records."""
        return poll(self._heap, self._time_of) if self._heap else None

    def next_time(self) -> float:
        """Return the time of the oldest head; infinity if there is none."""
        return self._time_of(self._heap[0]) if self._heap else float("inf")

    def forget(self, partition: TopicPartition) -> None:
        """Remove the partition, because its records are gone."""
        members = [member for member in self._heap if member != partition]
        self._waiting = [member for member in self._waiting if member != partition]
        self._heap = []
        for member in members:
            offer(self._heap, member, self._time_of)

    def snapshot(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Return the state, for :meth:`restore`."""
        return self._heap.copy(), self._waiting.copy()

    def restore(self, snapshot: tuple[list[TopicPartition], list[TopicPartition]]) -> None:
        """Continue from a snapshot; the queues must be those that it was taken with."""
        heap, waiting = snapshot
        self._heap, self._waiting = heap.copy(), waiting.copy()
