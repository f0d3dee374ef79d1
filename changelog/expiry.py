"""The stores of a task whose rows have a TTL: how they are opened, and what a commit deletes."""

from __future__ import annotations

from collections.abc import Mapping

from logstate.changelog.backend.backend import StoreBackend
from logstate.changelog.rows.expiring_rows import EXPIRED_HEADERS, ExpiringRows, ExpiryIndex
from logstate.changelog.rows.indexed_rows import IndexedExpiringRows
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites
from logstate.changelog.stored_meta import StoredMeta, index_prefix, secondary_prefix
from logstate.contracts.processing import TaskContext, TimeCell
from logstate.contracts.stores import StoreSpec


class Expiry:
    """The stores with a TTL.

    Each has two clocks. ``store:STORE`` is the stream time of the last commit, a part of the cut;
    the clock of its rows is taken from the rows and the changelog, for standbys.
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
        self._context.time_cell(f"store:{spec.name}")
        self._opened.append((spec, rows))
        return rows

    def is_due(self, stream_time: int) -> bool:
        """Whether rows wait to be deleted: a task that starts commits without a record then."""
        return any(
            rows.is_due(
                max(self._context.time_cell(f"store:{spec.name}").time, stream_time), ttl_ms
            )
            for spec, rows in self._opened
            if (ttl_ms := spec.ttl_ms) is not None
        )

    def delete(self, stream_time: int) -> bool:
        """Delete rows that have expired, a limited number; True where there may be more of them.

        Called before the freeze of a commit, whose clocks say at which stream time.
        """
        has_more = False
        for spec, rows in self._opened:
            assert spec.ttl_ms is not None
            cell, writes = self._context.time_cell(f"store:{spec.name}"), self._writes[spec.name]
            cell.time = max(cell.time, stream_time)
            keys, is_limited = rows.expired_keys(cell.time, spec.ttl_ms)
            rows.remove(keys)
            for key in keys:
                writes.add(key, (key, None, cell.time, EXPIRED_HEADERS))
            has_more = has_more or is_limited
        return has_more
