"""How many bytes may be read by now, where a limit says how many a second."""

from __future__ import annotations

from logstate.contracts.clock import Clock


class RateLimiter:
    """What was read is paid for by the time that passes; until then nothing more may be.

    ``bytes_per_s`` None: there is no limit.
    """

    def __init__(self, clock: Clock, bytes_per_s: int | None) -> None:
        self._clock = clock
        self._bytes_per_s = bytes_per_s
        self._owed_bytes = self._at_ms = 0.0

    def may_read(self) -> bool:
        """Whether all that was read is paid for."""
        if self._bytes_per_s is None:
            return True
        now_ms = self._clock.monotonic_ms()
        paid = self._bytes_per_s * (now_ms - self._at_ms) / 1000
        self._owed_bytes, self._at_ms = max(0.0, self._owed_bytes - paid), now_ms
        return self._owed_bytes <= 0

    def took(self, read_bytes: int) -> None:
        """So much was read."""
        self._owed_bytes += read_bytes
