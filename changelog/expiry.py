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
        self._opened: list[tuple[StoreSpec, ExpiringRows]] = []
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
        self._context.time_cell(spec.clock_name)
        if spec.ttl_by == "wall_clock":
            rows.expired_headers = EXPIRED_BY_WALL_CLOCK
            self._searched_ms = 0
        self._opened.append((spec, rows))
        return rows

    def context_of(self, spec: StoreSpec) -> TaskContext:
        """Return the task as a store sees it."""
        if spec.ttl_by == "stream_time":
            return self._context
        cell = self._context.time_cell(spec.clock_name)
        rows = next(rows for opened, rows in self._opened if opened is spec)
        return cast(TaskContext, WallClockContext(self._context, cell, rows))

    def is_due(self, stream_time: int) -> bool:
        """Whether rows wait for a commit to delete them: a task that starts makes one then.

        Rows that an operator takes do not: a commit would leave them, too.
        """
        return any(
            rows.is_due(self._time_of(spec, stream_time), ttl_ms)
            for spec, rows in self._opened
            if (ttl_ms := spec.ttl_ms) is not None and not rows.are_taken
        )

    def is_look_due(self) -> bool:
        """Whether a look by the wall clock may find rows, for the operator that takes them."""
        for spec, rows in self._opened:
            assert spec.ttl_ms is not None
            if rows.are_taken and spec.ttl_by == "wall_clock":
                rows.flush_mirrors()
                if rows.is_due(self._time_of(spec, -1), spec.ttl_ms):
                    return True
        return False

    def is_due_while_idle(self, stream_time: int, now_ms: int) -> bool:
        """Whether the wall clock lets rows wait to be deleted; looks about once a second."""
        if self._searched_ms is None or abs(now_ms - self._searched_ms) < _SEARCH_MS:
            return False
        self._searched_ms = now_ms
        return self.is_due(stream_time)

    def _time_of(self, spec: StoreSpec, stream_time: int) -> int:
        """The current time of a store's clock, which never goes back."""
        by_wall_clock = spec.ttl_by == "wall_clock"
        now = self._context.wall_clock_ms() if by_wall_clock else stream_time
        return max(self._context.time_cell(spec.clock_name).time, now)

    def delete(self, stream_time: int) -> bool:
        """Delete rows that have expired, a limited number; True where there may be more of them.

        Called before the freeze of a commit, whose clocks say at which time.
        """
        has_more = False
        for spec, rows in self._opened:
            assert spec.ttl_ms is not None
            cell, writes = self._context.time_cell(spec.clock_name), self._writes[spec.name]
            if rows.are_taken and spec.ttl_by == "wall_clock":
                continue  # the looks of the operator are its clock
            cell.time = self._time_of(spec, stream_time)
            if rows.are_taken:
                continue
            keys, is_limited = rows.expired_keys(cell.time, spec.ttl_ms)
            rows.remove(keys)
            for key in keys:
                writes.add(key, (key, None, cell.time, rows.expired_headers))
            has_more = has_more or is_limited
        return has_more
