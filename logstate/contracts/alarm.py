"""Being told that a time has come, while the caller is busy and looks at no clock.

Looking at the clock after every record costs a percent of what the cheapest record costs, and a
look every n records is late by n of the slowest. So a thread looks, twenty times a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

_LOOKS_APART_S = 0.05
_NEVER = float("inf")


class Alarm(Protocol):
    """Calls a function when the time it was set to has come, and again until it is cleared."""

    def set(self, at_ms: float) -> None:
        """Ring from this monotonic time on."""

    def clear(self) -> None:
        """Ring no more; one ring that has begun already may still come."""

    def close(self) -> None:
        """Release it."""


class ThreadAlarm:
    """Rings on a thread of its own, which begins when it is first set. It takes no lock.

    ``ring`` may come at any moment, a little after ``clear`` too: it should set a flag, no more.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at_ms = _NEVER
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def set(self, at_ms: float) -> None:
        self._at_ms = at_ms
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="logstate-alarm", daemon=True)
            self._thread.start()

    def clear(self) -> None:
        self._at_ms = _NEVER

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        while not self._closed.wait(_LOOKS_APART_S):
            if time.monotonic_ns() / 1_000_000 >= self._at_ms:
                self._ring()
