"""How long the tasks' code may run before the worker looks at clock and brokers again.

A worker that processed as many records as it has fetched, whatever they take, would outlive its
transaction's time-out with slow user code: the brokers abort the transaction, its records are
processed again, and outlive the next one. So work ends by count or by time, whichever comes first:
after the time is up, the record at hand is the last one. Nothing is looked at per record; the
clock's alarm interrupts the task that is at work.

What follows for a commit: it begins at most one interval, this time and one record after the
transaction's first record was sent, and is waited for where the time was up
(:mod:`logstate.worker.commits`). So a record may take nearly as long as a transaction may live.
"""

from __future__ import annotations

from collections.abc import Sequence

from logstate.contracts.clock import Clock
from logstate.contracts.records import TaskId
from logstate.task.owned_task import OwnedTask
from logstate.task.task import Task

#: far above what 2,000 quick records take (5 ms to 20 ms), far below every time-out
_WORK_MS = 100


class WorkTime:
    """The time of one turn. ``begin`` comes first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarm = clock.alarm(self._ring)
        self._ends_ms = 0.0
        self._at_work: Task | None = None
        #: the task whose turn was the last one when the time was up
        self._last: TaskId | None = None

    def begin(self, *, until_ms: float | None = None) -> None:
        """The time runs from now on; ``until_ms`` is a monotonic time for as long as another."""
        self._ends_ms = self._clock.monotonic_ms() + _WORK_MS if until_ms is None else until_ms

    def is_up(self) -> bool:
        """Whether the time is over."""
        return self._clock.monotonic_ms() >= self._ends_ms

    def of(self, task: Task) -> WorkTime:
        """A context: what the task processes in it ends with the record at hand when time is up."""
        self._at_work = task
        return self

    def __enter__(self) -> None:
        self._alarm.set(self._ends_ms)

    def __exit__(self, *_: object) -> None:
        self._alarm.clear()
        self._at_work = None

    def ended_with(self, owned: OwnedTask) -> None:
        """The time was up after this task: the next turn begins with the one behind it."""
        self._last = owned.task_id

    def in_turn(self, tasks: Sequence[OwnedTask]) -> Sequence[OwnedTask]:
        """The tasks in the order of their turns: none waits for ever behind a slow one."""
        last, self._last = self._last, None
        if last is None:
            return tasks
        at = next((i for i, owned in enumerate(tasks, 1) if owned.task_id == last), 0)
        return [*tasks[at:], *tasks[:at]] if at else tasks

    def close(self) -> None:
        """Release the alarm."""
        self._alarm.close()

    def _ring(self) -> None:
        task = self._at_work
        if task is not None:
            task.interrupt()
