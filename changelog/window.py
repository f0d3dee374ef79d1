"""The window store: one row per key and window start, or one per put where it keeps duplicates.

The clock of the store is the largest start put so far, over all keys. A put into an expired segment
(in memory: older than the retention) is dropped and counted, but logged all the same, as Kafka
Streams does: the restore drops it again.

A store that keeps duplicates numbers its puts (``context.time_cell("sequence:<store>")``), so that
none replaces another; there a put of None is logged and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from logstate.changelog.row_codec import (
    row_codec,
    serde_topic,
    timestamped_row,
    timestamped_row_with_headers,
)
from logstate.changelog.rows import Rows
from logstate.changelog.segments import SegmentClock, pack_segment
from logstate.changelog.window_keys import pack_tail, sequence_of, start_of
from logstate.changelog.window_reads import WindowReads
from logstate.changelog.writes import ChangelogWrites, LoggedWrite
from logstate.processing import TaskContext
from logstate.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")

_LAST_SEQUENCE = 0x7FFFFFFF


class WindowStore(WindowReads[K, V]):
    """A window store of one task; for ``timestamped_window`` V is ``ValueAndTimestamp``.

    ``put(key, value, start_ms)``: None deletes. Keys are never None.
    """

    put: Callable[[K, V | None, int], None]

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        cell = context.time_cell(f"store:{spec.name}")
        super().__init__(spec, row_codec(spec, serde_topic(spec, context)), rows, cell)
        self.name = spec.name
        self._rows = rows
        self._writes = writes
        self._context = context
        self._is_timestamped = spec.kind == "timestamped_window"
        self._with_headers = spec.with_headers
        self._drops_at_retention = spec.in_memory
        self._sequence = (
            context.time_cell(f"sequence:{spec.name}") if spec.retain_duplicates else None
        )
        # A put of None is a deletion, but where duplicates are kept it is nothing at all; Kafka
        # Streams' memory store lets it move the clock even then.
        self._counts_none = spec.in_memory or not spec.retain_duplicates
        self.put = self._bound_put() if self._sequence is None else self._put_duplicate

    def restore(self, records: Sequence[LoggedWrite]) -> None:
        """Take changelog records over, logging nothing; learns clock and sequence number."""
        if not records:
            return
        rows, segments = self._rows, self.segments
        latest = max(
            (start_of(r.key) for r in records if r.value is not None or self._counts_none),
            default=-1,
        )
        if latest > segments.cell.time:
            segments.advance(latest, rows)
        first_live, interval_ms = segments.first_live(), segments.interval_ms
        for key, value, timestamp, headers in records:
            segment = start_of(key) // interval_ms
            if segment < first_live:
                continue
            if value is not None:
                value = self._row(value, timestamp or 0, headers)
            elif self._sequence is not None:
                continue
            rows.put(pack_segment(segment) + key, value)
        if self._sequence is not None:
            self._sequence.time = sequence_of(records[-1].key)

    def _row(self, value: bytes, timestamp: int, headers: Any) -> bytes:
        if self._is_timestamped:
            if self._with_headers:
                return timestamped_row_with_headers(value, timestamp, headers)
            return timestamped_row(value, timestamp)
        return value

    def _bound_put(self) -> Callable[[K, V | None, int], None]:
        """The put of a store with one row per key and start: the hot path of windowed results."""
        encode_key, encode = self.codec.encode_key, self._encoder()
        put_row, log, segments = self._rows.put, self._writes.add, self.segments
        cell, interval_ms, is_live = segments.cell, segments.interval_ms, self._is_live
        new = tuple.__new__

        def put(key: K, value: V | None, start_ms: int) -> None:
            log_key = encode_key(key) + pack_tail(start_ms, 0)
            row, data, timestamp, headers = encode(value)
            if start_ms == cell.time or is_live(segments, start_ms):
                put_row(pack_segment(start_ms // interval_ms) + log_key, row)
            log(log_key, new(LoggedWrite, (log_key, data, timestamp, headers)))

        return put

    def _put_duplicate(self, key: K, value: V | None, start_ms: int) -> None:
        sequence = self._sequence
        assert sequence is not None
        sequence.time = (max(sequence.time, 0) + 1) & _LAST_SEQUENCE
        log_key = self.codec.encode_key(key) + pack_tail(start_ms, sequence.time)
        row, data, timestamp, headers = self._encoder()(value)
        is_put = value is not None
        if (is_put or self._counts_none) and self._is_live(self.segments, start_ms) and is_put:
            self._rows.put(pack_segment(start_ms // self.segments.interval_ms) + log_key, row)
        self._writes.add(log_key, LoggedWrite(log_key, data, timestamp, headers))

    def _is_live(self, segments: SegmentClock, start_ms: int) -> bool:
        """Advance the clock; False, and counted, for a put that comes too late."""
        time = segments.cell.time
        if start_ms >= time:
            if start_ms > time:
                segments.advance(start_ms, self._rows)
            is_live = not self._drops_at_retention or segments.retention_ms > 0
        elif self._drops_at_retention:
            is_live = start_ms > time - segments.retention_ms
        else:
            is_live = start_ms // segments.interval_ms >= segments.first_live()
        if not is_live:
            self._context.drop("expired")
        return is_live

    def _encoder(self) -> Callable[[Any], tuple[bytes | None, bytes | None, int, Any]]:
        """A function from value to (row, logged value, logged timestamp, logged headers)."""
        encode_value, context, with_headers = (
            self.codec.encode_value,
            self._context,
            self._with_headers,
        )
        make_row = self._row
        if self._is_timestamped and not with_headers:

            def encode_timestamped(value: Any) -> Any:
                if value is None or value[0] is None:
                    return None, None, context.timestamp, None
                data = encode_value(value[0])
                return timestamped_row(data, value[1]), data, value[1], None

            return encode_timestamped
        if self._is_timestamped:

            def encode_with_headers(value: Any) -> Any:
                if value is None or value[0] is None:
                    return None, None, context.timestamp, context.headers
                data = encode_value(value[0])
                return make_row(data, value[1], value[2]), data, value[1], value[2]

            return encode_with_headers

        def encode_plain(value: Any) -> Any:
            data = None if value is None else encode_value(value)
            # Kafka Streams logs the processed record's headers of these, and of no other store.
            return data, data, context.timestamp, context.headers

        return encode_plain
