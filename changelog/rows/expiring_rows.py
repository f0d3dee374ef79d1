"""Rows that expire one by one, each a TTL after its time.

A row begins with 8 bytes of an index time and the 8 bytes of its own time. The store has an index,
with a separate prefix in the backend: ``index time | key -> nothing``. So rows that may be due are
a range of the index, however many rows the store has; nothing else is read. The index is not
logged: a replay makes it again from the times of the changelog's records.

A row that is written again keeps its entry, which writes nothing to the index. Once the entry is
due, a commit reads the row, and either deletes it or moves the entry to the row's current time. So
an entry moves at most once per TTL, however often the row is written.

A commit deletes rows that have expired, a limited number of them, as ordinary writes of its
transaction. Until then they are there but hidden: every reader compares the time of a row with the
stream time (:class:`LiveRows`). So results do not depend on when rows are deleted, and stream time,
which is a part of the cut, is all that a restore needs.

Invariants:
1. every row has one entry in the index, under its index time, which is not after its own time. A
   write with an earlier time than that moves the entry;
2. an entry whose row is absent, or has another index time, means nothing: it is dropped once it is
   due;
3. no row is written whose time is expired: the store refuses it. So the index never gets an entry
   before those that were read, and a search continues where the last one ended.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.writes import LoggedFields
from logstate.contracts.processing import TakeExpired, TaskContext, TimeCell
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec

TIME_BYTES = 8
#: where the value of a row begins, behind both times
_VALUE_AT = 2 * TIME_BYTES
_TIME = struct.Struct(">q")
pack_time = _TIME.pack
_unpack_time = _TIME.unpack_from
_MAX_TIME_MS = 2**63 - 1
#: in the place of an index time that is not known
NO_TIME = pack_time(0)

#: of the tombstone of an expired row, whose timestamp is the clock: standbys learn it there
EXPIRED_HEADERS: Headers = [("logstate.expired", b"")]
#: where the clock is the wall clock; a standby by stream time must not learn it
EXPIRED_BY_WALL_CLOCK: Headers = [("logstate.expired", b"wall_clock")]
#: entries that a commit looks at in any case, and per row that it writes
_DELETED_MIN, _DELETED_PER_ROW = 1_000, 2
#: how often as many again, while none of their rows has expired
_PORTIONS_MAX = 10


class StreamTime(Protocol):
    """What has a stream time: a task."""

    @property
    def stream_time(self) -> int: ...


class CommittedTime(NamedTuple):
    """The stream time of a commit."""

    stream_time: int


class LiveRows:
    """The rows of a store without those that have expired, for readers."""

    def __init__(self, rows: ReadableRows, ttl_ms: int, clock: StreamTime) -> None:
        self._rows = rows
        self._ttl_ms = ttl_ms
        self._clock = clock

    def get(self, key: bytes) -> bytes | None:
        """The row, or None."""
        row = self._rows.get(key)
        if row is None or _unpack_time(row, 8)[0] + self._ttl_ms <= self._clock.stream_time:
            return None
        return row

    def scan(
        self, lower: bytes = b"", upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)`` in byte order, as of this call."""
        live_from = pack_time(max(0, self._clock.stream_time - self._ttl_ms + 1))
        rows = self._rows.scan(lower, upper, reverse=reverse)
        return (pair for pair in rows if pair[1][TIME_BYTES:_VALUE_AT] >= live_from)


class ExpiryIndex(Rows):
    """The entries of the index: ``index time | key -> nothing``."""

    def __init__(self, prefix: bytes, backend: StoreBackend) -> None:
        super().__init__(prefix, backend, is_cached=False)
        #: no entry that the backend does not have yet is before this one
        self._first: bytes | None = None

    def add(self, entry: bytes) -> None:
        """Add an entry."""
        if self._first is None or entry < self._first:
            self._first = entry
        self.put(entry, b"")

    def due(self, lower: bytes, end: bytes, limit: int) -> list[bytes]:
        """Return entries of ``[lower, end)``, the first ones.

        Entries of the last commits are rarely due, so their order is rarely asked for.
        """
        if self._first is not None and self._first < end:
            return [entry for entry, _ in islice(self.scan(lower, end), limit)]
        written, start = self._overlay, len(self.prefix)
        stored = self._backend.scan(self.prefix + lower, self.prefix + end)
        entries = (key[start:] for key, _ in stored)
        return list(islice((one for one in entries if written.get(one, b"") is not None), limit))

    def _rebuild(self) -> None:
        super()._rebuild()
        added = (entry for entry, mark in self._overlay.items() if mark is not None)
        self._first = min(added, default=None)


