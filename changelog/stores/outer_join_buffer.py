"""The store in which unmatched rows of a left or outer stream join wait, shared by both sides.

A row is ``8 bytes timestamp | 1 byte side (1 left, 0 right) | serialised key`` -> the values that
arrived with these, in order. Byte order is time order, so the rows that expire first come first.

The list of values, all integers big-endian, is Kafka Streams' own format for lists::

    01 | 4 bytes count | per value: 4 bytes length, value

Row and changelog record are the same bytes; every change logs the whole list, or null once the row
left, with the timestamp of the record being processed and without its headers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar

from logstate.changelog.rows.row_codec import RowCodec, row_codec, serde_topic
from logstate.changelog.rows.rows import ReadableRows, Rows
from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.stores.join_buffer import LoggedRows
from logstate.changelog.stores.store_kind import RowColumn, StoreKind
from logstate.contracts.changelog_keys import KeyLayout
from logstate.contracts.errors import StoreCorruptedError
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from logstate.serdes.join_serdes import SidedValue

K = TypeVar("K")

_HEAD = struct.Struct(">qB")
_COUNT = struct.Struct(">Bi")
_LENGTH = struct.Struct(">i")
_VARIABLE_SIZE = 1


class OuterJoinReads(Generic[K]):
    """Reads of the waiting records, over a task's rows or a query's."""

    def __init__(self, spec: StoreSpec, codec: RowCodec, rows: ReadableRows) -> None:
        self.name = spec.name
        self._codec = codec
        self._reads = rows

    def rows(self) -> Iterator[tuple[int, bool, K, list[Any]]]:
        """(timestamp, is left, key, values), as of now: by time, right before left, then key."""
        decode_key, decode_value = self._codec.decode_key, self._codec.decode_value
        for row_key, row in self._reads.scan():
            timestamp, is_left = _HEAD.unpack_from(row_key)
            values = [decode_value(data).value for data in _decode_list(row, self.name)]
            yield timestamp, is_left == 1, decode_key(row_key[_HEAD.size :]), values

    def times(self) -> Iterator[tuple[int, bool]]:
        """(timestamp, is left) of each row, as of now, by time."""
        for row_key, _ in self._reads.scan():
            timestamp, is_left = _HEAD.unpack_from(row_key)
            yield timestamp, is_left == 1

    def all(self) -> Iterator[tuple[int, str, K, Any]]:
        """(timestamp, ``"left"`` or ``"right"``, key, value): one entry per value."""
        for timestamp, is_left, key, values in self.rows():
            for value in values:
                yield timestamp, "left" if is_left else "right", key, value


class OuterJoinBuffer(LoggedRows, OuterJoinReads[K]):
    """The unmatched rows of one task. Values go in and out as what the join's sides hold."""

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        super().__init__(spec, rows, writes, context)
        codec = row_codec(spec, serde_topic(spec, context), self.row_formats[0])
        OuterJoinReads.__init__(self, spec, codec, rows)

    def add(self, timestamp: int, is_left: bool, key: K, value: Any) -> None:
        """Let a value wait, behind those that wait under the same key, side and timestamp."""
        row_key = self._row_key(timestamp, is_left, key)
        data = self._codec.encode_value(SidedValue(is_left, value))
        self._write(row_key, _appended(self._rows.get(row_key), data))

    def take_out(self, timestamp: int, is_left: bool, key: K) -> None:
        """Remove what waits there, if anything: it found a partner."""
        row_key = self._row_key(timestamp, is_left, key)
        if self._rows.get(row_key) is not None:
            self._write(row_key, None)

    def remove(self, timestamp: int, is_left: bool, key: K) -> None:
        """Remove without looking."""
        self._write(self._row_key(timestamp, is_left, key), None)

    def _row_key(self, timestamp: int, is_left: bool, key: K) -> bytes:
        return _HEAD.pack(timestamp, is_left) + self._codec.encode_key(key)

    def _write(self, row_key: bytes, row: bytes | None) -> None:
        self._put_row(row_key, row, self._context.timestamp)


def _appended(row: bytes | None, data: bytes) -> bytes:
    """The list with one more value."""
    entry = _LENGTH.pack(len(data)) + data
    if row is None:
        return _COUNT.pack(_VARIABLE_SIZE, 1) + entry
    _, count = _COUNT.unpack_from(row)
    return b"".join((_COUNT.pack(_VARIABLE_SIZE, count + 1), row[_COUNT.size :], entry))


def _decode_list(row: bytes, store: str) -> list[bytes]:
    """The values of a row, serialised; raises StoreCorruptedError for another kind of list.

    >>> _decode_list(_appended(_appended(None, b"a"), b"bc"), "store")
    [b'a', b'bc']
    """
    kind, count = _COUNT.unpack_from(row)
    if kind != _VARIABLE_SIZE:
        raise StoreCorruptedError(
            f"a row of store {store!r} is not a list of values of variable size: it starts with"
            f" {row[:5].hex()}, expected 01. The changelog was probably written by something else"
            " than a stream join; restore the topic from a backup. `logstate reset` would delete"
            " the state of all stores"
        )
    at = _COUNT.size
    values = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(row, at)
        at += _LENGTH.size
        values.append(row[at : at + length])
        at += length
    return values


def _values_of_left(key: bytes, row: bytes, store: str, side: int = 1) -> list[bytes] | None:
    if key[_HEAD.size - 1] != side:
        return None
    return [data[1:] for data in _decode_list(row, store)]  # each begins with its side once more


OUTER_JOIN: Final = StoreKind(
    "outer_join", OuterJoinBuffer,
    lambda spec, codec, rows, _cell: OuterJoinReads(spec, codec, rows),
    key_layout=KeyLayout(head_bytes=_HEAD.size, record_time_at=0),
    row_columns=(
        RowColumn("left", "values", _values_of_left, part="left"),
        RowColumn("right", "values", partial(_values_of_left, side=0), part="right"),
    ),
    is_internal=True,
)  # fmt: skip
