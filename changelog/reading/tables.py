"""A store as a table: which columns it has and how changelog records fill them.

==================  ==========================================  ===============================
store kind          changelog key                               columns
==================  ==========================================  ===============================
key-value           key                                         key, value
window              key | 8B start | 4B sequence number         key, window_start, window_end,
                                                                value; _sequence where a key may
                                                                have several rows in a window
session             key | 8B end | 8B start                     the same
versioned           key; the record's time is valid-from        key, value, valid_from, valid_to
of a Faust table    [key, [start, end]] as JSON                 as of a window
suppress buffer     as of the table before it                   key, window, value that waits,
                                                                buffer_time
list                key | 00 01 | 8B position                   key, position, value
map                 key | 00 01 | map key                       key, map_key, value
set                 key | 00 01 | value                         key, value
outer join          8B time | 1B side | key                     key, record_time, left, right:
                                                                lists, one of them null
others              as the store lays it out                    key, value: both binary
==================  ==========================================  ===============================

A key-value store whose keys are themselves windowed (a windowed table read from a topic) has the
window columns too, from ``key | 8B start`` or ``key | 8B end | 8B start``.

Invariants: a table is described by plain data (a manifest entry), so it travels to executors; the
Arrow columns it builds are exactly those of ``arrow_schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from logstate.changelog.reading import faust_keys
from logstate.changelog.reading.blocks import HEADERS, Block, FrameHeaders, numbers
from logstate.changelog.reading.column_parts import (
    BINARY,
    BOOLEAN,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
)
from logstate.changelog.reading.options import SourceOptions
from logstate.changelog.reading.trimmed_windows import interval_ms_of
from logstate.changelog.reading.types import ColumnType, column_type
from logstate.changelog.stores.kinds import kind_of
from logstate.changelog.stores.store_kind import RowColumn
from logstate.contracts.changelog_keys import (
    MAX_TIME_MS,
    PLAIN,
    START_BYTES,
    WINDOW,
    WINDOWED,
    history_ms_of,
)
from logstate.contracts.errors import DeserializationError

# Beyond these a timestamp has no date that Spark can show; such windows exist at the end of time.
_MIN_TIME_MS = -62_135_596_800_000
_MAX_TIME_MS = 253_402_300_799_999
#: the column of changes that contains the key's bytes in the changelog, including the window
KEY_BYTES = "_key"
#: Arrow refuses a slice without an end that begins behind the first byte
_KEY_BYTES_MAX = 2**31 - 1
#: formats of which two keys that differ in their bytes differ in their columns
_ONE_FORM_EACH = frozenset({"string", "int64", "int32", "int16", "bytes", "boolean", "uuid_bytes"})

Fill = Callable[[Block], pa.Array]
Times = Callable[[pa.Array], pa.Array]


class Column(NamedTuple):
    """One column of a table."""

    name: str
    arrow: pa.DataType
    fill: Fill


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """Names and types of the columns; all are nullable."""
    return pa.schema([(c.name, c.arrow) for c in columns])


def record_batch(columns: Sequence[Column], block: Block) -> pa.RecordBatch:
    """The records as rows of one batch. Raises DeserializationError naming the record at fault."""
    arrays = [column.fill(block) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns))


class StoreTable:
    """Columns of one store, from its entry in the manifest."""

    def __init__(
        self,
        entry: Mapping[str, Any],
        *,
        are_times_integers: bool = False,
        registry: Mapping[str, str] | None = None,
        value_serde: str | None = None,
    ) -> None:
        kind = kind_of(entry)
        self.is_versioned = kind.is_versioned
        self.history_ms = history_ms_of(entry)
        """Versioned stores: how far back of stream time a version may begin when it is written."""
        self._are_times_integers = are_times_integers
        key, value = entry.get("key"), entry.get("value")
        self._size_ms = entry.get("window_size_ms")
        self.frames = FrameHeaders(
            *(side and side.get("frame_header") for side in (entry.get("key"), value))
        )
        self._is_raw = kind.row_columns == ()
        self._layout = PLAIN if self._is_raw else kind.layout_of(key)
        if key is not None and key["format"] in WINDOWED:
            self._size_ms = key.get("window_size_ms") or self._size_ms
            key = key["inner"]
        if self._is_raw:
            key = value = None
        self._row_columns = [
            (one, column_type(value.get(one.part) if one.part and value else value, registry))
            for one in kind.row_columns or ()
            if value is not None or one.part is None
        ]
        self._element_type = column_type(entry.get("element"), registry)
        self._element_name = kind.element_name
        self._has_value = not kind.row_columns
        self.name = str(entry.get("name", kind.name))
        self.key_format = str(key["format"]) if key is not None else "bytes"
        self.key_description: Mapping[str, Any] = key if key is not None else {"format": "bytes"}
        self.key_type: ColumnType = column_type(key, registry)
        self.value_type: ColumnType = column_type(value, registry, value_serde)
        self._has_duplicates = (
            bool(entry.get("retain_duplicates")) and self._layout.sequence_at is not None
        )
        self._oldest = kind.oldest_shown(entry)
        self._ttl_ms: int | None = entry.get("ttl_ms")
        self.changes_within_ms: int | None = self.history_ms if self.is_versioned else None
        """How far behind the newest row the store lets a row change; None: without a limit."""
        if self._oldest is not None:
            # A hidden row may be in a segment that is not expired, and be put again.
            self.changes_within_ms = interval_ms_of(entry) - self._oldest
        self._is_of_faust = self._layout is PLAIN and self.key_format == faust_keys.WINDOWED
        self.has_windows = not self._layout.is_whole
        """Whether changelog keys are more than the key."""

    def batch_columns(self, *, with_tombstones: bool, with_meta: bool) -> list[Column]:
        """Columns of the table at a cut."""
        columns = [*self._key_columns(), *self._value_columns()]
        if self.is_versioned:
            columns += [
                self._time_column("valid_from", lambda block: block.times),
                self._time_column("valid_to", _valid_to),
            ]
        if with_meta:
            columns += [*self._coordinates(), _headers_column()]
        if with_meta or with_tombstones:
            columns.append(Column("_is_tombstone", BOOLEAN, lambda block: block.values.is_null()))
        return columns

    def change_columns(self, *, with_meta: bool) -> list[Column]:
        """Columns of the change feed."""
        columns = [
            Column("change_type", STRING, _change_type),
            *self._key_columns(),
            *self._value_columns(),
        ]
        if self.is_versioned:
            columns.append(self._time_column("valid_from", lambda block: block.times))
        columns += self._coordinates()
        if self.has_key_bytes:
            columns.append(Column(KEY_BYTES, BINARY, lambda block: block.keys))
        return [*columns, _headers_column()] if with_meta else columns

    def shown(self, block: Block, clock_ms: int) -> Block:
        """Without the rows that the store hides at a stream time; its log may have them yet."""
        if self._ttl_ms is not None:
            return block.filter(pc.greater(block.times, clock_ms - self._ttl_ms))
        if self._oldest is None:
            return block
        at = self._layout.end_at or self._layout.start_at
        assert at is not None
        return block.filter(pc.greater_equal(_times(at)(block.keys), clock_ms + self._oldest))

    @property
    def has_key_bytes(self) -> bool:
        """Whether changes have the key's bytes, because different keys may have equal columns.

        An element is not one of the columns that identify a row, so its rows have them, too. Those
        of other texts, integers, booleans and bytes do. Decimals of another exponent, 0.0 and -0.0,
        an instant in two time zones, a field that is absent or null, and two schemas of a registry
        are different keys that may be shown the same.
        """
        if self._layout.has_element:
            return True
        is_bytes = self._is_raw or bool(self._layout.head_bytes)
        return self.key_format not in _ONE_FORM_EACH and not is_bytes

    @property
    def expires(self) -> bool:
        """Whether the store hides rows by its clock, and its owner deletes their records."""
        return self._oldest is not None

    @property
    def shows_placed_keys(self) -> bool:
        """Whether the column ``key`` is what a partitioner saw: a buffer shows its whole rows'."""
        return not self._is_raw

    @property
    def writes_keys_once(self) -> bool:
        """Whether nothing ever replaces a record: each has a sequence number in its key."""
        return self._has_duplicates

    def expiry_time(self, key: bytes) -> int:
        """The time of a row by which it expires, where rows do."""
        return self._layout.expiry_time(key)

    def oldest_shown(self, clock_ms: int) -> int:
        """The oldest time of a row that is shown at a stream time, where rows expire."""
        return clock_ms + (self._oldest or 0)

    def inner_key(self, key: bytes) -> bytes:
        """The key without its window."""
        return self._layout.inner_key(key)

    def _key_columns(self) -> list[Column]:
        columns = [_decoded(self.name, "key", self.key_type, self._inner_keys)]
        if self._layout.record_time_at is not None:
            record_times = _times(self._layout.record_time_at)
            return [*columns, self._time_column("record_time", lambda b: record_times(b.keys))]
        if self._layout.has_element:
            element_of = self._layout.element_of
            name, kind = self._element_name or "value", self._element_type
            return [*columns, _decoded(self.name, name, kind, lambda b: _parts_of(b, element_of))]
        found = self._window_times()
        if found is None:
            return columns
        starts, ends = found
        columns += [
            self._time_column("window_start", lambda block: starts(block.keys)),
            self._time_column("window_end", lambda block: ends(block.keys)),
        ]
        if self._has_duplicates:
            columns.append(Column("_sequence", INTEGER, lambda block: _sequences(block.keys)))
        return columns

    def _window_times(self) -> tuple[Times, Times] | None:
        if self._is_of_faust:
            return _faust_times(0), _faust_times(1)
        if self._layout.start_at is None:
            return None
        starts, end_at = _times(self._layout.start_at), self._layout.end_at
        return starts, self._ends_after(starts) if end_at is None else _times(end_at)

    def _ends_after(self, starts: Times) -> Times:
        size_ms = self._size_ms
        if size_ms is None:
            return lambda keys: pa.nulls(len(keys), LONG)
        latest = pa.scalar(MAX_TIME_MS - size_ms, LONG)  # ends beyond are cut there, as in Java
        return lambda keys: pc.add(pc.min_element_wise(starts(keys), latest), size_ms)

    def _inner_keys(self, block: Block) -> pa.Array:
        if not self.has_windows:
            return block.keys
        if self._layout.has_element:
            return _parts_of(block, self._layout.inner_key)
        head, tail = self._layout.head_bytes, self._layout.tail_bytes
        return pc.binary_slice(block.keys, head, -tail or _KEY_BYTES_MAX)

    def _value_columns(self) -> list[Column]:
        if self._has_value:
            return [_decoded(self.name, "value", self.value_type, lambda block: block.values)]
        if self._layout.has_element:  # the value is the element, which the key has
            return []
        return [self._row_column(*each) for each in self._row_columns]

    def _row_column(self, column: RowColumn, kind: ColumnType) -> Column:
        def found(block: Block) -> list[Any]:
            pairs = zip(block.keys.to_pylist(), block.values.to_pylist(), strict=True)
            of, store = column.of, self.name
            return [None if row is None else of(key, row, store) for key, row in pairs]

        if column.holds == "value":
            return _decoded(
                self.name, column.name, kind, lambda block: pa.array(found(block), BINARY)
            )
        if column.holds == "time":
            return self._time_column(column.name, lambda block: pa.array(found(block), LONG))
        if column.holds == "integer":
            return Column(column.name, LONG, lambda block: pa.array(found(block), LONG))
        of_list = pa.list_(pa.field("element", kind.arrow))
        return Column(column.name, of_list, lambda block: _lists(found(block), kind.fill))

    def _coordinates(self) -> list[Column]:
        return [
            Column("_partition", INTEGER, _partitions),
            Column("_offset", LONG, lambda block: block.offsets),
            self._time_column("_timestamp", lambda block: block.times),
        ]

    def _time_column(self, name: str, read: Fill) -> Column:
        if self._are_times_integers:
            return Column(name, LONG, read)

        def fill(block: Block) -> pa.Array:
            times = pc.max_element_wise(read(block), _MIN_TIME_MS, skip_nulls=False)
            dated = pc.min_element_wise(times, _MAX_TIME_MS, skip_nulls=False)
            return dated.cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)

        return Column(name, TIMESTAMP, fill)


