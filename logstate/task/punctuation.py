"""Scheduled callbacks of one task, by stream time or by wall clock (KIP-138, KIP-1146).

A schedule fires at most once per look, however many intervals were missed, and stays on its grid.
Stream-time schedules are due as soon as there is a stream time, wall-clock schedules one interval
after they were made; anchored ones at their anchor, or at the first grid point after now where that
is over. Callbacks get the time of the look, not the grid point. What a callback schedules belongs
to the same look, if it is due.

The next due times decide results, so they are part of the committed cut (``next_times``) and come
back with it. That holds for wall-clock schedules too: were they started anew, an application that
is rebalanced more often than the interval would never run them. But a wall clock may have been
wrong when they were committed, and a schedule must not sleep until the wrong time comes: one that
is due more than two intervals ahead, and not because it is anchored there, is due at once and goes
on with its grid. A clock that is set back by less leaves it as it is, so that nothing runs twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

PunctuationKind: TypeAlias = Literal["stream_time", "wall_clock"]

_LOGGER = logging.getLogger(__name__)

#: before the event time of every record that is processed
_AT_ONCE = -1


class Punctuation:
    """One schedule; ``cancel`` stops it, also from inside its own callback."""

    __slots__ = ("callback", "interval_ms", "is_cancelled", "name", "next_time", "start_ms")

    def __init__(
        self,
        name: str,
        interval_ms: int,
        next_time: int,
        callback: Callable[[int], None],
        start_ms: int | None = None,
    ) -> None:
        self.name = name
        self.interval_ms = interval_ms
        self.next_time = next_time
        self.callback = callback
        #: where it is anchored, and may have to wait for
        self.start_ms = start_ms
        self.is_cancelled = False

    def cancel(self) -> None:
        """No further calls."""
        self.is_cancelled = True

    def move_past(self, now: int) -> None:
        """The next grid point strictly after ``now``."""
        following = self.next_time + self.interval_ms
        if now >= following:
            missed = (now - self.next_time) // self.interval_ms
            following = self.next_time + (missed + 1) * self.interval_ms
        self.next_time = following

    def back_within_reach(self, now: int) -> None:
        """Where the wall clock was ahead when this was made due: the last grid point until now."""
        interval, wrong = self.interval_ms, self.next_time
        if wrong <= now + 2 * interval or wrong == self.start_ms:
            return
        self.next_time -= -(-(wrong - now) // interval) * interval
        if self.start_ms is not None:
            self.next_time = max(self.next_time, self.start_ms)
        _LOGGER.warning(
            "the schedule %r, every %d ms by the wall clock, was due at %d, which is %d ms ahead of"
            " the wall clock (%d): the clock was set back, or that of the instance which committed"
            " the due time is ahead. It is due at %d instead",
            self.name,
            interval,
            wrong,
            wrong - now,
            now,
            self.next_time,
        )


class Schedules(NamedTuple):
    """The schedules of a task at one moment."""

    due: Sequence[tuple[PunctuationKind, Punctuation, int]]
    made: Mapping[PunctuationKind, int]
    #: due times that wait for schedules yet to be made
    committed: Mapping[str, int]


class Punctuations:
    """All schedules of a task. ``next_stream_time`` is the earliest due one, for a cheap check.

    The check is the only thing that the batch loop looks at after every record, so whoever wants
    the loop to end after the record at hand makes it believe that something is due (``interrupt``).
    """

    def __init__(self) -> None:
        self._by_kind: dict[PunctuationKind, list[Punctuation]] = {
            "stream_time": [],
            "wall_clock": [],
        }
        self._made: dict[PunctuationKind, int] = {"stream_time": 0, "wall_clock": 0}
        #: due times from a committed cut, waiting for their schedules to be made again; replaced,
        #: never changed
        self._committed: Mapping[str, int] = {}
        self.next_stream_time: int | None = None
        #: the batch is to end after the record at hand
        self.is_interrupted = False

    def interrupt(self) -> None:
        """From any thread. Against a ``refresh`` at the same moment it may be lost: come again."""
        self.is_interrupted = True
        self.next_stream_time = _AT_ONCE

    def resume(self) -> None:
        """A new batch begins."""
        self.is_interrupted = False
        self.refresh()

    def add(
        self,
        kind: PunctuationKind,
        interval_ms: int,
        callback: Callable[[int], None],
        *,
        now: int,
        start_ms: int | None = None,
        name: str | None = None,
    ) -> Punctuation:
        """Make a schedule. ``now`` is the time of its kind: wall clock, or stream time."""
        if interval_ms < 1:
            raise ValueError(
                f"a punctuation interval must be at least 1 ms; got {interval_ms} ms; pass a"
                " longer timedelta to schedule()"
            )
        schedules = self._by_kind[kind]
        label = name or self.name_of_next(kind)
        self._made[kind] += 1
        first = self._taken(label)
        if first is None:
            first = _first_time(kind, interval_ms, now, start_ms)
        schedule = Punctuation(label, interval_ms, first, callback, start_ms)
        schedules.append(schedule)
        self.refresh()
        return schedule

    def name_of_next(self, kind: PunctuationKind) -> str:
        """The name of the next schedule that has none of its own."""
        return f"{kind}-{self._made[kind]}"

    def due(self, kind: PunctuationKind, now: int) -> list[str]:
        """The names of the schedules to be called, earliest first."""
        return [schedule.name for schedule in self._due(kind, now)]

    def fire(self, kind: PunctuationKind, now: int, *, only: str | None = None) -> int:
        """Call every due schedule once, earliest first, or one of them; returns how many ran."""
        if not self._by_kind[kind]:
            return 0
        count = 0
        try:
            # Looked up anew each time: a callback may schedule, and may cancel what is due.
            while due := [s for s in self._due(kind, now) if only is None or s.name == only]:
                schedule = due[0]
                schedule.callback(now)
                schedule.move_past(now)
                count += 1
        finally:  # one that is to be tried again later raises, and stays due
            self._by_kind[kind] = [s for s in self._by_kind[kind] if not s.is_cancelled]
            self.refresh()
        return count

    def _due(self, kind: PunctuationKind, now: int) -> list[Punctuation]:
        if kind == "wall_clock":
            for schedule in self._by_kind[kind]:
                schedule.back_within_reach(now)
        due = (s for s in self._by_kind[kind] if s.next_time <= now and not s.is_cancelled)
        return sorted(due, key=lambda schedule: schedule.next_time)

    def next_times(self) -> dict[str, int]:
        """Next due times by schedule name, for the cut."""
        return {s.name: s.next_time for s in self._all() if not s.is_cancelled}

    def set_next_times(self, times: Mapping[str, int]) -> None:
        """Take over the due times of a committed cut."""
        self._committed = times
        for schedule in self._all():
            due = self._taken(schedule.name)
            if due is not None:
                schedule.next_time = due
        self.refresh()

    def schedules(self) -> Schedules:
        """What there is now, for ``go_back_to``."""
        due = [
            (kind, schedule, schedule.next_time)
            for kind, schedules in self._by_kind.items()
            for schedule in schedules
            if not schedule.is_cancelled
        ]
        return Schedules(due, dict(self._made), self._committed)

    def go_back_to(self, then: Schedules) -> None:
        """Undo what was scheduled, cancelled and fired since ``then``.

        Records that are replayed make their schedules again; they must not meet the first ones.
        """
        self._made = dict(then.made)
        self._committed = then.committed
        for schedules in self._by_kind.values():
            schedules.clear()
        for kind, schedule, next_time in then.due:
            schedule.is_cancelled = False
            schedule.next_time = next_time
            self._by_kind[kind].append(schedule)
        self.refresh()

    def _taken(self, name: str) -> int | None:
        """The due time of a schedule in the committed cut, which counts once."""
        due = self._committed.get(name)
        if due is not None:
            self._committed = {n: time for n, time in self._committed.items() if n != name}
        return due

    def _all(self) -> list[Punctuation]:
        return [*self._by_kind["stream_time"], *self._by_kind["wall_clock"]]

    def refresh(self) -> None:
        """Compute ``next_stream_time`` anew."""
        times = [s.next_time for s in self._by_kind["stream_time"] if not s.is_cancelled]
        self.next_stream_time = _AT_ONCE if self.is_interrupted else min(times, default=None)


def _first_time(kind: PunctuationKind, interval_ms: int, now: int, start_ms: int | None) -> int:
    if start_ms is None:
        return 0 if kind == "stream_time" else now + interval_ms
    if start_ms >= now:
        return start_ms
    return start_ms + ((now - start_ms) // interval_ms + 1) * interval_ms
