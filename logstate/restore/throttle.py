"""Limit the share of time of work that is done in slices, so that other work is not delayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from logstate.contracts.clock import Clock

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

    def at_least(self, ms: float) -> None:
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
