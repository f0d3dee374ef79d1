"""Pass polled records to the tasks, and pause and resume partitions.

A partition is paused at the client while too many of its records are buffered in memory, and all
partitions are paused while the whole worker is. Polling continues, so the group keeps the member,
but returns no records. Records fetched before stay in their queues.
"""

from __future__ import annotations

from logstate.contracts.clients import GroupConsumer, Polled, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.errors import OutOfRangeError
from logstate.task.barriers import Barriers
from logstate.task.task_table import TaskTable
from logstate.worker.assignment import WorkerControl
from logstate.worker.buffer_limit import BufferLimit
from logstate.worker.worker_observer import WorkerObserver


class FetchBuffer:
    """Passes on records and follows ``control``, whose pause takes effect with the next turn."""

    def __init__(
        self,
        tasks: TaskTable,
        observer: WorkerObserver,
        clock: Clock,
        limit: BufferLimit,
        control: WorkerControl,
    ) -> None:
        self._control = control
        #: the worker processes nothing; changes only between two turns
        self.is_paused = False
        self._tasks = tasks
        self._observer = observer
        self._clock = clock
        self._asks_ms = 0.0
        self._limit = limit

    @property
    def barriers(self) -> Barriers:
        """The barriers of a snapshot in progress; requests come from another thread."""
        return self._tasks.barriers

    def turn(self) -> None:
        """Begin a turn; a poll follows."""
        self._asks_ms = self._clock.monotonic_ms()
        is_paused = self._control.is_paused
        if self.is_paused != is_paused:
            self.is_paused = is_paused
            self._observer.paused(is_paused)

    def take(self, polled: Polled, consumer: GroupConsumer) -> Steps[None]:
        """Pass on the result of a poll. Raises OutOfRangeError for positions outside of their
        logs.
        """
        self._tasks.heard_ms = self._asks_ms
        # After the poll: its records may be newer than a snapshot request.
        running = self._tasks.running()
        self.barriers.follow(running, self._asks_ms)
        for partition, records in polled.records.items():
            owned = self._tasks.running_owner(partition)
            if owned is not None:
                self._limit.fetched(records)
                if owned.barrier is None:
                    owned.task.add_records(partition, records)
                else:
                    owned.barrier.add_records(owned.task, partition, records)
        for partition, position in polled.ends:
            owned = self._tasks.running_owner(partition)
            if owned is not None:
                if owned.barrier is None:
                    owned.task.at_end(partition, position)
                else:
                    owned.barrier.at_end(owned.task, partition, position)
                owned.ends[partition] = position
        if polled.out_of_range:
            found = ", ".join(f"{tp} at {at}" for tp, at in polled.out_of_range.items())
            raise OutOfRangeError(f"positions are outside their logs: {found}")
        if polled.records or self.is_paused or any(owned.paused for owned in running):
            yield from self.pause_or_resume(consumer)

    def pause_or_resume(self, consumer: GroupConsumer) -> Steps[None]:
        """Pause partitions with too many buffered records, resume those with less than half of
        them.

        A task with several partitions may buffer one for long while it waits for another's records.
        While the worker is paused all partitions are, including those of tasks that have just
        started.
        """
        running = self._tasks.running()
        most = self._limit.per_partition(sum(len(owned.partitions) for owned in running))
        for owned in running:
            paused = owned.paused
            full = [
                tp
                for tp in owned.partitions
                if tp not in paused and (self.is_paused or owned.buffered(tp) > most)
            ]
            if full:
                yield Step("pause", consumer.pause, (full,))
                paused.update(full)
            least = max(1, most // 2)
            drained = [tp for tp in paused if not self.is_paused and owned.buffered(tp) < least]
            if drained:
                yield Step("resume", consumer.resume, (drained,))
                paused.difference_update(drained)
