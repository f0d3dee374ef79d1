"""The tasks of a worker, by id, by partition and by stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.barriers import Barriers
from logstate.task.owned_task import OwnedTask, Stage

#: used several times per turn; looking up an enum member is slow
_RUNNING = Stage.RUNNING


class TaskTable:
    """The owner of each partition, and the assignment that it belongs to."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, OwnedTask] = {}
        #: barriers of a snapshot in progress
        self.barriers = Barriers()
        #: lost while the brokers are unavailable; only their committed rows can be read
        self.lapsed: dict[TaskId, OwnedTask] = {}
        #: monotonic start of the last poll that revoked none of them; a worker that is blocked
        #: after it cannot know who owns them
        self.heard_ms = 0.0
        #: None after a change
        self._running: list[OwnedTask] | None = None
        self._owner_of: dict[TopicPartition, OwnedTask] = {}
        #: epoch of the assignment that gave each partition; absent after its revocation
        self.epochs: dict[TopicPartition, int] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def all(self) -> Mapping[TaskId, OwnedTask]:
        """Return all tasks."""
        return self._tasks

    def readable(self) -> Mapping[TaskId, OwnedTask]:
        """Return all tasks, including lapsed ones."""
        return {**self.lapsed, **self._tasks}

    def in_stage(self, stage: Stage) -> list[OwnedTask]:
        """Tasks of one stage, in the order they were added."""
        return [owned for owned in self._tasks.values() if owned.stage is stage]

    def running(self) -> list[OwnedTask]:
        """Return the tasks that process records. The list is never changed; a change makes a new
        one.
        """
        if self._running is None:
            self._running = [owned for owned in self._tasks.values() if owned.stage is _RUNNING]
        return self._running

    def note_current(self) -> None:
        """Record that running tasks without uncommitted work were current at the last poll."""
        heard_ms = self.heard_ms
        for owned in self.running():
            if not owned.task.has_moved:
                owned.current_ms = heard_ms

    def _on_change(self) -> None:
        self._running = None

    def running_owner(self, partition: TopicPartition) -> OwnedTask | None:
        """Return the running task that reads a partition."""
        owned = self._owner_of.get(partition)
        return owned if owned is not None and owned.stage is _RUNNING else None

    def add(self, owned: OwnedTask) -> None:
        """Add a task, unless it exists already."""
        if owned.task_id in self._tasks:
            return
        self._tasks[owned.task_id] = owned
        owned.on_move = self._on_change
        self._on_change()
        for partition in owned.partitions:
            self._owner_of[partition] = owned
            self.epochs[partition] = owned.epoch

    def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Revoke partitions: nothing of them may be committed."""
        for partition in partitions:
            self.epochs.pop(partition, None)

    def remove(self, task_id: TaskId) -> OwnedTask | None:
        """Remove a task, or a lapsed one."""
        lapsed = self.lapsed.pop(task_id, None)
        if lapsed is not None:
            return lapsed
        owned = self._tasks.pop(task_id, None)
        self._on_change()
        if owned is not None:
            for partition in owned.partitions:
                self._owner_of.pop(partition, None)
        return owned

    def keep_for_reads(self, task_id: TaskId) -> None:
        """Remove a task, but keep it for reads."""
        owned = self.remove(task_id)
        if owned is not None:
            self.lapsed[task_id] = owned
