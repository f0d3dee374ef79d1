"""What the writes of window and session stores share: the clock, what comes too late, restores.

The clock of the store is the largest time put so far, over all keys. A put into an expired segment
(in memory: older than the retention) is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from logstate.changelog.rows.row_codec import row_codec, serde_topic
from logstate.changelog.rows.row_groups import PlacedRow, RowGroups
from logstate.changelog.rows.rows import Rows
from logstate.changelog.rows.segments import pack_segment
from logstate.changelog.rows.time_first_rows import TimeFirstRows
from logstate.changelog.rows.writes import ChangelogWrites, LoggedFields
from logstate.changelog.stores.segmented_reads import SegmentedReads
from logstate.contracts.processing import TaskContext
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import MAX_TIME_MS

K = TypeVar("K")
V = TypeVar("V")


class SegmentedStore(SegmentedReads[K, V]):
    """In front of the reads of a kind."""

    #: called with (from_ms, to_ms) before the rows of these times, ``to_ms`` not included, can no
    #: more be found
    before_expiry: Callable[[int, int], None] | None = None

    def __init__(
        self, spec: StoreSpec, rows: Rows, writes: ChangelogWrites, context: TaskContext
    ) -> None:
        cell = context.time_cell(f"store:{spec.name}")
        super().__init__(spec, row_codec(spec, serde_topic(spec, context)), rows, cell)
        self.name = spec.name
        self._rows = TimeFirstRows(rows, self.tail) if spec.keep_at_retention else rows
        self._writes = writes
        self._context = context
        self._drop = context.store_dropper(spec.name)
        #: a deletion moves the clock like a put
        self._counts_none = not spec.in_memory
        #: every put is a row of its own, so none is deleted by another
        self._has_duplicates = spec.retain_duplicates
        #: to be a mirror of the rows, behind what writes to it
        self._groups = RowGroups(self._load_group, self._oldest)

    def _load_group(self, key: bytes, from_ms: int) -> list[PlacedRow]:
        rows = self._rows_of_key(key, from_ms, MAX_TIME_MS, reverse=False)
        return [(*self.times_of(row_key), row) for row_key, row in rows]

    def _take_over(
        self, records: Sequence[LoggedFields], new_row: Callable[[LoggedFields], bytes | None]
    ) -> int:
        """Changelog records become rows, logging nothing; returns the latest time of them."""
        rows, segments, times_of = self._rows, self.segments, self.times_of
        counts_none, puts_none = self._counts_none, not self._has_duplicates
        latest = max(
            (times_of(r[0])[0] for r in records if r[1] is not None or counts_none), default=-1
        )
        if latest > segments.cell.time:
            segments.advance(latest, rows)
        first_part, part_ms = segments.first_part(), segments.part_ms
        for record in records:
            part = times_of(record[0])[0] // part_ms
            if part >= first_part and (puts_none or record[1] is not None):
                rows.put(pack_segment(part) + record[0], new_row(record))
        self._groups.forget()
        return latest

    def _hidden_by(self, time: int) -> int:
        """Up to where, not included, rows cannot be found once the clock is at ``time``."""
        return time + self.to_oldest

    def _advance(self, time: int) -> None:
        if self.before_expiry is not None:
            old, new = self._hidden_by(self.segments.cell.time), self._hidden_by(time)
            if old < new:
                self.before_expiry(old, new)
        self.segments.advance(time, self._rows)

    def _is_live(self, time_ms: int) -> bool:
        """Advance the clock; False, and counted, for a put that comes too late.

        False also for one whose part is gone already: nobody could see its row.
        """
        segments = self.segments
        time = segments.cell.time
        if time_ms >= time:
            if time_ms > time:
                self._advance(time_ms)
            is_live = not self._is_in_memory or segments.retention_ms > 0
        elif self._is_in_memory:
            is_live = time_ms > time - segments.retention_ms
        else:
            is_live = time_ms // segments.interval_ms >= segments.first_live()
        if not is_live:
            first_ms = time - segments.retention_ms + self._is_in_memory
            self._drop(max(0, first_ms - time_ms))
        return is_live and time_ms // segments.part_ms >= segments.first_part()
