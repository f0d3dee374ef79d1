"""Wall-clock and monotonic time behind one seam, so that no test ever sleeps."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the engine reads time."""

    def wall_clock_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def monotonic_ms(self) -> float:
        """Milliseconds that only grow, for intervals and time-outs."""


class SystemClock:
    """The machine's clocks."""

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000


class ManualClock:
    """A clock that moves only when told to.

    >>> clock = ManualClock(1_000)
    >>> clock.advance(250)
    >>> clock.wall_clock_ms(), clock.monotonic_ms()
    (1250, 250.0)
    """

    def __init__(self, wall_clock_ms: int = 0) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._monotonic_ms = 0.0

    def wall_clock_ms(self) -> int:
        return self._wall_clock_ms

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Move both clocks forward."""
        if ms < 0:
            raise ValueError(f"a clock cannot go back; got {ms} ms; jump the wall clock instead")
        self._wall_clock_ms += ms
        self._monotonic_ms += ms

    def jump_wall_clock(self, wall_clock_ms: int) -> None:
        """Set the wall clock, as an NTP step does; the monotonic clock is unaffected."""
        self._wall_clock_ms = wall_clock_ms
