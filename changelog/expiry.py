"""The stores of a task whose rows have a TTL: how they are opened, and what a commit deletes.

A row expires by the stream time of its task, or by the wall clock. Then the store sees the wall
clock as both the time of the record and stream time (:class:`WallClockContext`), so everything else
is the same: what hides rows, deletes them, and tells readers and standbys the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.rows.expiring_rows import (
    EXPIRED_BY_WALL_CLOCK,
    ExpiringRows,
    ExpiryIndex,
)
from logstate.changelog.rows.indexed_rows import IndexedExpiringRows
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.stored_meta import StoredMeta, index_prefix, secondary_prefix
from logstate.contracts.processing import TaskContext, TimeCell
from logstate.contracts.stores import StoreSpec

#: the shortest time between two searches of an idle task
_SEARCH_MS: Final = 1_000


class WallClockContext:
    """The task as it is seen by a store whose rows expire by the wall clock.

    Both times are the wall clock at the moment of the read. They never go back: the largest time
    that was read is a clock of the cut. So a machine whose clock is behind that of the last one
    revives no row.

    Where an operator takes the rows that expire, both are the wall clock at which it looked last.
    So no row expires between two looks, to be written over before it is emitted.
    """

    def __init__(self, task: TaskContext, cell: TimeCell, rows: ExpiringRows) -> None:
        self.topic_name = task.topic_name
        self.store_dropper = task.store_dropper
        self._wall_clock_ms, self._cell, self._rows = task.wall_clock_ms, cell, rows

    @property
    def stream_time(self) -> int:
        """The wall clock."""
        cell = self._cell
        if cell.time < 0 or not self._rows.are_taken:
            cell.time = max(cell.time, self._wall_clock_ms())
        return cell.time

    timestamp = stream_time


class ExpiringStore:
    """A store with a TTL: its rows, and the clock by which they expire."""

    def __init__(
        self, spec: StoreSpec, rows: ExpiringRows, writes: ChangelogWrites, task: TaskContext
    ) -> None:
        assert spec.ttl_ms is not None
        self._ttl_ms, self._is_by_wall_clock = spec.ttl_ms, spec.ttl_by == "wall_clock"
        self._rows, self._writes, self._task = rows, writes, task
        self._cell = task.time_cell(spec.clock_name)

    def context(self) -> TaskContext:
        """Return the task as the store sees it."""
        if not self._is_by_wall_clock:
            return self._task
        return cast(TaskContext, WallClockContext(self._task, self._cell, self._rows))

    @property
    def _is_looked_at(self) -> bool:
        """Whether an operator takes its rows by the wall clock: the looks set its clock."""
        return self._is_by_wall_clock and self._rows.are_taken

    def has_rows_for_commit(self, stream_time: int) -> bool:
        """Whether rows wait for a commit to delete them."""
        return not self._rows.are_taken and self._is_due(stream_time)

    def is_look_due(self) -> bool:
        """Whether a look by the wall clock may find rows."""
        if not self._is_looked_at:
            return False
        self._rows.flush_mirrors()
        return self._is_due(-1)

    def delete(self, stream_time: int) -> bool:
        """Delete rows that have expired, a limited number; True where there may be more of them."""
        if self._is_looked_at:
            return False
        rows, now = self._rows, self._now(stream_time)
        self._cell.time = now
        if rows.are_taken:
            return False
        keys, has_more = rows.expired_keys(now, self._ttl_ms)
        rows.remove(keys)
        for key in keys:
            self._writes.add(key, (key, None, now, rows.expired_headers))
        return has_more

    def _is_due(self, stream_time: int) -> bool:
        return self._rows.is_due(self._now(stream_time), self._ttl_ms)

    def _now(self, stream_time: int) -> int:
        """The current time of its clock, which never goes back."""
        now = self._task.wall_clock_ms() if self._is_by_wall_clock else stream_time
        return max(self._cell.time, now)


class Expiry:
    """The stores with a TTL.

    Each has two clocks. ``store:STORE``, or ``wall_clock:STORE``, is the time of the last commit, a
    part of the cut; the clock of its rows is taken from the rows and the changelog, for standbys.
    """

    def __init__(
        self,
        context: TaskContext,
        meta: StoredMeta,
        row_clocks: dict[str, TimeCell],
        writes: Mapping[str, ChangelogWrites],
    ) -> None:
        self._context = context
        self._meta = meta
        self._row_clocks = row_clocks
        self._writes = writes
        self._opened: dict[str, ExpiringStore] = {}
        #: wall clock of the last search of an idle task; None: no store expires by it
        self._searched_ms: int | None = None

    def rows_of(
        self, spec: StoreSpec, prefix: bytes, backend: StoreBackend, *, is_cached: bool
    ) -> Rows:
        """Return the rows of a store, which expire if it has a TTL."""
        if spec.ttl_ms is None:
            return Rows(prefix, backend, is_cached=is_cached)
        index = ExpiryIndex(index_prefix(prefix), backend)
        clock = self._row_clocks[spec.name] = TimeCell(self._meta.clocks.get(spec.name, -1))
        make = IndexedExpiringRows if spec.indexes else ExpiringRows
        rows = make(prefix, backend, index, clock, is_cached=is_cached)
        if isinstance(rows, IndexedExpiringRows):
            rows.keep(Rows(secondary_prefix(prefix), backend, is_cached=False))
        if spec.ttl_by == "wall_clock":
            rows.expired_headers = EXPIRED_BY_WALL_CLOCK
            self._searched_ms = 0
        writes = self._writes[spec.name]
        self._opened[spec.name] = ExpiringStore(spec, rows, writes, self._context)
        return rows

    def context_of(self, spec: StoreSpec) -> TaskContext:
        """Return the task as a store sees it."""
        opened = self._opened.get(spec.name)
        return self._context if opened is None else opened.context()

    def is_due(self, stream_time: int) -> bool:
        """Whether rows wait for a commit to delete them: a task that starts makes one then.

        Rows that an operator takes do not: a commit would leave them, too.
        """
        return any(store.has_rows_for_commit(stream_time) for store in self._opened.values())

    def is_look_due(self) -> bool:
        """Whether a look by the wall clock may find rows, for the operator that takes them."""
        return any(store.is_look_due() for store in self._opened.values())

    def is_due_while_idle(self, stream_time: int, now_ms: int) -> bool:
        """Whether the wall clock lets rows wait to be deleted; looks about once a second."""
        if self._searched_ms is None or abs(now_ms - self._searched_ms) < _SEARCH_MS:
            return False
        self._searched_ms = now_ms
        return self.is_due(stream_time)

    def delete(self, stream_time: int) -> bool:
        """Delete rows that have expired, a limited number; True where there may be more of them.

        Called before the freeze of a commit, whose clocks say at which time.
        """
        has_more = [store.delete(stream_time) for store in self._opened.values()]
        return any(has_more)
