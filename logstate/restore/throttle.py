"""When work that comes in pieces goes on, beside other work that waits for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from logstate.contracts.clock import Clock

#: of the time, pieces take a quarter at most
_TIMES_AS_LONG = 3.0


class Throttle:
    """After each piece a rest thrice as long: two of 30 ms do not hold up the same commit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms = float("-inf")

    @property
    def is_over(self) -> bool:
        """The next piece may begin."""
        return self._clock.monotonic_ms() >= self._until_ms

    def at_least(self, ms: float) -> None:
        """Something else had its turn, and the other work waits for that already."""
        self._until_ms = max(self._until_ms, self._clock.monotonic_ms() + ms)

    @contextmanager
    def piece(self) -> Iterator[None]:
        """What is done inside is one."""
        began_ms = self._clock.monotonic_ms()
        try:
            yield
        finally:
            now_ms = self._clock.monotonic_ms()
            rested_ms = now_ms + _TIMES_AS_LONG * (now_ms - began_ms)
            self._until_ms = max(self._until_ms, rested_ms)
