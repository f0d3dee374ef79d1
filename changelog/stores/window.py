"""The window store: one row per key and window start, or one per put where it keeps duplicates.

The time of a window is its start. A put that is dropped because it comes too late is logged all the
same, as Kafka Streams does: the restore drops it again.

A store that keeps duplicates numbers its puts (``context.time_cell("sequence:<store>")``), so that
none replaces another; there a put of None is logged and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from logstate.changelog.rows.deferred_values import can_keep
from logstate.changelog.rows.newest_start import NewestStart
from logstate.changelog.rows.row_writer import restored_row, row_encoder
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.segments import SEGMENT_BYTES, pack_segment, segment_of
from logstate.changelog.rows.write_behind import PutText, WriteBehind
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.segmented_store import SegmentedStore
from logstate.changelog.stores.window_reads import WindowReads
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.contracts.windowed_keys import (
    WINDOW_TAIL_BYTES,
    pack_window_tail,
    window_tail,
)

K = TypeVar("K")
V = TypeVar("V")

_LAST_SEQUENCE = 0x7FFFFFFF
#: how many times the asked range the way from its start to the newest row may be
_GROUP_SHARE = 4


#: A row that is pending already has its key, and its window is live. A new one is mostly of the
#: newest window, and was asked for just before.
_PUT: Final = PutText(
    "key, row, start_ms",
    "window",
    "window = key, start_ms",
    """\
if window in row_keys and start_ms >= cell.time + to_oldest:
    pass
elif start_ms == cell.time and newest_is_live and asked[0] == window:
    row_keys[window] = asked[1]
