"""The window store: one row per key and window start, or one per put where it keeps duplicates.

The time of a window is its start. A store that keeps duplicates numbers its puts
(``context.time_cell("sequence:<store>")``), so that none replaces another; there a put of None is
logged and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from logstate.changelog.rows.key_schema import window_schema
from logstate.changelog.rows.row_codec import TIMESTAMPED_ROWS, RowCodec
from logstate.changelog.rows.row_writer import EncodedRow
from logstate.changelog.rows.rows import ReadableRows, RowCache, Rows
from logstate.changelog.rows.segments import SegmentClock, segment_interval_ms, segment_of
from logstate.changelog.rows.serialization_errors import key_serialization_error
from logstate.changelog.rows.write_behind import PutText, WriteBehind
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, next_number
from logstate.changelog.stores.segmented import SegmentedReads, SegmentedStore
from logstate.changelog.stores.store_kind import SPAN, StoreKind
from logstate.contracts.changelog_keys import MAX_TIME_MS, WINDOW
from logstate.contracts.processing import TaskContext, TimeCell
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoredRow, StoreSpec, ValueAndTimestamp


class NewestStart(RowCache):
    """No row of the backend starts later than ``in_backend``, as long as ``applied_total`` is how
    often rows were applied: otherwise call ``applied`` first. Read for every new window, hence not
    a method.
    """

    __slots__ = ("_frozen", "_segments", "applied_total", "in_backend")

    def __init__(self, segments: SegmentClock, rows: Rows) -> None:
        """Looks the rows' newest segment up, once."""
        self._segments = segments
        last = next(rows.scan(reverse=True), None)
        newest = -1 if last is None else (segment_of(last[0]) + 1) * segments.part_ms - 1
        self._frozen = self.in_backend = newest
        self.applied_total = 0

    def applied(self, applied_total: int) -> None:
        """Rows were applied, all of them frozen before."""
        self.applied_total = applied_total
        self.in_backend = self._frozen

    def flush(self) -> None:
        """The rows are about to be frozen, or read."""
        self._frozen = max(self._frozen, self._segments.cell.time)


K = TypeVar("K")
V = TypeVar("V")

#: A row that is pending already has its key, and its window is live. A new one is mostly of the
#: newest window, and was asked for just before.
_PUT: Final = PutText(
    "key, row, start_ms",
    "window",
    "window = key, start_ms",
    """\
if window in row_keys and start_ms >= cell.time + to_oldest:
    pass
else:
    new_row_key = asked[1] if asked[0] == window else row_key(key, start_ms, 0)
    if (start_ms != cell.time or not newest_is_live) and not is_live(start_ms):
        write(new_row_key, row, is_live=False)
        return
    row_keys[window] = new_row_key""",
)


