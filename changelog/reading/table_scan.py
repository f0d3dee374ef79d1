"""Reads a store as a table: the latest value per key at a cut, one changelog partition at a time.

How it works: a key lives in one changelog partition, so partitions are read apart from each other,
and the latest record per key (by offset, never by time) is found while reading. Only records that
made it into the table are decoded, straight into Arrow batches.

The keys and newest values of one changelog partition must fit into memory.

*Compaction and the cut.* Compaction may have taken what a cut covers (`complete_read` proves that
it has not), and the owner of a windowed store may have deleted it (`trimmed_windows`). A table is
fixed when it is planned, so a read in doubt fails; it never moves to another cut.

Invariants: tombstones take part in finding the latest record and are dropped after, never before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logstate.changelog.cuts.source_topic_records import as_stored
from logstate.changelog.reading.blocks import Block, joined, sliced
from logstate.changelog.reading.changelog_source import ChangelogSource, check_topic_id, log_reader
from logstate.changelog.reading.complete_read import CompleteRead, CutPartition
from logstate.changelog.reading.cut import Ends, newest_clock
from logstate.changelog.reading.latest_records import LatestRecords
from logstate.changelog.reading.options import SourceOptions
from logstate.changelog.reading.tables import StoreTable, record_batch, table_of
from logstate.changelog.reading.trimmed_windows import has_trimmed, is_young
from logstate.contracts.errors import ConfigError, RestoreError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import FetchedRecord, TopicPartition

BATCH_ROWS = 10_000
#: in a manifest: the application placed each key by the hash that Kafka's own producers use
BY_HASH = "murmur2"

Mask = Callable[[Block], pa.Array]
Choose = Callable[[Iterable[int]], list[int]]


@dataclass
class PartitionScan:
    """One changelog partition and where to stop in it. Plain data, so it can travel."""

    partition: int
    log_start: int
    end: int
    clock: int | None
    """The store's stream time at the cut in ms, where it is known."""
    start_at_cut: int | None = None
    """First offset of the log when the cut was the newest, if that is known."""


