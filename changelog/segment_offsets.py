"""How far a windowed changelog may be trimmed: the first offset of each live segment.

The broker must not expire windowed changelogs itself: it compares event time with its wall clock,
so reprocessing old data would delete live windows. Their owner deletes instead: every record below
the lowest first offset over the live segments belongs to expired rows only.

How it works. A commit's rows lie at or behind the changelog position before it, so that position is
a safe first offset for every segment the commit is first to write to. Expired segments are dropped.
What is known is stored with the rows, in the same atomic write.

Invariants: a live segment's first offset is never above any of its records; it never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from logstate.changelog.backend.backend import KeyRange
from logstate.changelog.rows.segments import SEGMENT_BYTES


class SegmentOffsets:
    """The first offsets of one store's live segments.

    >>> offsets = SegmentOffsets()
    >>> offsets.wrote([bytes(7) + b"a" + b"key"], 10)
    >>> offsets.wrote([bytes(7) + b"b" + b"key"], 25)
    >>> offsets.expired([(bytes(8), bytes(7) + b"b")])
    >>> offsets.trim_point(position=40)
    25
    """

    def __init__(self, known: Mapping[int, int] | None = None) -> None:
        self._first = dict(known or {})

    def wrote(self, keys: Iterable[bytes], position: int) -> None:
        """Rows with these keys were logged at or behind ``position``."""
        first = self._first
        for segment in {key[:SEGMENT_BYTES] for key in keys}:
            first.setdefault(int.from_bytes(segment, "big"), position)

    def expired(self, ranges: Iterable[KeyRange]) -> None:
        """Rows of these ranges are gone for good."""
        for lower, upper in ranges:
            start = int.from_bytes(lower[:SEGMENT_BYTES], "big")
            end = int.from_bytes(upper[:SEGMENT_BYTES], "big")
            for segment in [s for s in self._first if start <= s < end]:
                del self._first[segment]

    def expired_before(self, segment: int) -> None:
        """All segments before this one are gone, those too whose rows were deleted one by one."""
        self._first = {s: offset for s, offset in self._first.items() if s >= segment}

    def trim_point(self, position: int) -> int:
        """Records below this offset may be deleted; ``position`` where nothing is live."""
        return min(self._first.values(), default=position)

    def known(self) -> dict[int, int]:
        """Segment to first offset, to be stored."""
        return dict(self._first)
