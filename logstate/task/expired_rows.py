"""The streams of rows that expire of one task.

The rows of all its stores are deleted before the first one is emitted. So an operator below a
stream, which may write to a store with such a stream, never writes over a row that has expired and
is not emitted yet. The look is one scheduled call: if it fails, nothing of it remains, and what is
deleted is committed together with what is emitted. If a handler skips a row whose result failed,
the look is repeated without that row's result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from logstate.contracts.processing import EmitExpired, TakeExpired

#: the call of the look by the wall clock, for error handlers
LOOK_BY_WALL_CLOCK: Final = "expired-rows-by-wall-clock"

_Callback: TypeAlias = Callable[[int], None]
#: makes a callback of that name whose failures are handled
GuardCallback: TypeAlias = Callable[[str, _Callback], _Callback]


class ExpiredRows:
    """See the module. The order is that of times of expiry, then names of streams, then keys.

    ``start`` gets the look with the first stream, and lets it be called.
    """

    def __init__(self, start: Callable[[_Callback], object]) -> None:
        self._start = start
        #: by their names
        self._streams: dict[str, tuple[TakeExpired, EmitExpired]] = {}
        #: set by a look that found rows
        self.has_found = False

    def add(self, stream: str, take: TakeExpired, emit: EmitExpired) -> None:
        """Add a stream; the first one starts the look."""
        if not self._streams:
            self._start(self.look)
        self._streams[stream] = take, emit

    def look(self, now: int) -> None:
        """Delete and emit the rows that have expired at a time of their clock."""
        taken = [
            (expired_at, stream, number, key, value)
            for stream, (take, _) in self._streams.items()
            for number, (key, value, expired_at) in enumerate(take(now))
        ]
        self.has_found = bool(taken)
        taken.sort(key=lambda row: row[:3])
        for expired_at, stream, _, key, value in taken:
            self._streams[stream][1](key, value, expired_at)

    def clear(self) -> None:
        """Forget the streams: the operators are made again."""
        self._streams.clear()


class LookByWallClock:
    """When rows that expire by the wall clock are looked for.

    The look comes before each record and while the task is idle, once per millisecond at most. It
    is not a schedule of the task, whose due time is a part of the cut: nothing depends on when the
    last look was, but the clocks of the stores, which are in the cut.
    """

    def __init__(self) -> None:
        self._look: _Callback | None = None
        self._looked_ms: int | None = None

    def start(self, look: _Callback) -> None:
        """From here on, call the look."""
        self._look = look

    @property
    def is_started(self) -> bool:
        """Whether there is anything to look for."""
        return self._look is not None

    def is_due(self, now: int) -> bool:
        """Whether a look at this time may find rows."""
        return self._look is not None and now != self._looked_ms

    def guard(self, guarded: GuardCallback) -> None:
        """From here on, handle failures of the look like those of schedules."""
        assert self._look is not None
        self._look = guarded(LOOK_BY_WALL_CLOCK, self._look)

    def call(self, now: int) -> None:
        """Look. Raises RetryLater if it must be retried: it stays due."""
        assert self._look is not None
        self._looked_ms = None
        self._look(now)
        self._looked_ms = now

    def clear(self) -> None:
        """Forget the look, and when it was: the last one may be undone."""
        self._look = self._looked_ms = None
