"""The records of a changelog range as batches of the change feed, on an executor.

How it works: ``changeFeedFormat`` ``spark`` needs the rows that existed before the range. They are
read from the log once and kept in the executor's Python process, because the next range of the
partition begins where this one ends. If the next range is assigned to another process, or a range
is read again after a failure, the log is read again up to the beginning of the range.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from logstate.changelog.cuts.source_topic_records import as_stored
from logstate.changelog.reading.blocks import block_of
from logstate.changelog.reading.changelog_source import ChangelogSource, log_reader
from logstate.changelog.reading.options import SourceOptions
from logstate.changelog.reading.tables import StoreTable, record_batch, table_of
from logstate.changelog.spark.admission import CommitSize
from logstate.changelog.spark.row_changes import RowChange, RowHistory, runs, version_of
from logstate.contracts.records import FetchedRecord, TopicPartition

_BATCH_ROWS = 10_000
_KEPT_HISTORIES = 64
_NOWHERE = TopicPartition("", 0)

#: the rows of partitions that this process has read, each with the position after the last record
_histories: dict[Any, tuple[int, RowHistory]] = {}


class ChangeRange(NamedTuple):
    """A range of one changelog partition."""

    partition: int
    start: int
    end: int


def read_changes(
    options: SourceOptions, source: ChangelogSource, wanted: ChangeRange
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of the range in offset order."""
    table = table_of(options, source.entry)
    log = TopicPartition(source.topic, wanted.partition)
    batches = _records(options, source, wanted)
    if not options.has_row_changes:
        for records in batches:
            yield _batch_of(options, table, log, records)
        return
    where = (os.getpid(), options.bootstrap, source.topic_id, wanted.partition)
    history = _history_at(options, source, table, wanted, where)
    changes: list[RowChange] = []
    for run in runs(batches):
        found = history.changes(run)
        changes += found
        if len(changes) >= _BATCH_ROWS:
            yield _in_words_of_spark(options, table, log, changes)
            changes = []
    if changes:
        yield _in_words_of_spark(options, table, log, changes)
    while len(_histories) >= _KEPT_HISTORIES:
        _histories.pop(next(iter(_histories)))
    _histories[where, options.include_preimages] = (wanted.end, history)


def change_schema(options: SourceOptions, table: StoreTable) -> pa.Schema:
    """Return the columns of the feed."""
    if options.has_row_changes:
        return _in_words_of_spark(options, table, _NOWHERE, []).schema
    return _batch_of(options, table, _NOWHERE, []).schema


def commit_sizes(
    options: SourceOptions, source: ChangelogSource, wanted: ChangeRange
) -> Iterator[CommitSize]:
    """Yield the sizes of the commits of the range; each is read when it is requested."""
    for run in runs(_records(options, source, wanted, may_skip=True)):
        size = sum(len(record.key() or b"") + len(record.value() or b"") for record in run)
        yield CommitSize(version_of(run), len(run), size)


def _history_at(
    options: SourceOptions,
    source: ChangelogSource,
    table: StoreTable,
    wanted: ChangeRange,
    where: Any,
) -> RowHistory:
    position, history = _histories.pop((where, options.include_preimages), (-1, None))
    if history is not None and position == wanted.start:
        return history
    history = RowHistory(
        with_values=options.include_preimages,
        is_versioned=table.is_versioned,
        changes_within_ms=table.changes_within_ms,
        expiry_time=table.expiry_time,
    )
    log = TopicPartition(source.topic, wanted.partition)
    bounds = log_reader().log_bounds(options.client_config, [log])[log]
    before = ChangeRange(wanted.partition, bounds.start, wanted.start)
    for records in _records(options, source, before, may_skip=True):
        history.pass_over(records)
    return history


def _records(
    options: SourceOptions, source: ChangelogSource, wanted: ChangeRange, *, may_skip: bool = False
) -> Iterator[list[FetchedRecord]]:
    found: Iterator[list[FetchedRecord]] = log_reader().read_partition(
        options.client_config,
        TopicPartition(source.topic, wanted.partition),
        start=wanted.start,
        end=wanted.end,
        may_skip=may_skip,
        stall_seconds=options.stall_seconds,
    )
    return map(as_stored(source.entry, options.registry), found)


def _batch_of(
    options: SourceOptions, table: StoreTable, log: TopicPartition, records: list[FetchedRecord]
) -> pa.RecordBatch:
    columns = table.change_columns(with_meta=options.include_meta)
    block = block_of(log, records, with_headers=options.include_meta, frames=table.frames)
    return record_batch(columns, block)


def _in_words_of_spark(
    options: SourceOptions, table: StoreTable, log: TopicPartition, changes: list[RowChange]
) -> pa.RecordBatch:
    shown = _batch_of(options, table, log, [change.shown for change in changes])
    # Position and time are those of the change, also in the row that shows the state before it.
    placed = _batch_of(options, table, log, [change.record for change in changes])
    time = placed.schema.field("_timestamp").type
    times = pa.array([max(change.time_ms, 0) for change in changes], pa.int64())
    commits = {
        "_change_type": pa.array([change.kind for change in changes], pa.string()),
        "_commit_version": pa.array([change.version for change in changes], pa.int64()),
        "_commit_timestamp": times if time == pa.int64() else _timestamps(times, time),
    }
    arrays: dict[str, pa.Array] = {}
    for name in shown.schema.names:
        if name == "_partition":
            arrays |= commits
        if name != "change_type":
            arrays[name] = (placed if name in _OF_THE_CHANGE else shown).column(name)
    return pa.RecordBatch.from_pydict(arrays)


_OF_THE_CHANGE = frozenset({"_partition", "_offset", "_timestamp", "_headers"})


def _timestamps(times_ms: pa.Array, kind: pa.DataType) -> pa.Array:
    return times_ms.cast(pa.timestamp("ms", tz="UTC")).cast(kind)
