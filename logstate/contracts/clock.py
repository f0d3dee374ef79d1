"""Wall-clock and monotonic time behind one seam, so that no test ever sleeps.

An alarm says that a time has come to who is busy and looks at no clock. Looking after every record
costs a percent of what the cheapest record costs, and a look every n records is late by n of the
slowest. So a thread looks, twenty times a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

#: how late the end of a pause, or an alarm's time, may be noticed
_LOOK_S = 0.05
_NEVER = float("inf")
#: a hundred years; a lock refuses to be waited for longer than 292
_LONGEST_WAIT_S = 100 * 365 * 86_400.0


class Alarm(Protocol):
    """Calls a function when the time it was set to has come, and again until it is cleared."""

    def set(self, at_ms: float) -> None:
        """Ring from this monotonic time on."""

    def clear(self) -> None:
        """Ring no more; one ring that has begun already may still come."""

    def close(self) -> None:
        """Release it."""


class Clock(Protocol):
    """Where the engine reads time."""

    def wall_clock_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def monotonic_ms(self) -> float:
        """Milliseconds that only grow, for intervals and time-outs."""

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        """Something that calls ``ring`` at a monotonic time, on whatever thread."""


class SystemClock:
    """The machine's clocks."""

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        return ThreadAlarm(ring)


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
        #: those that are set
        self._alarms: dict[ManualAlarm, float] = {}

    def wall_clock_ms(self) -> int:
        return self._wall_clock_ms

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        return ManualAlarm(ring, self._alarms)

    def advance(self, ms: int) -> None:
        """Move both clocks forward; alarms whose time has come ring before this returns."""
        if ms < 0:
            raise ValueError(f"a clock cannot go back; got {ms} ms; jump the wall clock instead")
        self._wall_clock_ms += ms
        self._monotonic_ms += ms
        for alarm, at_ms in list(self._alarms.items()):
            if self._monotonic_ms >= at_ms:
                alarm.ring()

    def jump_wall_clock(self, wall_clock_ms: int) -> None:
        """Set the wall clock, as an NTP step does; the monotonic clock is unaffected."""
        self._wall_clock_ms = wall_clock_ms


class ManualAlarm:
    """An alarm of a manual clock."""

    def __init__(self, ring: Callable[[], None], alarms: dict[ManualAlarm, float]) -> None:
        self.ring = ring
        self._alarms = alarms

    def set(self, at_ms: float) -> None:
        self._alarms[self] = at_ms

    def clear(self) -> None:
        self._alarms.pop(self, None)

    def close(self) -> None:
        self.clear()


def wait_s(timeout: timedelta) -> float:
    """A time-out in seconds, as what waits takes it: ``timedelta.max`` is a hundred years.

    >>> wait_s(timedelta(minutes=1)), wait_s(timedelta.max)
    (60.0, 3153600000.0)
    """
    return min(timeout.total_seconds(), _LONGEST_WAIT_S)


def pause(seconds: float, is_over: Callable[[], bool]) -> None:
    """Let seconds pass, or less; it is looked at, as a signal handler must not wake a thread."""
    end_s = time.monotonic() + seconds
    while not is_over() and time.monotonic() < end_s:
        time.sleep(min(_LOOK_S, seconds))


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
        while not self._closed.wait(_LOOK_S):
            if time.monotonic_ns() / 1_000_000 >= self._at_ms:
                self._ring()
