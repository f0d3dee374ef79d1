"""The streams of rows that expire of one task.

The rows of all its stores are deleted before the first one is emitted. So an operator below a
stream, which may write to a store with such a stream, never writes over a row that has expired and
is not emitted yet. The look is one scheduled call: if it fails, nothing of it remains, and what is
deleted is committed together with what is emitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from logstate.contracts.processing import EmitExpired, TakeExpired, TaskContext

#: the call of the look by the wall clock, for error handlers
LOOK_BY_WALL_CLOCK: Final = "expired-rows-by-wall-clock"

_Callback: TypeAlias = Callable[[int], None]
#: makes a callback of that name whose failures are handled
GuardCallback: TypeAlias = Callable[[str, _Callback], _Callback]


class ExpiredRows:
    """See the module. The order is that of times of expiry, then names of streams, then keys."""

    def __init__(self) -> None:
        #: by their names
        self.streams: dict[str, tuple[TakeExpired, EmitExpired]] = {}
        #: whether the last look found rows
        self.has_found = False

    def add(self, task: TaskContext, stream: str, take: TakeExpired, emit: EmitExpired) -> None:
        """Add a stream; the first one schedules the look."""
        if not self.streams:
            task.schedule(1, "expiry", self.look, name="expired-rows")
        self.streams[stream] = take, emit

    def look(self, now: int) -> None:
        """Delete and emit the rows that have expired at a time of their clock."""
        taken = [
            (expired_at, stream, number, key, value)
            for stream, (take, _) in self.streams.items()
            for number, (key, value, expired_at) in enumerate(take(now))
        ]
        self.has_found = bool(taken)
        taken.sort(key=lambda row: row[:3])
        for expired_at, stream, _, key, value in taken:
            self.streams[stream][1](key, value, expired_at)

    def clear(self) -> None:
        """Forget the streams: the operators are made again."""
        self.streams.clear()


class ExpiredByWallClock(ExpiredRows):
    """The streams of stores whose rows expire by the wall clock.

    The look comes before each record and while the task is idle, once per millisecond at most. It
    is not a schedule of the task, whose due time is a part of the cut: nothing depends on when the
    last look was, but the clocks of the stores, which are in the cut.
    """

    def __init__(self) -> None:
        super().__init__()
        self._looked_ms: int | None = None
        self._guarded_look: _Callback = self.look

    def is_due(self, now: int) -> bool:
        """Whether a look at this time may find rows."""
        return bool(self.streams) and now != self._looked_ms

    def guard_look(self, guarded: GuardCallback) -> None:
        """From here on, handle failures of the look like those of schedules."""
        self._guarded_look = guarded(LOOK_BY_WALL_CLOCK, self.look)

    def call(self, now: int) -> bool:
        """Look; return whether there were rows.

        Raises RetryLater if it must be retried: it stays due.
        """
        self.has_found, self._looked_ms = False, None
        self._guarded_look(now)
        self._looked_ms = now
        return self.has_found

    def clear(self) -> None:
        """Forget the streams, and the last look, which may be undone."""
        super().clear()
        self._looked_ms = None
