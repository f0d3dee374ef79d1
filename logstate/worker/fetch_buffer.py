"""What a poll brings goes to the tasks, and from which partitions more is fetched.

A partition is paused at the client while too many of its records wait in memory, and every one of
them while the whole worker is paused: polling goes on then, so the group keeps the member, and
brings nothing. What was fetched before stays in its queue.
"""

from __future__ import annotations

from logstate.contracts.clients import GroupConsumer, Polled, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.errors import OutOfRangeError
from logstate.task.barriers import Barriers
from logstate.task.task_table import TaskTable
from logstate.worker.buffer_limit import BufferLimit
from logstate.worker.worker_control import WorkerControl
from logstate.worker.worker_observer import WorkerObserver


class FetchBuffer:
    """See the module. A pause is wished for at any time; the worker follows with a turn."""

    def __init__(
        self,
        tasks: TaskTable,
        observer: WorkerObserver,
        clock: Clock,
        limit: BufferLimit,
        control: WorkerControl,
    ) -> None:
        self._control = control
        #: the worker processes nothing; changes between two turns only
        self.is_paused = False
        self._tasks = tasks
        self._observer = observer
        self._clock = clock
        self._asks_ms = 0.0
        self._limit = limit

    @property
    def barriers(self) -> Barriers:
        """Of a snapshot that is being taken: orders come from another thread."""
        return self._tasks.barriers

    def turn(self) -> None:
        """A turn begins, with a poll."""
        self._asks_ms = self._clock.monotonic_ms()
        is_paused = self._control.is_paused
        if self.is_paused != is_paused:
            self.is_paused = is_paused
            self._observer.paused(is_paused)

    def take(self, polled: Polled, consumer: GroupConsumer) -> Steps[None]:
        """Hand out what a poll brought. Raises OutOfRangeError where positions are nowhere."""
        self._tasks.heard_ms = self._asks_ms
        # Here, behind the poll: what it brought may be younger than an order.
        running = self._tasks.running()
        self.barriers.follow(running, self._asks_ms)
        for partition, records in polled.records.items():
            owned = self._tasks.running_owner(partition)
            if owned is not None:
                self._limit.fetched(records)
                if owned.mark is None:
                    owned.task.add_records(partition, records)
                else:
                    owned.mark.add_records(owned.task, partition, records)
        for partition, position in polled.ends:
            owned = self._tasks.running_owner(partition)
            if owned is not None:
                if owned.mark is None:
                    owned.task.at_end(partition, position)
                else:
                    owned.mark.at_end(owned.task, partition, position)
                owned.ends[partition] = position
        if polled.out_of_range:
            found = ", ".join(f"{tp} at {at}" for tp, at in polled.out_of_range.items())
            raise OutOfRangeError(f"positions are outside their logs: {found}")
        if polled.records or self.is_paused or any(owned.paused for owned in running):
            yield from self.pause_or_resume(consumer)

    def pause_or_resume(self, consumer: GroupConsumer) -> Steps[None]:
        """Pause what has too many records waiting, resume what has less than half of them.

        A task of several partitions may hold one back for long while it waits for another's
        records. While the worker is paused everything is; tasks that have just started, too.
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
