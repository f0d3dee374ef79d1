"""Rows that expire one by one, each a TTL after its time.

A row begins with the 8 bytes of its time. The store has an index of them, with a separate
prefix in the backend: ``time | key -> nothing``. So the rows that are due are a range of
the index, however many rows the store has; nothing else is read. The index is not logged: a replay
makes it again from the times of the changelog's records.

A commit deletes rows that have expired, a limited number of them, as ordinary writes of its
transaction. Until then they are there but hidden: every reader compares the time of a row with the
stream time (:class:`LiveRows`). So results do not depend on when rows are deleted, and stream time,
which is a part of the cut, is all that a restore needs.

Invariants:
1. every row of a layer that was frozen has its entry in the index;
2. an entry whose row is absent, or has another time, means nothing: it is dropped once it is due.
   A replay leaves such entries; a write of a task removes the entry of the row that it replaces;
3. no row is written whose time is expired: the store refuses it. So the index never gets an entry
   before those that were read, and a search continues where the last one ended.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.rows.layers import Layer
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.writes import LoggedFields
from logstate.contracts.processing import TimeCell
from logstate.contracts.records import Headers

TIME_BYTES = 8
_TIME = struct.Struct(">q")
pack_time = _TIME.pack
_unpack_time = _TIME.unpack_from
_MAX_TIME_MS = 2**63 - 1

#: of the tombstone of an expired row, whose timestamp is the stream time: standbys learn it there
EXPIRED_HEADERS: Headers = [("logstate.expired", b"")]
#: rows that a commit deletes in any case, and per row that it writes
_DELETED_MIN, _DELETED_PER_ROW = 1_000, 2


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
        if row is None or _unpack_time(row)[0] + self._ttl_ms <= self._clock.stream_time:
            return None
        return row

    def scan(
        self, lower: bytes = b"", upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)`` in byte order, as of this call."""
        live_from = pack_time(max(0, self._clock.stream_time - self._ttl_ms + 1))
        rows = self._rows.scan(lower, upper, reverse=reverse)
        return (pair for pair in rows if pair[1][:TIME_BYTES] >= live_from)


class ExpiryIndex(Rows):
    """The entries of the index: ``time | key -> nothing``."""

    def __init__(self, prefix: bytes, backend: StoreBackend) -> None:
        super().__init__(prefix, backend, is_cached=False)
        #: no entry that the backend does not have yet is before this one
        self._first: bytes | None = None

    def put_entries(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Add entries, or remove those with None."""
        if entries:
            first = min(entries)
            if self._first is None or first < self._first:
                self._first = first
            self.put_rows(entries)

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
        self._first = min(self._overlay, default=None)


class ExpiringRows(Rows):
    """The rows of a task's store, with their index."""

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
        #: key -> its row when the index was right for it; since then the row was written
        self._indexed: dict[bytes, bytes | None] = {}
        #: no entry of the index before this one is due
        self._searched: bytes = b""

    # ------------------------------------------------------------------ writes

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a row; None deletes it."""
        old = self.get(key)
        if key not in self._indexed:
            self._indexed[key] = old
        if self._journal is not None:
            super().put(key, value)
            return
        if self._count is not None:
            self._count.time += (value is not None) - (old is not None)
        self._current.rows[key] = value
        self._overlay.put(key, value)

    def put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Write many rows."""
        indexed, get = self._indexed, self.get
        for key in rows:
            if key not in indexed:
                indexed[key] = get(key)
        super().put_rows(rows)

    def _update_index(self) -> None:
        written = self._current.rows
        entries: dict[bytes, bytes | None] = {}
        for key, old in self._indexed.items():
            if key not in written:  # it was rolled back
                continue
            row = written[key]
            if old is not None:
                entries[old[:TIME_BYTES] + key] = None
            if row is not None:
                entries[row[:TIME_BYTES] + key] = b""
        self._indexed.clear()
        self.index.put_entries(entries)

    # ------------------------------------------------------------------ expiry

    def learn(self, records: Iterable[LoggedFields]) -> None:
        """Take the stream time from replayed tombstones of expired rows: standbys have no other."""
        for _, value, timestamp, headers in records:
            if value is None and headers and list(headers) == EXPIRED_HEADERS:
                self._clock.time = max(self._clock.time, timestamp or 0)

    def expired_keys(self, stream_time: int, ttl_ms: int) -> tuple[list[bytes], bool]:
        """Keys of rows that have expired and are still there; True where there may be more.

        The caller deletes them. Their number is limited by that of the rows written since the last
        commit, so that a commit deletes at least what expires while the store does not grow.
        """
        if stream_time < ttl_ms:
            return [], False
        self.flush_mirrors()
        self._update_index()
        limit = _DELETED_MIN + _DELETED_PER_ROW * len(self._current.rows)
        end = pack_time(min(stream_time - ttl_ms + 1, _MAX_TIME_MS))
        found: list[bytes] = []
        has_more = True
        # Entries that a replay left are dropped once. One row is deleted where there is any: its
        # tombstone gives standbys the stream time.
        while has_more and not found:
            stale: dict[bytes, bytes | None] = {}
            entries = self.index.due(self._searched, end, limit)
            for entry in entries:
                key = entry[TIME_BYTES:]
                row = self.get(key)
                if row is not None and row[:TIME_BYTES] == entry[:TIME_BYTES]:
                    found.append(key)
                else:
                    stale[entry] = None
            self.index.put_entries(stale)
            has_more = len(entries) == limit
            self._searched = entries[-1] + b"\0" if has_more else end
        return found, has_more

    # ------------------------------------------------------------------ commits

    def freeze(self) -> Layer:
        """Close the current layer, with that of the index."""
        self.flush_mirrors()
        self._update_index()
        layer = super().freeze()
        layer.index = self.index.freeze()
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
        self._indexed.clear()
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
        return super().cached_rows() + self.index.cached_rows()
