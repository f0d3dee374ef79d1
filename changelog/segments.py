"""Time segments: how rows that expire are laid out, so that expiry never touches them singly.

Every row of a window, session or versioned store starts with the 8-byte number of the segment its
time falls into (time // interval). A segment expires as a whole once all of it lies before the
clock minus the retention; the rows of all expired segments are then one deleted range. The state is
the store's clock alone, so that rolling back the clock rolls back expiry as well.
"""

from __future__ import annotations

import struct
from typing import Protocol

from logstate.processing import TimeCell
from logstate.stores import StoreSpec

#: Kafka Streams' floor for the interval of a window or session store
LEAST_INTERVAL_MS = 60_000

_ID = struct.Struct(">q")
pack_segment = _ID.pack


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


class ExpiringRows(Protocol):
    """Rows that forget whole ranges."""

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        """Forget ``[lower, upper)``; the store never reads or writes it again."""


class SegmentClock:
    """The time a store has seen, and what that makes of its segments.

    The clock is the largest time put into the store so far, over all its keys; -1 = none.
    """

    __slots__ = ("cell", "interval_ms", "retention_ms")

    def __init__(self, cell: TimeCell, interval_ms: int, retention_ms: int) -> None:
        self.cell = cell
        self.interval_ms = interval_ms
        self.retention_ms = retention_ms

    def first_live(self) -> int:
        """The oldest segment that is not expired."""
        return max(0, (self.cell.time - self.retention_ms) // self.interval_ms)

    def advance(self, time: int, rows: ExpiringRows) -> None:
        """Move the clock to a later ``time`` and drop what that expires."""
        old = self.first_live() if self.cell.time >= 0 else 0
        self.cell.time = time
        live = self.first_live()
        if live > old:
            rows.delete_range(pack_segment(old), pack_segment(live))

    def span(self, from_ms: int, to_ms: int, newest_segment: int | None) -> range:
        """The segments that can hold rows of these times, ascending.

        ``newest_segment`` stands in for the clock where a store has rows but no clock yet.
        """
        first = max(from_ms, 0) // self.interval_ms
        last = to_ms // self.interval_ms
        time = self.cell.time
        newest = newest_segment if time < 0 else time // self.interval_ms
        if newest is None:
            return range(0)
        return range(first, min(last, newest) + 1)
