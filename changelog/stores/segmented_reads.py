"""What the reads of window and session stores share: rows by segment, those of a key by time.

A row key is ``segment | key | tail``, and the tail begins with the time by which the row is hidden
and expires: the start of a window, the end of a session. Behind the segment it is the layout of
:mod:`logstate.contracts.windowed_keys`, which is logged.

Keys have any length, so between two rows of the key "a" there may be rows of longer keys that start
with "a": a scan for one key re-checks length and key of each row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.segments import (
    SEGMENT_BYTES,
    SegmentClock,
    pack_segment,
    segment_interval_ms,
)
from logstate.changelog.rows.time_first_rows import Tail, TimeFirstReads
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import MAX_TIME_MS, pack_start

K = TypeVar("K")
V = TypeVar("V")


class SegmentedReads(ABC, Generic[K, V]):
    """Both ends of every time range are inclusive."""

    tail: ClassVar[Tail]

    def __init__(
        self,
        spec: StoreSpec,
        codec: RowCodec,
        rows: ReadableRows,
        cell: TimeCell,
        *,
        has_parts: bool = True,
        keeps_edge: bool = False,
    ) -> None:
        self.codec = codec
        self.segments = SegmentClock(
            cell, segment_interval_ms(spec), spec.retention_ms or 0, has_parts=has_parts
        )
        self._by_time = TimeFirstReads(rows, self.tail) if spec.keep_at_retention else None
        self._stored = rows
        self._reads = self._by_time or rows
        self._is_in_memory = spec.in_memory
        #: added to the clock it gives the oldest visible time
        self.to_oldest = -self.segments.retention_ms + (0 if keeps_edge else 1)
        self._tail_bytes = sum(self.tail)
        self._decode_windowed = self._windowed_decoder()

    @staticmethod
    @abstractmethod
    def times_of(key: bytes) -> tuple[int, int]:
        """Both parts of the tail of a row's key or a logged one; the first is the row's time."""

    @abstractmethod
    def _windowed_decoder(self) -> Callable[[bytes], Windowed[Any]]:
        """A function from row key to ``Windowed``."""

    def _key_of(self, row_key: bytes) -> bytes:
        return row_key[SEGMENT_BYTES : -self._tail_bytes]

    def _decoded(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Windowed[K], V]]:
        decode_key, decode_row = self._decode_windowed, self.codec.decode_row
        return ((decode_key(row_key), decode_row(row)) for row_key, row in rows)

    def _oldest(self) -> int:
        """The oldest visible time."""
        return self.segments.cell.time + self.to_oldest

    def _spans(self, from_ms: int, to_ms: int, reverse: bool) -> tuple[int, Iterator[int]]:
        """The oldest visible time of the range, and the parts to search, in order."""
        oldest = max(from_ms, self._oldest(), 0)
        span = self.segments.span(oldest, to_ms, self._stored)
        return oldest, reversed(span) if reverse else iter(span)

    def _rows_of_key(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        oldest, parts = self._spans(from_ms, to_ms, reverse)
        if to_ms < oldest:
            return iter(())
        end = pack_start(to_ms + 1) if to_ms < MAX_TIME_MS else b"\x80"
        key_end = SEGMENT_BYTES + len(key)
        length = key_end + self._tail_bytes
        # Every part's scan is opened now: an iterator shows the state at its opening.
        scans = [
            self._reads.scan(head + pack_start(oldest), head + end, reverse=reverse)
            for head in (pack_segment(part) + key for part in parts)
        ]
        return (
            (row_key, row)
            for scan in scans
            for row_key, row in scan
            if len(row_key) == length and row_key[SEGMENT_BYTES:key_end] == key
        )

    def _rows_between(
        self, parts: Iterable[int], from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The rows of all keys in a time range: by time where they lie so, else by segment."""
        if self._by_time is not None:
            by_time = [
                self._by_time.scan_times(part, from_ms, to_ms, reverse=reverse) for part in parts
            ]
            return chain.from_iterable(by_time)
        times_of = self.times_of
        return (
            (row_key, row)
            for row_key, row in self.segments.scan_parts(self._stored, parts, reverse=reverse)
            if from_ms <= times_of(row_key)[0] <= to_ms
        )
