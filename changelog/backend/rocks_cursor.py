"""Reading rows off RocksDB iterators without keeping the directory locked for ever.

An iterator holds the database open, and it stops at a damaged block as if the data ended there. So
most scans read their few rows at once and keep nothing; the others are registered with the backend,
which ends them when it closes; and the end of every scan asks for the iterator's status.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

from logstate.changelog.backend.rocks_errors import closed_error, explained

#: rows a scan reads at once before it keeps an iterator: most scans are over then
_READ_AHEAD_ROWS: Final = 64
_BATCH_ROWS: Final = 1024


class RowCursor(Protocol):
    """The position of a scan."""

    def take(self, count: int) -> list[tuple[bytes, bytes]]:
        """The next rows, fewer than ``count`` only at the end."""


class Cursor:
    """A live iterator, already at its first row; ``end`` makes it let go of the database."""

    __slots__ = ("__weakref__", "_iterator", "_lower", "_path", "_reverse", "_upper")

    def __init__(
        self, iterator: Any, path: Path, lower: bytes, upper: bytes, *, reverse: bool
    ) -> None:
        self._iterator = iterator
        self._path = path
        self._lower = lower
        self._upper = upper
        self._reverse = reverse

    def end(self) -> None:
        """Let go; reading on raises."""
        self._iterator = None

    def take(self, count: int) -> list[tuple[bytes, bytes]]:
        """The next rows, fewer than ``count`` only at the end; raises where the data is damaged."""
        iterator = self._iterator
        if iterator is None:
            raise closed_error(self._path)
        try:
            rows = _read(iterator, self._lower, self._upper, self._reverse, count)
            if len(rows) < count:
                self.end()
        except Exception as error:
            raise explained(error, self._path, "read") from error
        return rows


class PinnedView:
    """An iterator as a fixed view: it always shows the rows as of its creation.

    The binding's own snapshots do not work for scans: their iterators show later writes.
    Scans of any thread share this one and each seeks to its position, under a lock.
    """

    def __init__(self, iterator: Any, path: Path) -> None:
        self._iterator = iterator
        self._path = path
        self._lock = threading.Lock()

    def read(
        self, lower: bytes, upper: bytes, count: int, *, reverse: bool
    ) -> list[tuple[bytes, bytes]]:
        """Up to ``count`` rows of ``[lower, upper)``, from either end."""
        with self._lock:
            iterator = self._iterator
            if iterator is None:
                raise closed_error(self._path)
            try:
                seek(iterator, lower, upper, reverse=reverse)
                return _read(iterator, lower, upper, reverse, count)
            except Exception as error:
                raise explained(error, self._path, "read") from error

    def end(self) -> None:
        """Let go of the database; reading on raises. Waits for a read that is under way."""
        with self._lock:
            self._iterator = None


class PinnedCursor:
    """A scan of a pinned view; holds a place, not an iterator."""

    def __init__(self, view: PinnedView, lower: bytes, upper: bytes, *, reverse: bool) -> None:
        self._view = view
        self._lower = lower
        self._upper = upper
        self._reverse = reverse

    def take(self, count: int) -> list[tuple[bytes, bytes]]:
        """The next rows, fewer than ``count`` only at the end; raises where the data is damaged."""
        rows = self._view.read(self._lower, self._upper, count, reverse=self._reverse)
        if rows:
            last_key = rows[-1][0]
            if self._reverse:
                self._upper = last_key
            else:
                self._lower = last_key + b"\x00"
        return rows


def seek(iterator: Any, lower: bytes, upper: bytes, *, reverse: bool) -> None:
    """Place an iterator on the first row of a scan over ``[lower, upper)``."""
    if not reverse:
        iterator.seek(lower)
        return
    iterator.seek_for_prev(upper)
    if iterator.valid() and iterator.key() == upper:
        iterator.prev()


def _read(
    iterator: Any, lower: bytes, upper: bytes, reverse: bool, count: int
) -> list[tuple[bytes, bytes]]:
    rows: list[tuple[bytes, bytes]] = []
    valid, key, value = iterator.valid, iterator.key, iterator.value
    step = iterator.prev if reverse else iterator.next
    while count and valid():
        row_key = key()
        if not lower <= row_key < upper:
            return rows
        rows.append((row_key, value()))
        step()
        count -= 1
    if count:
        iterator.status()  # an iterator stops at a damaged block as if at the end
    return rows


def rows_of(
    cursor: RowCursor, watch: Callable[[], None] | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """All rows of a cursor; ``watch`` is called where the cursor outlives this call."""
    rows = cursor.take(_READ_AHEAD_ROWS)
    if len(rows) < _READ_AHEAD_ROWS:
        return iter(rows)
    if watch is not None:
        watch()
    return chain(rows, _remaining_rows(cursor))


def _remaining_rows(cursor: RowCursor) -> Iterator[tuple[bytes, bytes]]:
    while rows := cursor.take(_BATCH_ROWS):
        yield from rows
        if len(rows) < _BATCH_ROWS:
            return
