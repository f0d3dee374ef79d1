"""The set store: per key, values that are there or not.

The element of a row is the value; the row itself has no bytes. In a store with a capacity a key
keeps its greatest values: a new one that is too many removes the smallest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from logstate.changelog.stores.elements import ElementReads, TaskElementStore, reader_of
from logstate.changelog.stores.store_kind import BOUNDS, RowColumn, StoreKind
from logstate.contracts.changelog_keys import ELEMENT, split_element

K = TypeVar("K")
V = TypeVar("V")

_ROW: Final = b""


class SetReads(ElementReads[K, V, V]):
    """Reads of sets."""

    def contains(self, key: K, value: V) -> bool:
        """Whether the set of a key has a value."""
        row_key = self._element_key(self._codec.raw_key(key), value)
        return self._find(row_key) is not None

    def values(
        self, key: K, lower: V | None = None, upper: V | None = None, *, reverse: bool = False
    ) -> Iterator[V]:
        """The values of a key in the order of their bytes, between two of them, inclusive."""
        decode, begin = self._codec.decode_element, len(prefix := self._prefix(key))
        rows = self._between(prefix, lower, upper, reverse=reverse)
        return (decode(row_key[begin:]) for row_key, _ in rows)

    def _rows_of(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[Any]:
        decode_key, decode_element = self._codec.decode_key, self._codec.decode_element
        for row_key, _ in rows:
            key, value = split_element(row_key)
            yield decode_key(key), decode_element(value)


class TaskSetStore(TaskElementStore[K, V, V], SetReads[K, V]):
    """The set store of one task."""

    reads = SetReads

    def add(self, key: K, value: V) -> bool:
        """Add a value to the set of a key; returns whether it was not there.

        With a TTL a value that is there gets the time of the record. Returns False, too, for a
        record that is older than the TTL.
        """
        raw = self._raw_key(key)
        row_key = self._element_key(raw, value)
        is_new = self._reads.get(row_key) is None
        if not is_new and self._ttl_ms is None:
            return False
        return self._put_element(raw, row_key, _ROW) and is_new

    def discard(self, key: K, value: V) -> bool:
        """Remove a value from the set of a key; returns whether it was there."""
        raw = self._raw_key(key)
        row_key = self._element_key(raw, value)
        if self._reads.get(row_key) is None:
            return False
        self._delete_element(raw, row_key)
        return True

    def _decoded_element(self, element: bytes, _row: bytes) -> Any:
        return self._codec.decode_element(element)


def _element_of(key: bytes, _row: bytes, _store: str) -> bytes:
    return split_element(key)[1]


SETS: Final = StoreKind(
    "set", TaskSetStore, reader_of(SetReads),
    key_layout=ELEMENT,
    row_columns=(RowColumn("value", "value", _element_of),),
    are_rows_records=True,
    key_reads={"contains": ("value",), "values": BOUNDS},
)  # fmt: skip
