"""The reads of a window store, over a task's rows or a query's.

A window is visible while its start is within the retention of the store's clock, the largest start
put so far: rows of a live segment may be older than that and stay hidden. The order of a scan over
keys is Kafka Streams': by segment and bytes on RocksDB, by time and then key in memory and in the
stores of results emitted on window close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Generic, TypeVar

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.segments import (
    SEGMENT_BYTES,
    SegmentClock,
    pack_segment,
    segment_interval_ms,
)
from logstate.changelog.rows.time_first_rows import TimeFirstReads
from logstate.changelog.rows.window_keys import split_row_key, windowed_decoder
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import (
    MAX_TIME_MS,
    WINDOW_TAIL_BYTES,
    pack_start,
    pack_window_tail,
    start_of_window,
)

K = TypeVar("K")
V = TypeVar("V")


class WindowReads(Generic[K, V]):
    """Reads by key and window start; both ends of every time range are inclusive."""

    #: the row of a key and window start, or None
    fetch: Callable[[K, int], V | None]

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        self.codec = codec
        self.segments = SegmentClock(
            cell, segment_interval_ms(spec), spec.retention_ms or 0, has_parts=True
        )
        self._by_time = TimeFirstReads(rows) if spec.keep_at_retention else None
        self._stored = rows
        self._reads = self._by_time or rows
        self._sorts_by_time = spec.in_memory
        keeps_edge = spec.keep_at_retention and not spec.in_memory
        #: added to the clock it gives the oldest visible start
        self.to_oldest = -self.segments.retention_ms + (0 if keeps_edge else 1)
        self._decode_windowed = windowed_decoder(codec.decode_key, spec.window_size_ms or 0)
        self.fetch = self._bound_fetch()

    def fetch_range(
        self, key: K, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, V]]:
        """(start, value) of one key's windows, by start."""
        decode_row = self.codec.decode_row
        raw = self.codec.encode_key(key)
        rows = self._rows_of_key(raw, from_ms, to_ms, reverse=reverse)
        return ((start_of_window(row_key), decode_row(row)) for row_key, row in rows)

    def fetch_all(
        self, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The windows of all keys that start in the range."""
        decode_key, decode_row = self._decode_windowed, self.codec.decode_row
        rows = self._rows_of_all(from_ms, to_ms, reverse)
        return ((decode_key(row_key), decode_row(row)) for row_key, row in rows)

    def fetch_key_range(
        self, lower: K | None, upper: K | None, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The same for keys whose bytes lie between two keys', both inclusive, None = open.

        Kafka Streams' ``fetch(keyFrom, keyTo, timeFrom, timeTo)``, in the order of ``fetch_all``.
        """
        decode_key, decode_row = self._decode_windowed, self.codec.decode_row
        is_inside = self.codec.key_range(lower, upper)
        return (
            (decode_key(row_key), decode_row(row))
            for row_key, row in self._rows_of_all(from_ms, to_ms, reverse)
            if is_inside(row_key[SEGMENT_BYTES:-WINDOW_TAIL_BYTES])
        )

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Every visible window."""
        return self.fetch_all(0, MAX_TIME_MS, reverse=reverse)

    def _bound_fetch(self) -> Callable[[K, int], V | None]:
        encode_key, decode_row = self.codec.encode_key, self.codec.decode_row
        get_row = self._reads.get
        cell, part_ms, to_oldest = self.segments.cell, self.segments.part_ms, self.to_oldest

        def fetch(key: K, start_ms: int) -> V | None:
            if start_ms < cell.time + to_oldest:
                return None
            row = get_row(
                pack_segment(start_ms // part_ms) + encode_key(key) + pack_window_tail(start_ms, 0)
            )
            return None if row is None else decode_row(row)

        return fetch

    # ------------------------------------------------------------------ rows

    def _spans(self, from_ms: int, to_ms: int, reverse: bool) -> tuple[int, Iterator[int]]:
        """The oldest visible start of the range, and the parts to search, in order."""
        oldest = max(from_ms, self.segments.cell.time + self.to_oldest, 0)
        span = self.segments.span(oldest, to_ms, self._stored)
        return oldest, reversed(span) if reverse else iter(span)

    def _rows_of_key(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        oldest, parts = self._spans(from_ms, to_ms, reverse)
        if to_ms < oldest:
            return iter(())
        end = pack_start(to_ms + 1) if to_ms < MAX_TIME_MS else b"\x80"
        length = SEGMENT_BYTES + len(key) + WINDOW_TAIL_BYTES
        # Every part's scan is opened now: an iterator shows the state at its opening.
        scans = [
            self._reads.scan(head + pack_start(oldest), head + end, reverse=reverse)
            for head in (pack_segment(part) + key for part in parts)
        ]
        key_end = SEGMENT_BYTES + len(key)
        return (
            (row_key, row)
            for scan in scans
            for row_key, row in scan
            if len(row_key) == length and row_key[SEGMENT_BYTES:key_end] == key
        )

    def _rows_of_all(
        self, from_ms: int, to_ms: int, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        oldest, parts = self._spans(from_ms, to_ms, reverse)
        if self._by_time is not None:
            by_time = [
                self._by_time.scan_times(part, oldest, to_ms, reverse=reverse) for part in parts
            ]
            return chain.from_iterable(by_time)
        rows = (
            (row_key, row)
            for row_key, row in self.segments.scan_parts(self._stored, parts, reverse=reverse)
            if oldest <= start_of_window(row_key) <= to_ms
        )
        if not self._sorts_by_time:
            return rows
        return iter(sorted(rows, key=lambda pair: split_row_key(pair[0]), reverse=reverse))
