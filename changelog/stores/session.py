"""The session store: one row per key and session.

The time of a session is its end. Removing is never dropped; on RocksDB it moves the clock like a
put. Sessions of one key come in the order of their ends, then of their starts; in memory a later
start comes first, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from logstate.changelog.rows.key_schema import session_schema
from logstate.changelog.rows.row_codec import PLAIN_ROW, ROW_WITH_HEADERS, RowCodec, decode_headers
from logstate.changelog.rows.rows import ReadableRows
from logstate.changelog.rows.segments import segment_interval_ms
from logstate.changelog.rows.serialization_errors import key_serialization_error
from logstate.changelog.stores.segmented import SegmentedReads, SegmentedStore
from logstate.changelog.stores.store_kind import SPAN, StoreKind
from logstate.contracts.changelog_keys import MAX_TIME_MS, SESSION
from logstate.contracts.processing import TimeCell
from logstate.contracts.record_parts import shown
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")


class SessionReads(SegmentedReads[K, V]):
    """Both ends of every time range are inclusive."""

    key_schema = staticmethod(session_schema)

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        super().__init__(spec, codec, rows, cell)
        self._with_headers = spec.with_headers
        self._can_reuse_key = spec.key.immutable

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """The value of exactly this session, or None."""
        row = self._row(key, end_ms, start_ms)
        return None if row is None else self.codec.decode_row(row)

    def headers_of(self, key: K, start_ms: int, end_ms: int) -> Headers:
        """The headers kept with a session; None where the store keeps none."""
        row = self._row(key, end_ms, start_ms)
        return decode_headers(row, 0)[0] if self._with_headers and row is not None else None

    def find_sessions(
        self, key: K, earliest_end_ms: int, latest_start_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of the key that end at ``earliest_end_ms`` or later and start in time."""
        try:
            raw = self.codec.encode_key(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(self.codec.store, key, error) from error.__cause__
        rows = self._rows_of_key(raw, earliest_end_ms, MAX_TIME_MS, reverse=reverse)
        if self._is_in_memory:
            rows = sorted(rows, key=lambda placed: (placed[0], -placed[1]), reverse=reverse)
        decode_row, windowed = self.codec.decode_row, self.schema.windowed
        key = key if self._can_reuse_key else self.codec.decode_key(raw)
        return (
            (windowed(key, end_ms, start_ms), decode_row(row))
            for end_ms, start_ms, row in rows
            if start_ms <= latest_start_ms
        )

    def find_sessions_of_key_range(
        self,
        lower: K | None,
        upper: K | None,
        earliest_end_ms: int,
        latest_start_ms: int,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The same for keys whose bytes are between two keys', both inclusive, None = open.

        Kafka Streams' ``findSessions(keyFrom, keyTo, ...)``, in the order of ``all``.
        """
        oldest, times_of = max(earliest_end_ms, self._oldest(), 0), self.schema.times_of
        rows = self._rows_between(oldest, MAX_TIME_MS, reverse=reverse, by_key=True)
        found = (pair for pair in rows if times_of(pair[0])[1] <= latest_start_ms)
        return self._decoded(
            self._in_order(self._rows_between_keys(found, lower, upper), reverse=reverse)
        )

    def find_ended(
        self, earliest_end_ms: int, latest_end_ms: int
    ) -> Iterator[tuple[Windowed[K], V]]:
        """Sessions of all keys that end in the range, by end, start and key bytes.

        Final results are read with it, and those are not hidden by the retention: every row of a
        segment that still exists is found, as in Kafka Streams. In memory they are hidden, and come
        by end, key and latest start. A store of final results reads no other rows for it.
        """
        oldest = max(earliest_end_ms, self.oldest_found(self.segments.cell.time), 0)
        found = self._rows_between(oldest, latest_end_ms)
        order = self.schema.memory_order if self._is_in_memory else self._time_order
        return self._decoded(sorted(found, key=order))

    def fetch(self, key: K, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """All visible sessions of the key."""
        return self.find_sessions(key, 0, MAX_TIME_MS, reverse=reverse)

    def all(self) -> Iterator[tuple[Windowed[K], V]]:
        """Every visible session: by segment and bytes, in memory by end and key."""
        return self.find_sessions_of_key_range(None, None, 0, MAX_TIME_MS)

    def oldest_found(self, time: int) -> int:
        """The oldest end that ``find_ended`` shows once the clock is at ``time``."""
        if self._is_in_memory:
            return super().oldest_found(time)
        part_ms = self.segments.part_ms
        return (time - self.segments.retention_ms) // part_ms * part_ms

    def _time_order(self, pair: tuple[bytes, bytes]) -> tuple[int, int, bytes]:
        return (*self.schema.times_of(pair[0]), self.schema.key_of(pair[0]))


class TaskSessionStore(SegmentedStore[K, V], SessionReads[K, V]):
    """A session store of one task. Keys are never None."""

    row_formats = PLAIN_ROW, ROW_WITH_HEADERS

    def put(self, session: Windowed[K], value: V | None, headers: Headers = None) -> None:
        """Write a session; None removes it. ``headers`` are kept where the store keeps headers.

        Raises ValueError for one that ends before it starts: no search by time would find it; and
        TypeError for objects that are not a session.
        """
        if type(session) is not Windowed:
            session = self._session_of(session)
        key, start_ms, end_ms = session
        if end_ms < start_ms:
            raise ValueError(
                f"session store {self.name!r} was given a session that starts at {start_ms} ms and"
                f" ends at {end_ms} ms, before its start. The order is Windowed(key, start_ms,"
                " end_ms), both inclusive"
            )
        put = value if value is None or not self._with_headers else (value, headers)
        self._put(self._row_key(key, end_ms, start_ms), end_ms, put)

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session; a tombstone is logged in any case. Raises TypeError as ``put``."""
        if type(session) is not Windowed:
            session = self._session_of(session)
        key, start_ms, end_ms = session
        row_key, segments = self._row_key(key, end_ms, start_ms), self.segments
        if end_ms > segments.cell.time and not self._is_in_memory:
            self._advance(end_ms)
        is_live = end_ms // segments.part_ms >= segments.first_part()
        self._write(row_key, None, is_live=is_live)

    def _session_of(self, given: Any) -> Windowed[K]:
        """A tuple of the same three is one, too."""
        if isinstance(given, tuple) and len(given) == 3:
            return Windowed(*given)
        raise TypeError(
            f"session store {self.name!r} was given {shown(given)} ({type(given).__name__}) as a"
            " session: its rows are found by key, start and end, not by the key alone. Give"
            " Windowed(key, start_ms, end_ms), both inclusive"
        )


SESSIONS: Final = StoreKind(
    "session", TaskSessionStore, SessionReads,
    key_layout=SESSION,
    key_reads={"find_sessions": SPAN},
    range_read=("find_sessions_of_key_range", SPAN),
    can_be_filled=True, is_segmented=True,
    segment_interval_ms=segment_interval_ms,
    local_layout=lambda spec: 2 if spec.keep_at_retention else 1,  # of final results: by time
)  # fmt: skip
