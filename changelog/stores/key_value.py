"""The key-value store: one row per key.

A row is ``serialised key -> serialised value``; its changelog record is the same bytes with the
timestamp of the record being processed. Deleting logs a tombstone even for an absent key, as Kafka
Streams does. :class:`KeyValueReads` is the read side over any rows, the task's own or a query's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from logstate.changelog.backend.backend import end_of_prefix
from logstate.changelog.rows.expiring_rows import (
    CommittedTime,
    ExpiringRows,
    bound_take,
    live_rows,
    renewing_get,
    restore_rows,
)
from logstate.changelog.rows.indexed_rows import IndexedRows, IndexReads, IndexWrites
from logstate.changelog.rows.row_codec import (
    PLAIN_ROWS,
    RowCodec,
    format_of_rows,
    row_codec,
    serde_topic,
)
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.serialization_errors import (
    key_serialization_error,
    value_serialization_error,
)
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.store_kind import StoreKind
from logstate.contracts.processing import TakeExpired, TaskContext, TimeCell
from logstate.contracts.stores import Entries, StoreSpec, pairs_of

K = TypeVar("K")
V = TypeVar("V")


class KeyValueReads(Generic[K, V]):
    """The reads of a key-value store. Scans see the rows as they were at the call."""

    #: the row of a key, or None
    get: Callable[[K], V | None]

    def __init__(
        self, codec: RowCodec, rows: ReadableRows, indexes: IndexReads | None = None
    ) -> None:
        self.codec = codec
        self._reads = rows
        self._indexes = indexes or IndexReads(codec.store, (), None)
        self.get = _bound_get(codec, rows.get)

    def range(self, lower: K | None = None, upper: K | None = None) -> Iterator[tuple[K, V]]:
        """Rows from ``lower`` to ``upper``, both inclusive, None = open, in key byte order.

        That is not the order of negative numbers, nor of numbers as JSON: a warning says so.
        """
        return self._between(lower, upper, reverse=False)

    def reverse_range(
        self, lower: K | None = None, upper: K | None = None
    ) -> Iterator[tuple[K, V]]:
        """As :meth:`range`, backwards."""
        return self._between(lower, upper, reverse=True)

    def all(self) -> Iterator[tuple[K, V]]:
        """Every row in key byte order."""
        return self._decoded(self._reads.scan())

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """Every row, backwards."""
        return self._decoded(self._reads.scan(reverse=True))

    def prefix_scan(self, prefix: Any) -> Iterator[tuple[K, V]]:
        """Rows whose serialised key starts with ``prefix``: bytes; of text and bytes also a key.

        Raises StoreArgumentError for a key of another type: its bytes begin no other key's.
        """
        raw = self.codec.raw_prefix(prefix)
        upper = end_of_prefix(raw) if raw.strip(b"\xff") else None
        return self._decoded(self._reads.scan(raw, upper))

    def by(self, index: str, value: Any) -> Iterator[tuple[K, V]]:
        """Rows with an indexed value, in key byte order. Of a tuple, the first parts may be given.

        Raises StoreArgumentError for an index that the store does not have and for a value of
        another type, StoreUnavailableError while the index is being built.
        """
        return self._rows_of(self._indexes.keys_of(index, value))

    def by_range(
        self,
        index: str,
        lower: Any = None,
        upper: Any = None,
        reverse: bool = False,
    ) -> Iterator[tuple[K, V]]:
        """Rows from one indexed value to another, inclusive, None = open, by these values.

        Rows with the same value are in key byte order. Raises as :meth:`by`.
        """
        return self._rows_of(self._indexes.keys_between(index, lower, upper, reverse=reverse))

    def _rows_of(self, keys: Iterator[bytes]) -> Iterator[tuple[K, V]]:
        get = self._reads.get
        return self._decoded((key, row) for key in keys if (row := get(key)) is not None)

    def approximate_num_entries(self) -> int:
        """The number of rows. It is exact, and costs a scan."""
        return sum(1 for _ in self._reads.scan())

    def _between(self, lower: K | None, upper: K | None, *, reverse: bool) -> Iterator[tuple[K, V]]:
        first, last = self.codec.key_bounds(lower, upper)
        end = None if last is None else last + b"\x00"
        if end is not None and first >= end:
            return iter(())
        return self._decoded(self._reads.scan(first, end, reverse=reverse))

    def _decoded(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        decode_key, decode_row = self.codec.decode_key, self.codec.decode_row
        return ((decode_key(key), decode_row(row)) for key, row in rows)


class TaskKeyValueStore(KeyValueReads[K, V]):
    """A key-value store of one task.

    ``put(key, None)`` deletes. ``delete`` returns the row it removed, ``put_if_absent`` the row it
    found. Keys are never None.
    """

    row_formats = PLAIN_ROWS
    put: Callable[[K, V | None], None]

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        row_format = format_of_rows(self.row_formats, spec)
        codec = row_codec(spec, serde_topic(spec, context), row_format)
        super().__init__(codec, live_rows(spec, rows, context), index_reads(spec, rows))
        self.name = spec.name
        self._ttl_ms, self._ttl_by = spec.ttl_ms, spec.ttl_by
        self._rows, self._writes, self._context = rows, writes, context
        #: the row of a key that was asked for, or None
        self._find: Callable[[bytes], bytes | None] = self._reads.get
        if isinstance(rows, ExpiringRows) and spec.renews_on_read:
            #: the reads of a query, which renew nothing
            self.queried: KeyValueReads[K, V] = KeyValueReads(codec, self._reads, self._indexes)
            self._find = renewing_get(self._reads.get, rows, writes.add, context)
            self.get = _bound_get(codec, self._find)
        self.put = self._bound_put(rows, writes, context)
        #: what keeps the indexes, where there are any
        self.index_writes: IndexWrites | None = None
        if isinstance(rows, IndexedRows):
            self.index_writes = IndexWrites(spec, codec, rows)
            self._put_with_indexes(self.index_writes)

    def checked(
        self, is_allowed: Callable[[], bool], refuse: Callable[[str], None]
    ) -> dict[str, Callable[..., Any]]:
        """Methods that call ``refuse`` with their name first, unless ``is_allowed``.

        Those that are called most: the check is a part of them, which saves a frame per call.
        """
        if self.index_writes is not None:
            return {}  # the put with the checks would not write to the indexes
        put = self._bound_put(
            self._rows, self._writes, self._context, is_allowed, partial(refuse, "put")
        )
        get = _bound_get(self.codec, self._find, is_allowed, partial(refuse, "get"))
        return {"get": get, "put": put}

    def put_if_absent(self, key: K, value: V) -> V | None:
        """Put unless there is a row; returns the row that was there."""
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def put_all(self, entries: Entries[K, V]) -> None:
        """Put each, in order. Raises TypeError if the entries are not pairs."""
        for key, value in pairs_of(entries, self.name):
            self.put(key, value)

    def delete(self, key: K) -> V | None:
        """Remove the row and return it; a tombstone is logged in any case."""
        found = self.get(key)
        self.put(key, None)
        return found

    def expired_rows(self) -> TakeExpired:
        """Return a function that deletes the rows that have expired, see :func:`bound_take`.

        It returns their keys, and values without times.
        """
        rows, codec = self._rows, self.codec
        assert isinstance(rows, ExpiringRows)
        assert self._ttl_ms is not None

        def decode(key: bytes, row: bytes) -> tuple[K, V]:
            return codec.decode_key(key), codec.decode_value(codec.row_format.value_of(row))

        return bound_take(rows, self._ttl_ms, self._writes.add, decode)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing."""
        if self._ttl_ms is None:
            self._put_replayed({key: value for key, value, _, _ in records})
        else:
            restore_rows(self._rows, records)

    def _put_replayed(self, rows: Mapping[bytes, bytes | None]) -> None:
        if isinstance(self._rows, ExpiringRows):
            self._rows.put_replayed(rows)
            return
        if self.index_writes is not None:
            self.index_writes.replay(self._rows, rows)
        self._rows.put_rows(rows)

    def _put_with_indexes(self, indexes: IndexWrites) -> None:
        read = self.get if self._ttl_ms is None else self._bound_get_of_all()
        self.put = indexes.put_of(read, self.put, has_times=False)

    def _bound_get_of_all(self) -> Callable[[K], Any]:
        """Return the read of a row that may have expired and is not deleted yet."""
        return _bound_get(self.codec, self._rows.get)

    def _rows_of(self, keys: Iterator[bytes]) -> Iterator[tuple[K, V]]:
        """Read the rows at once: writes that follow the call must not be in the result."""
        return iter(list(super()._rows_of(keys)))

    def _learn_time(self, records: Sequence[LoggedFields]) -> None:
        if isinstance(self._rows, ExpiringRows):
            self._rows.learn(records)

    def _bound_put(
        self,
        rows: Rows,
        writes: ChangelogWrites,
        context: TaskContext,
        is_allowed: Callable[[], bool] | None = None,
        refuse: Callable[[], None] = lambda: None,
    ) -> Callable[[K, V | None], Any]:
        encode_key, encode_value = self.codec.encode_key, self.codec.encode_value
        put_row: Callable[[bytes, Any], None] = rows.put
        log, name, ttl_ms = writes.add, self.name, self._ttl_ms
        drop = None if ttl_ms is None else context.store_dropper(name)
        is_never_late = self._ttl_by == "wall_clock"
        if isinstance(rows, ExpiringRows):
            put_row = rows.waiting.__setitem__

        def put(key: K, value: V | None) -> bool | None:
            """Return False for a row that is dropped, because it has expired already."""
            if is_allowed is not None and not is_allowed():
                refuse()
            try:
                row_key = encode_key(key)
            except Exception as error:  # noqa: BLE001  serdes raise anything
                raise key_serialization_error(name, key, error) from error.__cause__
            try:
                row = None if value is None else encode_value(value)
            except Exception as error:  # noqa: BLE001
                raise value_serialization_error(name, error) from error.__cause__
            fields = row_key, row, context.timestamp, None
            if ttl_ms is None or drop is None:
                put_row(row_key, row)
            elif row is None or is_never_late or context.timestamp + ttl_ms > context.stream_time:
                put_row(row_key, fields)
            else:
                drop(context.stream_time - context.timestamp - ttl_ms)
                return False
            log(row_key, fields)
            return None

        return put


