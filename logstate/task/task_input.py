"""The input of a task: its queues of fetched records, and where each partition ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.task.idle_inputs import TaskIdle
from logstate.task.queues import PartitionQueue, QueueOrder
from logstate.task.task_progress import TaskProgress


class TaskInput(TaskProgress):
    """The queues of the partitions; the task chooses the one with the oldest record."""

    queues: dict[TopicPartition, PartitionQueue]
    order: QueueOrder
    #: whether records wait until every partition has one, or has ended
    _waits: bool
    #: ... and then for some time at the end
    _idle: TaskIdle | None

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The input partitions, in a fixed order."""
        return tuple(self.queues)

    def add_records(self, partition: TopicPartition, records: Sequence[FetchedRecord]) -> None:
        """Buffer fetched records of one input partition, in offset order."""
        queue = self.queues[partition]
        queue.extend(records)
        if len(queue):
            self.order.arrived(partition)

    def at_end(self, partition: TopicPartition, position: int) -> None:
        """Handle the end of the partition; ``position`` is after control records."""
        queue = self.queues[partition]
        if position < queue.position:
            return  # a notification from before a seek
        queue.position = position
        queue.is_at_end = True

    def is_at_end(self, partition: TopicPartition) -> bool:
        """Return True if the end of the partition was reported, and nothing was fetched since."""
        queue = self.queues[partition]
        return queue.is_at_end and not len(queue)

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset to process; at the end of the partition, the consumer's
        position.
        """
        queue = self.queues[partition]
        return queue.position if not len(queue) else self.consumed.get(partition, queue.position)

    def buffered(self, partition: TopicPartition) -> int:
        """Return the number of records that were fetched but not processed."""
        return len(self.queues[partition])

    def positions_at_ends(self) -> dict[TopicPartition, int] | None:
        """Return the positions if every partition is at its end and nothing waits; else None."""
        if self.blocked_until_ms > 0 or not all(map(self.is_at_end, self.queues)):
            return None
        return {partition: queue.position for partition, queue in self.queues.items()}

    @property
    def awaits_commit(self) -> bool:
        """Whether operators may have results buffered for the commit: a tick comes after these."""
        return self.has_uncommitted_input and bool(self.commit_buffered)

    def commit_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Request a commit if control records were read since the last one.

        Also if no commit since the start says what is open, which tasks below wait for.
        """
        if not self.idle_ticks.has_noted_open or any(
            self.consumed.get(tp) != position for tp, position in positions.items()
        ):
            self.has_uncommitted_input = True

    def awaited(self) -> list[TopicPartition]:
        """Return the empty partitions that buffered records of others wait for; from any thread.

        The next fetch may return an older record of them, or they are at their ends for less than
        ``max_task_idle``.
        """
        queues = [*self.queues.values()]
        if not self._waits or not any(map(len, queues)):
            return []
        idle = [] if self._idle is None else self._idle.awaited(self._clock.monotonic_ms())
        return [*(queue.partition for queue in queues if queue.is_awaited()), *idle]
