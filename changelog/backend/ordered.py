"""A dict that can also be walked in key order, paying for order only where it is asked for.

Point reads and writes are a plain dict's. The first ordered walk sorts the keys; later walks fold
in only the keys that are new since, so a store that is never scanned never sorts.

Invariants:
- every key of ``_index`` or ``_unindexed`` was in the dict once; a key may have left it since, so
  walks check membership;
- while ``_index`` is None, ``_unindexed`` is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from sortedcontainers import SortedList

V = TypeVar("V")

#: so few keys are sorted for a walk in less time than an index of them is made
_SORTED_EACH_TIME_MAX = 32


class OrderedMap(dict[bytes, V], Generic[V]):
    """Bytes keys in unsigned byte order.

    >>> rows = OrderedMap()
    >>> rows.put(b"b", 1); rows.put(b"a", 2)
    >>> list(rows.keys_between(b"", None))
    [b'a', b'b']
    """

    def __init__(self) -> None:
        super().__init__()
        self._index: SortedList | None = None
        self._unindexed: list[bytes] = []

    def put(self, key: bytes, value: V) -> None:
        """Insert or replace."""
        if self._index is not None and key not in self:
            self._unindexed.append(key)
        self[key] = value

    def put_all(self, rows: Mapping[bytes, V]) -> None:
        """Insert or replace many."""
        if self._index is not None:
            self._unindexed += [key for key in rows if key not in self]
        self.update(rows)

    def remove(self, key: bytes) -> None:
        """Delete if present."""
        if key not in self:
            return
        del self[key]
        # Left in the index, a key that comes back would be walked twice.
        if self._index is not None:
            self._discard(key)

    def clear(self) -> None:
        super().clear()
        self._index = None
        self._unindexed = []

    def keys_between(
        self, lower: bytes, upper: bytes | None, *, reverse: bool = False
    ) -> Iterator[bytes]:
        """Keys in ``[lower, upper)``, ascending or descending; upper None = to the end."""
        if self._index is None and len(self) <= _SORTED_EACH_TIME_MAX:
            found = [key for key in self if key >= lower and (upper is None or key < upper)]
            found.sort(reverse=reverse)
            return iter(found)
        index = self._refreshed_index()
        return iter(
            [
                key
                for key in index.irange(lower, upper, (True, False), reverse=reverse)
                if key in self
            ]
        )

    def keys_within(self, lower: bytes, upper: bytes) -> list[bytes]:
        """Keys in ``[lower, upper)``, in no order: without an index none is made for it.

        Expiry asks for them, and takes a large part of the rows each time: looking at all of them
        costs less than keeping the order of each.
        """
        if self._index is None:
            return [key for key in self if lower <= key < upper]
        return list(self.keys_between(lower, upper))

    def _refreshed_index(self) -> SortedList:
        if self._index is None:
            self._index = SortedList(self)
        elif self._unindexed:
            self._index.update(self._unindexed)
        self._unindexed = []
        return self._index

    def _discard(self, key: bytes) -> None:
        index = self._refreshed_index()
        index.discard(key)
