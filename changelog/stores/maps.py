"""The map store: per key, a value per map key.

The element of a row is the map key. In a store with a capacity a key keeps its greatest map keys:
a new one that is too many removes the smallest.
"""

from __future__ import annotations

from typing import Final, TypeVar

from logstate.changelog.stores.elements import ItemReads, TaskElementStore, reader_of
from logstate.changelog.stores.store_kind import BOUNDS, StoreKind
from logstate.contracts.changelog_keys import ELEMENT
from logstate.contracts.stores import Entries, pairs_of

K = TypeVar("K")
M = TypeVar("M")
V = TypeVar("V")


class MapReads(ItemReads[K, M, V]):
    """Reads of maps."""

    def get(self, key: K, map_key: M) -> V | None:
        """The value of a map key, or None."""
        row = self._find(self._element_key(self._codec.raw_key(key), map_key))
        return None if row is None else self._codec.decode_row(row)


class TaskMapStore(TaskElementStore[K, M, V], MapReads[K, M, V]):
    """The map store of one task. ``put(key, map_key, None)`` deletes."""

    reads = MapReads

    def put(self, key: K, map_key: M, value: V | None) -> None:
        """Write the value of a map key; None deletes it."""
        raw = self._raw_key(key)
        row_key = self._element_key(raw, map_key)
        if value is None:
            self._delete_element(raw, row_key)
        else:
            self._put_element(raw, row_key, self._encoded(value))

    def put_all(self, key: K, entries: Entries[M, V]) -> None:
        """Put each, in order. Raises TypeError if the entries are not pairs."""
        for map_key, value in pairs_of(entries, self.name):
            self.put(key, map_key, value)

    def delete(self, key: K, map_key: M) -> V | None:
        """Remove the value of a map key and return it; a tombstone is logged in any case."""
        found = self.get(key, map_key)
        self.put(key, map_key, None)
        return found

    def _decoded_element(self, element: bytes, row: bytes) -> tuple[M, V]:
        return self._codec.decode_element(element), self._codec.decode_row(row)


MAPS: Final = StoreKind(
    "map", TaskMapStore, reader_of(MapReads),
    key_layout=ELEMENT,
    are_rows_records=True,
    key_reads={"get": ("map_key",), "items": BOUNDS},
    element_name="map_key",
)  # fmt: skip
