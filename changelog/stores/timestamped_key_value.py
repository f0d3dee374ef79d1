"""The timestamped key-value store: what the DSL keeps tables and aggregates in.

A row is ``serialised key -> timestamp | serialised value`` (with headers between them where the
store keeps them, KIP-1271). The changelog record carries the plain value and the row's timestamp; a
tombstone carries the timestamp of the record being processed. Only stores with headers log headers:
the row's, or the processed record's on a tombstone.

Speed: rows of scalar values are kept as objects and encoded once per commit, see
:mod:`logstate.changelog.rows.decoded_rows`. Reading and writing such a row costs a quarter of a
microsecond, through bytes two. Other immutable values, frozen structs above all, are encoded when
they are put and read without going through the rows: :mod:`logstate.changelog.rows.encoded_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from logstate.changelog.rows.decoded_rows import (
    NEVER_LATE,
    DecodedRows,
    can_keep,
    late_encoder,
    late_values,
)
from logstate.changelog.rows.encoded_rows import EncodedRows, WriteEncoded
from logstate.changelog.rows.row_codec import new_row_of, value_of
from logstate.changelog.rows.row_writer import restored_row
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.key_value import KeyValueStore
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoredRow, StoreSpec, ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]]):
    """A key-value store whose values are :class:`ValueAndTimestamp`.

    A row whose value is None is a deletion, like None itself. ``get_row`` is ``get`` for operators,
    whose rows may be plain tuples; ``put`` takes those too.
    """

    get_row: Callable[[K], StoredRow | None]

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        self._spec = spec
        self._kept: DecodedRows | EncodedRows | None = None
        super().__init__(spec, rows, writes, context)
        if self._kept is None:
            self.get_row = self.get

    def latest_bytes(self, key: K) -> bytes | None:
        """The bytes of a row's value, as they are logged; None where there is no row."""
        if self._kept is not None:
            self._kept.flush()
        row = self._rows.get(self.codec.encode_key(key))
        return None if row is None else value_of(row, with_headers=self._spec.with_headers)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over: a row's timestamp is its record's."""
        spec = self._spec
        self._rows.put_rows(
            {
                key: None if value is None else restored_row(spec, value, timestamp, headers)
                for key, value, timestamp, headers in records
            }
        )
        if self._kept is not None:
            self._kept.forget_known()

    def _bound_put(
        self, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> Callable[[K, ValueAndTimestamp[V] | None], None]:
        direct = self._bound_direct_put(self._bound_write(rows, writes), rows, writes, context)
        if not can_keep(self._spec.key, self._spec.value):
            return direct
        if late_values(self._spec.key, self._spec.value) is NEVER_LATE:
            encoded = EncodedRows(self.codec, self._bound_write_encoded(rows, writes))
            self._kept = encoded
            rows.mirror(encoded)
            self.get = self.get_row = encoded.bound_get(self.get)
            return encoded.bound_put(direct, waits=not writes.logs_every_write)
        decoded = DecodedRows(self._bound_write_all(rows, writes))
        self._kept = decoded
        rows.mirror(decoded)
        self.get_row = decoded.bound_get(self.get)
        self.get = _named(self.get_row)
        late = NEVER_LATE
        if not writes.logs_every_write:
            late = late_values(self._spec.key, self._spec.value)
        return decoded.bound_put(late, self.codec.encode_key, direct)

    def _bound_write(
        self, rows: Rows, writes: ChangelogWrites
    ) -> Callable[[bytes, ValueAndTimestamp[V]], None]:
        """Encode a row, store and log it."""
        encode_value, put_row, log = self.codec.encode_value, rows.put, writes.add
        new_row, with_headers = new_row_of(self._spec), self._spec.with_headers

        def write(row_key: bytes, row: ValueAndTimestamp[V]) -> None:
            data = encode_value(row[0])
            timestamp, headers = row[1], row[2] if with_headers else None
            put_row(row_key, new_row(data, timestamp, headers))
            log(row_key, (row_key, data, timestamp, headers))

        return write

    def _bound_write_all(
        self, rows: Rows, writes: ChangelogWrites
    ) -> Callable[[Mapping[Any, bytes], Mapping[Any, StoredRow]], None]:
        """Encode, store and log the rows of these keys, which have no headers."""
        encode_value = late_encoder(self.codec, self._spec.value)
        new_row, put_rows, log_all = new_row_of(self._spec), rows.put_rows, writes.add_all

        def write_all(row_keys: Mapping[Any, bytes], decoded: Mapping[Any, StoredRow]) -> None:
            put: dict[bytes, bytes | None] = {}
            logged: dict[bytes, LoggedFields] = {}
            for key, row_key in row_keys.items():
                value, timestamp, _ = decoded[key]
                data = encode_value(value)
                put[row_key] = new_row(data, timestamp, None)
                logged[row_key] = row_key, data, timestamp, None
            put_rows(put)
            log_all(logged)

        return write_all

    def _bound_write_encoded(self, rows: Rows, writes: ChangelogWrites) -> WriteEncoded:
        """Store and log a row whose value is encoded, and that has no headers."""
        new_row, put_row, log = new_row_of(self._spec), rows.put, writes.add

        def write(row_key: bytes, data: bytes, timestamp: int) -> None:
            put_row(row_key, new_row(data, timestamp, None))
            log(row_key, (row_key, data, timestamp, None))

        return write

    def _bound_direct_put(
        self,
        write: Callable[[bytes, ValueAndTimestamp[V]], None],
        rows: Rows,
        writes: ChangelogWrites,
        context: TaskContext,
    ) -> Callable[[K, ValueAndTimestamp[V] | None], None]:
        encode_key, put_row, log = self.codec.encode_key, rows.put, writes.add
        with_headers = self._spec.with_headers

        def put(key: K, row: ValueAndTimestamp[V] | None) -> None:
            row_key = encode_key(key)
            if row is None or row[0] is None:
                put_row(row_key, None)
                headers = context.headers if with_headers else None
                log(row_key, (row_key, None, context.timestamp, headers))
            else:
                write(row_key, row)

        return put


def _named(get_row: Callable[[Any], StoredRow | None]) -> Callable[[Any], Any]:
    """What users of the store read with: rows whose parts have names."""
    new = tuple.__new__

    def get(key: Any) -> ValueAndTimestamp[Any] | None:
        row = get_row(key)
        return None if row is None else new(ValueAndTimestamp, row)

    return get
