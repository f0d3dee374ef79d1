"""Window rows in the order of time, for stores whose closed windows are asked for across all keys.

A store of results on window close is scanned by time again and again, and by key now and then. So
its rows lie twice below each segment, and a segment is still one range::

    segment | 0 | 8 bytes start | key | 4 bytes sequence number -> row
    segment | 1 | key | 8 bytes start | 4 bytes sequence number -> nothing, found by key

To the store these classes look like rows with the usual keys (segment, key, start, sequence
number): only scans by time know better.
"""

from __future__ import annotations

from collections.abc import Iterator

from logstate.changelog.rows.rows import ReadableRows, RowMirror, Rows
from logstate.changelog.rows.segments import SEGMENT_BYTES, pack_segment
from logstate.contracts.windowed_keys import MAX_TIME_MS, WINDOW_TAIL_BYTES, pack_start

_BY_TIME = b"\x00"
_BY_KEY = b"\x01"
_SEQUENCE_BYTES = 4
_START_BYTES = WINDOW_TAIL_BYTES - _SEQUENCE_BYTES
_HEAD = SEGMENT_BYTES + len(_BY_TIME)


class TimeFirstReads:
    """The read side, over a task's rows or a query's."""

    def __init__(self, rows: ReadableRows) -> None:
        self._stored = rows

    def get(self, row_key: bytes) -> bytes | None:
        """The row, or None."""
        return self._stored.get(_by_time(row_key))

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)``, both within one segment."""
        # Read at once: an iterator shows the rows as they were at its opening.
        found = []
        for place, _ in self._stored.scan(_by_key(lower), _by_key(upper), reverse=reverse):
            row_key = place[:SEGMENT_BYTES] + place[_HEAD:]
            row = self.get(row_key)
            if row is not None:
                found.append((row_key, row))
        return iter(found)

    def scan_times(
        self, segment: int, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The segment's rows with starts in the range, both ends inclusive: by start, then key."""
        head = pack_segment(segment) + _BY_TIME
        end = (
            head + pack_start(to_ms + 1) if to_ms < MAX_TIME_MS else pack_segment(segment) + _BY_KEY
        )
        rows = self._stored.scan(head + pack_start(from_ms), end, reverse=reverse)
        return ((_row_key(place), row) for place, row in rows)


class TimeFirstRows(TimeFirstReads):
    """The rows of a task's store."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._rows = rows

    def put(self, row_key: bytes, row: bytes | None) -> None:
        """Write a row; None deletes it."""
        rows, place = self._rows, _by_time(row_key)
        is_there = rows.get(place) is not None
        if is_there or row is not None:
            rows.put(place, row)
        if is_there is (row is None):
            rows.put(_by_key(row_key), None if row is None else b"")

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        """Forget whole segments."""
        self._rows.delete_range(lower, upper)

    def mirror(self, mirror: RowMirror) -> None:
        """As of the rows underneath."""
        self._rows.mirror(mirror)


def _by_time(row_key: bytes) -> bytes:
    key_end = len(row_key) - WINDOW_TAIL_BYTES
    start_end = key_end + _START_BYTES
    return b"".join(
        (
            row_key[:SEGMENT_BYTES],
            _BY_TIME,
            row_key[key_end:start_end],
            row_key[SEGMENT_BYTES:key_end],
            row_key[start_end:],
        )
    )


def _by_key(row_key: bytes) -> bytes:
    return row_key[:SEGMENT_BYTES] + _BY_KEY + row_key[SEGMENT_BYTES:]


def _row_key(by_time: bytes) -> bytes:
    start_end = _HEAD + _START_BYTES
    return b"".join(
        (
            by_time[:SEGMENT_BYTES],
            by_time[start_end:-_SEQUENCE_BYTES],
            by_time[_HEAD:start_end],
            by_time[-_SEQUENCE_BYTES:],
        )
    )
