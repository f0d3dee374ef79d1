"""Reads a store as a table: the latest value per key at a cut, without a shuffle.

How it works: a key lives in one changelog partition, so each Spark partition is one changelog
partition, and the latest record per key (by offset, never by time) is found while reading it.
Only records that made it into the table are decoded, straight into Arrow batches.

The keys and newest values of one changelog partition must fit into an executor's memory.

*Compaction and the cut.* Compaction keeps the newest record of a key, wherever the cut is: a newer
record behind the cut can have erased the one we want before it. What tells is a key that appears
only behind the cut in a log with holes. But if some key still appears twice before the cut, the
cleaner has not come that far, and nothing was lost. In doubt a read at the latest commit asks for
the newest commit and reads on to it; a read at given offsets fails, for it cannot be right.

Invariants: tombstones take part in finding the latest record and are dropped after, never before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from logstate.changelog.spark.cut import (
    ChangelogSource,
    committed_positions,
    log_reader,
)
from logstate.changelog.spark.options import LATEST, LATEST_COMMIT, SourceOptions
from logstate.changelog.spark.tables import StoreTable, TableRow, record_batch, table_of
from logstate.contracts.errors import ConfigError, RestoreError
from logstate.contracts.records import FetchedRecord, TopicPartition

BATCH_ROWS = 10_000


@dataclass
class TablePartition(InputPartition):
    """One changelog partition and where to stop in it."""

    partition: int
    log_start: int
    end: int


class TableReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(
        self, options: SourceOptions, source: ChangelogSource, ends: dict[int, int]
    ) -> None:
        self._options = options
        self._source = source
        self._ends = ends
        self._keys: frozenset[bytes] | None = None

    def partitions(self) -> list[InputPartition]:
        wanted = sorted(self._ends)
        if self._options.partition is not None:
            if self._options.partition not in self._ends:
                raise ConfigError(
                    f"{self._source.topic!r} has partitions {wanted}, not {self._options.partition}"
                )
            wanted = [self._options.partition]
        log = log_reader().log_bounds(
            self._options.client_config, [TopicPartition(self._source.topic, n) for n in wanted]
        )
        return [self._plan(tp, bounds) for tp, bounds in sorted(log.items())]

    def _plan(self, partition: TopicPartition, bounds: Any) -> InputPartition:
        end = self._ends[partition.partition]
        if bounds.end < end:
            raise RestoreError(
                f"{partition}: the log ends at {bounds.end}, before the cut at {end}; it was "
                "truncated or created anew since the cut was taken; read at a newer cut"
            )
        if bounds.start > end and self._options.cut != LATEST_COMMIT:
            raise RestoreError(
                f"{partition}: the log begins at {bounds.start}, after the cut at {end}; retention "
                "removed what the cut covers; read at a newer cut"
            )
        return TablePartition(partition.partition, bounds.start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TablePartition)
        table = table_of(self._options, self._source.entry)
        columns = table.batch_columns(
            with_tombstones=self._options.include_tombstones, with_meta=self._options.include_meta
        )
        rows = table_rows(
            table,
            self._latest_records(table, partition),
            with_tombstones=self._options.include_tombstones,
        )
        for start in range(0, len(rows), BATCH_ROWS):
            yield record_batch(columns, rows[start : start + BATCH_ROWS])

    def _latest_records(self, table: StoreTable, partition: TablePartition) -> list[FetchedRecord]:
        log = TopicPartition(self._source.topic, partition.partition)
        config, stall = self._options.client_config, self._options.stall_seconds
        reader = log_reader()
        latest = LatestRecords(table, self._keys, partition.log_start)

        def read_on(start: int, end: int) -> Iterator[list[FetchedRecord]]:
            found: Iterator[list[FetchedRecord]] = reader.read_partition(
                config, log, start=start, end=end, may_skip=True, stall_seconds=stall
            )
            return found

        for records in read_on(partition.log_start, partition.end):
            latest.add(records)
        latest.reach(partition.end)
        if not latest.has_holes:
            return latest.records()
        stable_end = reader.log_bounds(config, [log])[log].stable_end
        ahead = [r for records in read_on(partition.end, stable_end) for r in records]
        if not latest.is_doubtful(ahead):
            return latest.records()
        newer = self._newer_end(log, partition.end, stable_end, latest)
        latest.add([record for record in ahead if (record.offset() or 0) < newer])
        for records in read_on(max(stable_end, partition.end), newer):
            latest.add(records)
        return latest.records()

    def _newer_end(
        self, log: TopicPartition, end: int, stable_end: int, latest: LatestRecords
    ) -> int:
        if self._options.cut == LATEST:
            return max(end, stable_end)
        if self._options.cut == LATEST_COMMIT and self._options.application is not None:
            positions = committed_positions(self._options, self._options.application, self._source)
            return max(end, positions[log.partition] or 0)
        if latest.has_wide_holes:
            raise RestoreError(
                f"{log}: compaction may have removed records before the cut at {end} in favour of "
                "newer ones behind it, so the table at that cut cannot be read any more; read at "
                'the "latest-commit", or copy the tables that must be kept'
            )
        return end


class KeyFilteringTableReader(TableReader):
    """The same with ``key = …`` and ``key in (…)`` evaluated on bytes, before anything is kept.

    A class of its own because Spark refuses a reader that has ``pushFilters`` unless the session
    has ``spark.sql.python.filterPushdown.enabled``.
    """

    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:  # noqa: N802 - Spark's name
        from logstate.changelog.spark.key_filter import wanted_keys

        self._keys = wanted_keys(filters, table_of(self._options, self._source.entry).key_format)
        return iter(filters)  # Spark evaluates all of them again: we only read less


class LatestRecords:
    """The newest record of each row seen so far, and what the offsets tell about compaction."""

    def __init__(self, table: StoreTable, keys: frozenset[bytes] | None, log_start: int) -> None:
        self._table = table
        self._keys = keys
        self._rows: dict[Hashable, FetchedRecord] = {}
        self._keys_seen: set[bytes] = set()  # versioned stores, where a row is not a key
        self._next_offset = log_start
        self._has_repeats = False
        self._stream_time = -1
        self.has_holes = False
        self.has_wide_holes = False

    def add(self, records: list[FetchedRecord]) -> None:
        """Take records in offset order."""
        rows = self._rows
        wanted, inner_key = self._keys, self._table.inner_key
        is_versioned, keys_seen = self._table.is_versioned, self._keys_seen
        distinct = keys_seen if is_versioned else rows
        before, taken = len(distinct), 0
        for record in records:
            offset: int = record.offset()  # type: ignore[assignment]
            if offset != self._next_offset:
                self.reach(offset)
            self._next_offset = offset + 1
            key: bytes = record.key()
            if wanted is not None and inner_key(key) not in wanted:
                continue
            taken += 1
            if is_versioned:
                keys_seen.add(key)
                valid_from = record.timestamp()[1]
                if not self._is_expired(valid_from):
                    rows[key, valid_from] = record
            else:
                rows[key] = record
        self._has_repeats = self._has_repeats or len(distinct) < before + taken

    def _is_expired(self, valid_from: int) -> bool:
        # A version that came too late was refused by the store, and is in its log all the same.
        if self._table.history_ms is None:
            return False
        if valid_from < self._stream_time - self._table.history_ms:
            return True
        self._stream_time = max(self._stream_time, valid_from)
        return False

    def reach(self, offset: int) -> None:
        """Note that the position is ``offset`` now, and what is missing on the way there."""
        missing = offset - self._next_offset
        self.has_holes = self.has_holes or missing > 0
        # A transaction marker is a hole of one, so only wider ones speak for compaction.
        self.has_wide_holes = self.has_wide_holes or missing > 1
        self._next_offset = offset

    def is_doubtful(self, ahead: list[FetchedRecord]) -> bool:
        """Whether a record before the cut may have been erased by one of ``ahead``, behind it."""
        if self._has_repeats:
            return False
        seen = self._keys_seen if self._table.is_versioned else self._rows
        wanted, inner_key = self._keys, self._table.inner_key
        return any(
            record.key() not in seen and (wanted is None or inner_key(record.key()) in wanted)
            for record in ahead
        )

    def records(self) -> list[FetchedRecord]:
        """The newest record of each row, tombstones included."""
        return list(self._rows.values())


def table_rows(
    table: StoreTable, latest: Sequence[FetchedRecord], *, with_tombstones: bool
) -> list[TableRow]:
    """The rows that the newest record of each row gives, deletes honoured."""
    rows = _versions(latest) if table.is_versioned else [TableRow(record) for record in latest]
    if with_tombstones:
        return rows
    return [row for row in rows if row.record.value() is not None]


def _versions(records: Sequence[FetchedRecord]) -> list[TableRow]:
    """Versions of each key in order of validity; a tombstone ends the version before it."""
    newest_first = sorted(
        ((record.key(), max(record.timestamp()[1], 0), record) for record in records),
        key=itemgetter(0, 1),
        reverse=True,
    )
    rows: list[TableRow] = []
    next_key, next_from = None, None
    for key, valid_from, record in newest_first:
        rows.append(TableRow(record, next_from if key == next_key else None))
        next_key, next_from = key, valid_from
    rows.reverse()
    return rows


def table_reader(
    options: SourceOptions, source: ChangelogSource, ends: dict[int, int]
) -> TableReader:
    """The reader for these options, up to the given ends."""
    cls = KeyFilteringTableReader if options.push_key_filter else TableReader
    return cls(options, source, ends)
