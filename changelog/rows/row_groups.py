"""The rows of one key by time, kept in memory for the requested keys.

Joins, sliding windows and sessions read the adjacent rows of a key with every record. A scan of the
store costs tens of microseconds, even for a key without rows; a read of a short sorted list costs
one. So the first read of a key loads its rows, later reads find them here, and every
write of the store updates the list.

Invariants, for each group:
- it holds exactly the key's rows from ``floor`` on, sorted;
- a read before ``floor`` loads it again; rows before the requested range are dropped once they are
  the larger half.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TypeAlias

from logstate.changelog.rows.rows import RowCache, drop_oldest

#: (time the rows are sorted by, second part of the place, row)
PlacedRow: TypeAlias = tuple[int, int, bytes]

_LEAST_PRUNED = 32
#: memory of a group and of each of its rows, without the bytes of the key and of the rows
_GROUP_BYTES, _ROW_BYTES = 320, 200


class _Group:
    __slots__ = ("floor", "rows")

    def __init__(self, floor: int, rows: list[PlacedRow]) -> None:
        self.floor = floor
        self.rows = rows


class RowGroups(RowCache):
    """Groups by serialised key.

    ``load(key, from_ms)`` reads one through; ``oldest()`` is the oldest visible time.
    """

    def __init__(
        self, load: Callable[[bytes, int], list[PlacedRow]], oldest: Callable[[], int]
    ) -> None:
        self._load = load
        self._oldest = oldest
        #: by serialised key; a writer need not take a key apart while there are none
        self.groups: dict[bytes, _Group] = {}
        #: memory of the groups, or more: deleted rows are counted until the next recount
        self._held_bytes = 0

    def __len__(self) -> int:
        return sum(1 + len(group.rows) for group in self.groups.values())

    def since(self, key: bytes, from_ms: int) -> list[PlacedRow]:
        """All rows of the key from a time on, as a list of the caller's own."""
        group = self.groups.get(key)
        if group is None or from_ms < group.floor:
            rows = self._load(key, from_ms)
            self.groups[key] = _Group(from_ms, rows)
            self._held_bytes += _bytes_of(key, rows)
            return rows[:]
        rows = group.rows
        if not rows or rows[0][0] >= from_ms:
            return rows[:]
        first = bisect_left(rows, (from_ms,))
        if first >= _LEAST_PRUNED and 2 * first >= len(rows):
            del rows[:first]
            group.floor = from_ms
            return rows[:]
        return rows[first:]

    def put(self, key: bytes, time: int, second: int, row: bytes | None) -> None:
        """Update the group for a row that was written (None: deleted)."""
        group = self.groups.get(key)
        if group is None or time < group.floor:
            return
        rows = group.rows
        at = len(rows)
        if rows and rows[-1][:2] >= (time, second):
            at = bisect_left(rows, (time, second))
        if at < len(rows) and rows[at][:2] == (time, second):
            if row is None:
                del rows[at]
            else:
                rows[at] = (time, second, row)
                self._held_bytes += len(row)
        elif row is not None:
            rows.insert(at, (time, second, row))
            self._held_bytes += _ROW_BYTES + len(row)

    # ------------------------------------------------------------------ asked by the rows

    def expire(self) -> None:
        """Let go of the keys that have no visible row any more."""
        oldest = self._oldest()
        self.groups = {
            key: group
            for key, group in self.groups.items()
            if group.rows and group.rows[-1][0] >= oldest
        }
        self.recount()

    def forget(self) -> None:
        """Drop everything: the rows may have changed underneath."""
        self.groups.clear()
        self._held_bytes = 0

    forget_known = forget

    def cached_bytes(self, row_bytes: float) -> int:  # noqa: ARG002  it counts its own
        """Return an upper bound of the memory, in bytes."""
        return self._held_bytes

    def evict(self, share: float) -> None:
        """Drop whole groups, those that were read through first."""
        drop_oldest(self.groups, share)

    def recount(self) -> None:
        """Count the rows that are held now."""
        self._held_bytes = sum(_bytes_of(key, group.rows) for key, group in self.groups.items())

    def release(self, count: int) -> int:
        """Drop about so many rows, in whole groups; how many it were."""
        released = 0
        while released < count and self.groups:
            released += 1 + len(self.groups.popitem()[1].rows)
        return released


def _bytes_of(key: bytes, rows: list[PlacedRow]) -> int:
    return _GROUP_BYTES + len(key) + sum(_ROW_BYTES + len(row) for _, _, row in rows)
