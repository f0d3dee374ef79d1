"""Determine the tasks that follow from the owned partitions.

A task runs only while this member owns ALL its input partitions. An assignor may assign the
partitions of one task at different moments; until the last one is assigned the task does not exist,
and losing one of them stops the whole task.

A partition that no task reads is not part of the plan: topics have changed since the plan was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstate.contracts.records import TaskId, TopicPartition
from logstate.restore.standby_assignor import EMPTY_GROUP


class WorkerControl:
    """Requested and reported state of one worker."""

    def __init__(self) -> None:
        #: pause processing
        self.is_paused = False
        #: present and past members of the group; replaced as a whole
        self.group_view = EMPTY_GROUP
        #: the other workers of the instance that have started, and how many tasks each owns
        self.siblings: Mapping[int, int] = {}


class Assignment:
    """The partitions that this member owns, and an epoch that increases with every change."""

    def __init__(self, inputs: Mapping[TaskId, tuple[TopicPartition, ...]]) -> None:
        self._inputs = inputs
        self._task_of = {tp: task for task, partitions in inputs.items() for tp in partitions}
        self.owned: set[TopicPartition] = set()
        self.epoch = 0

    def gain(self, partitions: Iterable[TopicPartition]) -> list[TaskId]:
        """Add partitions; return the tasks that became complete, in order."""
        gained = set(partitions)
        self.owned |= gained
        self.epoch += 1
        touched = {self._task_of[tp] for tp in gained if tp in self._task_of}
        return sorted(task for task in touched if self.is_complete(task))

    def lose(self, partitions: Iterable[TopicPartition]) -> list[TaskId]:
        """Remove partitions; return the tasks that must stop, in order."""
        lost = set(partitions) & self.owned
        stopped = sorted({self._task_of[tp] for tp in lost if tp in self._task_of})
        self.owned -= lost
        self.epoch += 1
        return stopped

    def unread_partitions(self) -> list[TopicPartition]:
        """Return owned partitions that no task reads, in order."""
        return sorted(self.owned - self._task_of.keys())

    def is_complete(self, task_id: TaskId) -> bool:
        """Return True while all input partitions of the task are owned."""
        return all(tp in self.owned for tp in self._inputs[task_id])

    def inputs(self, task_id: TaskId) -> tuple[TopicPartition, ...]:
        """Return the input partitions of a task."""
        return self._inputs[task_id]
