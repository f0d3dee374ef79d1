"""The timestamped key-value store: what the DSL keeps tables and aggregates in.

A row is ``serialised key -> timestamp | serialised value`` (with headers between them where the
store keeps them, KIP-1271). The changelog record carries the plain value and the row's timestamp; a
tombstone carries the timestamp of the record being processed. Only stores with headers log headers:
the row's, or the processed record's on a tombstone.

Speed: rows of immutable values are kept as objects and written once per commit, see
:mod:`logstate.changelog.rows.write_behind`. Reading and writing such a row costs a quarter of a
microsecond, through bytes two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from logstate.changelog.rows.deferred_values import can_keep
from logstate.changelog.rows.indexed_rows import IndexWrites
from logstate.changelog.rows.row_codec import TIMESTAMPED_ROWS
from logstate.changelog.rows.row_writer import row_encoder
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.serialization_errors import key_serialization_error
from logstate.changelog.rows.write_behind import PUT_OF_LIVE_BY_KEY, WriteBehind
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.key_value import KEY_VALUE, TaskKeyValueStore
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoredRow, StoreSpec, ValueAndTimestamp

K = TypeVar("K")
V = TypeVar("V")


class TimestampedKeyValueStore(TaskKeyValueStore[K, ValueAndTimestamp[V]]):
    """A key-value store whose values are :class:`ValueAndTimestamp`.

    A row whose value is None is a deletion, like None itself. ``get_row`` is ``get`` for operators,
    whose rows may be plain tuples; ``put`` takes those too.
    """

    row_formats = TIMESTAMPED_ROWS
    is_timestamped = True
    get_row: Callable[[K], StoredRow | None]

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        self._spec = spec
        self._behind: WriteBehind | None = None
        super().__init__(spec, rows, writes, context)
        if self._behind is None:
            self.get_row = self.get
        if spec.ttl_ms is not None:
            self._hide_expired()

    def checked(
        self, is_allowed: Callable[[], bool], refuse: Callable[[str], None]
    ) -> dict[str, Callable[..., Any]]:
        """As of a plain store; the wrapper that checks the times of rows also checks ``put``."""
        if self._behind is None:
            return {}
        get = self._behind.bound_get(is_allowed, partial(refuse, "get"))
        return {"get": get if self._ttl_ms is None else self._only_live(get)}

    def latest_bytes(self, key: K) -> bytes | None:
        """Return the bytes of a row's value, as logged; None if the row does not exist."""
        if self._behind is not None:
            self._behind.flush()
        row = self._reads.get(self.codec.encode_key(key))
        return None if row is None else self.codec.row_format.value_of(row)

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over: a row's timestamp is its record's."""
        new_row = self.codec.row_format.encode
        self._put_replayed(
            {
                key: None if value is None else new_row(value, timestamp or 0, headers)
                for key, value, timestamp, headers in records
            }
        )
        self._learn_time(records)
        if self._behind is not None:
            self._behind.forget_known()

    def _bound_put(
        self, rows: Rows, writes: ChangelogWrites, context: TaskContext, *_check: Any
    ) -> Callable[[K, ValueAndTimestamp[V] | None], None]:
        spec, encode_key, put_row, log = self._spec, self.codec.encode_key, rows.put, writes.add
        encode, name = row_encoder(spec, self.codec, context), spec.name

        def direct(key: K, row: ValueAndTimestamp[V] | None) -> None:
            try:
                row_key = encode_key(key)
            except Exception as error:  # noqa: BLE001  serdes raise anything
                raise key_serialization_error(name, key, error) from error.__cause__
            stored, data, timestamp, headers = encode(row)
            put_row(row_key, stored)
            log(row_key, (row_key, data, timestamp, headers))

        if not can_keep(spec.key, spec.value):
            return direct if spec.ttl_ms is None else self._put_of_live(direct, spec.ttl_ms)
        behind = self._behind = WriteBehind(
            spec, self.codec, writes, rows.put_rows, waits_as_bytes=True
        )
        rows.mirror(behind)
        # A row that has expired may be in an index; :meth:`_hide_expired` hides it from others.
        hides = spec.ttl_ms is not None and spec.indexes
        self.get, self.get_row = behind.bound_reads(self._bound_get_of_all() if hides else self.get)
        refused = partial(key_serialization_error, name)
        names: dict[str, Any] = {"encode_key": encode_key, "key_serialization_error": refused}
        if spec.ttl_ms is None:
            return behind.bound_put(direct, **names)
        drop = self._bound_drop(spec.ttl_ms)
        return behind.bound_put(
            direct, PUT_OF_LIVE_BY_KEY, **names, ttl_ms=spec.ttl_ms, context=context, drop=drop
        )

    def _put_with_indexes(self, indexes: IndexWrites) -> None:
        read = self.get if self._behind is None else self.get_row
        if self._spec.ttl_ms is not None:
            read = self._bound_read_of_all(read, self._spec.ttl_ms)
        self.put = indexes.put_of(read, self.put, has_times=True)

    def _bound_read_of_all(self, read: Callable[[K], Any], ttl_ms: int) -> Callable[[K], Any]:
        """Return the read of a row that may have expired and is not deleted yet.

        A commit may have deleted a row that expired and is kept as an object: only its bytes say.
        """
        context, behind, read_bytes = self._context, self._behind, self._bound_get_of_all()
        if behind is None:
            return read_bytes

        def read_any(key: K) -> Any:
            row = read(key)
            if row is None or row[1] + ttl_ms > context.stream_time:
                return row
            behind.flush()
            return read_bytes(key)

        return read_any

    def _hide_expired(self) -> None:
        """Return no rows kept as objects that have expired; others are hidden already."""
        if self._behind is not None:
            self.get, self.get_row = map(self._only_live, (self.get, self.get_row))

    def _only_live(self, read: Callable[[K], Any]) -> Callable[[K], Any]:
        """Return the read of rows kept as objects, without those that have expired."""
        context, ttl_ms = self._context, self._spec.ttl_ms
        assert ttl_ms is not None

        def get(key: K) -> Any:
            row = read(key)
            return None if row is None or row[1] + ttl_ms <= context.stream_time else row

        return get

    def _put_of_live(
        self, put_row: Callable[[K, Any], None], ttl_ms: int
    ) -> Callable[[K, Any], Any]:
        """Return a put that drops a row that has expired already, and then returns False."""
        context, drop = self._context, self._bound_drop(ttl_ms)

        def put(key: K, row: Any) -> bool | None:
            if row is None or row[0] is None or row[1] + ttl_ms > context.stream_time:
                return put_row(key, row)  # type: ignore[func-returns-value]
            return drop(row)

        return put

    def _bound_drop(self, ttl_ms: int) -> Callable[[Any], bool]:
        """Return a function that counts a row as expired, and returns False."""
        context, count = self._context, self._context.store_dropper(self.name)

        def drop(row: Any) -> bool:
            count(context.stream_time - row[1] - ttl_ms)
            return False

        return drop


TIMESTAMPED_KEY_VALUE: Final = replace(
    KEY_VALUE, name="timestamped_key_value", store=TimestampedKeyValueStore
)
