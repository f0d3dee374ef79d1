"""Limit the number of bytes read per second."""

from __future__ import annotations

from logstate.contracts.clock import Clock


class RateLimiter:
    """Allows the next read after enough time has passed for the bytes already read.

    ``bytes_per_s`` None: no limit.
    """

    def __init__(self, clock: Clock, bytes_per_s: int | None) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._owed_bytes = self._at_ms = 0.0

    def may_read(self) -> bool:
        """Return True if enough time has passed for all bytes read so far."""
        if self._bytes_per_s is None:
            return True
        now_ms = self._clock.monotonic_ms()
        paid = self._bytes_per_s * (now_ms - self._at_ms) / 1000
        self._owed_bytes, self._at_ms = max(0.0, self._owed_bytes - paid), now_ms
        return self._owed_bytes <= 0

    def took(self, read_bytes: int) -> None:
        """Record that this many bytes were read."""
        self._owed_bytes += read_bytes
