"""The tasks of a worker, by id, by partition and by stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.barriers import Barriers
from logstate.task.owned_task import OwnedTask, Stage

#: asked for several times per turn; a member of an enumeration is not quickly looked up
_RUNNING = Stage.RUNNING


class TaskTable:
    """Who owns which partition, and since which assignment."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, OwnedTask] = {}
        #: of a snapshot that is being taken
        self.barriers = Barriers()
        #: lost while the brokers are away; only to be read, what was committed last
        self.lapsed: dict[TaskId, OwnedTask] = {}
        #: monotonic, when the last poll began that took none of them away; who stands still after
        #: it cannot know whose they are
        self.heard_ms = 0.0
        #: None after a change
        self._running: list[OwnedTask] | None = None
        self._owner_of: dict[TopicPartition, OwnedTask] = {}
        #: epoch of the assignment that gave each partition; absent once it is given up
        self.epochs: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def all(self) -> Mapping[TaskId, OwnedTask]:
        """Every task."""
        return self._tasks

    def readable(self) -> Mapping[TaskId, OwnedTask]:
        """Every task, and those that lapsed."""
        return {**self.lapsed, **self._tasks}

    def in_stage(self, stage: Stage) -> list[OwnedTask]:
        """Tasks of one stage, in the order they were added."""
        return [owned for owned in self._tasks.values() if owned.stage is stage]

    def running(self) -> list[OwnedTask]:
        """Tasks that process records. A list stays as it is; a change gives another one."""
        if self._running is None:
            self._running = [owned for owned in self._tasks.values() if owned.stage is _RUNNING]
        return self._running

    def note_current(self) -> None:
        """Running tasks that have nothing to commit were as new as they can be at the last poll."""
        heard_ms = self.heard_ms
        for owned in self.running():
            if not owned.task.has_moved:
                owned.current_ms = heard_ms

    def _moved(self) -> None:
        self._running = None

    def running_owner(self, partition: TopicPartition) -> OwnedTask | None:
        """The running task that reads a partition."""
        owned = self._owner_of.get(partition)
        return owned if owned is not None and owned.stage is _RUNNING else None

    def add(self, owned: OwnedTask) -> None:
        """Take a task over, unless it is here already."""
        if owned.task_id in self._tasks:
            return
        self._tasks[owned.task_id] = owned
        owned.on_move = self._moved
        self._moved()
        for partition in owned.partitions:
            self._owner_of[partition] = owned
            self.epochs[partition] = owned.epoch

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions are no longer this member's: nothing of them may commit."""
        for partition in partitions:
            self.epochs.pop(partition, None)

    def remove(self, task_id: TaskId) -> OwnedTask | None:
        """Let a task go, or one that lapsed."""
        lapsed = self.lapsed.pop(task_id, None)
        if lapsed is not None:
            return lapsed
        owned = self._tasks.pop(task_id, None)
        self._moved()
        if owned is not None:
            for partition in owned.partitions:
                self._owner_of.pop(partition, None)
        return owned

    def orphan(self, task_id: TaskId) -> None:
        """Let a task go, but for those who read it."""
        owned = self.remove(task_id)
        if owned is not None:
            self.lapsed[task_id] = owned
