"""The reads of a session store, over a task's rows or a query's.

A session is visible while its end is within the retention of the store's clock, the largest end put
so far. Sessions of one key come in the order of their ends, then of their starts; in memory a later
start comes first, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from logstate.changelog.rows.row_codec import RowCodec, decode_headers
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.segments import pack_segment
from logstate.changelog.rows.time_first_rows import SESSION_TAIL
from logstate.changelog.stores.segmented_reads import SegmentedReads
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import MAX_TIME_MS, pack_session_tail, session_times

K = TypeVar("K")
V = TypeVar("V")


class SessionReads(SegmentedReads[K, V]):
    """Reads by key and the times of sessions; both ends of every time range are inclusive."""

    tail = SESSION_TAIL
    times_of = staticmethod(session_times)

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        # Final results are read beyond the retention, see find_ended.
        super().__init__(spec, codec, rows, cell, has_parts=not spec.keep_at_retention)
        self._with_headers = spec.with_headers

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
        rows = self._rows_of_key(raw, earliest_end_ms, MAX_TIME_MS, reverse=reverse)
        found = (pair for pair in rows if session_times(pair[0])[1] <= latest_start_ms)
        return self._decoded(self._in_order(found, reverse))

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
        oldest, parts = self._spans(earliest_end_ms, MAX_TIME_MS, reverse)
        found = (
            (row_key, row)
            for row_key, row in self.segments.scan_parts(self._reads, parts, reverse=reverse)
            for end_ms, start_ms in [session_times(row_key)]
            if end_ms >= oldest and start_ms <= latest_start_ms and is_inside(self._key_of(row_key))
        )
        return self._decoded(self._in_order(found, reverse))

    def find_ended(
        self, earliest_end_ms: int, latest_end_ms: int
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that end in the range, by end, start and key bytes.

        Final results are read with it, and those are not hidden by the retention: every row of a
        segment that still exists is found, as in Kafka Streams. In memory they are hidden, and come
        by end, key and latest start. A store of final results reads no other rows for it.
        """
        segments = self.segments
        oldest = max(earliest_end_ms, self._oldest_found(segments.cell.time), 0)
        parts = segments.span(oldest, latest_end_ms, self._stored)
        found = self._rows_between(parts, oldest, latest_end_ms)
        order = self._memory_order if self._is_in_memory else self._time_order
        return self._decoded(sorted(found, key=order))

    def fetch(self, key: K, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """All visible sessions of the key."""
        return self.find_sessions(key, 0, MAX_TIME_MS, reverse=reverse)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """Every visible session: by segment and bytes, in memory by end and key."""
        return self.find_sessions_of_key_range(None, None, 0, MAX_TIME_MS)

    # ------------------------------------------------------------------ rows

    def _row(self, key: K, start_ms: int, end_ms: int) -> bytes | None:
        if end_ms < self._oldest():
            return None
        part = pack_segment(end_ms // self.segments.part_ms)
        return self._reads.get(
            part + self.codec.encode_key(key) + pack_session_tail(end_ms, start_ms)
        )

    def _windowed_decoder(self) -> Callable[[bytes], Windowed[Any]]:
        decode_key, key_of = self.codec.decode_key, self._key_of

        def decode(row_key: bytes) -> Windowed[Any]:
            end_ms, start_ms = session_times(row_key)
            return Windowed(decode_key(key_of(row_key)), start_ms, end_ms)

        return decode

    def _oldest_found(self, time: int) -> int:
        """The oldest end that ``find_ended`` shows when the store's clock is at ``time``."""
        segments = self.segments
        if self._is_in_memory:
            return time - segments.retention_ms + 1
        return (time - segments.retention_ms) // segments.part_ms * segments.part_ms

    def _in_order(
        self, rows: Iterator[tuple[bytes, bytes]], reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        if not self._is_in_memory:
            return rows
        return iter(sorted(rows, key=self._memory_order, reverse=reverse))

    def _time_order(self, pair: tuple[bytes, bytes]) -> tuple[int, int, bytes]:
        return (*session_times(pair[0]), self._key_of(pair[0]))

    def _memory_order(self, pair: tuple[bytes, bytes]) -> tuple[int, bytes, int]:
        end_ms, start_ms = session_times(pair[0])
        return end_ms, self._key_of(pair[0]), -start_ms
