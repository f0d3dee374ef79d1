"""Time segments: the layout of expiring rows, so that expiry never touches them one by one.

Every row of a window, session or versioned store starts with the 8-byte number of the segment of
its time (time // interval). A segment expires as a whole once all of it is before the
clock minus the retention; the rows of all expired segments are then one deleted range. The state is
the store's clock alone, so that rolling back the clock rolls back expiry as well.

Results depend on the interval that Kafka Streams uses: it decides which put comes too late, and the
order of a scan over all keys. But its floor of a minute is long for a retention of seconds: a store
would hold many times what it shows. There a segment is laid out in *parts*, its largest whole
fraction of at most half the retention; the 8 bytes are the part's number, and parts expire one by
one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from heapq import merge
from itertools import chain, groupby
from typing import Protocol

from logstate.changelog.rows.rows import ReadableRows
from logstate.contracts.processing import TimeCell
from logstate.contracts.stores import StoreSpec

#: Kafka Streams' floor for the interval of a window or session store
LEAST_INTERVAL_MS = 60_000

#: the number in front of a row
SEGMENT_BYTES = 8
_ID = struct.Struct(">q")
pack_segment = _ID.pack


def segment_of(row_key: bytes) -> int:
    """The number in front of a row.

    >>> segment_of(pack_segment(7) + b"key")
    7
    """
    number: int = _ID.unpack_from(row_key)[0]
    return number


def segment_interval_ms(spec: StoreSpec) -> int:
    """The declared interval, or half the retention but at least a minute.

    >>> from logstate import serdes
    >>> kwargs = {"kind": "window", "key": serdes.string, "value": serdes.string}
    >>> segment_interval_ms(StoreSpec("s", retention_ms=3_600_000, **kwargs))
    1800000
    """
    if spec.segment_interval_ms is not None:
        return spec.segment_interval_ms
    return max((spec.retention_ms or 0) // 2, LEAST_INTERVAL_MS)


@cache
def part_interval_ms(interval_ms: int, retention_ms: int) -> int:
    """Return the time span of one number before a row; the interval is a multiple of it.

    >>> part_interval_ms(1_800_000, 3_600_000), part_interval_ms(60_000, 25_000)
    (1800000, 12000)
    """
    longest_ms = max(retention_ms // 2, 1)
    parts = -(-interval_ms // longest_ms)
    while interval_ms % parts:
        parts += 1
    return interval_ms // parts


class RangeDeletingRows(ReadableRows, Protocol):
    """Rows that forget whole ranges."""

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        """Forget ``[lower, upper)``; the store never reads or writes it again."""


class SegmentClock:
    """The time a store has seen, and what that makes of its segments.

    The clock is the largest time put into the store so far, over all its keys; -1 = none.
    ``has_parts``: rows lie by part, and nothing asks for a row that the retention hides.
    """

    __slots__ = ("cell", "interval_ms", "part_ms", "retention_ms")

    def __init__(
        self, cell: TimeCell, interval_ms: int, retention_ms: int, *, has_parts: bool = False
    ) -> None:
        self.cell = cell
        self.interval_ms = interval_ms
        self.retention_ms = retention_ms
        self.part_ms = part_interval_ms(interval_ms, retention_ms) if has_parts else interval_ms

    def first_live(self) -> int:
        """The oldest segment that is not expired."""
        return max(0, (self.cell.time - self.retention_ms) // self.interval_ms)

    def first_part(self) -> int:
        """The oldest part that is not expired."""
        return max(0, (self.cell.time - self.retention_ms) // self.part_ms)

    def reaches(self, time: int) -> bool:
        """Whether ``time`` is not before the retention."""
        return time >= self.cell.time - self.retention_ms

    def advance(self, time: int, rows: RangeDeletingRows) -> None:
        """Move the clock to a later ``time`` and drop what that expires."""
        old = self.first_part() if self.cell.time >= 0 else 0
        self.cell.time = time
        live = self.first_part()
        if live > old:
            rows.delete_range(pack_segment(old), pack_segment(live))

    def sweep(self, rows: RangeDeletingRows) -> None:
        """Drop everything that the clock, as it stands, has expired; called before a replay.

        A replay begins with the clock of the committed cut, which may be far ahead of the rows on
        disk: what expired in between is neither updated by the replay nor met by ``advance``.
        """
        live = self.first_part() if self.cell.time >= 0 else 0
        lower, upper = pack_segment(0), pack_segment(live)
        if live > 0 and next(rows.scan(lower, upper), None) is not None:
            rows.delete_range(lower, upper)

    def reach(self, rows: ReadableRows) -> None:
        """Move the clock to the newest part that has rows, unless it is there."""
        newest = next(rows.scan(reverse=True), None)
        if newest is not None:
            self.cell.time = max(self.cell.time, segment_of(newest[0]) * self.part_ms)

    def scan_parts(
        self,
        scan: Callable[..., Iterator[tuple[bytes, bytes]]],
        parts: Iterable[int],
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """All rows of the parts, as of this call: by segment, then by the bytes behind it."""
        scans = [
            (part, scan(pack_segment(part), pack_segment(part + 1), reverse=reverse))
            for part in parts
        ]
        count = self.interval_ms // self.part_ms
        if count == 1:
            return chain.from_iterable(scan for _, scan in scans)
        segments = groupby(scans, key=lambda scanned: scanned[0] // count)
        return chain.from_iterable(
            [
                merge(*(scan for _, scan in group), key=_without_segment_number, reverse=reverse)
                for _, group in segments
            ]
        )

    def span(self, from_ms: int, to_ms: int, rows: ReadableRows) -> range:
        """The parts that can hold rows of these times, ascending.

        Where the store has no clock yet, the rows themselves say how far they reach.
        """
        first = max(from_ms, 0) // self.part_ms
        last = to_ms // self.part_ms
        time = self.cell.time
        if time >= 0:
            return range(first, min(last, time // self.part_ms) + 1)
        oldest = next(rows.scan(), None)
        newest = next(rows.scan(reverse=True), None)
        if oldest is None or newest is None:
            return range(0)
        return range(max(first, segment_of(oldest[0])), min(last, segment_of(newest[0])) + 1)


def _without_segment_number(pair: tuple[bytes, bytes]) -> bytes:
    return pair[0][_ID.size :]
