"""Scheduled callbacks of one task, by stream time or by wall clock (KIP-138, KIP-1146).

A schedule fires at most once per look, however many intervals were missed, and stays on its grid.
Stream-time schedules are due as soon as there is a stream time, wall-clock schedules one interval
after they were made; anchored ones at their anchor, or at the first grid point after now where that
is over. Callbacks get the time of the look, not the grid point. What a callback schedules belongs
to the same look, if it is due.

Of schedules that are due at the same time Kafka Streams' `heap` decides which is called first. So
what is cancelled stays in it until its time comes, and what was called comes back after its call.
Only a cut has no cancelled ones: what was next to one may come in another order after a restart.

The next due times decide results, so they are part of the committed cut (``next_times``) and come
back with it, in the order of the heap. That holds for wall-clock schedules too: were they started
anew, an application that is rebalanced more often than the interval would never run them. But a
wall clock may have been wrong when they were committed, and a schedule must not sleep until the
wrong time comes: one that is due more than two intervals ahead, and not because it is anchored
there, is due at once and goes on with its grid. A clock that is set back by less leaves it as it
is, so that nothing runs twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from logstate.task.heap import offer, poll

PunctuationKind: TypeAlias = Literal["stream_time", "wall_clock"]

_LOGGER = logging.getLogger(__name__)

#: before the event time of every record that is processed
_AT_ONCE = -1

_due_time: Callable[[Any], int] = attrgetter("next_time")
_first: Callable[[Any], int] = itemgetter(0)


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
        self.next_time = self.time_after(now)

    def time_after(self, now: int) -> int:
        """When it is due again after a call."""
        following = self.next_time + self.interval_ms
        if now >= following:
            missed = (now - self.next_time) // self.interval_ms
            following = self.next_time + (missed + 1) * self.interval_ms
        return following

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

    heaps: Mapping[PunctuationKind, Sequence[Punctuation]]
    #: schedule, due time, and whether it is cancelled; the one that is being called too
    states: Sequence[tuple[Punctuation, int, bool]]
    made: Mapping[PunctuationKind, int]
    #: due times that wait for schedules yet to be made
    committed: Mapping[str, int]


class Punctuations:
    """All schedules of a task. ``next_stream_time`` is the earliest due one, for a cheap check.

    The check is the only thing that the batch loop looks at after every record, so whoever wants
    the loop to end after the record at hand makes it believe that something is due (``interrupt``).
    """

    def __init__(self) -> None:
        #: heaps
        self._by_kind: dict[PunctuationKind, list[Punctuation]] = {
            "stream_time": [],
            "wall_clock": [],
        }
        #: whose callback is running: in no heap
        self._called: Punctuation | None = None
        self._made: dict[PunctuationKind, int] = {"stream_time": 0, "wall_clock": 0}
        #: due times from a committed cut, waiting for their schedules to be made again; replaced,
        #: never changed
        self._committed: Mapping[str, int] = {}
        #: name -> place in the committed heaps, until something is called
        self._places: Mapping[str, int] = {}
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
        label = name or self.name_of_next(kind)
        self._made[kind] += 1
        first = self._taken(label)
        if first is None:
            first = _first_time(kind, interval_ms, now, start_ms)
        schedule = Punctuation(label, interval_ms, first, callback, start_ms)
        offer(self._by_kind[kind], schedule, _due_time)
        if label in self._places:
            self._arrange(kind)
        self.refresh()
        return schedule

    def name_of_next(self, kind: PunctuationKind) -> str:
        """The name of the next schedule that has none of its own."""
        return f"{kind}-{self._made[kind]}"

    def due(self, kind: PunctuationKind, now: int) -> list[str]:
        """The names of the schedules to be called, in the order of their calls."""
        self._correct(kind, now)
        heap = [(schedule.next_time, schedule) for schedule in self._by_kind[kind]]
        names: list[str] = []
        while heap and heap[0][0] <= now:
            _, schedule = poll(heap, _first)
            if not schedule.is_cancelled:
                names.append(schedule.name)
                offer(heap, (schedule.time_after(now), schedule), _first)
        return names

    def fire(self, kind: PunctuationKind, now: int, *, only: str | None = None) -> int:
        """Call every due schedule once, earliest first, or one of them; returns how many ran."""
        if not self._by_kind[kind]:
            return 0
        self._correct(kind, now)
        count = 0
        before = self._by_kind[kind].copy()
        try:
            # Looked up anew each time: a callback may schedule, and may cancel what is due.
            while (schedule := self._take(kind, now, only)) is not None:
                self._called, self._places = schedule, {}
                schedule.callback(now)
                self._called = None
                if not schedule.is_cancelled:
                    schedule.move_past(now)
                    offer(self._by_kind[kind], schedule, _due_time)
                count += 1
                before = self._by_kind[kind].copy()
        finally:
            if self._called is not None:  # it is to be tried again later, and stays due
                self._called = None
                made = [s for s in self._by_kind[kind] if s not in before]
                self._fill(kind, [*before, *made])
            self.refresh()
        return count

    def _take(self, kind: PunctuationKind, now: int, only: str | None) -> Punctuation | None:
        """Take out the schedule to be called next."""
        heap = self._by_kind[kind]
        while heap and heap[0].next_time <= now:
            first = heap[0]
            if first.is_cancelled or only in (None, first.name):
                poll(heap, _due_time)
                if not first.is_cancelled:
                    return first
                continue
            for schedule in heap:
                is_due = schedule.next_time <= now and not schedule.is_cancelled
                if is_due and schedule.name == only:
                    self._fill(kind, [other for other in heap if other is not schedule])
                    return schedule
            break
        return None

    def _correct(self, kind: PunctuationKind, now: int) -> None:
        """Bring back what a wrong wall clock has made due too late."""
        if kind == "wall_clock":
            schedules = self._by_kind[kind]
            times = [schedule.next_time for schedule in schedules]
            for schedule in schedules:
                schedule.back_within_reach(now)
            if times != [schedule.next_time for schedule in schedules]:
                self._fill(kind, schedules.copy())

    def _arrange(self, kind: PunctuationKind) -> None:
        """Put the schedules of the committed cut into the places that they had."""
        places = self._places
        members = self._by_kind[kind]
        self._fill(kind, sorted(members, key=lambda s: places.get(s.name, len(places))))

    def _fill(self, kind: PunctuationKind, members: Sequence[Punctuation]) -> None:
        """Let a heap have these members, offered in this order."""
        heap: list[Punctuation] = []
        for member in members:
            offer(heap, member, _due_time)
        self._by_kind[kind] = heap

    def next_times(self) -> dict[str, int]:
        """Next due times by schedule name, for the cut; in the order of the heaps."""
        return {s.name: s.next_time for s in self._all() if not s.is_cancelled}

    def set_next_times(self, times: Mapping[str, int]) -> None:
        """Take over the due times of a committed cut."""
        self._committed = times
        self._places = {name: place for place, name in enumerate(times)}
        for schedule in self._all():
            due = self._taken(schedule.name)
            if due is not None:
                schedule.next_time = due
        for kind in self._by_kind:
            self._arrange(kind)
        self.refresh()

    def schedules(self) -> Schedules:
        """What there is now, for ``go_back_to``."""
        known = self._all() if self._called is None else [self._called, *self._all()]
        return Schedules(
            {kind: heap.copy() for kind, heap in self._by_kind.items()},
            [(schedule, schedule.next_time, schedule.is_cancelled) for schedule in known],
            dict(self._made),
            self._committed,
        )

    def go_back_to(self, then: Schedules) -> None:
        """Undo what was scheduled, cancelled and fired since ``then``.

        Records that are replayed make their schedules again; they must not meet the first ones.
        """
        self._made = dict(then.made)
        self._committed = then.committed
        for kind, heap in then.heaps.items():
            self._by_kind[kind] = list(heap)
        for schedule, next_time, is_cancelled in then.states:
            schedule.is_cancelled = is_cancelled
            schedule.next_time = next_time
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
        heap = self._by_kind["stream_time"]
        # A cancelled one counts: it leaves the heap at its time.
        earliest = heap[0].next_time if heap else None
        self.next_stream_time = _AT_ONCE if self.is_interrupted else earliest


def _first_time(kind: PunctuationKind, interval_ms: int, now: int, start_ms: int | None) -> int:
    if start_ms is None:
        return 0 if kind == "stream_time" else now + interval_ms
    if start_ms >= now:
        return start_ms
    return start_ms + ((now - start_ms) // interval_ms + 1) * interval_ms
