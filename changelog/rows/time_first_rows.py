"""Windowed rows in the order of time: for stores whose closed windows are read over all keys.

A store of results on window close is scanned by time again and again, and by key now and then. So
its rows lie twice below each segment, and a segment is still one range::

    segment | 0 | times | key | what else the row key ends with -> row
    segment | 1 | key | tail of the row key                     -> nothing, found by key

The times are the start of a window (its sequence number stays after the key), or end and start of
a session: the due rows are one range, however many other rows the store has.

To the store these classes look like rows with the usual keys (segment, key, tail): only scans by
time use the other order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from logstate.changelog.rows.key_schema import KeySchema
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.segments import SEGMENT_BYTES, pack_segment
from logstate.contracts.changelog_keys import MAX_TIME_MS, pack_start

_BY_TIME = b"\x00"
_BY_KEY = b"\x01"
_END = b"\x02"
_HEAD = SEGMENT_BYTES + len(_BY_TIME)


class TimeFirstReads:
    """The read side, over a task's rows or a query's."""

    def __init__(self, rows: ReadableRows, schema: KeySchema) -> None:
        self._stored = rows
        self._times_bytes = schema.times_bytes
        self._rest_bytes = schema.tail_bytes - schema.times_bytes

    def get(self, row_key: bytes) -> bytes | None:
        """The row, or None."""
        return self._stored.get(self._by_time(row_key))

    def scan(
        self, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)``, both within one segment, or the whole of a segment."""
        # Read at once: an iterator shows the rows as they were at its opening.
        found = []
        end = _by_key(upper) if len(upper) > SEGMENT_BYTES else lower[:SEGMENT_BYTES] + _END
        for place, _ in self._stored.scan(_by_key(lower), end, reverse=reverse):
            row_key = place[:SEGMENT_BYTES] + place[_HEAD:]
            row = self.get(row_key)
            if row is not None:
                found.append((row_key, row))
        return iter(found)

    def scan_times(
        self, segment: int, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The segment's rows whose first time is in the range, both ends inclusive: by times, then
        key.
        """
        head = pack_segment(segment) + _BY_TIME
        end = (
            head + pack_start(to_ms + 1) if to_ms < MAX_TIME_MS else pack_segment(segment) + _BY_KEY
        )
        rows = self._stored.scan(head + pack_start(from_ms), end, reverse=reverse)
        return ((self._row_key(place), row) for place, row in rows)

    def _by_time(self, row_key: bytes) -> bytes:
        times_end = len(row_key) - self._rest_bytes
        key_end = times_end - self._times_bytes
        return b"".join(
            (
                row_key[:SEGMENT_BYTES],
                _BY_TIME,
                row_key[key_end:times_end],
                row_key[SEGMENT_BYTES:key_end],
                row_key[times_end:],
            )
        )

    def _row_key(self, by_time: bytes) -> bytes:
        times_end = _HEAD + self._times_bytes
        key_end = len(by_time) - self._rest_bytes
        return b"".join(
            (
                by_time[:SEGMENT_BYTES],
                by_time[times_end:key_end],
                by_time[_HEAD:times_end],
                by_time[key_end:],
            )
        )


class TimeFirstRows(TimeFirstReads):
    """The rows of a task's store."""

    def __init__(self, rows: Rows, schema: KeySchema) -> None:
        super().__init__(rows, schema)
        self._rows = rows

    def get_unapplied(self, row_key: bytes) -> bytes | None:
        """The row, if the backend is known not to have it."""
        return self._rows.get_unapplied(self._by_time(row_key))

    def put(self, row_key: bytes, row: bytes | None) -> None:
        """Write a row; None deletes it."""
        rows, place = self._rows, self._by_time(row_key)
        is_there = rows.get(place) is not None
        if is_there or row is not None:
            rows.put(place, row)
        if is_there is (row is None):
            rows.put(_by_key(row_key), None if row is None else b"")

    def put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Write many rows."""
        for row_key, row in rows.items():
            self.put(row_key, row)


def _by_key(row_key: bytes) -> bytes:
    return row_key[:SEGMENT_BYTES] + _BY_KEY + row_key[SEGMENT_BYTES:]
