"""The rows of one store: uncommitted writes over committed ones over the backend.

Every store kind keeps its data as ordered ``bytes -> bytes`` rows through this class and never
touches a backend itself. That is what makes two promises hold for all kinds at once: a task reads
its own writes, and uncommitted data never reaches the backend.

How it works. Writes go into the current *layer* (the commit's) and into the *overlay*,
which is all layers merged: reads check it first. ``freeze`` closes the layer; after
the transaction committed the layer waits among the *unapplied* ones; ``applied`` drops them once
one backend write has stored them. ``discard`` drops all uncommitted writes and
rebuilds the overlay from committed layers.

Invariants:
1. overlay = union of the unapplied, frozen and current layers, later ones winning;
2. a row of a layer is immutable once the layer is frozen;
3. the cache holds only rows equal to the backend's; the overlay always wins over it;
4. a deleted row leaves the cache when its deletion is applied. A store whose rows come and go (a
   suppress buffer, windows) has no more cached rows than live ones.

The cache and the mirrors are bounded in bytes, over all stores of a worker: the worker adds up
``cached_bytes`` after a commit and evicts the oldest rows (:mod:`logstate.commit.maintenance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import compress, islice, repeat
from math import ceil
from operator import is_
from typing import Any, Protocol, TypeAlias

from logstate.changelog.backend.backend import StoreBackend, end_of_prefix
from logstate.changelog.backend.ordered import OrderedMap, merge_rows
from logstate.changelog.rows.layers import Layer, data_bytes
from logstate.contracts.processing import TimeCell

#: memory of a cached row without its data: an entry of a dict, the headers of two bytes objects
_ROW_BYTES = 120
#: rows of the backend whose values are in memory at a time, to learn whether they exist
_READ_TOGETHER = 256


class ReadableRows(Protocol):
    """Rows as a reader sees them: a task's Rows, or the committed rows of a query."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, lower: bytes = b"", upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]: ...


class _Absent(Enum):
    """Marks "no row here", which None cannot: None is a deleted row."""

    ABSENT = 0


_ABSENT = _Absent.ABSENT


#: key, value in the overlay, value in the layer, before a write
_Undo: TypeAlias = "tuple[bytes, bytes | _Absent | None, bytes | _Absent | None]"


def drop_some(held: dict[Any, Any], count: int) -> int:
    """Remove up to so many items, none where ``count`` is negative; how many it were."""
    dropped = 0
    while held and dropped < count:
        held.popitem()
        dropped += 1
    return dropped


def drop_oldest(held: dict[Any, Any], share: float) -> None:
    """Remove a share of the items, rounded up, those that were inserted first.

    >>> held = {"a": 1, "b": 2, "c": 3}
    >>> drop_oldest(held, 0.5); held
    {'c': 3}
    """
    for key in list(islice(held, ceil(len(held) * share))):
        del held[key]


class RowCache:
    """Additional data that a store keeps in a form for direct use; this class keeps nothing."""

    __slots__ = ()

    #: whether it keeps what it writes in a form that reads ask for first
    keeps_written = False

    def __len__(self) -> int:
        """The number of rows held, for the metric."""
        return 0

    def flush(self) -> None:
        """Write what only the mirror knows to the rows: they are about to be read or frozen."""

    def expire(self) -> None:
        """A range is about to be deleted: write what only the mirror knows, let go of the range."""

    def forget(self) -> None:
        """Drop everything: the rows go back to an earlier state."""

    def forget_known(self) -> None:
        """Drop what the rows hold too."""

    def cached_bytes(self, row_bytes: float) -> int:  # noqa: ARG002  there is nothing here
        """Memory of the rows it holds; ``row_bytes`` is the average size of a row of the store."""
        return 0

    def recount(self) -> None:
        """Make ``cached_bytes`` exact, as far as it can be."""

    def evict(self, share: float) -> None:
        """Drop a share of what the rows hold too, the oldest first."""

    def release(self, count: int) -> int:  # noqa: ARG002  there is nothing here
        """Drop about so many rows, pending or not: all will be dropped. How many it were."""
        return 0


