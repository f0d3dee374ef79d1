"""Reading rows off a RocksDB iterator without keeping the directory locked for ever.

An iterator holds the database open, and it stops at a damaged block as if the data ended there. So
most scans read their few rows at once and keep nothing; the others are registered with the backend,
which ends them when it closes; and the end of every scan asks for the iterator's status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from logstate.changelog.rocks_errors import closed_error, explained

#: rows a scan reads at once before it keeps an iterator: most scans are over then
_READ_AHEAD_ROWS: Final = 64
_BATCH_ROWS: Final = 1024


class Cursor:
    """A live iterator; ``end`` makes it let go of the database."""

    __slots__ = ("__weakref__", "_iterator", "_path", "_step", "_stop_below")

    def __init__(self, iterator: Any, step: Any, path: Path, stop_below: bytes = b"") -> None:
        self._iterator = iterator
        self._step = step
        self._path = path
        self._stop_below = stop_below  # the lower bound of a scan that runs backwards

    def end(self) -> None:
        self._iterator = self._step = None

    def take(self, count: int) -> list[tuple[bytes, bytes]]:
        """The next rows, fewer than ``count`` only at the end; raises where the data is damaged."""
        iterator, step = self._iterator, self._step
        if iterator is None:
            raise closed_error(self._path)
        rows = []
        valid, key, value = iterator.valid, iterator.key, iterator.value
        stop_below = self._stop_below
        try:
            while count and valid():
                row_key = key()
                if row_key < stop_below:
                    break
                rows.append((row_key, value()))
                step()
                count -= 1
            if count:
                iterator.status()  # an iterator stops at a damaged block as if at the end
                self.end()
        except Exception as error:
            raise explained(error, self._path, "read") from error
        return rows


def rows_of(cursor: Cursor, watch: Callable[[Cursor], None]) -> Iterator[tuple[bytes, bytes]]:
    """All rows of a cursor; ``watch`` is told of it where it outlives this call."""
    rows = cursor.take(_READ_AHEAD_ROWS)
    if len(rows) < _READ_AHEAD_ROWS:
        return iter(rows)
    watch(cursor)
    return chain(rows, _rest(cursor))


def _rest(cursor: Cursor) -> Iterator[tuple[bytes, bytes]]:
    while rows := cursor.take(_BATCH_ROWS):
        yield from rows
        if len(rows) < _BATCH_ROWS:
            return
