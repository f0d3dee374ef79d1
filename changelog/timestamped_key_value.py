"""The timestamped key-value store: what the DSL keeps tables and aggregates in.

A row is ``serialised key -> timestamp | serialised value`` (with headers between them where the
store keeps them, KIP-1271). The changelog record carries the plain value and the row's timestamp; a
tombstone carries the timestamp of the record being processed. Only stores with headers log headers:
the row's, or the processed record's on a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from logstate.changelog.key_value import KeyValueStore
from logstate.changelog.row_codec import timestamped_row, timestamped_row_with_headers
from logstate.changelog.rows import Rows
from logstate.changelog.writes import ChangelogWrites, LoggedWrite
from logstate.processing import TaskContext
from logstate.stores import StoreSpec, ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]]):
    """A key-value store whose values are :class:`ValueAndTimestamp`.

    A row whose value is None is a deletion, like None itself.
    """

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        self._with_headers = spec.with_headers
        super().__init__(spec, rows, writes, context)

    def restore(self, records: Sequence[LoggedWrite]) -> None:
        """Take changelog records over: a row's timestamp is its record's."""
        put = self._rows.put
        for key, value, timestamp, headers in records:
            if value is None:
                put(key, None)
            elif self._with_headers:
                put(key, timestamped_row_with_headers(value, timestamp or 0, headers))
            else:
                put(key, timestamped_row(value, timestamp or 0))

    def _bound_put(
        self, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> Callable[[K, ValueAndTimestamp[V] | None], None]:
        encode_key, encode_value = self.codec.encode_key, self.codec.encode_value
        put_row, log = rows.put, writes.add
        with_headers = self._with_headers
        new = tuple.__new__

        def put(key: K, value: ValueAndTimestamp[V] | None) -> None:
            row_key = encode_key(key)
            if value is None or value[0] is None:
                put_row(row_key, None)
                headers = context.headers if with_headers else None
                log(row_key, new(LoggedWrite, (row_key, None, context.timestamp, headers)))
                return
            data = encode_value(value[0])
            timestamp = value[1]
            if with_headers:
                headers = value[2]
                put_row(row_key, timestamped_row_with_headers(data, timestamp, headers))
            else:
                headers = None
                put_row(row_key, timestamped_row(data, timestamp))
            log(row_key, new(LoggedWrite, (row_key, data, timestamp, headers)))

        return put
