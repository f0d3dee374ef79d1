"""A store as a table: which columns it has and how changelog records fill them.

==================  ==========================================  ===============================
store kind          changelog key                               columns
==================  ==========================================  ===============================
key-value           key                                         key, value
window              key | 8B start | 4B sequence number         key, window_start, window_end,
                                                                value
session             key | 8B end | 8B start                     the same
versioned           key; the record's time is valid-from        key, value, valid_from, valid_to
join and buffer     as the store lays it out                    key, value: both binary
==================  ==========================================  ===============================

A key-value store whose keys are themselves windowed (a windowed table read from a topic) has the
window columns too, from ``key | 8B start`` or ``key | 8B end | 8B start``.

Invariants: a table is described by plain data (a manifest entry), so it travels to executors; the
Arrow columns it builds are exactly those of ``spark_schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types as spark

from logstate.changelog.spark.column_parts import BOOLEAN, INTEGER, LONG, STRING, TIMESTAMP
from logstate.changelog.spark.options import SourceOptions
from logstate.changelog.spark.types import HEADERS, ColumnType, column_type
from logstate.contracts.errors import DeserializationError
from logstate.contracts.records import FetchedRecord
from logstate.contracts.windowed_keys import (
    SESSION_TAIL_BYTES,
    START_BYTES,
    WINDOW_TAIL_BYTES,
    session_times,
    start_of_window,
    unpack_start_from,
)

#: what follows the key, by layout
_TAIL_BYTES = {"window": WINDOW_TAIL_BYTES, "windowed": START_BYTES, "session": SESSION_TAIL_BYTES}
# Beyond these a timestamp has no date that Spark can show; such windows exist at the end of time.
_MIN_TIME_MS = -62_135_596_800_000
_MAX_TIME_MS = 253_402_300_799_999


class TableRow(NamedTuple):
    """A record that made it into the table."""

    record: FetchedRecord
    valid_to: int | None = None
    """Versioned stores: when the next version begins; None for the newest."""


KeyTime = Callable[[bytes], int | None]
Fill = Callable[[Sequence[TableRow]], pa.Array]


class Column(NamedTuple):
    """One column of a table."""

    name: str
    spark: spark.DataType
    arrow: pa.DataType
    fill: Fill


def spark_schema(columns: Sequence[Column]) -> spark.StructType:
    """The columns as Spark names them; all are nullable."""
    return spark.StructType([spark.StructField(c.name, c.spark) for c in columns])


def record_batch(columns: Sequence[Column], rows: Sequence[TableRow]) -> pa.RecordBatch:
    """The rows as one Arrow batch. Raises DeserializationError naming the record at fault."""
    schema = pa.schema([(c.name, c.arrow) for c in columns])
    return pa.RecordBatch.from_arrays([c.fill(rows) for c in columns], schema=schema)


class StoreTable:
    """Columns of one store, from its entry in the manifest."""

    def __init__(
        self,
        entry: Mapping[str, Any],
        *,
        are_times_integers: bool = False,
        registry: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = str(entry["kind"])
        self.is_versioned = self.kind.startswith("versioned")
        history_ms = entry.get("history_ms")
        self.history_ms: int | None = (
            history_ms if history_ms is not None else entry.get("retention_ms")
        )
        """Versioned stores: how far back of stream time a version may begin when it is written."""
        self._are_times_integers = are_times_integers
        key, value = entry.get("key"), entry.get("value")
        self._size_ms = entry.get("window_size_ms")
        self._layout = _layout(self.kind, key)
        if key is not None and key["format"] in ("windowed", "session_windowed"):
            self._size_ms = key.get("window_size_ms") or self._size_ms
            key = key["inner"]
        if self._layout == "opaque":
            key = value = None
        self.key_format = str(key["format"]) if key is not None else "bytes"
        self.key_type: ColumnType = column_type(key, registry)
        self.value_type: ColumnType = column_type(value, registry)
        self._key_end = -_TAIL_BYTES.get(self._layout, 0) or None

    def batch_columns(self, *, with_tombstones: bool, with_meta: bool) -> list[Column]:
        """Columns of the table at a cut."""
        columns = [*self._key_columns(), self._value_column()]
        if self.is_versioned:
            columns += [
                self._time_column("valid_from", lambda row: _time_ms(row.record)),
                self._time_column("valid_to", lambda row: row.valid_to),
            ]
        if with_meta:
            columns += [*self._coordinates(), _headers_column()]
        if with_meta or with_tombstones:
            columns.append(_plain("_is_tombstone", BOOLEAN, lambda row: row.record.value() is None))
        return columns

    def change_columns(self, *, with_meta: bool) -> list[Column]:
        """Columns of the change feed."""
        columns = [
            _plain(
                "change_type",
                STRING,
                lambda row: "delete" if row.record.value() is None else "update",
            ),
            *self._key_columns(),
            self._value_column(),
        ]
        if self.is_versioned:
            columns.append(self._time_column("valid_from", lambda row: _time_ms(row.record)))
        columns += self._coordinates()
        return [*columns, _headers_column()] if with_meta else columns

    def inner_key(self, key: bytes) -> bytes:
        """The key without its window."""
        return key[: self._key_end]

    def _key_columns(self) -> list[Column]:
        columns = [_decoded("key", self.key_type, lambda record: self.inner_key(record.key()))]
        start: KeyTime
        end: KeyTime
        if self._layout == "session":
            start, end = _session_start, _session_end
        elif self._layout in {"window", "windowed"}:
            begins = start_of_window if self._layout == "window" else _start_on_topic
            start, end = begins, self._end_after(begins)
        else:
            return columns
        return [
            *columns,
            self._time_column("window_start", lambda row: start(row.record.key())),
            self._time_column("window_end", lambda row: end(row.record.key())),
        ]

    def _end_after(self, start: Callable[[bytes], int]) -> KeyTime:
        size_ms = self._size_ms
        return lambda key: None if size_ms is None else start(key) + size_ms

    def _value_column(self) -> Column:
        return _decoded("value", self.value_type, lambda record: record.value())

    def _coordinates(self) -> list[Column]:
        return [
            _plain("_partition", INTEGER, lambda row: row.record.partition()),
            _plain("_offset", LONG, lambda row: row.record.offset()),
            self._time_column("_timestamp", lambda row: _time_ms(row.record)),
        ]

    def _time_column(self, name: str, read: Callable[[TableRow], int | None]) -> Column:
        if self._are_times_integers:
            return _plain(name, LONG, read)

        def fill(rows: Sequence[TableRow]) -> pa.Array:
            times = [_dated(read(row)) for row in rows]
            return pa.array(times, pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP[1])

        return Column(name, *TIMESTAMP, fill)


def table_of(options: SourceOptions, entry: Mapping[str, Any]) -> StoreTable:
    """The table of a manifest entry, as these options want it."""
    return StoreTable(
        entry, are_times_integers=options.are_times_integers, registry=options.registry
    )


def _layout(kind: str, key: Mapping[str, Any] | None) -> str:
    if kind.startswith(("window", "timestamped_window")):
        return "window"
    if kind.startswith("session"):
        return "session"
    if kind.startswith(("key_value", "timestamped_key_value", "versioned", "global")):
        layouts = {"windowed": "windowed", "session_windowed": "session"}
        return layouts.get((key or {}).get("format", ""), "plain")
    return "opaque"


def _time_ms(record: FetchedRecord) -> int:
    # A log keeps time 0 as -1: the client library takes a 0 to mean "now" when it writes.
    return max(record.timestamp()[1], 0)


def _dated(time_ms: int | None) -> int | None:
    return None if time_ms is None else min(max(time_ms, _MIN_TIME_MS), _MAX_TIME_MS)


def _session_start(key: bytes) -> int:
    return session_times(key)[1]


def _session_end(key: bytes) -> int:
    return session_times(key)[0]


def _start_on_topic(key: bytes) -> int:
    return int(unpack_start_from(key, len(key) - START_BYTES)[0])


def _plain(
    name: str, types: tuple[spark.DataType, pa.DataType], read: Callable[[TableRow], Any]
) -> Column:
    arrow = types[1]
    return Column(name, *types, lambda rows: pa.array([read(row) for row in rows], arrow))


def _headers_column() -> Column:
    def read(row: TableRow) -> Any:
        headers = row.record.headers()
        return headers and [{"key": name, "value": value} for name, value in headers]

    return _plain("_headers", HEADERS, read)


def _decoded(name: str, kind: ColumnType, read: Callable[[FetchedRecord], bytes | None]) -> Column:
    decode, arrow = kind.decode, kind.arrow

    def one(record: FetchedRecord) -> Any:
        data = read(record)
        return None if data is None else decode(data)

    def fill(rows: Sequence[TableRow]) -> pa.Array:
        try:
            return pa.array([one(row.record) for row in rows], arrow)
        except Exception:
            _raise_for_culprit(name, rows, lambda record: pa.array([one(record)], arrow))
            raise

    return Column(name, kind.spark, arrow, fill)


def _raise_for_culprit(
    name: str, rows: Sequence[TableRow], convert: Callable[[FetchedRecord], object]
) -> None:
    for row in rows:
        record = row.record
        try:
            convert(record)
        except Exception as error:
            topic, partition, offset = record.topic(), record.partition(), record.offset()
            raise DeserializationError(
                f"{topic}-{partition}, offset {offset}: the {name} does not decode as its format "
                f"says: {error}; was the store's format changed, or the record written by "
                "something else? Read the topic with keyFormat and valueFormat bytes to look",
                topic=topic,
                partition=partition,
                offset=offset,
            ) from error
