"""The mark of a snapshot at one task: where its cut is to be, and what has come from behind it.

A record from behind the mark waits here until the cut is made. So the task cuts when it has
processed all that is ahead of its marks, which is a property of the task and of no clock.

Invariant: from the mark's arrival to the cut, no record at or beyond a target is processed; a task
that was further already never cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.task.task import Task


@dataclass
class Barrier:
    """See the module. ``targets`` are the first offsets that do not belong to the cut."""

    snapshot: str
    targets: Mapping[TopicPartition, int]
    #: monotonic: when the cut was made; None: it was not
    cut_ms: float | None = None
    _behind: dict[TopicPartition, list[FetchedRecord]] = field(default_factory=dict)
    _ends: dict[TopicPartition, int] = field(default_factory=dict)

    def is_reached(self, task: Task) -> bool:
        """Whether all that is ahead of it was processed, and nothing else."""
        return all(
            not task.buffered(partition) and task.position(partition) == target
            for partition, target in self.targets.items()
        )

    def add_records(
        self, task: Task, partition: TopicPartition, records: Sequence[FetchedRecord]
    ) -> None:
        """Give a task what is ahead of the mark, and keep the rest."""
        target = self.targets.get(partition)
        if target is None or (records[-1].offset() or 0) < target:
            task.add_records(partition, records)
            return
        ahead = [record for record in records if (record.offset() or 0) < target]
        task.add_records(partition, ahead)
        self._behind.setdefault(partition, []).extend(records[len(ahead) :])
        task.at_end(partition, target)

    def at_end(self, task: Task, partition: TopicPartition, position: int) -> None:
        """The consumer stands at the end of the log."""
        target = self.targets.get(partition)
        if target is None or position <= target:
            task.at_end(partition, position)
            return
        self._ends[partition] = position
        task.at_end(partition, target)

    def kept(self, partition: TopicPartition) -> int:
        """Records from behind the mark."""
        return len(self._behind.get(partition, ()))

    def let_go(self, task: Task) -> None:
        """Give the task what has come from behind the mark."""
        behind, self._behind = self._behind, {}
        ends, self._ends = self._ends, {}
        for partition, records in behind.items():
            task.add_records(partition, records)
        for partition, position in ends.items():
            task.at_end(partition, position)
        self.targets = {}


def mark_at(snapshot: str, targets: Mapping[TopicPartition, int], task: Task) -> Barrier:
    """The mark of a task, which does nothing where the task is further already."""
    if any(task.position(partition) > target for partition, target in targets.items()):
        return Barrier(snapshot, {}, cut_ms=float("-inf"))
    return Barrier(snapshot, targets)
