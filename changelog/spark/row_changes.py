"""What each record of a changelog does to its row, in the words of Spark's change feed. Pure.

A record says what a row is from now on. Whether that inserts the row or updates it, and what it was
before, only the records before it tell, so they are gone through once (``pass_over``) and what they
left is remembered. Where compaction took the record before, an update is taken for an insert.

*Commits.* Records of one transaction have consecutive offsets, and behind each transaction there is
its mark, which takes one. So a run without a gap belongs to one commit, whose position in the
changelog is the end of the run. Where compaction has made gaps, one commit may appear as several.

*Expiry.* Windows and versions grow old without a record that says so. Rows that the store does not
let change any more, by the newest time among the rows, are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from logstate.contracts.records import FetchedRecord

INSERT: Final = "insert"
BEFORE: Final = "update_preimage"
AFTER: Final = "update_postimage"
DELETE: Final = "delete"

#: so many rows are kept without a look at their age
_FEW_ROWS = 10_000


class RowChange(NamedTuple):
    """One row of the feed."""

    kind: str
    record: FetchedRecord
    """The one that made the change: where it stands, and when."""
    shown: FetchedRecord
    """The one whose value is shown: of a row before its change, the record before."""
    version: int
    time_ms: int


def runs(batches: Iterable[list[FetchedRecord]]) -> Iterator[list[FetchedRecord]]:
    """The records of each commit, in order."""
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
    """The position of the changelog that the commit of these records names."""
    return run[-1].offset() + 1  # type: ignore[operator]


class RowHistory:
    """The rows of one changelog partition at a position, as far as changes need them.

    ``with_values``: the records themselves, to show what a row was; else only which rows there are.
    ``is_versioned``: a row is a key and the time from which it is valid.
    ``changes_within_ms``: rows that are so far behind the newest one change no more; None: all may.
    ``expiry_time``: the time of a row by its changelog key, where it is not valid-from.
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
        """How many rows are remembered."""
        return len(self._rows)

    def pass_over(self, records: Iterable[FetchedRecord]) -> None:
        """Take note of records that are not shown."""
        for record in records:
            self._set(self._row(record), record)

    def changes(self, run: list[FetchedRecord]) -> Iterator[RowChange]:
        """What the records of one commit did. A delete shows the row that it deleted, if known."""
        version = version_of(run)
        time_ms = max(record.timestamp()[1] for record in run)
        for record in run:
            row = self._row(record)
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

    def _row(self, record: FetchedRecord) -> Hashable:
        key: bytes = record.key()
        return (key, record.timestamp()[1]) if self._is_versioned else key

    def _set(self, row: Hashable, record: FetchedRecord) -> None:
        if record.value() is None:
            self._rows.pop(row, None)
            return
        self._rows[row] = record if self._with_values else None
        if len(self._rows) >= self._look_at:
            self._forget_expired()
            # Looking costs as much as there are rows, so it waits until they have doubled.
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
