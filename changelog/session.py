"""The session store: one row per key and session.

The clock of the store is the largest session end put so far, over all keys. A put into an expired
segment (in memory: one that ends before the retention) is dropped and counted, but logged all the
same, as Kafka Streams does. Removing is never dropped; on RocksDB it moves the clock like a put.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from logstate.changelog.row_codec import encode_headers, row_codec, serde_topic
from logstate.changelog.rows import Rows
from logstate.changelog.segments import pack_segment
from logstate.changelog.session_keys import pack_tail, times_of
from logstate.changelog.session_reads import SessionReads
from logstate.changelog.writes import ChangelogWrites, LoggedWrite
from logstate.processing import TaskContext
from logstate.records import Headers, Windowed
from logstate.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")


class SessionStore(SessionReads[K, V]):
    """A session store of one task. Keys are never None."""

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        cell = context.time_cell(f"store:{spec.name}")
        super().__init__(spec, row_codec(spec, serde_topic(spec, context)), rows, cell)
        self.name = spec.name
        self._rows = rows
        self._log = writes.add
        self._context = context
        self._with_headers = spec.with_headers

    def put(self, session: Windowed[K], value: V | None, headers: Headers = None) -> None:
        """Write a session; None removes it. ``headers`` are kept where the store keeps headers."""
        if value is None:
            self._delete(session, self._is_live(session.end_ms))
            return
        log_key = self._log_key(session)
        data = self.codec.encode_value(value)
        if self._is_live(session.end_ms):
            row = encode_headers(headers) + data if self._with_headers else data
            self._rows.put(self._segment_of(session.end_ms) + log_key, row)
        logged_headers = headers if self._with_headers else None
        self._log(log_key, LoggedWrite(log_key, data, self._context.timestamp, logged_headers))

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session; a tombstone is logged in any case."""
        end_ms, segments = session.end_ms, self.segments
        if end_ms > segments.cell.time and not self._is_in_memory:
            segments.advance(end_ms, self._rows)
        self._delete(session, end_ms // segments.interval_ms >= segments.first_live())

    def restore(self, records: Sequence[LoggedWrite]) -> None:
        """Take changelog records over, logging nothing; learns the clock."""
        rows, segments = self._rows, self.segments
        # A tombstone is a removal, which does not move the clock in memory.
        latest = max(
            (times_of(r.key)[0] for r in records if r.value is not None or not self._is_in_memory),
            default=-1,
        )
        if latest > segments.cell.time:
            segments.advance(latest, rows)
        first_live, interval_ms = segments.first_live(), segments.interval_ms
        for key, value, _, headers in records:
            segment = times_of(key)[0] // interval_ms
            if segment < first_live:
                continue
            if value is not None and self._with_headers:
                value = encode_headers(headers) + value
            rows.put(pack_segment(segment) + key, value)

    def _delete(self, session: Windowed[K], is_live: bool) -> None:
        log_key = self._log_key(session)
        if is_live:
            self._rows.put(self._segment_of(session.end_ms) + log_key, None)
        headers = self._context.headers if self._with_headers else None
        self._log(log_key, LoggedWrite(log_key, None, self._context.timestamp, headers))

    def _log_key(self, session: Windowed[K]) -> bytes:
        return self.codec.encode_key(session.key) + pack_tail(session.end_ms, session.start_ms)

    def _segment_of(self, end_ms: int) -> bytes:
        return pack_segment(end_ms // self.segments.interval_ms)

    def _is_live(self, end_ms: int) -> bool:
        """Advance the clock; False, and counted, for a session that is too old."""
        segments = self.segments
        if end_ms > segments.cell.time:
            segments.advance(end_ms, self._rows)
        if self._is_in_memory:
            is_live = end_ms > segments.cell.time - segments.retention_ms
        else:
            is_live = end_ms // segments.interval_ms >= segments.first_live()
        if not is_live:
            self._context.drop("expired")
        return is_live
