"""The barrier of a snapshot in one task: the position of its cut, and records behind it.

Records behind the barrier are buffered until the cut is made. So the task cuts when it has
processed all records before its barrier, which depends only on the task and not on a clock.

Invariant: from the barrier's arrival to the cut, no record at or beyond a target is processed; a
task that is already beyond its targets never cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.task.task import Task


@dataclass
class Barrier:
    """A barrier. ``targets`` are the first offsets that do not belong to the cut."""

    snapshot: str
    targets: Mapping[TopicPartition, int]
    #: monotonic time of the cut; None: not made yet
    cut_ms: float | None = None
    _behind: dict[TopicPartition, list[FetchedRecord]] = field(default_factory=dict)
    _ends: dict[TopicPartition, int] = field(default_factory=dict)

    def is_reached(self, task: Task) -> bool:
        """Return True if exactly the records before the barrier were processed."""
        return all(
            not task.buffered(partition) and task.position(partition) == target
            for partition, target in self.targets.items()
        )

    def add_records(
        self, task: Task, partition: TopicPartition, records: Sequence[FetchedRecord]
    ) -> None:
        """Pass the records before the barrier to the task, and buffer the rest."""
        target = self.targets.get(partition)
        if target is None or (records[-1].offset() or 0) < target:
            task.add_records(partition, records)
            return
        ahead = [record for record in records if (record.offset() or 0) < target]
        task.add_records(partition, ahead)
        self._behind.setdefault(partition, []).extend(records[len(ahead) :])
        task.at_end(partition, target)

    def at_end(self, task: Task, partition: TopicPartition, position: int) -> None:
        """Handle that the consumer is at the end of the log."""
        target = self.targets.get(partition)
        if target is None or position <= target:
            task.at_end(partition, position)
            return
        self._ends[partition] = position
        task.at_end(partition, target)

    def kept(self, partition: TopicPartition) -> int:
        """Return the number of buffered records behind the barrier."""
        return len(self._behind.get(partition, ()))

    def release(self, task: Task) -> None:
        """Pass the buffered records to the task."""
        behind, self._behind = self._behind, {}
        ends, self._ends = self._ends, {}
        for partition, records in behind.items():
            task.add_records(partition, records)
        for partition, position in ends.items():
            task.at_end(partition, position)
        self.targets = {}


def barrier_at(snapshot: str, targets: Mapping[TopicPartition, int], task: Task) -> Barrier:
    """Return the barrier of a task; it has no effect if the task is already beyond its targets."""
    if any(task.position(partition) > target for partition, target in targets.items()):
        return Barrier(snapshot, {}, cut_ms=float("-inf"))
    return Barrier(snapshot, targets)