class ExpiringRows(Rows):
    """The rows of a task's store, with their index.

    Rows are put without their index time, and read with it.
    """

    def __init__(
        self,
        prefix: bytes,
        backend: StoreBackend,
        index: ExpiryIndex,
        clock: TimeCell,
        *,
        is_cached: bool = True,
    ) -> None:
        super().__init__(prefix, backend, is_cached=is_cached)
        self.index = index
        self._clock = clock
        #: an operator takes rows that expire, and commits leave them to it
        self.are_taken = False
        #: of the tombstones of its rows that expire
        self.expired_headers = EXPIRED_HEADERS
        #: puts that wait for the next scan or commit: of each key the last one, as it is logged
        self.waiting: dict[bytes, LoggedFields] = {}
        #: index times of rows that a mirror has read from the backend: they need not be read again
        self._index_times: dict[bytes, bytes] = {}
        #: no entry of the index before this one is due
        self._searched: bytes = b""

    # ------------------------------------------------------------------ reads and writes

    def get(self, key: bytes) -> bytes | None:
        """The row as the task sees it; its index time is not known while its put waits."""
        waiting = self.waiting.get(key)
        if waiting is None:
            return super().get(key)
        _, value, timestamp, _ = waiting
        return None if value is None else NO_TIME + pack_time(timestamp or 0) + value

    def renewed(self, key: bytes, row: bytes, timestamp: int) -> LoggedFields | None:
        """Give a row a later time; return what is logged, or None if its time is as late."""
        if _unpack_time(row, TIME_BYTES)[0] >= timestamp:
            return None
        fields = self.waiting[key] = key, row[_VALUE_AT:], timestamp, None
        return fields

    def flush_mirrors(self) -> None:
        """Take over what waits."""
        super().flush_mirrors()
        if self.waiting:
            rows = {
                key: None if value is None else pack_time(timestamp or 0) + value
                for key, value, timestamp, _ in self.waiting.values()
            }
            self.waiting.clear()
            self.put_rows(rows)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a row; None deletes it."""
        self.waiting.pop(key, None)
        self.put_rows({key: value})

    def put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Write many rows."""
        written: dict[bytes, bytes | None] = {}
        added = 0
        in_overlay, elsewhere = self._overlay.get, self._index_times_of(rows)
        for key, value in rows.items():
            old = in_overlay(key, b"")
            if old == b"":
                old = elsewhere[key]
            # Most rows replace one whose entry stays.
            if old is not None and value is not None and (index_time := old[:TIME_BYTES]) <= value:
                written[key] = index_time + value
            else:
                written[key] = self._indexed(key, old, value)
                added += (value is not None) - (old is not None)
        if self._journal is not None:
            super().put_rows(written)
            return
        if self._count is not None:
            self._count.time += added
        self._current.rows.update(written)
        self._overlay.put_all(written)

    def _index_times_of(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """Rows of the backend, or their index times alone, as far as no newer row hides them."""
        is_written, cache, times = self._overlay.__contains__, self._cache, self._index_times
        found: dict[bytes, bytes | None] = {}
        unknown: list[bytes] = []
        for key in keys:
            if key in times:
                found[key] = times[key]
            elif key in cache:
                found[key] = cache[key]
            elif not is_written(key):
                unknown.append(key)
        if unknown:
            stored = self._backend.get_many([self.prefix + key for key in unknown])
            found.update(zip(unknown, stored, strict=True))
        return found

    def _load(self, key: bytes) -> bytes | None:
        row = super()._load(key)
        if row is not None and not self._is_cached:
            self._index_times[key] = row[:TIME_BYTES]
        return row

    def _indexed(self, key: bytes, old: bytes | None, value: bytes | None) -> bytes | None:
        """Return the row with a new entry, or None for a deletion; drop the old entry."""
        if old is not None:
            self.index.put(old[:TIME_BYTES] + key, None)
        if value is None:
            return None
        index_time = value[:TIME_BYTES]
        self.index.add(index_time + key)
        return index_time + value

    # ------------------------------------------------------------------ replays

    def put_replayed(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Write rows of a replay; as all rows that are put, they have no index time."""
        self.put_rows(rows)

    def learn(self, records: Iterable[LoggedFields]) -> None:
        """Take the stream time from replayed tombstones of expired rows: standbys have no other."""
        self._searched = b""  # a replay may add entries anywhere
        self._index_times.clear()
        for _, value, timestamp, headers in records:
            if value is None and headers and list(headers) == self.expired_headers:
                self._clock.time = max(self._clock.time, timestamp or 0)

    def loaded(
        self,
        rows: Mapping[bytes, bytes | None],
        waiting: Mapping[bytes, bytes | None],
        *,
        is_empty: bool,
    ) -> dict[bytes, bytes | None]:
        """Return replayed rows as the backend holds them, and the changes of the index.

        All keys have prefixes. ``waiting`` are rows that the backend will hold before these;
        ``is_empty``: it holds no others.
        """
        start, index = len(self.prefix), self.index.prefix
        is_here = self._overlay.__contains__
        asked = [] if is_empty else [k for k in rows if k not in waiting and not is_here(k[start:])]
        held = dict(zip(asked, self._backend.get_many(asked), strict=True)) if asked else {}
        found: dict[bytes, bytes | None] = {}
        for full_key, value in rows.items():
            key = full_key[start:]
            old = held.get(full_key) or waiting.get(full_key)
            if old is None and full_key not in waiting:
                old = self._overlay.get(key)
            index_time = None if old is None else old[:TIME_BYTES]
            if index_time is not None and (value is None or index_time > value):
                found[index + index_time + key] = None
                index_time = None
            if value is not None and index_time is None:
                index_time = value[:TIME_BYTES]
                found[index + index_time + key] = b""
            found[full_key] = None if value is None or index_time is None else index_time + value
        return found

    # ------------------------------------------------------------------ expiry

    def expired_keys(self, stream_time: int, ttl_ms: int) -> tuple[list[bytes], bool]:
        """Keys of rows that have expired and are still there; True where there may be more.

        The caller deletes them. The number of entries that are looked at is limited by that of the
        rows written since the last commit, so that a commit deletes at least what expires while the
        store does not grow. While none has expired, it continues: the tombstone of one row gives
        standbys the stream time. There is a limit to this, too.
        """
        if stream_time < ttl_ms:
            return [], False
        self.flush_mirrors()
        limit = _DELETED_MIN + _DELETED_PER_ROW * len(self._current.rows)
        end = pack_time(min(stream_time - ttl_ms + 1, _MAX_TIME_MS))
        found: list[bytes] = []
        has_more, portions = True, 0
        while has_more and not found and portions < _PORTIONS_MAX:
            entries = self.index.due(self._searched, end, limit)
            found = [entry[TIME_BYTES:] for entry in entries if self._has_expired(entry, end)]
            has_more = len(entries) == limit
            self._searched = entries[-1] + b"\0" if has_more else end
            portions += 1
        return found, has_more

    def remove(self, keys: Iterable[bytes]) -> None:
        """Delete rows that have expired."""
        self.put_rows(dict.fromkeys(keys))

    def take_expired(self, stream_time: int, ttl_ms: int) -> list[tuple[int, bytes, bytes]]:
        """Delete all rows that have expired; return them by their times and then by their keys."""
        taken: list[tuple[int, bytes, bytes]] = []
        has_more = True
        while has_more:
            keys, has_more = self.expired_keys(stream_time, ttl_ms)
            rows = ((key, self.get(key)) for key in keys)
            taken += ((_unpack_time(row, 8)[0], key, row) for key, row in rows if row is not None)
            self.remove(keys)
        return sorted(taken)

    def is_due(self, stream_time: int, ttl_ms: int) -> bool:
        """Whether any entry is due."""
        end = pack_time(max(0, min(stream_time - ttl_ms + 1, _MAX_TIME_MS)))
        return bool(self.index.due(self._searched, end, 1))

    def _has_expired(self, entry: bytes, end: bytes) -> bool:
        """Whether the row of an entry that is due has expired too; otherwise the entry goes."""
        row = self.get(entry[TIME_BYTES:])
        if row is None or row[:TIME_BYTES] != entry[:TIME_BYTES]:
            self.index.put(entry, None)
            return False
        if row[TIME_BYTES:_VALUE_AT] < end:
            return True
        self._move_entry(entry, row)
        return False

    def _move_entry(self, entry: bytes, row: bytes) -> None:
        """Put the entry of a row that was written again under the row's time; nothing is logged."""
        key, time = entry[TIME_BYTES:], row[TIME_BYTES:_VALUE_AT]
        self.index.put(entry, None)
        self.index.add(time + key)
        moved = time + row[TIME_BYTES:]
        if self._journal is not None:
            super().put_rows({key: moved})
            return
        self._current.rows[key] = moved
        self._overlay.put(key, moved)

    # ------------------------------------------------------------------ commits

    def begin_journal(self) -> None:
        """Remember old values from here on, those of the index too."""
        super().begin_journal()
        self.index.begin_journal()

    def end_journal(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` restore the old values."""
        super().end_journal(rollback=rollback)
        if rollback:
            self.waiting.clear()
            self._searched = b""
        self.index.end_journal(rollback=rollback)

    def freeze(self) -> Layer:
        """Close the current layer, with that of the index."""
        layer = super().freeze()
        layer.index = self.index.freeze()
        self._index_times.clear()
        return layer

    def committed(self, layer: Layer) -> None:
        """The layer's transaction committed."""
        super().committed(layer)
        assert layer.index is not None
        self.index.committed(layer.index)

    def discard(self) -> None:
        """Forget everything that is not committed."""
        super().discard()
        self.index.discard()
        self.waiting.clear()
        self._index_times.clear()
        self._searched = b""

    def placed(self, layers: Iterable[Layer]) -> Iterator[tuple[bytes, Layer]]:
        """The rows of each layer, and its changes of the index."""
        for layer in layers:
            assert layer.index is not None
            yield self.prefix, layer
            yield self.index.prefix, layer.index

    def applied(self) -> None:
        """The backend took the unapplied layers over."""
        super().applied()
        self.index.applied()

    def cached_rows(self) -> int:
        """Rows and entries held in memory."""
        return super().cached_rows() + self.index.cached_rows() + len(self.waiting)


def bound_take(
    rows: ExpiringRows,
    ttl_ms: int,
    log: Callable[[bytes, LoggedFields], None],
    decode: Callable[[bytes, bytes], tuple[Any, Any]],
) -> TakeExpired:
    """Return a function that deletes the rows that have expired at a time, and logs that.

    It returns what ``decode`` makes of their keys and rows, and the times at which they expired, in
    the order of these. From now on commits leave it to the caller.
    """
    rows.are_taken = True

    def take(now: int) -> list[tuple[Any, Any, int]]:
        taken = []
        for time, key, row in rows.take_expired(now, ttl_ms):
            log(key, (key, None, now, rows.expired_headers))
            taken.append((*decode(key, row), time + ttl_ms))
        return taken

    return take


def renewing_get(
    get_row: Callable[[bytes], bytes | None],
    rows: ExpiringRows,
    log: Callable[[bytes, LoggedFields], None],
    context: TaskContext,
) -> Callable[[bytes], bytes | None]:
    """Return the read that is a write of the row that it finds, at the time of the record."""

    def get_and_renew(key: bytes) -> bytes | None:
        row = get_row(key)
        if row is not None:
            fields = rows.renewed(key, row, context.timestamp)
            if fields is not None:
                log(key, fields)
        return row

    return get_and_renew


def live_rows(spec: StoreSpec, rows: ReadableRows, clock: StreamTime) -> ReadableRows:
    """Rows as their store shows them: without those that have expired, if rows do."""
    return rows if spec.ttl_ms is None else LiveRows(rows, spec.ttl_ms, clock)


def restore_rows(rows: Rows, records: Sequence[LoggedFields]) -> None:
    """Take over changelog records whose values are the rows, apart from the times of a TTL."""
    if not isinstance(rows, ExpiringRows):
        rows.put_rows({key: value for key, value, _, _ in records})
        return
    rows.put_replayed(
        {
            key: None if value is None else pack_time(timestamp or 0) + value
            for key, value, timestamp, _ in records
        }
    )
    rows.learn(records)
