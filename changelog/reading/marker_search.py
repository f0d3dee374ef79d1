"""Find out whether offsets that consumers do not receive are transaction markers.

A consumer gets no markers, so one looks like a record that compaction has taken.

Brokers count them where they look an offset up by its time: they answer with the first record, be
it a marker, that is not older. An answer of an offset that no consumer is shown proves that it is
there. A marker has the time of the broker's clock, and so is found where no event before it is
from the future; else nothing is proven. The first time to ask for is just above the newest one
before the offset: with ordinary event times that answer is the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from logstate.contracts.records import FetchedRecord

#: the first offset at or behind a time in ms, None if there is none
FirstSince = Callable[[int], int | None]

#: what brokers' clocks may be ahead
_AHEAD_MS = 600_000


class Missing(NamedTuple):
    """An offset that is missing, and the newest time of the records before it."""

    offset: int
    newest_ms: int


class OffsetGaps:
    """The offsets of a log without a record, each with the newest time before it.

    At most ``most`` of them are kept; compare the count to detect that there are more.
    """

    def __init__(self, records: Iterable[list[FetchedRecord]], start: int, end: int, most: int):
        self._most = most
        self.found: list[Missing] = []
        self.adjacent: list[Missing] = []
        """Those with an adjacent missing offset."""
        expected, newest_ms = start, -1
        for batch in records:
            for record in batch:
                offset: int = record.offset()  # type: ignore[assignment]
                if offset > expected:
                    self._note(expected, offset, newest_ms)
                expected, newest_ms = offset + 1, max(newest_ms, record.timestamp()[1])
        self._note(expected, end, newest_ms)

    def _note(self, start: int, end: int, newest_ms: int) -> None:
        kept = [Missing(at, newest_ms) for at in range(start, min(end, start + self._most + 1))]
        if len(self.found) <= self._most:
            self.found += kept
        if len(kept) > 1 and len(self.adjacent) <= self._most:
            self.adjacent += kept

    def are_markers(self, first_since: FirstSince, now_ms: int) -> bool:
        """Whether all missing offsets are proven to be markers."""
        return len(self.found) <= self._most and are_markers(self.found, first_since, now_ms)

    def adjacent_are_markers(self, first_since: FirstSince, now_ms: int) -> bool:
        """Whether the missing offsets with an adjacent one are proven to be markers."""
        return len(self.adjacent) <= self._most and are_markers(self.adjacent, first_since, now_ms)


def are_markers(missing: Iterable[Missing], first_since: FirstSince, now_ms: int) -> bool:
    """Whether each of these offsets is proven to be there."""
    return all(
        starts_segment(one.offset, first_since, now_ms, one.newest_ms + 1) for one in missing
    )


def starts_segment(offset: int, first_since: FirstSince, now_ms: int, newer_ms: int = 0) -> bool:
    """Whether a time can be found, from ``newer_ms`` on, whose first record is at this offset.

    >>> times = [10, 30, 20, 40]
    >>> def first_since(time): return next((n for n, t in enumerate(times) if t >= time), None)
    >>> [starts_segment(offset, first_since, 100) for offset in range(4)]
    [True, True, False, True]
    """
    low, high = newer_ms, now_ms + _AHEAD_MS
    time_ms = low
    while low < high:
        found = first_since(time_ms)
        if found == offset:
            return True
        if found is not None and found < offset:
            low = time_ms + 1
        else:
            high = time_ms
        time_ms = (low + high) // 2
    return False
