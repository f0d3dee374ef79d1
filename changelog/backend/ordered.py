"""A dict that can also be walked in key order, paying for order only where it is asked for.

Point reads and writes are a plain dict's. The first ordered walk sorts the keys; later walks fold
in only the keys that are new since, so a store that is never scanned never sorts.

A walk shows the dict as it was when it began, and costs only the rows that are taken: most walks
end after a few rows. So it reads a little at once, and continues while nothing changes.
Each change of the dict first lets the running walks read to their ends.

Invariants:
- every key of ``_index`` or ``_unindexed`` was in the dict once; a key may have left it since, so
  walks check membership;
- while ``_index`` is None, ``_unindexed`` is not kept, and no walk is under way;
- no walk of ``_walks`` reads from the dict once that is not as it was when the walk began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Generic, TypeVar
from weakref import ref

from sortedcontainers import SortedList

_NONE: tuple[None, None] = (None, None)


def merge_rows(
    fresh: Iterable[tuple[bytes, bytes | None]],
    stored: Iterator[tuple[bytes, bytes]],
    prefix_length: int,
    *,
    reverse: bool,
) -> Iterator[tuple[bytes, bytes]]:
    """Both sorted alike; the fresh row wins, a fresh None hides the stored row.

    ``stored`` keys carry a prefix of ``prefix_length`` bytes that the result does not.
    """
    fresh = iter(fresh)
    fresh_key, fresh_value = next(fresh, _NONE)
    for full_key, stored_value in stored:
        key = full_key[prefix_length:]
        while fresh_key is not None and (fresh_key > key if reverse else fresh_key < key):
            if fresh_value is not None:
                yield fresh_key, fresh_value
            fresh_key, fresh_value = next(fresh, _NONE)
        if fresh_key == key:
            if fresh_value is not None:
                yield key, fresh_value
            fresh_key, fresh_value = next(fresh, _NONE)
        else:
            yield key, stored_value
    if fresh_key is not None:
        if fresh_value is not None:
            yield fresh_key, fresh_value
        for key, value in fresh:
            if value is not None:
                yield key, value


V = TypeVar("V")

#: so few keys are sorted for a walk in less time than an index of them is made
_SORTED_EACH_TIME_MAX = 32
#: rows that a walk takes when it begins, and at a time from then on
_READ_AHEAD, _PORTION = 64, 512
#: the number of walks that are remembered before abandoned ones are dropped
_WALKS_MAX = 64


class _Walk(Generic[V]):
    """The rest of a walk."""

    __slots__ = ("__weakref__", "_pairs")

    def __init__(self, pairs: Iterator[tuple[bytes, V]]) -> None:
        self._pairs = pairs

    def portions(self) -> Iterator[list[tuple[bytes, V]]]:
        while portion := list(islice(self._pairs, _PORTION)):
            yield portion

    def read_to_its_end(self) -> None:
        self._pairs = iter(list(self._pairs))


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
        self._walks: list[ref[_Walk[V]]] = []

    def put(self, key: bytes, value: V) -> None:
        """Insert or replace."""
        if self._index is not None:  # one question where nothing was ever scanned
            if self._walks:
                self._end_walks()
            if key not in self:
                self._unindexed.append(key)
        self[key] = value

    def put_all(self, rows: Mapping[bytes, V]) -> None:
        """Insert or replace many."""
        if self._index is not None:
            if self._walks:
                self._end_walks()
            self._unindexed += [key for key in rows if key not in self]
        self.update(rows)

    def remove(self, key: bytes) -> None:
        """Delete if present."""
        if key not in self:
            return
        if self._index is None:
            del self[key]
            return
        if self._walks:
            self._end_walks()
        del self[key]
        self._discard(key)  # left in the index, a key that comes back would be walked twice

    def clear(self) -> None:
        self._end_walks()
        super().clear()
        self._index = None
        self._unindexed = []

    def keys_between(
        self, lower: bytes, upper: bytes | None, *, reverse: bool = False
    ) -> Iterator[bytes]:
        """Keys in ``[lower, upper)``, ascending or descending; upper None = to the end."""
        return iter([*self._keys_between(lower, upper, reverse=reverse)])

    def pairs_between(
        self, lower: bytes, upper: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, V]]:
        """Keys of the range with their values, all as of this call."""
        pairs = ((key, self[key]) for key in self._keys_between(lower, upper, reverse=reverse))
        first = list(islice(pairs, _READ_AHEAD))
        if len(first) < _READ_AHEAD:
            return iter(first)
        walk = _Walk(pairs)
        if len(self._walks) >= _WALKS_MAX:
            self._walks = [one for one in self._walks if one() is not None]
        self._walks.append(ref(walk))
        return chain(first, chain.from_iterable(walk.portions()))

    def _keys_between(self, lower: bytes, upper: bytes | None, *, reverse: bool) -> Iterable[bytes]:
        if self._index is None and len(self) <= _SORTED_EACH_TIME_MAX:
            found = [key for key in self if key >= lower and (upper is None or key < upper)]
            found.sort(reverse=reverse)
            return found
        found = self._refreshed_index().irange(lower, upper, (True, False), reverse=reverse)
        return (key for key in found if key in self)

    def _end_walks(self) -> None:
        """The dict is about to change."""
        walks, self._walks = self._walks, []
        for one in walks:
            walk = one()
            if walk is not None:
                walk.read_to_its_end()

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
