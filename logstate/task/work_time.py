"""Limit how long the tasks' code runs before the worker checks the clock and the brokers again.

A worker that processed all fetched records, however long they take, would exceed its transaction
timeout with slow user code: the brokers abort the transaction, its records are processed again, and
exceed the next one. So work ends by count or by time, whichever comes first: when the time is up,
the current record is the last one. There is no check per record; the clock's alarm interrupts the
working task.

Consequence for commits: a commit begins at most one interval, this time and one record after the
transaction's first record was sent, and the worker waits for it if the time was up
(:mod:`logstate.worker.commits`). So a record may take nearly as long as the transaction timeout.
"""

from __future__ import annotations

from collections.abc import Sequence

from logstate.contracts.clock import Clock
from logstate.contracts.records import TaskId
from logstate.task.owned_task import OwnedTask
from logstate.task.task import Task

#: far above the time of 2,000 fast records (5 ms to 20 ms), far below every timeout
_WORK_MS = 100


class WorkTime:
    """The time of one turn. Call ``begin`` first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarm = clock.alarm(self._interrupt_task)
        self._ends_ms = 0.0
        self._at_work: Task | None = None
        #: the last task whose work ended because the time was up
        self._last: TaskId | None = None

    def begin(self, *, until_ms: float | None = None) -> None:
        """Start the time; ``until_ms`` is a monotonic end time, to share the time of another."""
        self._ends_ms = self._clock.monotonic_ms() + _WORK_MS if until_ms is None else until_ms

    def is_up(self) -> bool:
        """Return True if the time is over."""
        return self._clock.monotonic_ms() >= self._ends_ms

    def of(self, task: Task) -> WorkTime:
        """Return a context that ends the task's processing after the current record at time-up."""
        self._at_work = task
        return self

    def __enter__(self) -> None:
        self._alarm.set(self._ends_ms)

    def __exit__(self, *_: object) -> None:
        self._alarm.clear()
        self._at_work = None

    def ended_with(self, owned: OwnedTask) -> None:
        """Record that the time was up after this task: the next turn begins with the
        following one.
        """
        self._last = owned.task_id

    def in_turn(self, tasks: Sequence[OwnedTask]) -> Sequence[OwnedTask]:
        """Return the tasks in the order of their turns, so that none waits forever for a slow
        one.
        """
        last, self._last = self._last, None
        if last is None:
            return tasks
        at = next((i for i, owned in enumerate(tasks, 1) if owned.task_id == last), 0)
        return [*tasks[at:], *tasks[:at]] if at else tasks

    def close(self) -> None:
        """Release the alarm."""
        self._alarm.close()

    def _interrupt_task(self) -> None:
        task = self._at_work
        if task is not None:
            task.interrupt()