else:
    row_key = row_key_of(window, row)
    if row_key is None:
        return
    row_keys[window] = row_key""",
)


class WindowStore(SegmentedStore[K, V], WindowReads[K, V]):
    """A window store of one task; for ``timestamped_window`` V is ``ValueAndTimestamp``.

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
        self._spec = spec
        self._encode = row_encoder(spec, self.codec, context)
        self._sequence = (
            context.time_cell(f"sequence:{spec.name}") if spec.retain_duplicates else None
        )
        # A put of None is a deletion, but where duplicates are kept it is nothing at all; Kafka
        # Streams' memory store lets it move the clock even then.
        self._counts_none = spec.in_memory or not spec.retain_duplicates
        self._behind: WriteBehind | None = None
        self._newest = NewestStart(self.segments.cell, self._newest_in_backend())
        #: the window that was asked for last, and where its row lies: a new one is put next
        self._asked: list[Any] = [None, b""]
        fetch: Any = self.fetch
        self.fetch_row = fetch  # of timestamped stores only
        self.row_of_window = lambda window: fetch(*window)
        self.put = self._bound_put() if self._sequence is None else self._put_duplicate
        self._rows.mirror(self._groups)
        self._rows.mirror(self._newest)

    def fetch_range(
        self, key: K, from_ms: int, to_ms: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, V]]:
        """(start, value) of one key's windows, by start."""
        oldest = max(from_ms, self._oldest(), 0)
        if to_ms < oldest:
            return iter(())
        # A group reaches from the asked time to the newest row: not for a short look far back.
        if self.segments.cell.time - oldest > _GROUP_SHARE * (to_ms - oldest + 1):
            return super().fetch_range(key, from_ms, to_ms, reverse=reverse)
        if self._behind is not None:
            self._behind.flush()
        found = self._groups.since(self.codec.encode_key(key), oldest)
        if found and found[-1][0] > to_ms:
            del found[bisect_left(found, (to_ms + 1,)) :]
        if reverse:
            found.reverse()
        decode_row = self.codec.decode_row
        return iter([(start_ms, decode_row(row)) for start_ms, _, row in found])

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, logging nothing; learns clock and sequence number."""
        if not records:
            return
        latest = self._take_over(records, self._restored_row)
        self._newest.note(latest)
        if self._sequence is not None:
            self._sequence.time = window_tail(records[-1][0])[1]
        if self._behind is not None:
            self._behind.forget_known()

    def _newest_in_backend(self) -> int:
        """No row of the backend starts later; looked up once, when the store is opened."""
        last = next(self._stored.scan(reverse=True), None)
        if last is None:
            return -1
        return (segment_of(last[0]) + 1) * self.segments.part_ms - 1

    def _restored_row(self, record: LoggedFields) -> bytes | None:
        _, value, timestamp, headers = record
        return None if value is None else restored_row(self._spec, value, timestamp, headers)

    def _write(self, row_key: bytes, value: V | None) -> None:
        row, data, timestamp, headers = self._encode(value)
        self._rows.put(row_key, row)
        if self._groups.groups:
            self._groups.put(row_key[SEGMENT_BYTES:-WINDOW_TAIL_BYTES], *window_tail(row_key), row)
        log_key = row_key[SEGMENT_BYTES:]
        self._writes.add(log_key, (log_key, data, timestamp, headers))

    def _log_only(self, log_key: bytes, value: V | None) -> None:
        _, data, timestamp, headers = self._encode(value)
        self._writes.add(log_key, (log_key, data, timestamp, headers))

    def _bound_put(self) -> Callable[[K, V | None, int], None]:
        """The put of a store with one row per key and start: the hot path of windowed results."""
        spec, write, log_only = self._spec, self._write, self._log_only
        is_live, cell = self._is_live, self.segments.cell
        asked, row_key_in = self._asked, self._bound_row_key()
        newest_is_live = not self._is_in_memory or self.segments.retention_ms > 0

        def row_key_of(window: tuple[K, int], value: V | None) -> bytes | None:
            """None, and only logged, if it comes too late."""
            start_ms = window[1]
            row_key = asked[1] if asked[0] == window else row_key_in(window)
            if (start_ms == cell.time and newest_is_live) or is_live(start_ms):
                return row_key
            log_only(row_key[SEGMENT_BYTES:], value)
            return None

        def put_direct(key: K, value: V | None, start_ms: int) -> None:
            row_key = row_key_of((key, start_ms), value)
            if row_key is not None:
                write(row_key, value)

        if not spec.traits.is_timestamped or not can_keep(spec.key, spec.value):
            return put_direct
        behind = self._behind = WriteBehind(
            spec, self.codec, self._writes, self._put_rows, log_key_at=SEGMENT_BYTES
        )
        self._rows.mirror(behind)
        read, self.row_of_window = behind.bound_reads(self._bound_load())
        self.fetch, self.fetch_row = self._live(read), self._live(self.row_of_window)
        return behind.bound_put(
            put_direct,
            _PUT,
            row_key_of=row_key_of,
            cell=cell,
            to_oldest=self.to_oldest,
            newest_is_live=newest_is_live,
            asked=asked,
        )

    def _live(self, read: Callable[[tuple[K, int]], Any]) -> Callable[[K, int], Any]:
        """Reads windows that are not too old."""
        cell, to_oldest = self.segments.cell, self.to_oldest

        def fetch(key: K, start_ms: int) -> Any:
            return None if start_ms < cell.time + to_oldest else read((key, start_ms))

        return fetch

    def _put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Store rows that waited."""
        self._rows.put_rows(rows)
        groups = self._groups
        if groups.groups:
            for row_key, row in rows.items():
                key = row_key[SEGMENT_BYTES:-WINDOW_TAIL_BYTES]
                groups.put(key, *window_tail(row_key), row)

    def _bound_row_key(self) -> Callable[[tuple[K, int]], bytes]:
        """Where the row of a key and start lies; mostly the start is that of the last call."""
        encode_key, part_ms = self.codec.encode_key, self.segments.part_ms
        last_start_ms, segment, tail = -1, b"", b""

        def row_key_in(window: tuple[K, int]) -> bytes:
            nonlocal last_start_ms, segment, tail
            key, start_ms = window
            if start_ms != last_start_ms:
                segment, tail = pack_segment(start_ms // part_ms), pack_window_tail(start_ms, 0)
                last_start_ms = start_ms
            return segment + encode_key(key) + tail

        return row_key_in

    def _bound_load(self) -> Callable[[tuple[K, int]], StoredRow | None]:
        """Read a row that is not held as an object.

        Most windows are asked for first when they are new. The backend is not asked for a window
        that starts later than everything it has been given.
        """
        rows, newest = self._rows, self._newest
        if not isinstance(rows, Rows):
            fetch: Any = self.fetch
            return lambda window: fetch(*window)
        row_key_in, decode_row = self._bound_row_key(), self.codec.decode_row
        get_row, get_unapplied, asked = rows.get, rows.get_unapplied, self._asked

        def load(window: tuple[K, int]) -> StoredRow | None:
            row_key = row_key_in(window)
            asked[0] = window
            asked[1] = row_key
            if newest.applied_total != rows.applied_total:
                newest.applied(rows.applied_total)
            if window[1] > newest.in_backend:
                row = get_unapplied(row_key)
            else:
                row = get_row(row_key)
            return None if row is None else decode_row(row)

        return load

    def _put_duplicate(self, key: K, value: V | None, start_ms: int) -> None:
        sequence = self._sequence
        assert sequence is not None
        sequence.time = (max(sequence.time, 0) + 1) & _LAST_SEQUENCE
        log_key = self.codec.encode_key(key) + pack_window_tail(start_ms, sequence.time)
        is_put = value is not None
        if (is_put or self._counts_none) and self._is_live(start_ms) and is_put:
            self._write(pack_segment(start_ms // self.segments.part_ms) + log_key, value)
        else:
            self._log_only(log_key, value)
