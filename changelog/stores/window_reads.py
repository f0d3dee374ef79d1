"""The reads of a window store, over a task's rows or a query's.

A window is visible while its start is within the retention of the store's clock, the largest start
put so far: rows of a live segment may be older than that and stay hidden. The order of a scan over
keys is Kafka Streams': by segment and bytes on RocksDB, by time and then key in memory and in the
stores of results emitted on window close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from logstate.changelog.rows.row_codec import RowCodec
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.segments import pack_segment
from logstate.changelog.rows.time_first_rows import WINDOW_TAIL
from logstate.changelog.stores.segmented_reads import SegmentedReads
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import (
    MAX_TIME_MS,
    pack_window_tail,
    start_of_window,
    window_tail,
)

K = TypeVar("K")
V = TypeVar("V")


class WindowReads(SegmentedReads[K, V]):
    """Reads by key and window start; both ends of every time range are inclusive."""

    tail = WINDOW_TAIL
    times_of = staticmethod(window_tail)

    #: the row of a key and window start, or None
    fetch: Callable[[K, int], V | None]

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        self._size_ms = spec.window_size_ms or 0
        self._window_end = spec.window_end
        keeps_edge = spec.keep_at_retention and not spec.in_memory
        super().__init__(spec, codec, rows, cell, keeps_edge=keeps_edge)
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
        return self._decoded(self._rows_of_all(from_ms, to_ms, reverse))

    def fetch_key_range(
        self, lower: K | None, upper: K | None, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The same for keys whose bytes lie between two keys', both inclusive, None = open.

        Kafka Streams' ``fetch(keyFrom, keyTo, timeFrom, timeTo)``, in the order of ``fetch_all``.
        """
        is_inside = self.codec.key_range(lower, upper)
        rows = self._rows_of_all(from_ms, to_ms, reverse)
        return self._decoded(pair for pair in rows if is_inside(self._key_of(pair[0])))

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

    def _windowed_decoder(self) -> Callable[[bytes], Windowed[Any]]:
        decode_key, key_of, size_ms = self.codec.decode_key, self._key_of, self._size_ms
        window_end = self._window_end

        def decode_varying(row_key: bytes) -> Windowed[Any]:
            start_ms = start_of_window(row_key)
            assert window_end is not None
            return Windowed(decode_key(key_of(row_key)), start_ms, window_end(start_ms))

        def decode(row_key: bytes) -> Windowed[Any]:
            start_ms = start_of_window(row_key)
            end_ms = min(start_ms + size_ms, MAX_TIME_MS)
            return Windowed(decode_key(key_of(row_key)), start_ms, end_ms)

        return decode if window_end is None else decode_varying

    def _rows_of_all(
        self, from_ms: int, to_ms: int, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        oldest, parts = self._spans(from_ms, to_ms, reverse)
        rows = self._rows_between(parts, oldest, to_ms, reverse=reverse)
        if self._by_time is not None or not self._is_in_memory:
            return rows
        return iter(sorted(rows, key=self._by_start_and_key, reverse=reverse))

    def _by_start_and_key(self, pair: tuple[bytes, bytes]) -> tuple[int, bytes, int]:
        start_ms, sequence = window_tail(pair[0])
        return start_ms, self._key_of(pair[0]), sequence