def table_of(options: SourceOptions, entry: Mapping[str, Any]) -> StoreTable:
    """The table of a manifest entry, as these options want it."""
    return StoreTable(
        entry,
        are_times_integers=options.are_times_integers,
        registry=options.registry,
        value_serde=options.value_serde,
    )


def _times(at: int) -> Times:
    """Return the reader of the times at a position of keys."""
    return lambda keys: numbers(pc.binary_slice(keys, at, at + START_BYTES or None), LONG)


def _parts_of(block: Block, part_of: Callable[[bytes], bytes | None]) -> pa.Array:
    """Return a part of the keys, whose length differs from key to key."""
    return pa.array(map(part_of, block.keys.to_pylist()), BINARY)


def _sequences(keys: pa.Array) -> pa.Array:
    return numbers(pc.binary_slice(keys, WINDOW.sequence_at, None), INTEGER)


def _lists(rows: list[list[bytes] | None], fill: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return lists of values that ``fill`` decodes; null where there is no list."""
    items = fill(pa.array(chain.from_iterable(each or () for each in rows), BINARY))
    *starts, end = accumulate((len(each or ()) for each in rows), initial=0)
    marked = [None if each is None else at for each, at in zip(rows, starts, strict=True)]
    kind = pa.list_(pa.field("element", items.type))
    return pa.ListArray.from_arrays(pa.array([*marked, end], INTEGER), items, type=kind)


def _faust_times(place: int) -> Times:
    return lambda keys: pa.array(
        (faust_keys.window_bounds_ms(key)[place] for key in keys.to_pylist()), LONG
    )


def _valid_to(block: Block) -> pa.Array:
    return pa.nulls(block.rows, LONG) if block.valid_to is None else block.valid_to


def _change_type(block: Block) -> pa.Array:
    return pc.if_else(block.values.is_null(), "delete", "update")


def _partitions(block: Block) -> pa.Array:
    return pa.repeat(pa.scalar(block.log.partition, INTEGER), block.rows)


def _headers_column() -> Column:
    def read(block: Block) -> pa.Array:
        return pa.nulls(block.rows, HEADERS) if block.headers is None else block.headers

    return Column("_headers", HEADERS, read)


def _decoded(store: str, name: str, kind: ColumnType, read: Fill) -> Column:
    def fill(block: Block) -> pa.Array:
        data = read(block)
        try:
            return kind.fill(data)
        except Exception:
            _raise_for_culprit(store, name, block, data, kind)
            raise

    return Column(name, kind.arrow, fill)


def _raise_for_culprit(
    store: str, name: str, block: Block, data: pa.Array, kind: ColumnType
) -> None:
    (topic, partition), offsets = block.log, block.offsets
    for place in range(len(data)):
        try:
            kind.fill(data.slice(place, 1))
        except Exception as error:
            offset = offsets[place].as_py()
            raise DeserializationError(
                f"{topic}-{partition}, offset {offset}, store {store!r}: the {name} does not "
                f"decode as its format says: {error}; was the store's format changed, or the "
                "record written by something else? Read the topic with keyFormat and valueFormat "
                "bytes to look",
                topic=topic,
                partition=partition,
                offset=offset,
            ) from error
