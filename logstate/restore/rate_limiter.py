"""Limit the number of bytes read per second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from logstate.contracts.clock import Clock

#: within a shorter time, the rate mostly reflects the first fetch
_MEASURED_MS = 100.0


@dataclass(frozen=True)
class RestorePace:
    """When and at which offset the replay of a store began."""

    began_ms: float
    first: int

    def offsets_per_s(self, now_ms: float, position: int) -> float | None:
        """Return the mean rate since the beginning; None while it is too early to estimate.

        >>> RestorePace(0.0, 1_000).offsets_per_s(2_000.0, 5_000)
        2000.0
        """
        passed_ms = now_ms - self.began_ms
        if passed_ms < _MEASURED_MS or position <= self.first:
            return None
        return (position - self.first) * 1_000 / passed_ms

    def remaining_s(self, now_ms: float, position: int, target: int) -> float | None:
        """Return the remaining time at this rate.

        >>> RestorePace(0.0, 0).remaining_s(1_000.0, 100, 400)
        3.0
        """
        rate = self.offsets_per_s(now_ms, position)
        if position >= target:
            return 0.0
        return None if rate is None else (target - position) / rate


#: slices take at most a quarter of the time
_TIMES_AS_LONG = 3.0


class Throttle:
    """Pauses three times as long as each slice, so two slices do not delay the same commit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = float("-inf")

    @property
    def is_over(self) -> bool:
        """True if the next slice may begin."""
        return self._clock.monotonic_ms() >= self._until_ms

    def pause_at_least(self, ms: float) -> None:
        """Pause for at least this long, because other work was already delayed."""
        self._until_ms = max(self._until_ms, self._clock.monotonic_ms() + ms)

    @contextmanager
    def piece(self) -> Iterator[None]:
        """Measure the work done inside as one slice."""
        began_ms = self._clock.monotonic_ms()
        try:
            yield
        finally:
            now_ms = self._clock.monotonic_ms()
            rested_ms = now_ms + _TIMES_AS_LONG * (now_ms - began_ms)
            self._until_ms = max(self._until_ms, rested_ms)


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

    def count_read(self, read_bytes: int) -> None:
        """Record that this many bytes were read."""
        self._owed_bytes += read_bytes