class WindowReads(SegmentedReads[K, V]):
    """Both ends of every time range are inclusive."""

    key_schema = staticmethod(window_schema)
    #: the row of a key and window start, or None
    fetch: Callable[[K, int], V | None]

    def __init__(
        self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
    ) -> None:
        super().__init__(spec, codec, rows, cell)
        row_of, decode_row = self._row, codec.decode_row

        def fetch(key: K, start_ms: int) -> V | None:
            row = row_of(key, start_ms, 0)
            return None if row is None else decode_row(row)

        self.fetch = fetch

    def fetch_range(
        self, key: K, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, V]]:
        """(start, value) of one key's windows, by start."""
        decode_row = self.codec.decode_row
        try:
            raw = self.codec.encode_key(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(self.codec.store, key, error) from error.__cause__
        rows = self._rows_of_key(raw, from_ms, to_ms, reverse=reverse)
        return ((start_ms, decode_row(row)) for start_ms, _, row in rows)

    def fetch_all(
        self, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The windows of all keys that start in the range."""
        return self._decoded(self._rows_of_all(from_ms, to_ms, reverse))

    def fetch_key_range(
        self, lower: K | None, upper: K | None, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[Windowed[K], V]]:
        """The same for keys whose bytes are between two keys', both inclusive, None = open.

        Kafka Streams' ``fetch(keyFrom, keyTo, timeFrom, timeTo)``, in the order of ``fetch_all``.
        """
        rows = self._rows_of_all(from_ms, to_ms, reverse)
        return self._decoded(self._rows_between_keys(rows, lower, upper))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Every visible window."""
        return self.fetch_all(0, MAX_TIME_MS, reverse=reverse)

    def _rows_of_all(
        self, from_ms: int, to_ms: int, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        oldest = max(from_ms, self._oldest(), 0)
        rows = self._rows_between(oldest, to_ms, reverse=reverse)
        return rows if self._by_time is not None else self._in_order(rows, reverse=reverse)


class TaskWindowStore(SegmentedStore[K, V], WindowReads[K, V]):
    """A window store of one task.

    ``put(key, value, start_ms)``: None deletes. Keys are never None.
    """

    put: Callable[[K, V | None, int], None]
    #: ``fetch`` for operators, whose rows may be plain tuples; ``put`` takes those too
    fetch_row: Callable[[K, int], StoredRow | None]
    #: the same for (key, start) of a window that is not too old, which the caller looks at first:
    #: ``start_ms >= segments.cell.time + to_oldest``
    row_of_window: Callable[[tuple[K, int]], StoredRow | None]

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        super().__init__(spec, rows, writes, context)
        #: decodes a value of which every user needs an object of his own; None: all may share one
        self.copied: Callable[[bytes], V] | None = None
        if not spec.value.immutable:
            self.copied = self.codec.decode_value
        #: what ``encoded`` was given last, as bytes
        self.encoded_last: bytes | None = None
        self._newest = NewestStart(self.segments, rows)
        rows.mirror(self._newest)
        #: the window that was read last, and its row key: usually the same is put next
        self._asked: list[Any] = [None, b""]
        fetch: Any = self.fetch
        self.fetch_row = fetch  # of timestamped stores only
        self.row_of_window = lambda window: fetch(*window)
        self.put = self._put_window
        self._sequence = (
            context.time_cell(f"sequence:{spec.name}") if spec.retain_duplicates else None
        )
        if self._sequence is not None:
            self.put = self._put_duplicate
        elif self._behind is not None:
            self._bind(self._behind, rows)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, logging nothing; learns clock and sequence number."""
        super().restore(records)
        self._newest.flush()
        if self._sequence is not None and records:
            self._sequence.time = self.schema.times_of(records[-1][0])[1]

    def _put_window(self, key: K, value: V | None, start_ms: int) -> None:
        self._put(self._row_key(key, start_ms, 0), start_ms, value)

    def encoded(self, value: V | None) -> EncodedRow:
        """Return the argument of ``put_encoded``: the row and record of the current value."""
        encoded = self._encode(value)
        self.encoded_last = encoded.logged_value
        return encoded

    def put_encoded(self, key: K, encoded: EncodedRow, start_ms: int) -> None:
        """As ``put`` of a store that retains duplicates."""
        assert self._sequence is not None
        row_key = self._row_key(key, start_ms, next_number(self._sequence))
        has_row = encoded.row is not None
        is_live = (has_row or self.schema.counts_none) and self._is_live(start_ms)
        self._write_encoded(row_key, encoded, is_live=has_row and is_live)

    def _put_duplicate(self, key: K, value: V | None, start_ms: int) -> None:
        self.put_encoded(key, self._encode(value), start_ms)

    def _bind(self, behind: WriteBehind, rows: Rows) -> None:
        """Let rows wait: the hot path of windowed results."""
        read, self.row_of_window = behind.bound_reads(self._bound_load(rows))
        self.fetch, self.fetch_row = (
            self._without_expired(read),
            self._without_expired(self.row_of_window),
        )
        self.put = behind.bound_put(
            self._put_window,
            _PUT,
            row_key=self._row_key,
            is_live=self._is_live,
            write=self._write,
            cell=self.segments.cell,
            to_oldest=self.to_oldest,
            newest_is_live=not self._is_in_memory or self.segments.retention_ms > 0,
            asked=self._asked,
        )

    def _without_expired(self, read: Callable[[tuple[K, int]], Any]) -> Callable[[K, int], Any]:
        """Reads windows that are not too old."""
        cell, to_oldest = self.segments.cell, self.to_oldest

        def fetch(key: K, start_ms: int) -> Any:
            return None if start_ms < cell.time + to_oldest else read((key, start_ms))

        return fetch

    def _bound_load(self, all_rows: Rows) -> Callable[[tuple[K, int]], StoredRow | None]:
        """Read a row that is not held as an object.

        Most windows are asked for first when they are new. The backend is not asked for a window
        that starts later than everything it has been given.
        """
        newest, asked, decode_row = self._newest, self._asked, self.codec.decode_row
        row_key_of, rows = self._row_key, self._rows
        get_row, get_unapplied = rows.get, rows.get_unapplied

        def load(window: tuple[K, int]) -> StoredRow | None:
            key, start_ms = window
            row_key = row_key_of(key, start_ms, 0)
            asked[0] = window
            asked[1] = row_key
            if newest.applied_total != all_rows.applied_total:
                newest.applied(all_rows.applied_total)
            if start_ms > newest.in_backend:
                row = get_unapplied(row_key)
            else:
                row = get_row(row_key)
            return None if row is None else decode_row(row)

        return load


class TimestampedWindowStore(TaskWindowStore[K, ValueAndTimestamp[V]]):
    """A window store whose values are :class:`ValueAndTimestamp`."""

    row_formats = TIMESTAMPED_ROWS
    is_timestamped = True


WINDOWS: Final = StoreKind(
    "window", TaskWindowStore, WindowReads,
    key_layout=WINDOW,
    key_reads={"fetch": ("start",), "fetch_range": SPAN},
    range_read=("fetch_key_range", SPAN),
    can_be_filled=True, is_segmented=True, shows_edge=True,
    segment_interval_ms=segment_interval_ms,
)  # fmt: skip
TIMESTAMPED_WINDOWS: Final = replace(
    WINDOWS, name="timestamped_window", store=TimestampedWindowStore
)
