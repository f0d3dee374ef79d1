"""Scheduled callbacks of one task, by stream time or by wall clock (KIP-138, KIP-1146).

A schedule fires at most once per check, however many intervals were missed, and stays on its grid.
Stream-time schedules are due as soon as there is a stream time, wall-clock schedules one interval
after they were created; anchored ones at their anchor, or at the first grid point after now if the
anchor has passed. Callbacks receive the time of the check, not the grid point. A schedule created
by a callback belongs to the same check if it is due.

If several schedules are due at the same time, Kafka Streams' `heap` determines their order. So a
cancelled schedule stays in it until its time, and a called one is added again after its call. Only
a cut has no cancelled ones: their neighbors may be called in a different order after a restart.

Looks for due timers of keys are a separate kind of schedule, ``timers``, by stream time. They
are called before the record that advances stream time to them, all others after it. If that record
sets a timer that is due already, the look is repeated after it. The look for rows that expire, of
kind ``expiry``, comes before those: a timer may write a row over one that has expired.

The next due times affect results, so they are part of the committed cut (``next_times``) and are
restored with it, in the order of the heap. That applies to wall-clock schedules too: if they were
restarted, an application that is rebalanced more often than the interval would never run them. But
the wall clock may have been wrong when they were committed, and a schedule must not wait until the
wrong time: one that is due more than two intervals ahead, without being anchored there, is due at
once and continues on its grid. If the clock is set back by less, the due time is unchanged, so that
nothing runs twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from logstate.contracts.record_parts import TIMESTAMP_MAX
from logstate.task.queues import offer, poll

PunctuationKind: TypeAlias = Literal["expiry", "timers", "stream_time", "wall_clock"]

_LOGGER = logging.getLogger(__name__)

#: the kinds that are called before the record that advances stream time
_BEFORE: tuple[PunctuationKind, ...] = ("expiry", "timers")
#: less than the event time of any processed record
_AT_ONCE = -1
#: later than any
_NEVER = TIMESTAMP_MAX + 1

_due_time: Callable[[Any], int] = attrgetter("next_time")
_first: Callable[[Any], int] = itemgetter(0)


class Punctuation:
    """One schedule; ``cancel`` stops it, also from inside its own callback."""

    __slots__ = (
        "callback",
        "interval_ms",
        "is_cancelled",
        "is_to_be_repeated",
        "name",
        "next_time",
        "start_ms",
    )

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
        #: the time that it is anchored at, and may have to wait for
        self.start_ms = start_ms
        self.is_cancelled = False
        #: a look for timers that must be repeated after the current record
        self.is_to_be_repeated = False

    def cancel(self) -> None:
        """Prevent further calls."""
        self.is_cancelled = True

    def move_past(self, now: int) -> None:
        """Move to the next grid point strictly after ``now``."""
        self.next_time = self.time_after(now)

    def time_after(self, now: int) -> int:
        """Return when it is due again after a call."""
        following = self.next_time + self.interval_ms
        if now >= following:
            missed = (now - self.next_time) // self.interval_ms
            following = self.next_time + (missed + 1) * self.interval_ms
        return following

    def move_back_to(self, now: int) -> None:
        """Move to the last grid point that is not after ``now``, unless it is due by then."""
        if self.next_time > now:
            self.next_time -= -(-(self.next_time - now) // self.interval_ms) * self.interval_ms

    def back_within_reach(self, now: int) -> None:
        """If it was made due while the wall clock was ahead, use the last grid point before now."""
        interval, wrong = self.interval_ms, self.next_time
        if wrong <= now + 2 * interval or wrong == self.start_ms:
            return
        self.next_time -= -(-(wrong - now) // interval) * interval
        if self.start_ms is not None:
            self.next_time = max(self.next_time, self.start_ms)
        _LOGGER.warning(
            "the schedule %r, every %d ms by the wall clock, was due at %d, which is %d ms ahead"
            " of the wall clock (%d): the clock was set back, or the clock of the instance that"
            " committed the due time is ahead. It is due at %d instead",
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
    #: schedule, due time, and whether it is cancelled; includes the one being called
    states: Sequence[tuple[Punctuation, int, bool]]
    made: Mapping[PunctuationKind, int]
    #: due times for schedules that have not been created yet
    committed: Mapping[str, int]


class Punctuations:
    """All schedules of a task. ``next_stream_time`` is the earliest due one, for a cheap check;
    ``next_timers`` is that of the timers, for the check before a record.

    The first check is all that the batch loop does after every record, so to end the loop after the
    current record, ``interrupt`` makes a schedule appear due.
    """

    def __init__(self) -> None:
        #: heaps
        self._by_kind: dict[PunctuationKind, list[Punctuation]] = {
            "expiry": [],
            "timers": [],
            "stream_time": [],
            "wall_clock": [],
        }
        #: the schedule whose callback is running: not in a heap
        self._called: Punctuation | None = None
        self._made: dict[PunctuationKind, int] = dict.fromkeys(self._by_kind, 0)
        #: due times from a committed cut, for schedules that have not been created again yet;
        #: replaced, never changed
        self._committed: Mapping[str, int] = {}
        #: name -> position in the committed heaps, until a schedule is called
        self._places: Mapping[str, int] = {}
        self.next_stream_time: int | None = None
        self.next_timers = _NEVER
        #: timers were called before the current record
        self.follows_timers = False
        #: the batch must end after the current record
        self.is_interrupted = False

    def interrupt(self) -> None:
        """End the batch. From any thread; may be lost to a concurrent ``refresh``: call it
        again.
        """
        self.is_interrupted = True
        self.next_stream_time = _AT_ONCE

    def resume(self) -> None:
        """Begin a new batch."""
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
        """Create a schedule. ``now`` is the time of its kind: wall clock, or stream time."""
        if interval_ms < 1:
            raise ValueError(
                f"a punctuation interval must be at least 1 ms; got {interval_ms} ms; pass a"
                " longer timedelta to schedule()"
            )
        label = name or self.name_of_next(kind)
        self._made[kind] += 1
        first = self._committed_due_time(label)
        if first is None:
            first = _first_time(kind, interval_ms, now, start_ms)
        schedule = Punctuation(label, interval_ms, first, callback, start_ms)
        offer(self._by_kind[kind], schedule, _due_time)
        if label in self._places:
            self._restore_order(kind)
        self.refresh()
        if kind in _BEFORE:
            self.interrupt()  # the batch loop asks `are_before_records` when it begins
        return schedule

    @property
    def are_before_records(self) -> bool:
        """There are schedules that are called before the record that makes them due."""
        return any(self._by_kind[kind] for kind in _BEFORE)

    def name_of_next(self, kind: PunctuationKind) -> str:
        """Return the name of the next schedule without an explicit name."""
        return f"{kind}-{self._made[kind]}"

    def due(self, kind: PunctuationKind, now: int) -> list[str]:
        """Return the names of the due schedules in the order of their calls."""
        self._correct_due_times(kind, now)
        heap = [(schedule.next_time, schedule) for schedule in self._by_kind[kind]]
        names: list[str] = []
        while heap and heap[0][0] <= now:
            _, schedule = poll(heap, _first)
            if not schedule.is_cancelled:
                names.append(schedule.name)
                offer(heap, (schedule.time_after(now), schedule), _first)
        return names

    def fire(self, kind: PunctuationKind, now: int, *, only: str | None = None) -> int:
        """Call every due schedule once, earliest first, or one of them; return how many ran."""
        if not self._by_kind[kind]:
            return 0
        self._correct_due_times(kind, now)
        count = 0
        before = self._by_kind[kind].copy()
        try:
            # Looked up again each time: a callback may add schedules and cancel due ones.
            while (schedule := self._pop_due(kind, now, only)) is not None:
                self._called, self._places = schedule, {}
                schedule.callback(now)
                self._called = None
                if not schedule.is_cancelled:
                    schedule.move_past(now)
                    offer(self._by_kind[kind], schedule, _due_time)
                count += 1
                before = self._by_kind[kind].copy()
        finally:
            if self._called is not None:  # it must be retried later, and stays due
                self._called = None
                made = [s for s in self._by_kind[kind] if s not in before]
                self._rebuild_heap(kind, [*before, *made])
            self.refresh()
        return count

    def expect_record(self) -> None:
        """Make the batch loop check the schedules after the record that timers were called for."""
        self.follows_timers = True
        self.next_stream_time = _AT_ONCE

    def repeat_timers(self, now: int) -> bool:
        """Make the looks for timers due that must be repeated; return whether there are any."""
        repeated = [one for one in self._by_kind["timers"] if one.is_to_be_repeated]
        for timers in repeated:
            timers.is_to_be_repeated = False
            timers.move_back_to(now)
        if repeated:
            self._rebuild_heap("timers", self._by_kind["timers"].copy())
        return bool(repeated)

    def _pop_due(self, kind: PunctuationKind, now: int, only: str | None) -> Punctuation | None:
        """Remove and return the schedule to call next."""
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
                    self._rebuild_heap(kind, [other for other in heap if other is not schedule])
                    return schedule
            break
        return None

    def _correct_due_times(self, kind: PunctuationKind, now: int) -> None:
        """Correct due times that a wrong wall clock has made too late."""
        if kind == "wall_clock":
            schedules = self._by_kind[kind]
            times = [schedule.next_time for schedule in schedules]
            for schedule in schedules:
                schedule.back_within_reach(now)
            if times != [schedule.next_time for schedule in schedules]:
                self._rebuild_heap(kind, schedules.copy())

    def _restore_order(self, kind: PunctuationKind) -> None:
        """Put the schedules of the committed cut at their committed positions."""
        places = self._places
        members = self._by_kind[kind]
        self._rebuild_heap(kind, sorted(members, key=lambda s: places.get(s.name, len(places))))

    def _rebuild_heap(self, kind: PunctuationKind, members: Sequence[Punctuation]) -> None:
        """Rebuild a heap from these members, offered in this order."""
        heap: list[Punctuation] = []
        for member in members:
            offer(heap, member, _due_time)
        self._by_kind[kind] = heap

    def next_times(self) -> dict[str, int]:
        """Return the next due times by schedule name, for the cut; in the order of the heaps."""
        return {s.name: s.next_time for s in self._all_schedules() if not s.is_cancelled}

    def set_next_times(self, times: Mapping[str, int]) -> None:
        """Use the due times of a committed cut."""
        self._committed = times
        self._places = {name: place for place, name in enumerate(times)}
        for schedule in self._all_schedules():
            due = self._committed_due_time(schedule.name)
            if due is not None:
                schedule.next_time = due
        for kind in self._by_kind:
            self._restore_order(kind)
        self.refresh()

    def schedules(self) -> Schedules:
        """Return the current schedules, for ``go_back_to``."""
        known = (
            self._all_schedules()
            if self._called is None
            else [self._called, *self._all_schedules()]
        )
        return Schedules(
            {kind: heap.copy() for kind, heap in self._by_kind.items()},
            [(schedule, schedule.next_time, schedule.is_cancelled) for schedule in known],
            dict(self._made),
            self._committed,
        )

    def go_back_to(self, then: Schedules) -> None:
        """Undo everything scheduled, cancelled and fired since ``then``.

        Replayed records create their schedules again; the first ones must be gone.
        """
        self._made = dict(then.made)
        self._committed = then.committed
        for kind, heap in then.heaps.items():
            self._by_kind[kind] = list(heap)
        for schedule, next_time, is_cancelled in then.states:
            schedule.is_cancelled = is_cancelled
            schedule.next_time = next_time
        self.refresh()

    def _committed_due_time(self, name: str) -> int | None:
        """Return the due time of a schedule in the committed cut; each is used once."""
        due = self._committed.get(name)
        if due is not None:
            self._committed = {n: time for n, time in self._committed.items() if n != name}
        return due

    def _all_schedules(self) -> list[Punctuation]:
        return [schedule for heap in self._by_kind.values() for schedule in heap]

    def refresh(self) -> None:
        """Compute ``next_stream_time`` and ``next_timers`` again."""
        heap = self._by_kind["stream_time"]
        before = [one[0].next_time for kind in _BEFORE if (one := self._by_kind[kind])]
        # A cancelled schedule counts: it leaves the heap at its time.
        earliest = heap[0].next_time if heap else None
        self.next_timers = min(before, default=_NEVER)
        self.next_stream_time = _AT_ONCE if self.is_interrupted else earliest


def _first_time(kind: PunctuationKind, interval_ms: int, now: int, start_ms: int | None) -> int:
    if start_ms is None:
        return now + interval_ms if kind == "wall_clock" else 0
    if start_ms >= now:
        return start_ms
    return start_ms + ((now - start_ms) // interval_ms + 1) * interval_ms
