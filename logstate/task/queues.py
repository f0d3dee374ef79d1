"""The records a task has fetched but not processed, and the choice of the next one.

A task takes the record with the smallest timestamp among the heads of its partitions, so that a
table's older rows are there before a stream's newer records look them up (KIP-695). Where one of
its partitions is empty and not known to be at its end, the task waits: the next fetch may bring an
older record. With one partition there is nothing to choose and records pass through.

The timestamps compared are the extracted event times, so a head is decoded when it becomes one; the
choice is made in `logstate.task.queue_order`.

Invariants: per partition, records leave in offset order; offsets below ``position`` are dropped on
arrival (a fetch from before a seek).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from logstate.contracts.records import FetchedRecord, TopicPartition


class PartitionQueue:
    """Fetched records of one partition."""

    __slots__ = ("head", "is_at_end", "partition", "position", "records")

    def __init__(self, partition: TopicPartition, position: int) -> None:
        self.partition = partition
        self.records: deque[FetchedRecord] = deque()
        #: decoded first record, or None when the head was not looked at yet
        self.head: tuple[int, object, object, FetchedRecord] | None = None
        #: next offset expected from the fetcher
        self.position = position
        #: the consumer reported the end of the partition and nothing arrived since
        self.is_at_end = False

    def extend(self, records: Sequence[FetchedRecord]) -> None:
        """Take fetched records in offset order, dropping what lies before the expected position."""
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
        """Empty, and the next fetch may bring an older record than any that is here."""
        return not (self.is_at_end or self.records or self.head is not None)

    def make_head(self, timestamp: int, key: object, value: object, record: FetchedRecord) -> None:
        """Keep a decoded record as the head."""
        self.head = (timestamp, key, value, record)

    def copy(self) -> PartitionQueue:
        """The same queue, changing on its own."""
        queue = PartitionQueue(self.partition, self.position)
        queue.records = self.records.copy()
        queue.head, queue.is_at_end = self.head, self.is_at_end
        return queue

    def __len__(self) -> int:
        return len(self.records) + (self.head is not None)