def index_reads(spec: StoreSpec, rows: Any) -> IndexReads:
    """The reads of a store's indexes; ``rows`` are those of a task, or of a query."""
    if not spec.indexes:
        return IndexReads(spec.name, (), None)
    if isinstance(rows, IndexedRows):
        return IndexReads(spec.name, spec.indexes, rows.entries, rows.prepare)
    return IndexReads(spec.name, spec.indexes, rows.entries)


def key_value_reader(
    spec: StoreSpec, codec: RowCodec, rows: ReadableRows, cell: TimeCell
) -> KeyValueReads[Any, Any]:
    """The reads of a query, at the stream time of its commit."""
    live = live_rows(spec, rows, CommittedTime(cell.time))
    return KeyValueReads(codec, live, index_reads(spec, rows))


def _bound_get(
    codec: RowCodec,
    get_row: Callable[[bytes], bytes | None],
    is_allowed: Callable[[], bool] | None = None,
    refuse: Callable[[], None] = lambda: None,
) -> Callable[[Any], Any]:
    encode_key, decode_row, store = codec.encode_key, codec.decode_row, codec.store

    def get(key: Any) -> Any:
        if is_allowed is not None and not is_allowed():
            refuse()
        try:
            row_key = encode_key(key)
        except Exception as error:  # noqa: BLE001  serdes raise anything
            raise key_serialization_error(store, key, error) from error.__cause__
        row = get_row(row_key)
        return None if row is None else decode_row(row)

    return get


KEY_VALUE: Final = StoreKind(
    "key_value", TaskKeyValueStore, key_value_reader,
    are_rows_records=True, can_be_filled=True,
)  # fmt: skip