class TableScan:
    """A table at a cut: planned where it is asked for, read where there is room."""

    def __init__(self, options: SourceOptions, source: ChangelogSource, ends: Ends) -> None:
        self._options = options
        self._source = source
        self._ends = ends
        self._as_stored = as_stored(source.entry, options.registry)
        self.keys: frozenset[bytes] | None = None
        """Only these keys are requested, as bytes; None: all keys."""

    def plan(self, choose: Choose = sorted) -> list[PartitionScan]:
        """Return what has to be read, of the partitions that ``choose`` returns.

        Raises RestoreError if the log does not contain it any more.
        """
        wanted = self.partitions(choose)
        if not wanted:
            return []
        config, topic = self._options.client_config, self._source.topic
        log = log_reader().log_bounds(config, [TopicPartition(topic, n) for n in wanted])
        # After the bounds, which belong to the topic with this id, or to an older one.
        now = log_reader().log_topics(config, [topic])[topic]
        check_topic_id(topic, self._source.topic_id, now.topic_id, "the loaded table's")
        return [self._plan(tp, bounds) for tp, bounds in sorted(log.items())]

    def partitions(self, choose: Choose = sorted) -> list[int]:
        """Return the partitions that may have requested rows, of those that ``choose`` returns."""
        wanted = choose(self._ends.positions)
        if self._options.partition is not None:
            if self._options.partition not in self._ends.positions:
                raise ConfigError(
                    f"{self._source.topic!r} has partitions {wanted}, not {self._options.partition}"
                )
            wanted = [n for n in wanted if n == self._options.partition]
        if self.keys is not None and self._are_keys_placed():
            count = self._source.partitions
            wanted = sorted({partition_of(key, count) for key in self.keys} & set(wanted))
        return wanted

    def _are_keys_placed(self) -> bool:
        """Whether a requested key's bytes are those whose hash determined its partition."""
        if self._source.entry.get("placed_by") != BY_HASH:
            return False
        if self._options.key_format is not None or self._options.key_schema is not None:
            return False  # a windowed key that is read as bytes contains its window
        return table_of(self._options, self._source.entry).shows_placed_keys

    def _plan(self, partition: TopicPartition, bounds: Any) -> PartitionScan:
        end = self._ends.positions[partition.partition]
        if bounds.end < end:
            raise RestoreError(
                f"{partition}: the log ends at {bounds.end}, before the cut at {end}; it was "
                "truncated or created again since the cut was taken; read at a newer cut"
            )
        if bounds.start > end:
            raise RestoreError(
                f"{partition}: the log begins at {bounds.start}, after the cut at {end}; retention "
                "removed what the cut covers; read at a newer cut"
            )
        clocks = {} if self._options.include_expired else self._ends.clocks
        clock = clocks.get(partition.partition)
        start = self._ends.starts.get(partition.partition)
        return PartitionScan(partition.partition, bounds.start, end, clock, start)

    def read(
        self, partition: PartitionScan, masks: Sequence[Mask] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one partition for which all masks are true.

        Raises RestoreError if compaction may have taken some.
        """
        table = table_of(self._options, self._source.entry)
        columns = table.batch_columns(
            with_tombstones=self._options.include_tombstones, with_meta=self._options.include_meta
        )
        blocks = self._latest(table, partition).blocks()
        if partition.clock is not None:
            blocks = (table.shown(block, partition.clock) for block in blocks)
        if table.is_versioned:
            blocks = versions(blocks)
        for block in blocks:
            if not self._options.include_tombstones:
                block = block.filter(block.values.is_valid())
            for mask in masks:
                block = block.filter(mask(block))
            for part in sliced(block, BATCH_ROWS):
                yield record_batch(columns, part)

    def _latest(self, table: StoreTable, partition: PartitionScan) -> LatestRecords:
        log = TopicPartition(self._source.topic, partition.partition)
        while True:
            latest = self._complete_read(table, log, partition).latest()
            # It may have begun later already while it was read, which looks like a hole.
            start = self._start_now(table, log, partition)
            if start <= partition.log_start:
                return latest
            partition = replace(partition, log_start=start)

    def _complete_read(
        self, table: StoreTable, log: TopicPartition, partition: PartitionScan
    ) -> CompleteRead:
        def begin(counts: bool) -> LatestRecords:
            keys = None if counts else self.keys
            with_headers = self._options.include_meta and not counts
            return LatestRecords(
                table, keys, partition.log_start, log=log, with_headers=with_headers
            )

        cut = CutPartition(
            str(log),
            partition.log_start,
            partition.end,
            self._ends.taken_at_ms,
            self._ends.rows.get(partition.partition),
            # Of our own: another library may count from the beginning again.
            table.writes_keys_once and self._options.application is not None,
        )
        return CompleteRead(_KafkaLog(self._options, log, self._as_stored), cut, begin)

    def _start_now(self, table: StoreTable, log: TopicPartition, partition: PartitionScan) -> int:
        """Return the log's beginning after the read. Raises RestoreError if windows are missing."""
        known = partition.start_at_cut
        if known is None or not table.expires:
            return partition.log_start
        start: int = log_reader().log_bounds(self._options.client_config, [log])[log].start
        if start > known and self._misses_windows(table, partition):
            raise RestoreError(
                f"{log}: the log begins at {start}, and at {known} when the cut was taken; windows "
                "that the cut shows have expired since, and the application has deleted their "
                "records; load the table again for the newest cut, give the cut a name when it is "
                "the newest, or give the windows a longer retention"
            )
        return min(start, partition.end)

    def _misses_windows(self, table: StoreTable, partition: PartitionScan) -> bool:
        clock, application = partition.clock, self._options.application
        if clock is None or is_young(self._ends.taken_at_ms, int(time.time() * 1000)):
            return False
        if application is None:
            return True
        newest = newest_clock(
            self._options.client_config, application, self._source, partition.partition
        )
        return newest is None or has_trimmed(self._source.entry, table.oldest_shown(clock), newest)


class _KafkaLog:
    """The changelog partition of a cut, on the brokers."""

    def __init__(
        self,
        options: SourceOptions,
        log: TopicPartition,
        as_stored: Callable[[list[FetchedRecord]], list[FetchedRecord]],
    ) -> None:
        self._options = options
        self._config = options.client_config
        self._log = log
        self._as_stored = as_stored

    def records(
        self, start: int, end: int, *, with_aborted: bool = False
    ) -> Iterator[list[FetchedRecord]]:
        found: Iterator[list[FetchedRecord]] = log_reader().read_partition(
            self._config,
            self._log,
            start=start,
            end=end,
            may_skip=True,
            with_aborted=with_aborted,
            stall_seconds=self._options.stall_seconds,
        )
        return map(self._as_stored, found)

    def bounds(self) -> Any:
        return log_reader().log_bounds(self._config, [self._log])[self._log]

    def first_since(self, time_ms: int) -> int | None:
        from logstate.kafka.log_facts import first_offset_since

        return first_offset_since(self._config, self._log, time_ms)

    def cleaner(self) -> Any:
        from logstate.kafka.log_facts import cleaner_settings

        return cleaner_settings(self._config, self._log.topic)

    def now_ms(self) -> int:
        return int(time.time() * 1000)


def versions(blocks: Iterable[Block]) -> Iterator[Block]:
    """Versions of each key in order of validity; a tombstone ends the version before it."""
    found = list(blocks)
    if not found:
        return
    block = joined(found)
    order = pc.sort_indices(
        pa.table({"key": block.keys, "time": block.times}),
        sort_keys=[("key", "ascending"), ("time", "ascending")],
    )
    block = block.take(order)
    nothing = pa.nulls(1, pa.int64())
    is_next = pc.equal(block.keys.slice(1), block.keys.slice(0, block.rows - 1))
    ends = pc.if_else(is_next, block.times.slice(1), nothing[0])
    yield block._replace(valid_to=pa.concat_arrays([ends, nothing]))
