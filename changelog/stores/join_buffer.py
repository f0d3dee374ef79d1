"""The store in which stream records wait: in a stream-table join with grace (KIP-923), and in a
join that chooses one record of another stream.

A row is ``00 | 8 bytes timestamp | serialised key | 4 bytes sequence number`` -> the record with
the place it came from (the format of `suppress_values`, with buffer time 0). Byte order is time
order, then key, then arrival. Row and changelog record are the same bytes; changelog records have
no timestamp.

The clock of the store is the largest timestamp put into it. A record waits until the clock has
passed its timestamp by the grace. Without a grace the operator says until when: it takes every
record, and passes the time to ``expired``.

Invariants:
1. after ``put`` and taking out all ``expired``, all that waits is younger than clock - grace;
2. ``_earliest`` is never above the earliest row's timestamp: it saves scans that find nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, Generic, NamedTuple, TypeVar

from logstate.changelog.rows.row_codec import PLAIN_ROWS, row_codec, serde_topic
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.suppress_values import BufferedUpdate, decode_update, encode_update
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, LoggedWrite, next_number
from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.changelog_keys import KeyLayout
from logstate.contracts.processing import StreamProcess, TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec


class LoggedRows:
    """Row and changelog record are the same bytes."""

    row_formats = PLAIN_ROWS

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        self.name = spec.name
        self._rows = rows
        self._writes = writes
        self._context = context

    @property
    def num_records(self) -> int:
        """Return the number of rows. Costs a scan."""
        return sum(1 for _ in self._rows.scan())

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing."""
        put = self._rows.put
        for key, value, _, _ in records:
            put(key, value)

    def _put_row(
        self, row_key: bytes, row: bytes | None, timestamp: int | None, headers: Headers = None
    ) -> None:
        self._rows.put(row_key, row)
        self._writes.add(row_key, LoggedWrite(row_key, row, timestamp, headers))


K = TypeVar("K")
V = TypeVar("V")

_HEAD = struct.Struct(">Bq")
_SEQUENCE = struct.Struct(">i")
_TIME_FIRST = 0
_NOTHING_WAITS = 2**63 - 1
#: longer than any difference of two times
_NO_GRACE = 2**63


class BufferedRecord(NamedTuple, Generic[K, V]):
    """A record whose time has come, with the place it came from."""

    row_key: bytes
    key: K
    value: V
    timestamp: int
    headers: Headers
    topic: str | None
    partition: int
    offset: int


class JoinBuffer(LoggedRows, Generic[K, V]):
    """The waiting stream records of one task."""

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        super().__init__(spec, rows, writes, context)
        self._grace_ms = _NO_GRACE if spec.grace_ms is None else spec.grace_ms
        self._codec = row_codec(spec, serde_topic(spec, context), self.row_formats[0])
        #: stream time, that of the records put into the buffer
        self.observed = context.time_cell(f"store:{spec.name}")
        self._sequence = context.time_cell(f"sequence:{spec.name}")
        #: -1 where it is not known
        self._earliest = context.time_cell(f"earliest:{spec.name}")

    @property
    def min_timestamp(self) -> int:
        """No record that waits is older; Kafka Streams' bound, not the exact minimum."""
        return self.observed.time - self._grace_ms + 1

    def put(self, key: K, value: V, timestamp: int, headers: Headers) -> bool:
        """Let a record wait; False if it came so late that it must not."""
        observed, context = self.observed, self._context
        if observed.time - self._grace_ms > timestamp:
            return False
        observed.time = max(observed.time, timestamp)
        self._earliest.time = min(self._earliest.time, timestamp)
        row_key = b"".join(
            (
                _HEAD.pack(_TIME_FIRST, timestamp),
                self._codec.encode_key(key),
                _SEQUENCE.pack(next_number(self._sequence)),
            )
        )
        waiting = BufferedUpdate(
            None,
            None,
            self._codec.encode_value(value),
            timestamp,
            context.offset,
            context.topic,
            context.partition,
            headers,
        )
        self._put_row(row_key, encode_update(waiting, 0), None)
        return True

    def times(self) -> Iterator[int]:
        """Yield the timestamps of the records that wait, in order."""
        if self._earliest.time != _NOTHING_WAITS:
            for row_key, _ in self._rows.scan():
                yield _HEAD.unpack_from(row_key)[1]

    def last_due(self, limit: int, wait_ms: int | None = None) -> int | None:
        """Return the last stream time up to ``limit`` at which a record's time comes.

        None if no record's time comes by then. ``wait_ms``: how long they wait, if the operator
        decides.
        """
        wait_ms = self._grace_ms if wait_ms is None else wait_ms
        until = limit - wait_ms
        if self._earliest.time > until:
            return None
        last = max(takewhile(lambda timestamp: timestamp <= until, self.times()), default=None)
        return None if last is None else last + wait_ms

    def expired(self, until: int | None = None) -> Iterator[BufferedRecord[K, V]]:
        """The records whose time has come, as of this call; each is to be removed.

        ``until``: their largest timestamp, if the operator decides.
        """
        if until is None:
            until = self.observed.time - self._grace_ms
        if self._earliest.time > until:
            return
        decode_key, decode_value = self._codec.decode_key, self._codec.decode_value
        # Taken before the first is removed: a scan that rows are removed from has to read on.
        due, earliest = [], _NOTHING_WAITS
        for row_key, row in self._rows.scan():
            _, timestamp = _HEAD.unpack_from(row_key)
            if timestamp > until:
                earliest = timestamp
                break
            due.append((row_key, row))
        for row_key, row in due:
            found = decode_update(row)
            assert found.new is not None, "null values are never put"
            yield BufferedRecord(
                row_key,
                decode_key(row_key[_HEAD.size : -_SEQUENCE.size]),
                decode_value(found.new),
                found.timestamp,
                found.headers,
                found.topic,
                found.partition,
                found.offset,
            )
        self._earliest.time = earliest

    def forward_expired(self, forward: StreamProcess, until: int | None = None) -> None:
        """Pass on and remove each record whose time has come, at the place that it came from."""
        context = self._context
        place = context.topic, context.partition, context.offset
        for waiting in self.expired(until):
            context.topic, context.partition, context.offset = waiting[-3:]
            forward(waiting.key, waiting.value, waiting.timestamp, waiting.headers)
            self.remove(waiting)
        context.topic, context.partition, context.offset = place

    def remove(self, waiting: BufferedRecord[K, V]) -> None:
        """Take a record out."""
        self._put_row(waiting.row_key, None, None)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, logging nothing; learns clock and sequence number."""
        super().restore(records)
        for key, value, _, _ in records:
            _, timestamp = _HEAD.unpack_from(key)
            self.observed.time = max(self.observed.time, timestamp)
            if value is not None:
                self._sequence.time = _SEQUENCE.unpack(key[-_SEQUENCE.size :])[0]
        self._earliest.time = -1


JOIN_BUFFER: Final = StoreKind(
    "join_buffer", JoinBuffer,
    key_layout=KeyLayout(head_bytes=_HEAD.size, tail_bytes=_SEQUENCE.size),
    row_columns=(), is_internal=True,
)  # fmt: skip
