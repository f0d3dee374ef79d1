"""What is not read to its end: kept for whoever asks for the next page, for a while.

An iterator over a store keeps the rows of its commit alive, so there are few, and none for long: as
long as there are any, a timer looks for those that nobody asks for any more.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from logstate.contracts.errors import LogstateError

T = TypeVar("T")

CURSORS_MAX = 256
#: nobody asks for the next page any more
IDLE_MS = 60_000.0


class CursorGoneError(LogstateError):
    """The pages cannot be gone on with: begin again."""


def _later(call: Callable[[], None]) -> None:
    timer = threading.Timer(IDLE_MS / 1000, call)
    timer.daemon = True
    timer.start()


class Cursors(Generic[T]):
    """From any thread; each cursor leads to its page once. ``later`` calls after ``IDLE_MS``."""

    def __init__(
        self,
        now_ms: Callable[[], float],
        later: Callable[[Callable[[], None]], None] = _later,
    ) -> None:
        self._now_ms = now_ms
        self._later = later
        self._open: dict[str, tuple[T, float]] = {}
        #: the timer runs
        self._is_swept = False
        self._lock = threading.Lock()

    def kept(self, one: T) -> str:
        """A cursor for it. Where there are too many, the one that waits longest is given up."""
        cursor = secrets.token_urlsafe(12)
        self._drop_idle()
        with self._lock:
            gone = []
            while len(self._open) >= CURSORS_MAX:
                gone.append(self._open.pop(next(iter(self._open))))
            self._open[cursor] = one, self._now_ms()
            is_first, self._is_swept = not self._is_swept, True
        del gone  # iterators end here, without the lock
        if is_first:
            self._later(self._sweep)
        return cursor

    def taken(self, cursor: str, check: Callable[[T], None] = lambda _: None) -> T:
        """What a cursor stands for; raises CursorGoneError.

        Where ``check`` raises, that is raised, and the cursor leads there still.
        """
        with self._lock:
            found = self._open.get(cursor)
            if found is not None:
                check(found[0])
                del self._open[cursor]
        if found is None or self._now_ms() - found[1] >= IDLE_MS:
            raise CursorGoneError(
                f"cursor {cursor!r:.40} is unknown: its page was already read, or it was not used"
                f" for {IDLE_MS / 1000:.0f} s, or {CURSORS_MAX} newer scans were started, or"
                " another instance returned it. Restart the scan, and read all pages from one"
                " instance"
            )
        return found[0]

    def _sweep(self) -> None:
        self._drop_idle()
        with self._lock:
            goes_on = self._is_swept = bool(self._open)
        if goes_on:
            self._later(self._sweep)

    def _drop_idle(self) -> None:
        now = self._now_ms()
        with self._lock:
            idle = [c for c, (_, since) in self._open.items() if now - since >= IDLE_MS]
            gone = [self._open.pop(cursor) for cursor in idle]
        del gone  # iterators end here, without the lock
