"""The clocks of one process: the world's time, its own wall-clock error, and slow user code."""

from __future__ import annotations

from collections.abc import Callable

from logstate.contracts.clock import Alarm, ManualClock


class ProcessClock:
    """Time passes for everybody; only the wall clock's error is the process's own."""

    def __init__(self, world: ManualClock) -> None:
        self._world = world
        #: how far this process's wall clock is off
        self.error_ms = 0
        #: what the next look at the wall clock takes; user code looks at it in every record
        self.slow_ms = 0
        self.monotonic_ms = world.monotonic_ms

    def wall_clock_ms(self) -> int:
        if self.slow_ms:
            slow_ms, self.slow_ms = self.slow_ms, 0
            self._world.advance(slow_ms)
        return self._world.wall_clock_ms() + self.error_ms

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        return self._world.alarm(ring)
