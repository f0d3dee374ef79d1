"""The common part of lists, maps and sets: a key has elements, and each element is one row.

A row is ``key with its end mark | element`` -> value, see
:mod:`logstate.contracts.changelog_keys`. Its changelog record has the same bytes, so each element
is restored, compacted and deleted as a row of a key-value store is. The elements of a key are the
rows of one prefix, in the order of their bytes: of positions and of ordered serdes that is the
order of the values.

A store remembers something about the keys that it used last (the bounds of a list, the number of
elements), which the rows determine: it can be dropped at any time, and an abort drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, Generic, TypeVar

from logstate.changelog.backend.backend import end_of_prefix
from logstate.changelog.rows.expiring_rows import (
    CommittedTime,
    ExpiringRows,
    StreamTime,
    bound_take,
    live_rows,
    pack_time,
    renewing_get,
    restore_rows,
)
from logstate.changelog.rows.row_codec import (
    PLAIN_ROWS,
    RowCodec,
    format_of_rows,
    row_codec,
    serde_topic,
)
from logstate.changelog.rows.rows import ReadableRows, RowCache, Rows, drop_oldest, drop_some
from logstate.changelog.rows.serialization_errors import (
    key_serialization_error,
    value_serialization_error,
)
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.store_kind import ReaderClass
from logstate.contracts.changelog_keys import ended_key, split_element
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import SerdeError
from logstate.contracts.processing import TakeExpired, TaskContext, TimeCell
from logstate.contracts.stores import StoreSpec

K = TypeVar("K")
E = TypeVar("E")
V = TypeVar("V")

#: memory of what is remembered about a key, without its bytes
_KNOWN_BYTES = 300


class ElementReads(Generic[K, E, V]):
    """Reads of elements, over a task's rows or a query's. Scans see the rows as of the call."""

    def __init__(
        self,
        spec: StoreSpec,
        codec: RowCodec,
        rows: ReadableRows,
        clock: StreamTime,
    ) -> None:
        self.name = spec.name
        self._codec = codec
        self._reads = live_rows(spec, rows, clock)
        #: the row of an element that was asked for, or None
        self._find: Callable[[bytes], bytes | None] = self._reads.get
        self._encode_element = codec.encode_element

    def size(self, key: K) -> int:
        """The number of elements of a key; it costs a scan of them."""
        return self._count(self._prefix(key))

    def all(self) -> Iterator[Any]:
        """Every element, in the byte order of the keys and then of the elements."""
        return self._rows_of(self._reads.scan())

    def range(self, lower: K | None = None, upper: K | None = None) -> Iterator[Any]:
        """The elements of the keys from ``lower`` to ``upper``, both inclusive, None = open.

        In the byte order of keys, which is not that of negative numbers: a warning says so.
        """
        first, last = self._codec.key_bounds(lower, upper)
        end = None if last is None else end_of_prefix(ended_key(last))
        begin = ended_key(first) if first else b""
        if end is not None and begin >= end:
            return iter(())
        return self._rows_of(self._reads.scan(begin, end))

    def approximate_num_entries(self) -> int:
        """The number of elements of all keys. It is exact, and costs a scan."""
        return sum(1 for _ in self._reads.scan())

    def _rows_of(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[Any]:
        """What users see of rows of several keys."""
        raise NotImplementedError

    def _prefix(self, key: K) -> bytes:
        return ended_key(self._codec.raw_key(key))

    def _element_key(self, raw: bytes, element: E) -> bytes:
        """The row key of an element, from the bytes of its key."""
        try:
            row_key: bytes = ended_key(raw) + self._encode_element(element)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise self._refused_element(error) from error.__cause__
        return row_key

    def _refused_element(self, error: Exception) -> Exception:
        """The error of the same class that says of which store the element is."""
        if type(error) not in (TypeError, SerdeError):
            return error
        text = f"the element given to store {self.name!r} does not fit: {text_of(error)}"
        return type(error)(text).with_traceback(error.__traceback__)

    def _between(
        self, prefix: bytes, lower: E | None, upper: E | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        try:
            begin = prefix if lower is None else prefix + self._encode_element(lower)
            end = end_of_prefix(prefix)
            if upper is not None:
                end = prefix + self._encode_element(upper) + b"\x00"
        except Exception as error:  # noqa: BLE001
            raise self._refused_element(error) from error.__cause__
        return self._reads.scan(begin, end, reverse=reverse) if begin < end else iter(())

    def _count(self, prefix: bytes) -> int:
        return sum(1 for _ in self._reads.scan(prefix, end_of_prefix(prefix)))


class ItemReads(ElementReads[K, E, V]):
    """Reads of elements that have values."""

    def items(
        self, key: K, lower: E | None = None, upper: E | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[E, V]]:
        """The elements of a key with their values, between two elements, both inclusive."""
        decode_element, decode_row = self._codec.decode_element, self._codec.decode_row
        begin = len(prefix := self._prefix(key))
        rows = self._between(prefix, lower, upper, reverse=reverse)
        return ((decode_element(row_key[begin:]), decode_row(row)) for row_key, row in rows)

    def _rows_of(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[Any]:
        decode_key, decode_element = self._codec.decode_key, self._codec.decode_element
        decode_row = self._codec.decode_row
        for row_key, row in rows:
            key, element = split_element(row_key)
            yield (decode_key(key), decode_element(element)), decode_row(row)


class TaskElementStore(RowCache, ElementReads[K, E, V]):
    """A task's store of elements; its kind adds reads and writes.

    With ``spec.capacity`` a key has at most so many elements: a new one that is too many removes
    the first in their order.
    """

    row_formats = PLAIN_ROWS
    #: the reads of its kind
    reads: ClassVar[type[ElementReads[Any, Any, Any]]]

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        row_format = format_of_rows(PLAIN_ROWS, spec)
        codec = row_codec(spec, serde_topic(spec, context), row_format)
        ElementReads.__init__(self, spec, codec, rows, context)
        self._rows, self._writes = rows, writes
        self._ttl_ms = spec.ttl_ms
        self._context = context
        self._capacity = spec.capacity
        #: the bytes of a key to what the rows say about it
        self._known: dict[bytes, Any] = {}
        self._write = _bound_write(rows, writes, context, spec)
        if isinstance(rows, ExpiringRows) and spec.renews_on_read:
            #: the reads of a query, which renew nothing
            self.queried = self.reads(spec, codec, rows, context)
            self._find = renewing_get(self._reads.get, rows, writes.add, context)
        rows.mirror(self)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing."""
        self._known.clear()
        restore_rows(self._rows, records)

    def clear(self, key: Any) -> int:
        """Delete all elements of a key; returns how many they were."""
        raw = self._codec.raw_key(key)
        prefix = ended_key(raw)
        found = [row_key for row_key, _ in self._reads.scan(prefix, end_of_prefix(prefix))]
        for row_key in found:
            self._write(row_key, None)
        self._known.pop(raw, None)
        return len(found)

    def expired_rows(self) -> TakeExpired:
        """Return a function that deletes the elements that have expired, see :func:`bound_take`.

        It returns their keys, and what the kind says of an element.
        """
        rows, decode_key = self._rows, self._codec.decode_key
        assert isinstance(rows, ExpiringRows)
        assert self._ttl_ms is not None

        def decode(row_key: bytes, row: bytes) -> tuple[K, Any]:
            key, element = split_element(row_key)
            return decode_key(key), self._decoded_element(element, row)

        return bound_take(rows, self._ttl_ms, self._writes.add, decode)

    def _decoded_element(self, element: bytes, row: bytes) -> Any:
        """What the stream of expired rows has as its value."""
        raise NotImplementedError

    def _raw_key(self, key: Any) -> bytes:
        try:
            return self._codec.encode_key(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(self.name, key, error) from error.__cause__

    def _encoded(self, value: Any) -> bytes:
        if value is None:
            raise self._no_value()
        try:
            return self._codec.encode_value(value)
        except Exception as error:  # noqa: BLE001
            raise value_serialization_error(self.name, error) from error.__cause__

    def _no_value(self) -> TypeError:
        return TypeError(
            f"store {self.name!r} was given None as a value, and a null value in the changelog"
            " would be a deletion. Leave the element out, or store a value that means it"
        )

    # ------------------------------------------------------------------ single elements

    def _put_element(self, raw: bytes, row_key: bytes, row: bytes) -> bool:
        """Write an element of a key, within the capacity; False if it has expired already."""
        capacity = self._capacity
        if capacity is None:
            return self._write(row_key, row)
        size = self._size_of(raw) + (self._rows.get(row_key) is None)
        self._write(row_key, row)
        if size > capacity:
            prefix = ended_key(raw)
            rows = self._rows.scan(prefix, end_of_prefix(prefix))
            for surplus, _ in list(islice(rows, size - capacity)):
                self._write(surplus, None)
        self._known[raw] = min(size, capacity)
        return True

    def _delete_element(self, raw: bytes, row_key: bytes) -> None:
        """Delete an element of a key; a tombstone is logged in any case."""
        if raw in self._known:
            self._known[raw] -= self._rows.get(row_key) is not None
        self._write(row_key, None)

    def _size_of(self, raw: bytes) -> int:
        known: int | None = self._known.get(raw)
        return self._count(ended_key(raw)) if known is None else known

    # ------------------------------------------------------------------ what is remembered

    def forget(self) -> None:
        """The rows go back to an earlier state."""
        self._known.clear()

    def forget_known(self) -> None:
        """Drop what the rows hold too, which is all of it."""
        self._known.clear()

    def cached_bytes(self, row_bytes: float) -> int:
        """Memory of what is remembered."""
        return int(len(self._known) * (_KNOWN_BYTES + row_bytes))

    def evict(self, share: float) -> None:
        """Drop a share of it, the oldest first."""
        drop_oldest(self._known, share)

    def release(self, count: int) -> int:
        """Drop about so much of it."""
        return drop_some(self._known, count)


def _bound_write(
    rows: Rows, writes: ChangelogWrites, context: TaskContext, spec: StoreSpec
) -> Callable[[bytes, bytes | None], bool]:
    """Return a function that writes a row, or drops one that has expired already: then False."""
    put_row, log = rows.put, writes.add

    def write(row_key: bytes, row: bytes | None) -> bool:
        put_row(row_key, row)
        log(row_key, (row_key, row, context.timestamp, None))
        return True

    ttl_ms = spec.ttl_ms
    if ttl_ms is None:
        return write
    drop = context.store_dropper(spec.name)
    may_be_late = spec.ttl_by == "stream_time"

    def write_live(row_key: bytes, row: bytes | None) -> bool:
        timestamp = context.timestamp
        if may_be_late and row is not None and timestamp + ttl_ms <= context.stream_time:
            drop(context.stream_time - timestamp - ttl_ms)
            return False
        put_row(row_key, None if row is None else pack_time(timestamp) + row)
        log(row_key, (row_key, row, timestamp, None))
        return True

    return write_live


def reader_of(reads: type[ElementReads[Any, Any, Any]]) -> ReaderClass:
    """Return how readers of a kind are made, at the stream time of their commit."""

    def made(spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell) -> Any:
        return reads(spec, codec, rows, CommittedTime(cell.time))

    return made
