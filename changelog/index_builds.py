"""Building an index of a store that has rows: in steps, while its task runs.

An index is *built* where its entries are those of the rows. It has to be built if the directory was
last opened without it, or with another type: the fingerprint of the store says so. Its entries are
dropped then, and a row in their place says how far the index is built. The row is deleted in the
write of the last step.

A step reads rows of the backend and writes their entries and the progress to the backend, in one
write. It needs no commit, because it changes nothing but what the backend says of its own rows.
Commits that wait for the backend hold the changes of the entries for their own rows: each removes
the entries of the row that it replaces, whether the index has reached that row or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from logstate.changelog.backend.backend import KeyRange, StoreBackend, end_of_prefix
from logstate.changelog.rows.indexed_rows import (
    IndexedRows,
    IndexWrites,
    entries_prefix,
    progress_key,
)
from logstate.changelog.rows.rows import Rows
from logstate.changelog.stored_meta import secondary_prefix
from logstate.contracts.stores import StoreSpec

#: rows of one step: some milliseconds
_ROWS_MAX: Final = 500
#: where a task waits for the index
_ROWS_AT_ONCE: Final = 10_000


def changed_indexes(
    spec: StoreSpec, before: Mapping[str, Any], prefix: bytes
) -> tuple[dict[bytes, bytes | None], list[KeyRange]]:
    """Return the progress rows and the dropped entries of the indexes that changed.

    ``before`` describes the indexes that the directory was last opened with.
    """
    declared = {one.name: one.describe() for one in spec.indexes}
    progress: dict[bytes, bytes | None] = {}
    dropped: list[KeyRange] = []
    for name in {**before, **declared}:
        if before.get(name) != declared.get(name):
            entries = prefix + entries_prefix(name)
            dropped.append((entries, end_of_prefix(entries)))
            progress[prefix + progress_key(name)] = b"" if name in declared else None
    return progress, dropped


def indexed_rows(
    _spec: StoreSpec, prefix: bytes, backend: StoreBackend, *, is_cached: bool
) -> Rows:
    """Return the rows of a store with indexes."""
    rows = IndexedRows(prefix, backend, is_cached=is_cached)
    rows.keep(Rows(secondary_prefix(prefix), backend, is_cached=False))
    return rows


class _Build(NamedTuple):
    """An index that is being built."""

    name: str
    rows: IndexedRows
    writes: IndexWrites


class IndexBuilds:
    """The indexes of a task that are being built."""

    def __init__(self, backend: StoreBackend, show: Callable[[], None]) -> None:
        """``show`` publishes a view with an index that was built."""
        self._backend = backend
        self._show = show
        self._waiting: list[_Build] = []

    def open(self, spec: StoreSpec, rows: Rows, store: Any) -> None:
        """Note the indexes of a store that the backend says are not built yet."""
        if not isinstance(rows, IndexedRows) or spec.in_memory:
            return
        writes: IndexWrites = store.index_writes
        for one in spec.indexes:
            if self._backend.get(rows.entries.prefix + progress_key(one.name)) is not None:
                self._waiting.append(_Build(one.name, rows, writes))
                rows.build = self.finish

    def finish(self) -> None:
        """Build every index completely."""
        while self._waiting:
            self.step(_ROWS_AT_ONCE)

    def step(self, rows_max: int = _ROWS_MAX, *, shows: bool = True) -> bool:
        """Index some rows of the backend; False: no index is left to build.

        ``shows``: queries may use an index that was built at once; else from the next view on.
        """
        if not self._waiting:
            return False
        build = self._waiting[0]
        prefix, entries = build.rows.prefix, build.rows.entries.prefix
        key = entries + progress_key(build.name)
        reached = self._backend.get(key)
        if reached is None:  # its store was emptied
            del self._waiting[0]
            return True
        stored = self._backend.scan(prefix + reached, end_of_prefix(prefix))
        rows = [(one[len(prefix) :], row) for one, row in islice(stored, rows_max)]
        is_last = len(rows) < rows_max
        progress = None if is_last else rows[-1][0] + b"\x00"
        self._backend.write({**build.writes.entries_of(build.name, rows), key: progress})
        if is_last:
            del self._waiting[0]
            if shows:
                self._show()
        return True
