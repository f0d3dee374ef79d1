"""The store of a suppress operator: updates that wait, one per key, ordered by buffer time.

How it works. A row is ``"k" + serialised key -> logged value``; the value ends in the buffer time.
The order is kept in memory as a heap of (buffer time, key), where Kafka Streams holds the whole
buffer in memory. One more row, ``"v"``, counts the changes of the store: if the number differs from
that of the heap (after a rollback, a restart, a restore), the heap is built again from the
rows.

Invariants:
1. an update of a buffered key keeps its buffer time and place;
2. ``min_timestamp`` is the buffer time of what ``first`` returns;
3. a key is logged once per commit, with its current state: its last update, or null once it left.
   Logged records have no timestamp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, NamedTuple, TypeVar

from logstate.changelog.rows.row_codec import PLAIN_ROWS, serde_topic
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.suppress_values import (
    BufferedUpdate,
    buffer_time_of,
    decode_update,
    encode_update,
)
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, LoggedWrite
from logstate.changelog.stores.store_kind import RowColumn, StoreKind
from logstate.contracts.errors import RestoreError
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")

_VERSION = struct.Struct(">q")
_VERSION_ROW = b"v"
_ROW = b"k"
_ROWS_END = b"l"
#: later than every time
_NO_TIME = 2**63
_FORMAT: tuple[str, bytes | None] = ("v", b"\x03")


class EmittedUpdate(NamedTuple, Generic[K, V]):
    """An update that leaves the buffer, with the place of the record that caused it."""

    key: K
    new: V | None
    old: V | None
    timestamp: int
    headers: Headers
    topic: str | None
    partition: int
    offset: int


class SuppressBuffer(Generic[K, V]):
    """The suppress buffer of one task."""

    row_formats = PLAIN_ROWS

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        topic = serde_topic(spec, context)
        self.name = spec.name
        self._rows = rows
        self._writes = writes
        self._context = context
        self._encode_key = spec.key.serializer(topic, True)
        self._decode_key = spec.key.deserializer(topic, True)
        self._encode_value = spec.value.serializer(topic, False)
        self._decode_value = spec.value.deserializer(topic, False)
        #: (buffer time, key) of every row; only the first is ever removed
        self._heap: list[tuple[int, bytes]] = []
        self._size_bytes = 0
        self._version = -1

    # ------------------------------------------------------------------ reads

    @property
    def num_records(self) -> int:
        """Keys that wait."""
        self._rebuild_order()
        return len(self._heap)

    @property
    def size_bytes(self) -> int:
        """The size that counts against ``max_bytes``: Kafka Streams' estimate of its memory."""
        self._rebuild_order()
        return self._size_bytes

    @property
    def min_timestamp(self) -> int:
        """The earliest buffer time; 2**63 where nothing waits."""
        self._rebuild_order()
        return self._heap[0][0] if self._heap else _NO_TIME

    def times(self) -> Iterator[int]:
        """Yield the buffer times of all rows, the earliest first."""
        self._rebuild_order()
        return (buffer_time for buffer_time, _ in self._heap)

    def first(self) -> EmittedUpdate[K, V] | None:
        """Return the next row to leave: the earliest buffer time, then the smallest key."""
        self._rebuild_order()
        if not self._heap:
            return None
        _, raw = self._heap[0]
        update = self._update(raw)
        assert update is not None, "the heap is as old as the rows"
        return EmittedUpdate(
            self._decode_key(raw),
            self._decoded(update.new),
            self._decoded(update.old),
            update.timestamp,
            update.headers,
            update.topic,
            update.partition,
            update.offset,
        )

    def identity(self, key: K) -> bytes:
        """Return what identifies a key among those that wait."""
        return self._encode_key(key)

    def prior(self, key: K) -> tuple[bool, V | None]:
        """Whether the key waits, and if so its value before it came into the buffer."""
        update = self._update(self._encode_key(key))
        return (False, None) if update is None else (True, self._decoded(update.prior))

    # ------------------------------------------------------------------ writes

    def put(
        self,
        key: K,
        new: V | None,
        old: V | None,
        buffer_time: int,
        timestamp: int,
        headers: Headers,
    ) -> None:
        """Buffer an update; one that waits for the same key is replaced and keeps its place."""
        self._rebuild_order()
        context = self._context
        raw = self._encode_key(key)
        old_bytes = None if old is None else self._encode_value(old)
        new_bytes = None if new is None else self._encode_value(new)
        row = self._rows.get(_ROW + raw)
        prior = old_bytes
        if row is None:
            heappush(self._heap, (buffer_time, raw))
        else:
            buffer_time = buffer_time_of(row)
            waiting = decode_update(row)
            prior = waiting.prior
            self._size_bytes -= waiting.size_bytes(raw)
        update = BufferedUpdate(
            prior,
            old_bytes,
            new_bytes,
            timestamp,
            context.offset,
            context.topic,
            context.partition,
            headers,
        )
        self._size_bytes += update.size_bytes(raw)
        self._write(raw, encode_update(update, buffer_time))

    def remove_first(self) -> None:
        """Take out what ``first`` returned."""
        self._rebuild_order()
        _, raw = heappop(self._heap)
        update = self._update(raw)
        assert update is not None, "the heap is as old as the rows"
        self._size_bytes -= update.size_bytes(raw)
        self._write(raw, None)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over; raises RestoreError for a format other than version 3."""
        for key, value, _, headers in records:
            if value is not None and (not headers or tuple(headers[-1]) != _FORMAT):
                raise RestoreError(
                    f"the changelog of suppress buffer {self.name!r} holds a record with the format"
                    f" header {headers!r}; only version 3 (Kafka Streams 2.5 and later) can be"
                    " read. An older Kafka Streams probably wrote it: let a newer one take the"
                    " application over first"
                )
            self._rows.put(_ROW + key, value)
        self._count_change(self._stored_version())
        self._version = -1

    def _write(self, raw: bytes, data: bytes | None) -> None:
        self._rows.put(_ROW + raw, data)
        self._version = self._count_change(self._version)
        headers = None if data is None else [_FORMAT]
        self._writes.add(raw, LoggedWrite(raw, data, None, headers), once_per_commit=True)

    # ------------------------------------------------------------------ order

    def _stored_version(self) -> int:
        row = self._rows.get(_VERSION_ROW)
        return 0 if row is None else int(_VERSION.unpack(row)[0])

    def _count_change(self, version: int) -> int:
        self._rows.put(_VERSION_ROW, _VERSION.pack(version + 1))
        return version + 1

    def _rebuild_order(self) -> None:
        """Build the order again if the rows have changed since."""
        version = self._stored_version()
        if version == self._version:
            return
        self._heap = []
        self._size_bytes = 0
        for row_key, row in self._rows.scan(_ROW, _ROWS_END):
            raw = row_key[len(_ROW) :]
            self._heap.append((buffer_time_of(row), raw))
            self._size_bytes += decode_update(row).size_bytes(raw)
        heapify(self._heap)
        self._version = version

    # ------------------------------------------------------------------ values

    def _update(self, raw: bytes) -> BufferedUpdate | None:
        row = self._rows.get(_ROW + raw)
        return None if row is None else decode_update(row)

    def _decoded(self, data: bytes | None) -> Any:
        return None if data is None else self._decode_value(data)


SUPPRESS_BUFFER: Final = StoreKind(
    "suppress_buffer", SuppressBuffer,
    row_columns=(
        RowColumn("value", "value", lambda _key, row, _store: decode_update(row).new),
        RowColumn("buffer_time", "time", lambda _key, row, _store: buffer_time_of(row)),
    ),
    own_rows=frozenset({_VERSION_ROW}), is_internal=True,
)  # fmt: skip
