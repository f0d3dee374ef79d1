"""Unfinished scans, kept for the client's next page for a limited time.

An iterator over a store keeps the rows of its commit alive, so there are few, and only for a short
time: while there are any, a timer closes those that are no longer used.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from logstate.contracts.errors import LogstateError

T = TypeVar("T")

CURSORS_MAX = 256
#: after this time without a request for the next page, a cursor is closed
IDLE_MS = 60_000.0


class CursorGoneError(LogstateError):
    """The scan cannot continue: restart it."""


def _later(call: Callable[[], None]) -> None:
    timer = threading.Timer(IDLE_MS / 1000, call)
    timer.daemon = True
    timer.start()


class Cursors(Generic[T]):
    """Maps cursors to unfinished scans; usable from any thread. A cursor can be used once.

    ``later`` schedules a call after ``IDLE_MS``.
    """

    def __init__(
        self,
        now_ms: Callable[[], float],
        later: Callable[[Callable[[], None]], None] = _later,
    ) -> None:
        self._now_ms = now_ms
        self._later = later
        self._open: dict[str, tuple[T, float]] = {}
        #: whether the timer runs
        self._is_swept = False
        self._lock = threading.Lock()

    def kept(self, one: T) -> str:
        """Store it, and return its cursor. Beyond the maximum, the oldest one is closed."""
        cursor = secrets.token_urlsafe(12)
        self._drop_idle()
        with self._lock:
            gone = []
            while len(self._open) >= CURSORS_MAX:
                gone.append(self._open.pop(next(iter(self._open))))
            self._open[cursor] = one, self._now_ms()
            is_first, self._is_swept = not self._is_swept, True
        del gone  # iterators are closed here, without the lock
        if is_first:
            self._later(self._sweep)
        return cursor

    def taken(self, cursor: str, check: Callable[[T], None] = lambda _: None) -> T:
        """Remove and return the scan of a cursor; raise CursorGoneError if there is none.

        If ``check`` raises, that error is raised, and the cursor remains valid.
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
        del gone  # iterators are closed here, without the lock
