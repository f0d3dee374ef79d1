"""The list store: the values of a key in the order in which they were appended.

The element of a row is its position: 8 bytes, big-endian, with the sign bit inverted, which is an
ordered int. The positions of a list follow each other without a gap. ``append`` takes the next
position, so positions of other values never change; the first one grows as values are removed from
the beginning. Once a list is empty, it begins at 0 again.

First and next position are not stored: the first and the last row of the key have them. They are
read once, and remembered while the key is in use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from logstate.changelog.backend.backend import end_of_prefix
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.serialization_errors import (
    key_serialization_error,
    value_serialization_error,
)
from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.stores.elements import ItemReads, TaskElementStore, reader_of
from logstate.changelog.stores.store_kind import BOUNDS, StoreKind
from logstate.contracts.changelog_keys import ELEMENT, ended_key
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec

K = TypeVar("K")
V = TypeVar("V")

_POSITION = struct.Struct(">Q")
#: position 0 as it is stored
_ZERO: Final = 1 << 63


def _position_of(row_key: bytes) -> int:
    return int(_POSITION.unpack_from(row_key, len(row_key) - 8)[0])


class ListReads(ItemReads[K, int, V]):
    """Reads of lists. An index counts from the beginning, a negative one from the end."""

    def get(self, key: K, index: int) -> V | None:
        """The value at an index, 0 is the oldest and -1 the newest; None if there is none."""
        found = self._place(key, index)
        if found is None:
            return None
        row = self._reads.get(found)
        return None if row is None else self._codec.decode_value(row)

    def values(
        self, key: K, lower: int | None = None, upper: int | None = None, *, reverse: bool = False
    ) -> Iterator[V]:
        """The values of a key, oldest first, between two positions, both inclusive."""
        decode = self._codec.decode_value
        rows = self._between(self._prefix(key), lower, upper, reverse=reverse)
        return (decode(row) for _, row in rows)

    def size(self, key: K) -> int:
        """The number of values of a key."""
        _, first, following = self._bounds(self._codec.raw_key(key))
        size: int = following - first
        return size

    def _place(self, key: K, index: int) -> bytes | None:
        """The row key of an index; None if the list does not have it."""
        if type(index) is not int:
            raise TypeError(
                f"store {self.name!r} takes an int as the index of a list, found"
                f" {type(index).__name__}"
            )
        prefix, first, following = self._bounds(self._codec.raw_key(key))
        position = index + (first if index >= 0 else following)
        if not first <= position < following:
            return None
        row_key: bytes = prefix + _POSITION.pack(position)
        return row_key

    def _bounds(self, raw: bytes) -> Any:
        """Prefix, first position and next position of a key, as they are stored."""
        prefix = ended_key(raw)
        end = end_of_prefix(prefix)
        for row_key, _ in self._reads.scan(prefix, end):
            first = _position_of(row_key)
            for last_key, _ in self._reads.scan(prefix, end, reverse=True):
                return [prefix, first, _position_of(last_key) + 1]
        return [prefix, _ZERO, _ZERO]


class TaskListStore(TaskElementStore[K, int, V], ListReads[K, V]):
    """The list store of one task. An append to a full list removes the oldest values."""

    reads = ListReads

    #: add a value at the end; raises TypeError for None
    append: Callable[[K, V], None]

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        super().__init__(spec, rows, writes, context)
        self.append = self._bound_append()

    def checked(
        self, is_allowed: Callable[[], bool], refuse: Callable[[str], None]
    ) -> dict[str, Callable[..., Any]]:
        """Methods that call ``refuse`` with their name first, unless ``is_allowed``."""
        return {"append": self._bound_append(is_allowed, partial(refuse, "append"))}

    def _bound_append(
        self,
        is_allowed: Callable[[], bool] | None = None,
        refuse: Callable[[], None] = lambda: None,
    ) -> Callable[[K, V], None]:
        encode_key, encode_value = self._codec.encode_key, self._codec.encode_value
        known, put_row, log = self._known, self._rows.put, self._writes.add
        name, capacity, context, pack = self.name, self._capacity, self._context, _POSITION.pack

        def append(key: K, value: V) -> None:
            if is_allowed is not None and not is_allowed():
                refuse()
            try:
                raw = encode_key(key)
            except Exception as error:  # noqa: BLE001  serdes raise anything
                raise key_serialization_error(name, key, error) from error.__cause__
            if value is None:
                raise self._no_value()
            try:
                row = encode_value(value)
            except Exception as error:  # noqa: BLE001
                raise value_serialization_error(name, error) from error.__cause__
            bounds = known.get(raw) or self._bounds(raw)
            prefix, first, following = bounds
            row_key = prefix + pack(following)
            put_row(row_key, row)
            log(row_key, (row_key, row, context.timestamp, None))
            bounds[2] = following + 1
            if capacity is not None and following - first >= capacity:
                self._drop_first(bounds, following + 1 - first - capacity)

        return append

    def extend(self, key: K, values: Iterable[V]) -> None:
        """Append each of the values."""
        for value in values:
            self.append(key, value)

    def set(self, key: K, index: int, value: V) -> None:
        """Replace the value at an index. Raises IndexError if the list does not have it."""
        row_key = self._place(key, index)
        if row_key is None:
            raise IndexError(
                f"store {self.name!r}: the list has {self.size(key)} values, and none at index"
                f" {index}. append() adds one"
            )
        self._write(row_key, self._encoded(value))

    def pop(self, key: K) -> V | None:
        """Remove the newest value and return it; None if the list is empty."""
        return self._popped(key, -1)

    def pop_first(self, key: K) -> V | None:
        """Remove the oldest value and return it; None if the list is empty."""
        return self._popped(key, 0)

    def _popped(self, key: K, index: int) -> V | None:
        row_key = self._place(key, index)
        row = None if row_key is None else self._rows.get(row_key)
        if row_key is None or row is None:
            return None
        value: V = self._codec.decode_value(row)
        raw = self._codec.raw_key(key)
        bounds = self._bounds(raw)
        if index:
            self._write(row_key, None)
            bounds[2] -= 1
        else:
            self._drop_first(bounds, 1)
        if bounds[1] == bounds[2]:  # the rows do not say what its positions were
            del self._known[raw]
        return value

    def _drop_first(self, bounds: list[Any], count: int) -> None:
        prefix, first, _ = bounds
        for position in range(first, first + count):
            self._write(prefix + _POSITION.pack(position), None)
        bounds[1] = first + count

    def _bounds(self, raw: bytes) -> Any:
        known = self._known.get(raw)
        if known is None:
            known = self._known[raw] = super()._bounds(raw)
        return known


LISTS: Final = StoreKind(
    "list", TaskListStore, reader_of(ListReads),
    key_layout=ELEMENT,
    are_rows_records=True,
    key_reads={"get": ("index",), "items": BOUNDS},
    element_name="position",
)  # fmt: skip
