"""Wall-clock and monotonic time behind a protocol, so that no test ever sleeps.

An alarm notifies a busy thread, which does not read the clock itself, that a time has come. Reading
the clock after every record costs a percent of the cheapest record, and reading it every n records
is late by n of the slowest ones. So a thread checks the time, twenty times a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

#: maximum delay of the end of a pause, or of an alarm
_LOOK_S = 0.05
_NEVER = float("inf")
#: a hundred years; a lock accepts at most 292
_LONGEST_WAIT_S = 100 * 365 * 86_400.0


class Alarm(Protocol):
    """Calls a function when a set time has come, and repeats it until it is cleared."""

    def set(self, at_ms: float) -> None:
        """Ring from this monotonic time on."""

    def clear(self) -> None:
        """Stop ringing; a call that has already begun may still arrive."""

    def close(self) -> None:
        """Release the alarm."""


class Clock(Protocol):
    """The engine's source of time."""

    def wall_clock_ms(self) -> int:
        """Return milliseconds since the epoch; may jump."""

    def monotonic_ms(self) -> float:
        """Return milliseconds that only increase, for intervals and time-outs."""

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        """Return an alarm that calls ``ring`` at a monotonic time, on any thread."""


class SystemClock:
    """The machine's clocks."""

    def wall_clock_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        return ThreadAlarm(ring)


class ManualClock:
    """A clock that only moves with ``advance`` and ``jump_wall_clock``.

    >>> clock = ManualClock(1_000)
    >>> clock.advance(250)
    >>> clock.wall_clock_ms(), clock.monotonic_ms()
    (1250, 250.0)
    """

    def __init__(self, wall_clock_ms: int = 0) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._monotonic_ms = 0.0
        #: alarms that are set, with their times
        self._alarms: dict[ManualAlarm, float] = {}

    def wall_clock_ms(self) -> int:
        return self._wall_clock_ms

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        return ManualAlarm(ring, self._alarms)

    def advance(self, ms: int) -> None:
        """Advance both clocks; alarms whose time has come ring before this returns."""
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
    """Return a time-out in seconds for waiting calls: ``timedelta.max`` is a hundred years.

    >>> wait_s(timedelta(minutes=1)), wait_s(timedelta.max)
    (60.0, 3153600000.0)
    """
    return min(timeout.total_seconds(), _LONGEST_WAIT_S)


def date_of(time_ms: int | None) -> str:
    """Return a time in UTC for messages and pages; of an impossible date its milliseconds.

    >>> date_of(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    if time_ms is None:
        return "?"
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def pause(seconds: float, is_over: Callable[[], bool]) -> None:
    """Wait for a time, or until ``is_over``; it polls, because a signal handler must not notify."""
    end_s = time.monotonic() + seconds
    while not is_over() and time.monotonic() < end_s:
        time.sleep(min(_LOOK_S, seconds))


class ThreadAlarm:
    """Rings on its own thread, which starts when it is first set. It takes no lock.

    ``ring`` may be called at any moment, also shortly after ``clear``: it should only set a flag.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at_ms = _NEVER
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def set(self, at_ms: float) -> None:
        self._at_ms = at_ms
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._watch_clock, name="logstate-alarm", daemon=True
            )
            self._thread.start()

    def clear(self) -> None:
        self._at_ms = _NEVER

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _watch_clock(self) -> None:
        while not self._closed.wait(_LOOK_S):
            if time.monotonic_ns() / 1_000_000 >= self._at_ms:
                self._ring()
