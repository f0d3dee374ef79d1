"""Stream time of one operator while its inputs are idle: the option ``close_on_idle``.

Without records stream time stands still, and what waits for it waits for ever. With the option, an
operator advances its own stream time once the inputs of its task have been idle for that long:

1. to the newest event time + the idle time, once per newest event time;
2. afterwards only as far as something that is open becomes due, and never further than the newest
   event time + the time for which the inputs have been idle.

So stream time never advances faster than the wall clock, and where nothing is open it stands still:
a pause does not make the first record after it late. An advance changes the clock of the operator
and is committed with what it emits. A clock of the task, ``idle:<name>``, says where the last
advance ended, so the first step is not repeated after a crash; a crash before the commit undoes
both.

The module decides; that the inputs are idle, the worker or the test driver finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from logstate.contracts.open_rows import open_rows
from logstate.contracts.processing import IdleTime, TaskContext, TimeCell
from logstate.contracts.record_parts import TIMESTAMP_MAX

#: a time up to a limit at which something is due that was not emitted yet; None: there is none
LastDue: TypeAlias = "Callable[[int], int | None]"
#: yields the stream times at which rows that are open close, the first rows first; reads as it goes
CloseTimes: TypeAlias = "Callable[[], Iterator[int]]"
#: emits everything that is due at a stream time
EmitDue: TypeAlias = "Callable[[int], None]"

_NEVER_LOOKED = float("-inf")


class Waiting(NamedTuple):
    """What waits in an operator for stream time."""

    close_times: CloseTimes
    last_due: LastDue
    emit: EmitDue


class IdleClock:
    """See the module. ``observed`` is the operator's stream time, ``idle_ms`` its option.

    If nothing is ``waiting`` nothing is emitted, and only the first step is taken.
    ``look_interval_ms`` is the minimum time between two searches for what is due.
    """

    __slots__ = (
        "_base",
        "_began_ms",
        "_has_due",
        "_idle_ms",
        "_left_at",
        "_look_interval_ms",
        "_looked_ms",
        "_observed",
        "_since_ms",
        "_ticked",
        "_waiting",
    )

    def __init__(
        self,
        observed: TimeCell,
        ticked: TimeCell,
        idle_ms: int,
        waiting: Waiting | None = None,
        look_interval_ms: int = 0,
    ) -> None:
        self._observed = observed
        #: where the last advance without a record ended
        self._ticked = ticked
        self._idle_ms = idle_ms
        self._waiting = waiting
        self._look_interval_ms = look_interval_ms
        self._looked_ms = _NEVER_LOOKED
        #: whether the last search found something
        self._has_due = False
        #: the idle period, and since when this operator has had no record in it
        self._since_ms: float | None = None
        self._began_ms = 0.0
        #: stream time when that began, and after the last advance
        self._base = self._left_at = -1

    def is_due(self, idle: IdleTime) -> bool:
        """Whether there is something to do; searches the store at most once per interval.

        What a search has found remains due until the tick.
        """
        self._follow(idle)
        if not self._is_idle(idle):
            return False
        if self._observed.time != self._ticked.time:
            return True
        if self._waiting is None:
            return False
        if not self._has_due and idle.now_ms >= self._looked_ms + self._look_interval_ms:
            self._looked_ms = idle.now_ms
            self._has_due = self._waiting.last_due(self._limit(idle)) is not None
        return self._has_due

    def tick(self, idle: IdleTime) -> None:
        """Advance stream time as far as it is due, and emit what that closes."""
        self._follow(idle)
        if not self._is_idle(idle):
            return
        observed = self._observed
        if observed.time != self._ticked.time:
            self._advance(min(self._base + self._idle_ms, TIMESTAMP_MAX))
        self._has_due = False
        waiting, limit = self._waiting, self._limit(idle)
        while waiting is not None and (due := waiting.last_due(limit)) is not None:
            self._advance(max(due, observed.time))

    def is_open(self) -> bool:
        """Return whether something waits for stream time; without a record there is none yet."""
        if self._waiting is None or self._observed.time < 0:
            return False
        return next(self._waiting.close_times(), None) is not None

    def _advance(self, time: int) -> None:
        self._observed.time = self._ticked.time = self._left_at = time
        if self._waiting is not None:
            self._waiting.emit(time)

    def _follow(self, idle: IdleTime) -> None:
        """Begin a new wait if the idle period is new, or a schedule has sent a record."""
        observed = self._observed.time
        is_new = idle.since_ms != self._since_ms
        if is_new or observed != self._left_at:
            self._began_ms = idle.since_ms if is_new else idle.now_ms
            self._since_ms = idle.since_ms
            self._base = self._left_at = observed
            self._looked_ms = _NEVER_LOOKED
            self._has_due = False

    def _is_idle(self, idle: IdleTime) -> bool:
        return self._observed.time >= 0 and idle.now_ms - self._began_ms >= self._idle_ms

    def _limit(self, idle: IdleTime) -> int:
        return min(self._base + int(idle.now_ms - self._began_ms), TIMESTAMP_MAX)


class FollowingIdleClock:
    """Stream time that is that of others while there are records, and later while there are none.

    It is that of timers of a processor, which the task observes, and of an interval join, whose two
    sides do: ``newest`` returns the newest event time of these.
    """

    __slots__ = ("_clock", "_newest", "_observed")

    def __init__(
        self,
        task: TaskContext,
        name: str,
        idle_ms: int,
        newest: Callable[[], int],
        waiting: Waiting,
    ) -> None:
        self._newest = newest
        self._observed = observed_cell(task, name)
        self._clock = IdleClock(self._observed, ticked_cell(task, name), idle_ms, waiting)

    def is_due(self, idle: IdleTime) -> bool:
        """Return True if something is due, or the first advance was not made."""
        self._follow()
        return self._clock.is_due(idle)

    def tick(self, idle: IdleTime) -> None:
        """Advance stream time as far as something is due, and emit that."""
        self._follow()
        self._clock.tick(idle)

    def is_open(self) -> bool:
        """Return whether something waits."""
        self._follow()
        return self._clock.is_open()

    def _follow(self) -> None:
        self._observed.time = max(self._observed.time, self._newest())


def observed_cell(task: TaskContext, name: str) -> TimeCell:
    """Return the stream time of an operator whose clock has this name."""
    return task.time_cell(f"observed:{name}")


def ticked_cell(task: TaskContext, name: str) -> TimeCell:
    """Return where its last advance without a record ended."""
    return task.time_cell(f"idle:{name}")


def close_windows(task: TaskContext, clocks: Iterable[str], time: int) -> None:
    """Let windows take part in a tick of an operator below them: their clocks reach its time."""
    for name in clocks:
        observed = observed_cell(task, name)
        if observed.time < time:
            observed.time = ticked_cell(task, name).time = time


def advance_when_idle(
    task: TaskContext,
    name: str,
    observed: TimeCell,
    idle_ms: int | None,
    waiting: Waiting | None = None,
    *,
    node: str = "",
    look_interval_ms: int = 0,
) -> None:
    """Register what is waiting in a ``node``, and the clock of an operator with the option.

    ``name`` is that of its clock.
    """
    if waiting is not None:
        close_times = waiting.close_times
        task.show_open(node, lambda: open_rows(close_times(), observed.time))
    if idle_ms is not None:
        ticked = ticked_cell(task, name)
        task.when_idle(name, IdleClock(observed, ticked, idle_ms, waiting, look_interval_ms))
