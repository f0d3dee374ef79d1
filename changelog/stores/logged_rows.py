"""The common part of stores whose rows are logged unchanged: of joins, and of subscriptions."""

from __future__ import annotations

from collections.abc import Sequence

from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields, LoggedWrite
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec


class LoggedRows:
    """Row and changelog record are the same bytes."""

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        self.name = spec.name
        self._rows = rows
        self._writes = writes
        self._context = context

    @property
    def num_records(self) -> int:
        """Return the number of rows. Costs a scan."""
        return sum(1 for _ in self._rows.scan())

    def restore(self, records: Sequence[LoggedFields]) -> None:
        """Take changelog records over, in order, logging nothing."""
        put = self._rows.put
        for key, value, _, _ in records:
            put(key, value)

    def _put_row(
        self, row_key: bytes, row: bytes | None, timestamp: int | None, headers: Headers = None
    ) -> None:
        self._rows.put(row_key, row)
        self._writes.add(row_key, LoggedWrite(row_key, row, timestamp, headers))
