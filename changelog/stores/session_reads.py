"""The reads of a session store, over a task's rows or a query's.

A session is visible while its end is within the retention of the store's clock, the largest end put
so far. Sessions of one key come in the order of their ends, then of their starts; in memory a later
start comes first, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from logstate.changelog.rows.row_codec import RowCodec, decode_headers
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.segments import (
    SEGMENT_BYTES,
    SegmentClock,
    pack_segment,
    segment_interval_ms,
)
from logstate.changelog.rows.session_keys import split_row_key, windowed_decoder
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import (
    MAX_TIME_MS,
    SESSION_TAIL_BYTES,
    pack_session_tail,
    session_times,
)

K = TypeVar("K")
V = TypeVar("V")


class SessionReads(Generic[K, V]):
    """Reads by key and the times of sessions; both ends of every time range are inclusive."""

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        self.codec = codec
        self.segments = SegmentClock(
            cell,
            segment_interval_ms(spec),
            spec.retention_ms or 0,
            # Final results are read beyond the retention, see find_ended.
            has_parts=not spec.keep_at_retention,
        )
        self._reads = rows
        self._is_in_memory = spec.in_memory
        self._with_headers = spec.with_headers
        self._decode_windowed = windowed_decoder(codec.decode_key)

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """The value of exactly this session, or None."""
        row = self._row(key, start_ms, end_ms)
        return None if row is None else self.codec.decode_row(row)

    def headers_of(self, key: K, start_ms: int, end_ms: int) -> Headers:
        """The headers kept with a session; None where the store keeps none."""
        row = self._row(key, start_ms, end_ms)
        return decode_headers(row, 0)[0] if self._with_headers and row is not None else None

    def find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of the key that end at ``earliest_end_ms`` or later and start in time."""
        raw = self.codec.encode_key(key)
        rows = self._rows_of_key(raw, earliest_end_ms, latest_start_ms, reverse=reverse)
        if self._is_in_memory:
            rows = iter(sorted(rows, key=_memory_order, reverse=reverse))
        return self._decoded(rows)

    def find_sessions_of_key_range(
        self,
        lower: K | None,
        upper: K | None,
        earliest_end_ms: int,
        latest_start_ms: int,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The same for keys whose bytes lie between two keys', both inclusive, None = open.

        Kafka Streams' ``findSessions(keyFrom, keyTo, ...)``, in the order of ``all``.
        """
        is_inside = self.codec.key_range(lower, upper)
        oldest, parts = self._spans(earliest_end_ms, reverse=reverse)
        found = (
            (row_key, row)
            for row_key, row in self.segments.scan_parts(self._reads, parts, reverse=reverse)
            for end_ms, start_ms in [session_times(row_key)]
            if end_ms >= oldest
            and start_ms <= latest_start_ms
            and is_inside(row_key[SEGMENT_BYTES:-SESSION_TAIL_BYTES])
        )
        if self._is_in_memory:
            return self._decoded(iter(sorted(found, key=_memory_order, reverse=reverse)))
        return self._decoded(found)

    def find_ended(
        self, earliest_end_ms: int, latest_end_ms: int
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that end in the range, by end, start and key bytes.

        Final results are read with it, and those are not hidden by the retention: every row of a
        segment that still exists is found, as in Kafka Streams. In memory they are hidden, and come
        by end, key and latest start.
        """
        segments = self.segments
        oldest_end = max(earliest_end_ms, self._oldest_end() if self._is_in_memory else 0)
        oldest = max(oldest_end, segments.first_part() * segments.part_ms)
        found = (
            (row_key, row)
            for row_key, row in segments.scan_parts(
                self._reads, segments.span(oldest, latest_end_ms, self._reads)
            )
            if oldest_end <= session_times(row_key)[0] <= latest_end_ms
        )
        order = _memory_order if self._is_in_memory else _time_order
        return self._decoded(iter(sorted(found, key=order)))

    def fetch(self, key: K, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """All visible sessions of the key."""
        return self.find_sessions(key, 0, MAX_TIME_MS, reverse=reverse)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """Every visible session: by segment and bytes, in memory by end and key."""
        return self.find_sessions_of_key_range(None, None, 0, MAX_TIME_MS)

    # ------------------------------------------------------------------ rows

    def _row(self, key: K, start_ms: int, end_ms: int) -> bytes | None:
        if end_ms < self._oldest_end():
            return None
        part = pack_segment(end_ms // self.segments.part_ms)
        return self._reads.get(
            part + self.codec.encode_key(key) + pack_session_tail(end_ms, start_ms)
        )

    def _decoded(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Windowed[K], V]]:
        decode_key, decode_row = self._decode_windowed, self.codec.decode_row
        return ((decode_key(row_key), decode_row(row)) for row_key, row in rows)

    def _oldest_end(self) -> int:
        return self.segments.cell.time - self.segments.retention_ms + 1

    def _spans(self, from_ms: int, *, reverse: bool) -> tuple[int, Iterator[int]]:
        oldest = max(from_ms, self._oldest_end(), 0)
        span = self.segments.span(oldest, MAX_TIME_MS, self._reads)
        return oldest, reversed(span) if reverse else iter(span)

    def _rows_of_key(
        self, key: bytes, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        oldest, parts = self._spans(earliest_end_ms, reverse=reverse)
        key_end = SEGMENT_BYTES + len(key)
        length = key_end + SESSION_TAIL_BYTES
        # Every part's scan is opened now: an iterator shows the state at its opening.
        scans = [
            self._reads.scan(head + pack_session_tail(oldest, 0), head + b"\x80", reverse=reverse)
            for head in (pack_segment(part) + key for part in parts)
        ]
        return (
            (row_key, row)
            for scan in scans
            for row_key, row in scan
            if len(row_key) == length
            and row_key[SEGMENT_BYTES:key_end] == key
            and session_times(row_key)[1] <= latest_start_ms
        )


def _time_order(pair: tuple[bytes, bytes]) -> tuple[int, int, bytes]:
    end_ms, key, start_ms = split_row_key(pair[0])
    return end_ms, start_ms, key


def _memory_order(pair: tuple[bytes, bytes]) -> tuple[int, bytes, int]:
    end_ms, key, start_ms = split_row_key(pair[0])
    return end_ms, key, -start_ms
