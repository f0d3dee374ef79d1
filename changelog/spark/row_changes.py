"""The change type of each changelog record, as in Spark's change feeds: insert, update or delete.

A record has the new value of a row. Whether it inserts or updates the row, and the previous value,
follow from earlier records, so these are read once (``pass_over``) and their rows are kept in
memory. If compaction has removed the earlier record, an update appears as an insert.

*Commits.* Records of one transaction have consecutive offsets, and the transaction's marker takes
the offset after them. So consecutive offsets belong to one commit, whose position in the changelog
is the end of that run. Where compaction has made gaps, one commit may appear as several.

*Expiry.* Windows and versions expire without a record. Rows that the store no longer changes, by
the newest time among the rows, are removed from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from logstate.contracts.records import FetchedRecord

INSERT: Final = "insert"
BEFORE: Final = "update_preimage"
AFTER: Final = "update_postimage"
DELETE: Final = "delete"

#: up to this number of rows, expired rows are not removed
_FEW_ROWS = 10_000


class RowChange(NamedTuple):
    """One row of the feed."""

    kind: str
    record: FetchedRecord
    """The record of the change, with its position and time."""
    shown: FetchedRecord
    """The record whose value is shown: for a preimage the previous record."""
    version: int
    time_ms: int


def runs(batches: Iterable[list[FetchedRecord]]) -> Iterator[list[FetchedRecord]]:
    """Yield the records of each commit, in offset order."""
    run: list[FetchedRecord] = []
    expected = -1
    for records in batches:
        for record in records:
            offset: int = record.offset()  # type: ignore[assignment]
            if offset != expected and run:
                yield run
                run = []
            run.append(record)
            expected = offset + 1
    if run:
        yield run


def version_of(run: list[FetchedRecord]) -> int:
    """Return the position in the changelog of the commit with these records."""
    return run[-1].offset() + 1  # type: ignore[operator]


class RowHistory:
    """The rows of one changelog partition at a position.

    ``with_values`` keeps the records for preimages; otherwise only the keys are kept.
    ``is_versioned``: a row is a key and its valid-from time.
    ``changes_within_ms``: rows that are older, relative to the newest row, no longer change; None:
    all rows can change.
    ``expiry_time`` returns the time of a row from its changelog key, unless it is versioned.
    """

    def __init__(
        self,
        *,
        with_values: bool,
        is_versioned: bool,
        changes_within_ms: int | None = None,
        expiry_time: Callable[[bytes], int] | None = None,
    ) -> None:
        self._with_values = with_values
        self._is_versioned = is_versioned
        self._changes_within_ms = changes_within_ms
        self._expiry_time = expiry_time
        self._rows: dict[Hashable, FetchedRecord | None] = {}
        self._look_at = _FEW_ROWS

    def __len__(self) -> int:
        """Return the number of rows in memory."""
        return len(self._rows)

    def pass_over(self, records: Iterable[FetchedRecord]) -> None:
        """Apply records that are before the range."""
        for record in records:
            self._set(self._row_identity(record), record)

    def changes(self, run: list[FetchedRecord]) -> Iterator[RowChange]:
        """Yield the changes of one commit. A delete shows the deleted row if it is known."""
        version = version_of(run)
        time_ms = max(record.timestamp()[1] for record in run)
        for record in run:
            row = self._row_identity(record)
            is_known, before = row in self._rows, self._rows.get(row)
            if record.value() is None:
                yield RowChange(DELETE, record, before or record, version, time_ms)
            elif not is_known:
                yield RowChange(INSERT, record, record, version, time_ms)
            else:
                if before is not None:
                    yield RowChange(BEFORE, record, before, version, time_ms)
                yield RowChange(AFTER, record, record, version, time_ms)
            self._set(row, record)

    def _row_identity(self, record: FetchedRecord) -> Hashable:
        key: bytes = record.key()
        return (key, record.timestamp()[1]) if self._is_versioned else key

    def _set(self, row: Hashable, record: FetchedRecord) -> None:
        if record.value() is None:
            self._rows.pop(row, None)
            return
        self._rows[row] = record if self._with_values else None
        if len(self._rows) >= self._look_at:
            self._forget_expired()
            # A scan visits all rows, so the next one waits until their number has doubled.
            self._look_at = max(_FEW_ROWS, 2 * len(self._rows))

    def _forget_expired(self) -> None:
        if self._changes_within_ms is None:
            return
        times = list(map(self._time_of, self._rows))
        oldest = max(times) - self._changes_within_ms
        rows = zip(self._rows.items(), times, strict=True)
        self._rows = {row: record for (row, record), time in rows if time >= oldest}

    def _time_of(self, row: Any) -> int:
        if self._is_versioned:
            return int(row[1])
        assert self._expiry_time is not None
        return self._expiry_time(row)
