"""Decide which worker processes are started, stopped and killed, and when the instance ends.

::

        WAITING --start--> RUNNING --it ends--> WAITING (longer each time) ... not restarted
                          |                                                  |
                          +------- stop ------> DRAINING --it ends, or is killed--> ENDED

All workers are stopped together, or only surplus ones: then the others continue, and a surplus
worker that is wanted again starts after its end.

The caller carries out the actions and reports what happened; nothing here waits or starts a
process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from logstate.app.instance.restarts import Restarts


class Phase(Enum):
    """The phase of a worker as seen by its supervisor."""

    #: starts when its wait is over
    WAITING = "waiting"
    RUNNING = "running"
    #: was asked to stop
    DRAINING = "draining"
    #: is not started again
    ENDED = "ended"


@dataclass(frozen=True)
class WorkerAction:
    """An action on the worker of a number."""

    kind: Literal["start", "stop", "kill"]
    worker: int


@dataclass
class _Supervised:
    phase: Phase = Phase.WAITING
    starts_at_ms: float = 0.0
    restarts: Restarts = field(default_factory=Restarts)
    #: why it last ended; None before that
    why: str | None = None
    is_killed: bool = False
    #: was added later, and has not joined the group yet
    is_new: bool = False
    #: is surplus after scaling down
    is_retired: bool = False
    #: when it is killed if it still runs
    drained_by_ms: float | None = None


class Supervisor:
    """The workers of an instance, numbered from 0. All times are monotonic."""

    def __init__(self, workers: int) -> None:
        self._workers = [_Supervised() for _ in range(workers)]
        self._drained_by_ms: float | None = None
        #: why the instance ends; None while it does not
        self.given_up: str | None = None

    # ------------------------------------------------------------------ what happened

    def ended(self, worker: int, now_ms: float, why: str, *, is_replaced: bool) -> None:
        """Handle the end of a process. ``is_replaced``: restart it unless it ends too often."""
        one = self._workers[worker]
        one.why = why
        if self.is_stopping or one.is_retired:
            one.phase = Phase.ENDED
            return
        if one.phase is Phase.DRAINING:  # and it is wanted again
            self._workers[worker] = _Supervised(starts_at_ms=now_ms, is_new=True)
            return
        wait_ms = one.restarts.wait_ms(now_ms) if is_replaced else None
        if wait_ms is not None:
            one.phase, one.starts_at_ms = Phase.WAITING, now_ms + wait_ms
            return
        one.phase = Phase.ENDED
        too_many = f"; {one.restarts.too_many()}" if is_replaced else ""
        self.given_up = f"worker {worker} {why}{too_many}"

    def joined(self, worker: int) -> None:
        """Record that the worker has joined the group."""
        self._workers[worker].is_new = False

    def scale(self, workers: int, now_ms: float, drain_ms: float) -> None:
        """Change the number of workers. A surplus worker has ``drain_ms`` to end."""
        missing = range(len(self._workers), workers)
        self._workers += [_Supervised(starts_at_ms=now_ms, is_new=True) for _ in missing]
        for number, one in enumerate(self._workers):
            was_retired, one.is_retired = one.is_retired, number >= workers
            if one.is_retired and not was_retired:
                one.drained_by_ms = now_ms + drain_ms
            elif was_retired and not one.is_retired:
                if one.phase is Phase.ENDED:
                    self._workers[number] = _Supervised(starts_at_ms=now_ms, is_new=True)
                elif one.phase is not Phase.DRAINING:
                    one.drained_by_ms = None

    def stop(self, now_ms: float, drain_ms: float) -> None:
        """Stop all workers, and kill those that still run after ``drain_ms``."""
        by_ms = now_ms + drain_ms
        if self._drained_by_ms is None or by_ms < self._drained_by_ms:
            self._drained_by_ms = by_ms

    # ------------------------------------------------------------------ what to do

    def actions(self, now_ms: float) -> list[WorkerAction]:
        """Return the actions that are due now; each is returned once."""
        return [
            WorkerAction(kind, number)
            for number, one in enumerate(self._workers)
            if (kind := self._next_action(one, now_ms)) is not None
        ]

    def _next_action(
        self, one: _Supervised, now_ms: float
    ) -> Literal["start", "stop", "kill"] | None:
        if self.is_stopping or one.is_retired or one.phase is Phase.DRAINING:
            return self._stop_or_kill(one, now_ms)
        if one.phase is Phase.WAITING and now_ms >= one.starts_at_ms:
            one.phase = Phase.RUNNING
            return "start"
        return None

    def _stop_or_kill(self, one: _Supervised, now_ms: float) -> Literal["stop", "kill"] | None:
        if one.phase is Phase.WAITING:
            one.phase = Phase.ENDED
        elif one.phase is Phase.RUNNING:
            one.phase = Phase.DRAINING
            return "stop"
        elif one.phase is Phase.DRAINING and not one.is_killed and self._is_late(one, now_ms):
            one.is_killed = True
            return "kill"
        return None

    def _is_late(self, one: _Supervised, now_ms: float) -> bool:
        ends = (self._drained_by_ms, one.drained_by_ms)
        return any(end is not None and now_ms >= end for end in ends)

    def wait_ms(self, now_ms: float) -> float | None:
        """Return how long until the next action is due; None if none is scheduled.

        >>> Supervisor(2).wait_ms(0.0)
        0.0
        """
        times = [one.starts_at_ms for one in self._workers if one.phase is Phase.WAITING]
        draining = [one for one in self._workers if one.phase is Phase.DRAINING]
        ends = (self._drained_by_ms, *(one.drained_by_ms for one in draining))
        times += [end for end in ends if end is not None and now_ms < end]
        return max(0.0, min(times) - now_ms) if times else None

    # ------------------------------------------------------------------ observing

    @property
    def is_stopping(self) -> bool:
        """True if all workers are to end."""
        return self._drained_by_ms is not None

    @property
    def numbers(self) -> list[int]:
        """The workers that determine the state of the instance.

        Excludes workers that are about to end and workers that were added later and have not joined
        yet.
        """
        return [
            number for number, one in enumerate(self._workers) if not (one.is_retired or one.is_new)
        ]

    @property
    def wanted(self) -> int:
        """The wanted number of workers."""
        return sum(not one.is_retired for one in self._workers)

    def is_ending(self, worker: int) -> bool:
        """Return True if the worker was asked to stop, or is about to be."""
        return self.is_stopping or self._workers[worker].phase is Phase.DRAINING

    @property
    def is_over(self) -> bool:
        """True if all workers have ended for good."""
        return all(one.phase is Phase.ENDED for one in self._workers)

    @property
    def killed(self) -> list[int]:
        """Workers that did not end in time."""
        return [number for number, one in enumerate(self._workers) if one.is_killed]

    def waiting(self) -> dict[int, str]:
        """Return the workers that will be restarted, with the reason why they ended."""
        return {
            number: one.why
            for number, one in enumerate(self._workers)
            if one.phase is Phase.WAITING and one.why is not None
        }
