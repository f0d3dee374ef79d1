"""Reads a store's changes as a stream: every committed changelog record, in order per partition.

Offsets in the checkpoint are ``{topic: {partition: next offset}}``. A batch ends at the last
stable offset, so a record shows up when its transaction has committed, and never if it aborted.

Compaction: a change feed that starts on an old log sees only the newest change of a key. One that
was away longer than the topic keeps tombstones (``delete.retention.ms``) may miss deletes: then
read the table and start anew.

Invariants:

- Partitions may not be added: the count is part of a store's identity.
- An end below the checkpoint's offset means another topic under the same name, never "no data".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from logstate.changelog.spark.cut import ChangelogSource, log_reader
from logstate.changelog.spark.options import EARLIEST, LATEST, SourceOptions
from logstate.changelog.spark.tables import TableRow, record_batch, table_of
from logstate.contracts.errors import ConfigError, RestoreError, TopicError
from logstate.contracts.records import TopicPartition

Checkpoint = dict[str, dict[str, int]]


@dataclass
class ChangePartition(InputPartition):
    """A range of one changelog partition."""

    partition: int
    start: int
    end: int


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, reads them on executors."""

    def __init__(self, options: SourceOptions, source: ChangelogSource) -> None:
        self._options = options
        self._source = source
        self._available: dict[int, int] | None = None

    def initialOffset(self) -> Checkpoint:  # noqa: N802 - Spark's names, here and below
        """Where a query without a checkpoint begins: option ``startingOffsets``."""
        starting = self._options.starting_offsets
        if isinstance(starting, Mapping):
            given = starting.get(self._source.topic)
            if given is None or given.keys() != set(self._partitions()):
                raise ConfigError(
                    f"startingOffsets must name an offset for each of the partitions "
                    f"{self._partitions()} of {self._source.topic!r}; found {starting}"
                )
            return self._checkpoint(given)
        bounds = self._bounds()
        if starting == LATEST:
            return self._checkpoint({n: each.stable_end for n, each in bounds.items()})
        assert starting == EARLIEST
        return self._checkpoint({n: each.start for n, each in bounds.items()})

    def latestOffset(self, start: Checkpoint, limit: ReadLimit) -> Checkpoint:  # noqa: N802
        """Where the next micro-batch ends."""
        starts = self._offsets(start)
        ends = self._stable_ends(starts)
        if self._available is not None:
            ends = {n: min(end, max(self._available[n], starts[n])) for n, end in ends.items()}
        if isinstance(limit, ReadMaxRows):
            ends = _limited(starts, ends, limit.max_rows)
        return self._checkpoint(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Option ``maxOffsetsPerTrigger``; it counts offsets, which holes make more than rows."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on nothing newer than this moment is read."""
        self._available = {n: each.stable_end for n, each in self._bounds().items()}

    def reportLatestOffset(self) -> Checkpoint:  # noqa: N802
        """For the progress report: how far the query could read."""
        return self._checkpoint({n: each.stable_end for n, each in self._bounds().items()})

    def partitions(self, start: Checkpoint, end: Checkpoint) -> list[InputPartition]:
        """The ranges of one micro-batch. Raises RestoreError if the log no longer has them."""
        starts, ends = self._offsets(start), self._offsets(end)
        bounds = self._bounds()
        planned: list[InputPartition] = []
        for n in sorted(ends):
            first = starts[n]
            if first < bounds[n].start:
                if self._options.fail_on_data_loss:
                    raise RestoreError(
                        f"{self._source.topic}-{n}: the checkpoint stands at offset {first}, and "
                        f"the log begins at {bounds[n].start}; retention removed what is between; "
                        "read the table and start with a new checkpoint, or set failOnDataLoss "
                        "to false to go on with a gap"
                    )
                first = bounds[n].start
            if first < ends[n]:
                planned.append(ChangePartition(n, first, ends[n]))
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read_changes(self._options, self._source, partition)

    def commit(self, end: Checkpoint) -> None:
        """Nothing: the checkpoint is Spark's, and this reader joins no group."""

    def stop(self) -> None:
        """Nothing is held open between calls."""

    def _partitions(self) -> list[int]:
        if self._options.partition is not None:
            return [self._options.partition]
        return list(range(self._source.partitions))

    def _bounds(self) -> dict[int, Any]:
        config = self._options.client_config
        topic = self._source.topic
        count = log_reader().partition_counts(config, [topic])[topic]
        if count != self._source.partitions:
            raise TopicError(
                f"{topic!r} has {count} partitions now and had {self._source.partitions} when the "
                "query was made; the count is part of a store's identity; reset the application"
            )
        wanted = [TopicPartition(topic, n) for n in self._partitions()]
        return {tp.partition: b for tp, b in log_reader().log_bounds(config, wanted).items()}

    def _stable_ends(self, starts: Mapping[int, int]) -> dict[int, int]:
        ends = {}
        for n, bounds in self._bounds().items():
            if bounds.end < starts[n]:
                raise RestoreError(
                    f"{self._source.topic}-{n}: the checkpoint stands at offset {starts[n]}, and "
                    f"the log ends at {bounds.end}; the topic was truncated or created anew; "
                    "start with a new checkpoint and a new target"
                )
            ends[n] = max(bounds.stable_end, starts[n])
        return ends

    def _checkpoint(self, offsets: Mapping[int, int]) -> Checkpoint:
        return {self._source.topic: {str(n): offsets[n] for n in sorted(offsets)}}

    def _offsets(self, checkpoint: Checkpoint) -> dict[int, int]:
        found = {int(n): offset for n, offset in checkpoint.get(self._source.topic, {}).items()}
        if sorted(found) != self._partitions():
            raise ConfigError(
                f"the checkpoint is of {checkpoint}, and this query reads the partitions "
                f"{self._partitions()} of {self._source.topic!r}; use a new checkpoint"
            )
        return found


class PastChangeReader(DataSourceReader):
    """The change feed as a table: from ``startingOffsets`` up to the cut."""

    def __init__(
        self, options: SourceOptions, source: ChangelogSource, ends: Mapping[int, int]
    ) -> None:
        if options.starting_offsets == LATEST:
            raise ConfigError('a table of changes cannot start at "latest": nothing is there yet')
        self._options = options
        self._source = source
        self._ends = ends

    def partitions(self) -> list[InputPartition]:
        stream = ChangeReader(self._options, self._source)
        start = stream.initialOffset()
        numbers = start[self._source.topic]
        end = {n: max(self._ends[int(n)], first) for n, first in numbers.items()}
        return stream.partitions(start, {self._source.topic: end})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ChangePartition):  # Spark's way of saying there are none
            return iter(())
        return _read_changes(self._options, self._source, partition)


def _read_changes(
    options: SourceOptions, source: ChangelogSource, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, ChangePartition)
    table = table_of(options, source.entry)
    columns = table.change_columns(with_meta=options.include_meta)
    for records in log_reader().read_partition(
        options.client_config,
        TopicPartition(source.topic, partition.partition),
        start=partition.start,
        end=partition.end,
        stall_seconds=options.stall_seconds,
    ):
        yield record_batch(columns, [TableRow(record) for record in records])


def _limited(starts: Mapping[int, int], ends: Mapping[int, int], most: int) -> dict[int, int]:
    """Cut a batch down to ``most`` offsets, in proportion to what each partition has waiting."""
    waiting = {n: ends[n] - starts[n] for n in ends}
    total = sum(waiting.values())
    if total <= most:
        return dict(ends)
    # At least one offset for each that has any, so that no partition starves beside a huge one.
    return {
        n: starts[n] + min(waiting[n], max(1, waiting[n] * most // total) if waiting[n] else 0)
        for n in ends
    }
