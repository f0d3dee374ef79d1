"""Window and session stores: rows by segment, those of a key by time, and a clock that hides them.

A row is visible while its time, the start of a window or the end of a session, is within the
retention of the store's clock, the largest time put so far over all keys: rows of a live segment
may be older than that and stay hidden. A put into an expired segment (in memory: older than the
retention) is dropped and counted; it is logged all the same, as Kafka Streams does, and the restore
drops it again.

The order of a scan over keys is Kafka Streams': by segment and bytes on RocksDB, by time and then
key in memory and in the window stores of results emitted on window close.

Keys have any length, so between two rows of the key "a" there may be rows of longer keys that start
with "a": a scan for one key re-checks length and key of each row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

from logstate.changelog.rows.deferred_values import can_keep
from logstate.changelog.rows.key_schema import KeySchema, bound_row_key
from logstate.changelog.rows.row_codec import PLAIN_ROWS, RowCodec, row_codec, serde_topic
from logstate.changelog.rows.row_groups import PlacedRow, RowGroups
from logstate.changelog.rows.row_writer import EncodedRow, row_encoder
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.segments import (
    SEGMENT_BYTES,
    SegmentClock,
    pack_segment,
    segment_interval_ms,
)
from logstate.changelog.rows.time_first_rows import TimeFirstReads, TimeFirstRows
from logstate.changelog.rows.write_behind import WriteBehind
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.contracts.changelog_keys import MAX_TIME_MS, pack_start
from logstate.contracts.processing import TaskContext, TimeCell
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")

#: how many times the asked range the way from its start to the newest row may be
_GROUP_SHARE = 4


class SegmentedReads(Generic[K, V]):
    """Both ends of every time range are inclusive."""

    key_schema: Callable[[StoreSpec], KeySchema]

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        schema = self.schema = type(self).key_schema(spec)
        self.codec = codec
        self.segments = SegmentClock(
            cell, segment_interval_ms(spec), spec.retention_ms or 0, has_parts=schema.has_parts
        )
        self._by_time = TimeFirstReads(rows, schema) if spec.keep_at_retention else None
        self._stored = rows
        self._reads = self._by_time or rows
        self._is_in_memory = spec.in_memory
        #: added to the clock it gives the oldest visible time
        self.to_oldest = -self.segments.retention_ms + (0 if schema.keeps_edge else 1)
        self._row_key = bound_row_key(codec, schema, self.segments.part_ms)
        self._row = self._bound_row()

    def oldest_found(self, time: int) -> int:
        """The oldest time whose rows can be found once the clock is at ``time``."""
        return time + self.to_oldest

    def _oldest(self) -> int:
        """The oldest visible time."""
        return self.segments.cell.time + self.to_oldest

    def _bound_row(self) -> Callable[[K, int, int], bytes | None]:
        """The visible row of a key and the two numbers of its tail, or None."""
        get_row, row_key = self._reads.get, self._row_key
        cell, to_oldest = self.segments.cell, self.to_oldest

        def row(key: K, first: int, second: int) -> bytes | None:
            return None if first < cell.time + to_oldest else get_row(row_key(key, first, second))

        return row

    def first_windows(self, from_ms: int) -> Iterator[Windowed[Any]]:
        """Yield the windows from a time on, by time, without their keys.

        Of a store whose rows lie by time; the others hold the rows of closed windows in between.
        """
        times_of, windowed = self.schema.times_of, self.schema.windowed
        oldest = max(from_ms, self.oldest_found(self.segments.cell.time), 0)
        rows = self._rows_between(oldest, MAX_TIME_MS)
        return (windowed(None, *times_of(row_key)) for row_key, _ in rows)

    def _rows_of_key(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterable[PlacedRow]:
        """The visible rows of a serialised key, by time."""
        oldest = max(from_ms, self._oldest(), 0)
        if to_ms < oldest:
            return ()
        end = pack_start(to_ms + 1) if to_ms < MAX_TIME_MS else b"\x80"
        key_end = SEGMENT_BYTES + len(key)
        length, times_of = key_end + self.schema.tail_bytes, self.schema.times_of
        # Every part's scan is opened now: an iterator shows the state at its opening.
        scans = [
            self._reads.scan(head + pack_start(oldest), head + end, reverse=reverse)
            for head in (
                pack_segment(p) + key for p in self._segments(oldest, to_ms, reverse=reverse)
            )
        ]
        return (
            (*times_of(row_key), row)
            for scan in scans
            for row_key, row in scan
            if len(row_key) == length and row_key[SEGMENT_BYTES:key_end] == key
        )

    def _rows_between(
        self, oldest: int, to_ms: int, *, reverse: bool = False, by_key: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The rows of all keys in a time range: by time where they lie so, else by segment."""
        parts = self._segments(oldest, to_ms, reverse=reverse)
        if self._by_time is not None and not by_key:
            by_time = [
                self._by_time.scan_times(part, oldest, to_ms, reverse=reverse) for part in parts
            ]
            return chain.from_iterable(by_time)
        times_of = self.schema.times_of
        return (
            (row_key, row)
            for row_key, row in self.segments.scan_parts(self._reads.scan, parts, reverse=reverse)
            if oldest <= times_of(row_key)[0] <= to_ms
        )

    def _segments(self, oldest: int, to_ms: int, *, reverse: bool) -> Iterable[int]:
        span = self.segments.span(oldest, to_ms, self._stored)
        return reversed(span) if reverse else span

    def _in_order(
        self, rows: Iterator[tuple[bytes, bytes]], *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows that lie by segment, in the order of the medium."""
        if not self._is_in_memory:
            return rows
        return iter(sorted(rows, key=self.schema.memory_order, reverse=reverse))

    def _rows_between_keys(
        self, rows: Iterator[tuple[bytes, bytes]], lower: K | None, upper: K | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Return those whose keys' bytes are between two keys', both inclusive, None = open."""
        is_inside, key_of = self.codec.key_range(lower, upper), self.schema.key_of
        return (pair for pair in rows if is_inside(key_of(pair[0])))

    def _decoded(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Windowed[K], V]]:
        decode_key, decode_row = self.codec.decode_key, self.codec.decode_row
        _, times_of, tail_bytes, _, windowed, *_ = self.schema
        return (
            (
                windowed(decode_key(row_key[SEGMENT_BYTES:-tail_bytes]), *times_of(row_key)),
                decode_row(row),
            )
            for row_key, row in rows
        )