class Rows:
    """Ordered rows of one store; keys and values are bytes, None is a deleted row."""

    def __init__(self, prefix: bytes, backend: StoreBackend, *, is_cached: bool = True) -> None:
        """``is_cached``: whether to keep rows of the backend, unless they are in memory there."""
        self.prefix = prefix
        self._end = end_of_prefix(prefix)
        self._backend = backend
        self._overlay: OrderedMap[bytes | None] = OrderedMap()
        #: the row as the task sees it, for a key that the backend is known not to have
        self.get_unapplied: Callable[[bytes], bytes | None] = self._overlay.get
        self._cache: dict[bytes, bytes | None] = {}
        #: memory of the cache, or more: a row that is replaced is counted again until ``recount``
        self._cache_bytes = 0
        #: of all rows that were read or committed, for the average
        self._seen_rows, self._seen_bytes = 1, 0
        self._current = Layer()
        self._frozen: list[Layer] = []
        self._unapplied: list[Layer] = []
        #: how often the backend took layers over
        self.applied_total = 0
        #: when set, the previous overlay and layer values of each write, for a rollback
        self._journal: list[_Undo] | None = None
        self._journaled_ranges = 0
        self._mirrors: list[RowCache] = []
        #: whether rows are cached; not where a mirror has them
        self._is_cached = is_cached
        #: whether the keys that the backend does not have are cached
        self._are_absences_cached = is_cached
        #: how many rows there are, where they are counted
        self._count: TimeCell | None = None
        #: keys of rows that a mirror has read from the backend: counting need not read them again
        self._read_since_freeze: set[bytes] = set()

    def count_in(self, cell: TimeCell | None) -> None:
        """From here on, keep the number of rows in ``cell``; None: stop counting.

        The cell has the right number now. It is kept with the clocks of the task, so it is
        committed, rolled back and discarded with the rows. Ranges must not be deleted meanwhile.
        """
        self._count = cell

    def mirror(self, mirror: RowCache) -> None:
        """Notify ``mirror`` from now on when it has to write or to drop its rows."""
        self._mirrors.append(mirror)
        self._is_cached &= not mirror.keeps_written

    def flush_mirrors(self) -> None:
        """Take over what mirrors hold back, ahead of the freeze that would ask for it."""
        for mirror in self._mirrors:
            mirror.flush()

    # ------------------------------------------------------------------ reads and writes

    def get(self, key: bytes) -> bytes | None:
        """The row as the task sees it, its own uncommitted writes included."""
        value = self._overlay.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._cache.get(key, _ABSENT)
            if value is _ABSENT:
                value = self._load(key)
        return value

    def _load(self, key: bytes) -> bytes | None:
        value = self._backend.get(self.prefix + key)
        size = len(key) if value is None else len(key) + len(value)
        self._seen_rows += 1
        self._seen_bytes += size
        if self._are_absences_cached if value is None else self._is_cached:
            self._cache[key] = value
            self._cache_bytes += size + _ROW_BYTES
        elif value is not None and self._count is not None:
            self._read_since_freeze.add(key)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a row; None deletes it."""
        if self._journal is not None:
            self._journal.append(
                (key, self._overlay.get(key, _ABSENT), self._current.rows.get(key, _ABSENT))
            )
        if self._count is not None:
            self._count.time += (value is not None) - self._exists(key)
        self._current.rows[key] = value
        self._overlay.put(key, value)

    def put_rows(self, rows: Mapping[bytes, bytes | None]) -> None:
        """Write many rows at once: a restore's, or what a mirror kept back."""
        if self._journal is not None:
            in_overlay, in_layer = self._overlay, self._current.rows
            for key in rows:
                undo = key, in_overlay.get(key, _ABSENT), in_layer.get(key, _ABSENT)
                self._journal.append(undo)
        if self._count is not None:
            self._count.time += self._added_by(rows)
        self._current.rows.update(rows)
        self._overlay.put_all(rows)

    def peek(self, key: bytes) -> bytes | None:
        """The row; it does not enter the cache, because no user has asked for it."""
        value = self._overlay.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._cache.get(key, _ABSENT)
            if value is _ABSENT:
                value = self._backend.get(self.prefix + key)
        return value

    def _exists(self, key: bytes) -> bool:
        """Whether there is a row; it does not enter the cache, because nothing asked for it."""
        value = self._overlay.get(key, _ABSENT)
        if value is _ABSENT:
            value = self._cache.get(key, _ABSENT)
            if value is _ABSENT:
                if key in self._read_since_freeze:
                    return True
                value = self._backend.get(self.prefix + key)
        return value is not None

    def _added_by(self, rows: Mapping[bytes, bytes | None]) -> int:
        """Return by how many rows these writes change the number of rows.

        Most writes replace rows that are in memory: they are handled without an interpreter step.
        The others are read together, some at a time.
        """
        if None in rows.values():
            exists = self._exists
            return sum((value is not None) - exists(key) for key, value in rows.items())
        known = list(map(self._overlay.get, rows, map(self._cache.get, rows, repeat(_ABSENT))))
        read, prefix = self._read_since_freeze, self.prefix
        unknown = compress(rows, map(is_, known, repeat(_ABSENT)))
        asked = (prefix + key for key in unknown if key not in read)
        added = sum(map(is_, known, repeat(None)))
        while keys := list(islice(asked, _READ_TOGETHER)):
            added += sum(map(is_, self._backend.get_many(keys), repeat(None)))
        return added

    def scan(
        self, lower: bytes = b"", upper: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of ``[lower, upper)`` in byte order, as of this call."""
        self.flush_mirrors()
        overlay = self._overlay
        fresh = overlay.pairs_between(lower, upper, reverse=reverse) if overlay else ()
        end = self._end if upper is None else self.prefix + upper
        stored = self._backend.scan(self.prefix + lower, end, reverse=reverse)
        return merge_rows(fresh, stored, len(self.prefix), reverse=reverse)

    def delete_range(self, lower: bytes, upper: bytes) -> None:
        """Forget ``[lower, upper)`` without reading it: expiry.

        The store must never read or write the range again; that is what lets the deletion wait for
        the next apply.
        """
        for mirror in self._mirrors:
            mirror.expire()
        for key in self._overlay.keys_within(lower, upper):
            if self._journal is not None:
                in_layer = self._current.rows.get(key, _ABSENT)
                self._journal.append((key, self._overlay[key], in_layer))
            self._overlay.remove(key)
            self._current.rows.pop(key, None)
        self._current.ranges.append((lower, upper))

    # ------------------------------------------------------------------ one record's rollback

    def begin_journal(self) -> None:
        """Remember old values from here on, so that one record's writes can be undone."""
        self.flush_mirrors()  # pending writes from here on belong to this record
        self._journal = []
        self._journaled_ranges = len(self._current.ranges)

    def end_journal(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` restore the old values."""
        journal, self._journal = self._journal, None
        if not rollback or journal is None:
            return
        for mirror in self._mirrors:
            mirror.forget()
        del self._current.ranges[self._journaled_ranges :]
        for key, in_overlay, in_layer in reversed(journal):
            if in_layer is _ABSENT:
                self._current.rows.pop(key, None)
            else:
                self._current.rows[key] = in_layer
            if in_overlay is _ABSENT:
                self._overlay.remove(key)
            else:
                self._overlay.put(key, in_overlay)

    # ------------------------------------------------------------------ commits

    def freeze(self) -> Layer:
        """Close the current layer for a commit and open the next."""
        self.flush_mirrors()
        self._read_since_freeze.clear()
        layer, self._current = self._current, Layer()
        self._frozen.append(layer)
        return layer

    def committed(self, layer: Layer) -> None:
        """The layer's transaction committed: it now waits to be applied, unless it is empty."""
        assert self._frozen[0] is layer, "layers commit in the order they were frozen"
        del self._frozen[0]
        if not layer.is_empty:
            self._unapplied.append(layer)
            self._seen_rows += len(layer.rows)
            self._seen_bytes += layer.data_bytes()

    def discard(self) -> None:
        """Forget everything that is not committed."""
        for mirror in self._mirrors:
            mirror.forget()
        self._read_since_freeze.clear()
        self._current = Layer()
        self._frozen = []
        self._journal = None
        self._rebuild()

    def placed(self, layers: Iterable[Layer]) -> Iterator[tuple[bytes, Layer]]:
        """The layers and their parts, each with the prefix of its keys in the backend."""
        return ((self.prefix, layer) for layer in layers)

    def unapplied(self) -> list[Layer]:
        """Committed layers that the backend does not hold yet, oldest first."""
        return self._unapplied

    def applied(self) -> None:
        """The backend took the unapplied layers over."""
        self.applied_total += 1
        for layer in self._unapplied:
            if layer.ranges:
                self._cache.clear()  # cheap and rare: expired rows must not linger
                self._cache_bytes = 0
            self._cache_applied(layer)
        self._unapplied = []
        self._rebuild()

    def _cache_applied(self, layer: Layer) -> None:
        cache, rows = self._cache, layer.rows
        if not self._is_cached or layer.is_replayed:
            for key in cache.keys() & rows.keys():  # the cached value is out of date
                del cache[key]
            return
        if None in rows.values():
            for key, value in rows.items():
                if value is None:
                    cache.pop(key, None)
                else:
                    cache[key] = value
        else:
            cache.update(rows)
        self._cache_bytes += layer.data_bytes() + _ROW_BYTES * len(rows)

    def drop_cache(self) -> None:
        """Free the clean rows, for every new assignment."""
        self._cache.clear()
        self._cache_bytes = 0
        for mirror in self._mirrors:
            mirror.forget_known()

    def release(self, count: int) -> int:
        """Let go of about so many rows before :meth:`discard` or the end; how many it were.

        Nothing is read or written in between. To free all at once takes as long as a commit.
        """
        released = 0
        for mirror in self._mirrors:
            released += mirror.release(count - released)
        return released + drop_some(self._cache, count - released)

    def cached_bytes(self) -> int:
        """Memory of the rows that can be evicted, or more; see :meth:`recount`."""
        row_bytes = self._seen_bytes / self._seen_rows
        return self._cache_bytes + sum(one.cached_bytes(row_bytes) for one in self._mirrors)

    def recount(self) -> None:
        """Count the bytes of the cache: replaced and deleted rows are out of it then."""
        self._cache_bytes = data_bytes(self._cache) + _ROW_BYTES * len(self._cache)
        for mirror in self._mirrors:
            mirror.recount()

    def evict(self, share: float) -> None:
        """Drop a share of the clean rows, those that were read or written first."""
        drop_oldest(self._cache, share)
        for mirror in self._mirrors:
            mirror.evict(share)
        self.recount()

    def cached_rows(self) -> int:
        """Rows held in memory, for the metric."""
        return len(self._cache) + len(self._overlay) + sum(map(len, self._mirrors))

    def _rebuild(self) -> None:
        self._overlay.clear()
        for layer in (*self._unapplied, *self._frozen, self._current):
            for key, value in layer.rows.items():
                self._overlay.put(key, value)
            for lower, upper in layer.ranges:
                for key in self._overlay.keys_within(lower, upper):
                    self._overlay.remove(key)
