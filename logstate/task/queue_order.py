"""Which of a task's partitions is read next: the one whose head has the smallest timestamp.

Ties are the point of this module. One record may write to several internal topics, and where their
records have equal timestamps, the order of reading shows in results: an out-of-order correction or
an intermediate row is there or not. Kafka Streams keeps its partitions in a binary heap
(``java.util.PriorityQueue``), which is not stable: with three equal heads the LAST one follows the
first. The same heap is kept here, step by step, so that a topology gives record for record the same
results in the test driver.

A partition enters when it gets its first record (`arrived`), in the order of these arrivals; it
leaves when it is chosen and enters again, at once, if it has more. Where records arrive together in
large fetches, ties are as arbitrary as in Kafka Streams.

Invariant: a partition is in the heap, or waits to enter it, exactly if its queue has records, but
for the one that is being processed.
"""

from __future__ import annotations

from collections.abc import Callable

from logstate.contracts.records import TopicPartition


class QueueOrder:
    """The partitions with records. ``time_of(partition)`` is the time of its decoded head."""

    __slots__ = ("_heap", "_time_of", "_waiting")

    def __init__(self, time_of: Callable[[TopicPartition], int]) -> None:
        self._time_of = time_of
        self._heap: list[TopicPartition] = []
        self._waiting: list[TopicPartition] = []

    def arrived(self, partition: TopicPartition) -> None:
        """The partition has records; nothing changes where that was known."""
        if partition not in self._waiting and partition not in self._heap:
            self._waiting.append(partition)

    def admit(self, has_head: Callable[[TopicPartition], bool]) -> None:
        """Let those that wait enter, oldest first. ``has_head`` decodes the head, and may raise."""
        while self._waiting:
            partition = self._waiting[0]
            if has_head(partition):
                self._offer(partition)
            del self._waiting[0]

    def take(self) -> TopicPartition | None:
        """Take out the partition to read from, or None where none has records."""
        heap = self._heap
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return first

    def next_time(self) -> float:
        """The time of the oldest head; infinity where there is none."""
        return self._time_of(self._heap[0]) if self._heap else float("inf")

    def forget(self, partition: TopicPartition) -> None:
        """The partition's records are gone."""
        members = [member for member in self._heap if member != partition]
        self._waiting = [member for member in self._waiting if member != partition]
        self._heap = []
        for member in members:
            self._offer(member)

    def snapshot(self) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """The state, for :meth:`restore`."""
        return self._heap.copy(), self._waiting.copy()

    def restore(self, snapshot: tuple[list[TopicPartition], list[TopicPartition]]) -> None:
        """Go on from a snapshot; the queues must be those it was taken with."""
        heap, waiting = snapshot
        self._heap, self._waiting = heap.copy(), waiting.copy()

    def _offer(self, partition: TopicPartition) -> None:
        heap, time = self._heap, self._time_of(partition)
        heap.append(partition)
        at = len(heap) - 1
        while at > 0:
            above = (at - 1) >> 1
            if time >= self._time_of(heap[above]):
                break
            heap[at] = heap[above]
            at = above
        heap[at] = partition

    def _sift_down(self, partition: TopicPartition) -> None:
        heap, time_of, time = self._heap, self._time_of, self._time_of(partition)
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
        heap[at] = partition