class SegmentedStore(SegmentedReads[K, V]):
    """In front of the reads of a kind."""

    #: called with (from_ms, to_ms) before the rows of these times, ``to_ms`` not included, can no
    #: more be found
    before_expiry: Callable[[int, int], None] | None = None
    row_formats = PLAIN_ROWS

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        cell = context.time_cell(f"store:{spec.name}")
        row_format = self.row_formats[spec.with_headers]
        super().__init__(spec, row_codec(spec, serde_topic(spec, context), row_format), rows, cell)
        self.name = spec.name
        self._spec = spec
        self._all_rows = rows
        self._rows = TimeFirstRows(rows, self.schema) if spec.keep_at_retention else rows
        self._writes = writes
        self._context = context
        self._drop = context.store_dropper(spec.name)
        self._encode = row_encoder(spec, self.codec, context)
        self._behind: WriteBehind | None = None
        if row_format.has_timestamp and can_keep(spec.key, spec.value):
            self._behind = WriteBehind(
                spec, self.codec, writes, self._put_rows, log_key_at=SEGMENT_BYTES
            )
            rows.mirror(self._behind)
        self._groups = RowGroups(self._load_group, self._oldest)
        rows.mirror(self._groups)  # behind what writes to it

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, logging nothing; learns the clock."""
        spec, rows, segments, times_of = self._spec, self._rows, self.segments, self.schema.times_of
        counts_none, new_row = self.schema.counts_none, self.codec.row_format.encode
        latest = max(
            (times_of(r[0])[0] for r in records if r[1] is not None or counts_none), default=-1
        )
        if latest > segments.cell.time:
            segments.advance(latest, self._all_rows)
        first_part, part_ms = segments.first_part(), segments.part_ms
        for key, value, timestamp, headers in records:
            part = times_of(key)[0] // part_ms
            if part < first_part:
                continue
            if value is not None:
                rows.put(pack_segment(part) + key, new_row(value, timestamp or 0, headers))
            elif not spec.retain_duplicates:  # otherwise every put is a separate row
                rows.put(pack_segment(part) + key, None)
        self._groups.forget()
        if self._behind is not None:
            self._behind.forget_known()

    def _put(self, row_key: bytes, time_ms: int, value: Any) -> None:
        """Write a row, or only log it if it comes too late."""
        is_live = self._is_live(time_ms)
        self._write_encoded(row_key, self._encode(value), is_live=is_live)

    def _write(self, row_key: bytes, value: Any, *, is_live: bool) -> None:
        self._write_encoded(row_key, self._encode(value), is_live=is_live)

    def _write_encoded(self, row_key: bytes, encoded: EncodedRow, *, is_live: bool) -> None:
        row, data, timestamp, headers = encoded
        if is_live:
            self._put_rows({row_key: row})
        log_key = row_key[SEGMENT_BYTES:]
        self._writes.add(log_key, (log_key, data, timestamp, headers))

    def _put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        self._rows.put_rows(rows)
        groups = self._groups
        if groups.groups:
            for row_key, row in rows.items():
                groups.put(self.schema.key_of(row_key), *self.schema.times_of(row_key), row)

    def _rows_of_key(
        self, key: bytes, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterable[PlacedRow]:
        oldest = max(from_ms, self._oldest(), 0)
        # A group reaches from the asked time to the newest row: not for a short look far back.
        if self.segments.cell.time - oldest > _GROUP_SHARE * (to_ms - oldest + 1):
            return super()._rows_of_key(key, from_ms, to_ms, reverse=reverse)
        if self._behind is not None:
            self._behind.flush()
        found = self._groups.since(key, oldest)
        if found and found[-1][0] > to_ms:
            del found[bisect_left(found, (to_ms + 1,)) :]
        if reverse:
            found.reverse()
        return found

    def _load_group(self, key: bytes, from_ms: int) -> list[PlacedRow]:
        return list(super()._rows_of_key(key, from_ms, MAX_TIME_MS))

    def _advance(self, time: int) -> None:
        if self.before_expiry is not None:
            old, new = self.oldest_found(self.segments.cell.time), self.oldest_found(time)
            if old < new:
                self.before_expiry(old, new)
        self.segments.advance(time, self._all_rows)

    def _is_live(self, time_ms: int) -> bool:
        """Advance the clock; False, and counted, for a put that comes too late.

        False also for one whose part is deleted already: its row would be invisible.
        """
        segments = self.segments
        time = segments.cell.time
        if time_ms >= time:
            if time_ms > time:
                self._advance(time_ms)
            is_live = not self._is_in_memory or segments.retention_ms > 0
        elif self._is_in_memory:
            is_live = time_ms > time - segments.retention_ms
        else:
            is_live = time_ms // segments.interval_ms >= segments.first_live()
        if not is_live:
            first_ms = time - segments.retention_ms + self._is_in_memory
            self._drop(max(0, first_ms - time_ms))
        return is_live and time_ms // segments.part_ms >= segments.first_part()
