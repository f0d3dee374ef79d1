"""An upper bound of window starts in the backend: later windows need not be searched there.

Rows reach the backend in layers, which are frozen before they are applied. So at every freeze the
clock of the store, the largest start put so far, is recorded; later applied rows have starts
up to the largest recorded clock. The clock itself may go back (an abort, a rolled back record):
the recorded one does not.

The rows report freezes. If they are rolled back or expire, the bound stays valid.
"""

from __future__ import annotations

from logstate.changelog.rows.rows import RowCache, Rows
from logstate.changelog.rows.segments import SegmentClock, segment_of


class NewestStart(RowCache):
    """No row of the backend starts later than ``in_backend``, as long as ``applied_total`` is how
    often rows were applied: otherwise call ``applied`` first. Read for every new window, hence not
    a method.
    """

    __slots__ = ("_frozen", "_segments", "applied_total", "in_backend")

    def __init__(self, segments: SegmentClock, rows: Rows) -> None:
        """Looks the rows' newest segment up, once."""
        self._segments = segments
        last = next(rows.scan(reverse=True), None)
        newest = -1 if last is None else (segment_of(last[0]) + 1) * segments.part_ms - 1
        self._frozen = self.in_backend = newest
        self.applied_total = 0

    def applied(self, applied_total: int) -> None:
        """Rows were applied, all of them frozen before."""
        self.applied_total = applied_total
        self.in_backend = self._frozen

    def flush(self) -> None:
        """The rows are about to be frozen, or read."""
        self._frozen = max(self._frozen, self._segments.cell.time)
