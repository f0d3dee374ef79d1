"""Materialized tables, and how their rows are read and written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from logstate.contracts.drops import Drop
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow, StoreSpec, ValueAndTimestamp
from logstate.topology.graph.nodes import TableNode, ValueGetter

#: read(key) -> the latest row
ReadRow: TypeAlias = "Callable[[Any], StoredRow | None]"
#: write(key, value, row's timestamp, record's timestamp, headers) -> True: it is the latest row,
#: False: it went into the history below a newer one, None: too old, not written at all
WriteRow: TypeAlias = "Callable[[Any, Any, int, int, Headers], bool | None]"

_LATEST = -1
_NOT_PUT = -(2**63)


class MaterializedNode(TableNode):
    """A table that is kept in ``store``."""

    store: StoreSpec

    def getter_store_names(self) -> tuple[str, ...]:
        return (self.store.name,)

    def value_getter(self, task: TaskContext) -> ValueGetter:
        return row_getter(task, self.store)


def bind_rows(
    task: TaskContext, spec: StoreSpec, too_old: Drop | None = None
) -> tuple[ReadRow, WriteRow]:
    """Return the two closures of a task's store.

    A versioned store drops and counts what is older than its history, or calls ``too_old``.
    """
    store = task.store(spec.name)
    put = store.put
    if spec.ttl_ms is not None:
        return _reader(store), _expiring_writer(_timestamped_writer(task, put), put)
    if not spec.is_versioned:
        return _reader(store), _timestamped_writer(task, put)
    if too_old is not None:
        put = partial(put, too_old=too_old)

    def write(
        key: Any, value: Any, row_timestamp: int, timestamp: int, headers: Headers
    ) -> bool | None:
        task.timestamp = timestamp
        task.headers = headers
        code = put(key, value, row_timestamp)
        if code == _LATEST:
            return True
        return None if code == _NOT_PUT else False

    return _versioned_reader(store.get), write


def row_getter(task: TaskContext, spec: StoreSpec) -> ValueGetter:
    """Return the getter of a materialized table."""
    store = task.store(spec.name)
    if not spec.is_versioned:
        return ValueGetter(_reader(store), latest_bytes=store.latest_bytes)
    get = store.get

    def as_of(key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        found = get(key, timestamp)
        return None if found is None else ValueAndTimestamp(found.value, found.valid_from)

    return ValueGetter(_versioned_reader(get), as_of, store.latest_bytes)


def _reader(store: Any) -> ReadRow:
    """Return a reader of plain rows, if the store has them."""
    reader: ReadRow = getattr(store, "get_row", store.get)
    return reader


def _timestamped_writer(task: TaskContext, put: Callable[[Any, Any], None]) -> WriteRow:
    def write(
        key: Any, value: Any, row_timestamp: int, timestamp: int, headers: Headers
    ) -> bool | None:
        if value is None:
            # A delete is logged with the time of the record that caused it.
            task.timestamp = timestamp
            task.headers = headers
            put(key, None)
        else:
            # The rows of tables have no headers, even in stores that could keep them: only
            # tombstones are logged with those of their record, as by Kafka Streams.
            put(key, (value, row_timestamp, None))
        return True

    return write


def _expiring_writer(write: WriteRow, put: Callable[[Any, Any], bool | None]) -> WriteRow:
    """Return a writer that says of a row that has expired already that it was not written."""

    def write_live(
        key: Any, value: Any, row_timestamp: int, timestamp: int, headers: Headers
    ) -> bool | None:
        if value is None:
            return write(key, None, row_timestamp, timestamp, headers)
        return None if put(key, (value, row_timestamp, None)) is False else True

    return write_live


def _versioned_reader(get: Callable[[Any], Any]) -> ReadRow:
    def read(key: Any) -> ValueAndTimestamp[Any] | None:
        found = get(key)
        return None if found is None else ValueAndTimestamp(found.value, found.valid_from)

    return read
