"""The session store: one row per key and session.

The time of a session is its end. A put that is dropped because it comes too late is logged all the
same, as Kafka Streams does. Removing is never dropped; on RocksDB it moves the clock like a put.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from logstate.changelog.rows.row_codec import encode_headers
from logstate.changelog.rows.row_groups import PlacedRow
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.segments import pack_segment
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, LoggedWrite
from logstate.changelog.stores.segmented_store import SegmentedStore
from logstate.changelog.stores.session_reads import SessionReads
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import SESSION_TAIL_BYTES, pack_session_tail

K = TypeVar("K")
V = TypeVar("V")


class SessionStore(SegmentedStore[K, V], SessionReads[K, V]):
    """A session store of one task. Keys are never None."""

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        super().__init__(spec, rows, writes, context)
        self._can_reuse_key = spec.key.immutable
        self._rows.mirror(self._groups)

    def find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of the key that end at ``earliest_end_ms`` or later and start in time."""
        raw = self.codec.encode_key(key)
        oldest = max(earliest_end_ms, self._oldest(), 0)
        found = self._groups.since(raw, oldest)
        if not found:
            return iter(())
        if self._is_in_memory and len(found) > 1:
            found.sort(key=_later_start_first)
        if reverse:
            found.reverse()
        decode_row = self.codec.decode_row
        new = tuple.__new__  # half the time of calling the class
        if not self._can_reuse_key:
            key = self.codec.decode_key(raw)
        return iter(
            [
                (new(Windowed, (key, start_ms, end_ms)), decode_row(row))
                for end_ms, start_ms, row in found
                if start_ms <= latest_start_ms
            ]
        )

    def put(self, session: Windowed[K], value: V | None, headers: Headers = None) -> None:
        """Write a session; None removes it. ``headers`` are kept where the store keeps headers."""
        if value is None:
            self._delete(session, self._is_live(session.end_ms))
            return
        log_key = self._log_key(session)
        data = self.codec.encode_value(value)
        if self._is_live(session.end_ms):
            row = encode_headers(headers) + data if self._with_headers else data
            self._put_row(log_key, session, row)
        logged_headers = headers if self._with_headers else None
        self._writes.add(
            log_key,
            tuple.__new__(LoggedWrite, (log_key, data, self._context.timestamp, logged_headers)),
        )

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session; a tombstone is logged in any case."""
        end_ms, segments = session.end_ms, self.segments
        if end_ms > segments.cell.time and not self._is_in_memory:
            self._advance(end_ms)
        self._delete(session, end_ms // segments.part_ms >= segments.first_part())

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, logging nothing; learns the clock."""
        self._take_over(records, self._restored_row)

    def _restored_row(self, record: LoggedFields) -> bytes | None:
        _, value, _, headers = record
        return value if value is None or not self._with_headers else encode_headers(headers) + value

    def _delete(self, session: Windowed[K], is_live: bool) -> None:
        log_key = self._log_key(session)
        if is_live:
            self._put_row(log_key, session, None)
        headers = self._context.headers if self._with_headers else None
        self._writes.add(
            log_key, tuple.__new__(LoggedWrite, (log_key, None, self._context.timestamp, headers))
        )

    def _put_row(self, log_key: bytes, session: Windowed[K], row: bytes | None) -> None:
        end_ms = session.end_ms
        self._rows.put(pack_segment(end_ms // self.segments.part_ms) + log_key, row)
        self._groups.put(log_key[:-SESSION_TAIL_BYTES], end_ms, session.start_ms, row)

    def _log_key(self, session: Windowed[K]) -> bytes:
        return self.codec.encode_key(session.key) + pack_session_tail(
            session.end_ms, session.start_ms
        )

    def _hidden_by(self, time: int) -> int:
        return self._oldest_found(time)


def _later_start_first(placed: PlacedRow) -> tuple[int, int]:
    return placed[0], -placed[1]
