"""What is not read to its end: kept for whoever asks for the next page, for a while.

An iterator over a store keeps the rows of its commit alive, so there are few, and none for long.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from logstate.contracts.errors import LogstateError, StoreUnavailableError

T = TypeVar("T")

CURSORS_MAX = 256
#: nobody asks for the next page any more
IDLE_MS = 60_000.0


class CursorGoneError(LogstateError):
    """The pages cannot be gone on with: begin again."""


class Cursors(Generic[T]):
    """From any thread; each cursor leads to its page once."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._open: dict[str, tuple[T, float]] = {}
        self._lock = threading.Lock()

    def kept(self, one: T) -> str:
        """A cursor for it; raises StoreUnavailableError where there are too many."""
        now, cursor = self._now_ms(), secrets.token_urlsafe(12)
        with self._lock:
            idle = [c for c, (_, since) in self._open.items() if now - since > IDLE_MS]
            for gone in idle:
                del self._open[gone]
            if len(self._open) >= CURSORS_MAX:
                raise StoreUnavailableError(
                    f"{CURSORS_MAX} readers go through stores of this instance already; try again"
                )
            self._open[cursor] = one, now
        return cursor

    def taken(self, cursor: str) -> T:
        """What a cursor stands for; raises CursorGoneError."""
        with self._lock:
            found = self._open.pop(cursor, None)
        if found is None or self._now_ms() - found[1] > IDLE_MS:
            raise CursorGoneError(
                f"the page behind {cursor!r:.40} was read already, or nobody asked for it for"
                f" {IDLE_MS / 1000:.0f} s; begin again"
            )
        return found[0]
