"""Which tasks follow from which partitions. Pure.

Rule: a task runs only while this member owns ALL its input partitions. An assignor may hand the
partitions of one task over at different moments; until the last has come the task does not exist,
and losing one of them stops the whole task.

A partition that no task reads is not part of the plan: topics have changed since it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstate.contracts.records import TaskId, TopicPartition


class Assignment:
    """The partitions this member owns, and the epoch: a number that grows with every change."""

    def __init__(self, inputs: Mapping[TaskId, tuple[TopicPartition, ...]]) -> None:
        self._inputs = inputs
        self._task_of = {tp: task for task, partitions in inputs.items() for tp in partitions}
        self.owned: set[TopicPartition] = set()
        self.epoch = 0

    def gain(self, partitions: Iterable[TopicPartition]) -> list[TaskId]:
        """Own more; returns the tasks that are complete by it, in order."""
        gained = set(partitions)
        self.owned |= gained
        self.epoch += 1
        touched = {self._task_of[tp] for tp in gained if tp in self._task_of}
        return sorted(task for task in touched if self.is_complete(task))

    def lose(self, partitions: Iterable[TopicPartition]) -> list[TaskId]:
        """Own less; returns the tasks that must stop, in order."""
        lost = set(partitions) & self.owned
        stopped = sorted({self._task_of[tp] for tp in lost if tp in self._task_of})
        self.owned -= lost
        self.epoch += 1
        return stopped

    def strange(self) -> list[TopicPartition]:
        """Owned partitions that no task reads, in order."""
        return sorted(self.owned - self._task_of.keys())

    def is_complete(self, task_id: TaskId) -> bool:
        """True while every input partition of the task is owned."""
        return all(tp in self.owned for tp in self._inputs[task_id])

    def inputs(self, task_id: TaskId) -> tuple[TopicPartition, ...]:
        """The partitions of a task."""
        return self._inputs[task_id]
