"""Reads a store's changes as a stream: every committed changelog record, in order per partition.

Offsets in the checkpoint are ``{topic: {partition: next offset}, "topic_ids": {topic: id}}``. A
batch ends at the last stable offset, so it has a record after its transaction was committed, and
never has the records of aborted transactions.

Compaction: a change feed that starts on a compacted log has only the newest change of each key. A
query that was stopped for longer than the topic keeps tombstones (``delete.retention.ms``) may miss
deletes: read the table then, and start with a new checkpoint and target.

Invariants:

- The partition count does not change, because it is part of a store's identity.
- A log that ends before the checkpoint's offset is an error, never "no data": the topic was created
  again, or truncated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from logstate.changelog.reading.changelog_source import ChangelogSource, check_topic_id, log_reader
from logstate.changelog.reading.options import EARLIEST, LATEST, SourceOptions
from logstate.changelog.spark.admission import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    admitted,
)
from logstate.changelog.spark.change_batches import ChangeRange, commit_sizes, read_changes
from logstate.changelog.spark.feed_start import FeedStart
from logstate.changelog.spark.first_line import message_first
from logstate.contracts.errors import ConfigError, RestoreError, TopicError
from logstate.contracts.records import TopicPartition


def offsets_behind(progress: Any) -> dict[str, float]:
    """Return the number of offsets between a query and the ends of its logs.

    The names are those of Spark's Kafka source. ``progress`` is ``query.lastProgress``, an object
    or, before Spark 4, a dict. Offsets are not records, because transaction markers have offsets
    too. The result is empty while the ends are unknown: before the first batch, and in Spark
    before 4.2.

    >>> offsets_behind({"sources": [
    ...     {"description": "logstate",
    ...      "endOffset": '{"t": {"0": 5, "1": 7}}', "latestOffset": '{"t": {"0": 9, "1": 7}}'}]})
    {'minOffsetsBehindLatest': 0, 'maxOffsetsBehindLatest': 4, 'avgOffsetsBehindLatest': 2.0}
    """
    reported = json.loads(progress.json) if hasattr(progress, "json") else progress
    behind: list[int] = []
    for source in (reported or {}).get("sources", ()):
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        behind += [max(0, latest[log] - at) for log, at in end.items() if log in latest]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def _offsets(reported: Any) -> dict[tuple[str, str], int]:
    found = json.loads(reported) if isinstance(reported, str) else reported
    return {
        (topic, partition): offset
        for topic, partitions in (found or {}).items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if isinstance(offset, int)
    }


Checkpoint = dict[str, dict[str, Any]]
TOPIC_IDS = "topic_ids"


@dataclass
class ChangePartition(InputPartition):
    """A range of one changelog partition."""

    partition: int
    start: int
    end: int


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver and reads them on executors."""

    def __init__(self, options: SourceOptions, source: ChangelogSource) -> None:
        self._options = options
        self._source = source
        self._available: dict[int, int] | None = None
        self._turn = 0

    @message_first
    def initialOffset(self) -> Checkpoint:  # noqa: N802 - Spark's names, here and below
        """Return the offsets at which a query without a checkpoint begins."""
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

    @message_first
    def latestOffset(  # noqa: N802
        self, start: Checkpoint | None = None, limit: ReadLimit | None = None
    ) -> Checkpoint:
        """Return the end of the next micro-batch. Spark before 4.2 passes no arguments."""
        if start is None:
            return self.reportLatestOffset()
        starts = self._offsets(start)
        ends = self._stable_ends(starts)
        if self._available is not None:
            ends = {n: min(end, max(self._available[n], starts[n])) for n, end in ends.items()}
        if self._options.admits_commits:
            ends = self._whole_commits(starts, ends)
        elif isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows, self._turn)
            self._turn += 1
        return self._checkpoint(ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return ``maxOffsetsPerTrigger``, which counts offsets: there may be fewer rows.

        ``latestOffset`` applies the other limits, because Spark has no limit of rows and bytes.
        """
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @message_first
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no changes that are newer than this call."""
        self._available = {n: each.stable_end for n, each in self._bounds().items()}

    @message_first
    def reportLatestOffset(self) -> Checkpoint:  # noqa: N802
        """Return the ends of the logs, for Spark's progress report."""
        return self._checkpoint({n: each.stable_end for n, each in self._bounds().items()})

    @message_first
    def partitions(self, start: Checkpoint, end: Checkpoint) -> list[InputPartition]:
        """Return the ranges of one micro-batch. Raise RestoreError if the log has lost them."""
        starts, ends = self._offsets(start), self._offsets(end)
        bounds = self._bounds()
        planned: list[InputPartition] = []
        for n in sorted(ends):
            first = starts[n]
            self._check_end(n, first, bounds[n])
            if first < bounds[n].start:
                if self._options.fail_on_data_loss:
                    raise RestoreError(
                        f"{self._source.topic}-{n}: the checkpoint is at offset {first}, and the "
                        f"log begins at {bounds[n].start}; retention removed the changes in "
                        "between; start with a new checkpoint and a new target, or set "
                        "failOnDataLoss to false to continue without these changes"
                    )
                first = bounds[n].start
            if first < ends[n]:
                planned.append(ChangePartition(n, first, ends[n]))
        return planned

    @message_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_changes(self._options, self._source, _range(partition))

    def commit(self, end: Checkpoint) -> None:
        """Do nothing: Spark keeps the checkpoint, and this reader joins no consumer group."""

    def stop(self) -> None:
        """Do nothing: no connection is open between calls."""

    def _whole_commits(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        waiting = [ChangeRange(n, starts[n], ends[n]) for n in ends if starts[n] < ends[n]]
        # A start before the beginning of the log is reported when the batch is planned.
        walks = {one.partition: commit_sizes(self._options, self._source, one) for one in waiting}
        taken = admitted(
            ends,
            walks,
            records_max=self._options.max_records_per_trigger,
            bytes_max=self._options.max_bytes_per_trigger,
            turn=self._turn,
        )
        self._turn += 1
        return {**starts, **taken}

    def _partitions(self) -> list[int]:
        if self._options.partition is not None:
            return [self._options.partition]
        return list(range(self._source.partitions))

    def _bounds(self) -> dict[int, Any]:
        config = self._options.client_config
        topic = self._source.topic
        wanted = [TopicPartition(topic, n) for n in self._partitions()]
        bounds = log_reader().log_bounds(config, wanted)
        # After the bounds: they are those of the topic with this id, or of an older topic.
        now = log_reader().log_topics(config, [topic])[topic]
        check_topic_id(topic, self._source.topic_id, now.topic_id, "the query's")
        count = now.partitions
        if count != self._source.partitions:
            raise TopicError(
                f"{topic!r} has {count} partitions now and had {self._source.partitions} when the "
                "query started; the count is part of a store's identity. Partitions were added by "
                "hand: the error at the start of the application says how to continue, and "
                "`logstate reset` would delete the state. Then start the query with a new "
                "checkpoint"
            )
        return {tp.partition: found for tp, found in bounds.items()}

    def _stable_ends(self, starts: Mapping[int, int]) -> dict[int, int]:
        ends = {}
        for n, bounds in self._bounds().items():
            self._check_end(n, starts[n], bounds)
            ends[n] = max(bounds.stable_end, starts[n])
        return ends

    def _check_end(self, partition: int, position: int, bounds: Any) -> None:
        if bounds.end < position:
            raise RestoreError(
                f"{self._source.topic}-{partition}: the checkpoint is at offset {position}, and "
                f"the log ends at {bounds.end}; the topic was truncated or created again; start "
                "with a new checkpoint and a new target"
            )

    def _checkpoint(self, offsets: Mapping[int, int]) -> Checkpoint:
        topic = self._source.topic
        return {
            topic: {str(n): offsets[n] for n in sorted(offsets)},
            TOPIC_IDS: {topic: self._source.topic_id},
        }

    def _offsets(self, checkpoint: Checkpoint) -> dict[int, int]:
        topic = self._source.topic
        known = checkpoint.get(TOPIC_IDS, {}).get(topic)  # earlier versions do not record it
        check_topic_id(topic, known, self._source.topic_id, "the checkpoint's")
        found = {int(n): offset for n, offset in checkpoint.get(self._source.topic, {}).items()}
        if sorted(found) != self._partitions():
            raise ConfigError(
                f"the checkpoint has the offsets {checkpoint}, and this query reads the partitions "
                f"{self._partitions()} of {self._source.topic!r}; use a new checkpoint"
            )
        return found


def start_of_query(options: SourceOptions, source: ChangelogSource) -> FeedStart | None:
    """Return where a query without a checkpoint starts; None if gaps are allowed there."""
    starting, topic = options.starting_offsets, source.topic
    if starting == LATEST:
        return FeedStart(topic, None)
    if isinstance(starting, Mapping):
        # Whether they are offsets of this topic is checked when the query starts.
        return FeedStart(topic, dict(starting.get(topic, {})))
    if not options.fail_on_data_loss:
        return None
    count = range(source.partitions)
    wanted = count if options.partition is None else [options.partition]
    logs = [TopicPartition(topic, n) for n in wanted]
    bounds = log_reader().log_bounds(options.client_config, logs)
    return FeedStart(topic, {tp.partition: found.start for tp, found in bounds.items()}, False)


class HistoricalChangeReader(DataSourceReader):
    """Reads the change feed as a table, from ``startingOffsets`` to the cut."""

    def __init__(
        self, options: SourceOptions, source: ChangelogSource, ends: Mapping[int, int]
    ) -> None:
        if options.starting_offsets == LATEST:
            raise ConfigError(
                'a table of changes cannot start at "latest", where there are no changes yet'
            )
        self._options = options
        self._source = source
        self._ends = ends

    @message_first
    def partitions(self) -> list[InputPartition]:
        stream = ChangeReader(self._options, self._source)
        start = stream.initialOffset()
        numbers = start[self._source.topic]
        end = {n: max(self._ends[int(n)], first) for n, first in numbers.items()}
        return stream.partitions(start, {**start, self._source.topic: end})

    @message_first
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ChangePartition):  # Spark's placeholder for no partitions
            return iter(())
        return read_changes(self._options, self._source, _range(partition))


def _range(partition: InputPartition) -> ChangeRange:
    assert isinstance(partition, ChangePartition)
    return ChangeRange(partition.partition, partition.start, partition.end)


def limited(
    starts: Mapping[int, int], ends: Mapping[int, int], most: int, turn: int
) -> dict[int, int]:
    """Limit a batch to ``most`` offsets, in proportion to the unread offsets of each partition.

    Offsets that rounding leaves over go to one partition each, first to partitions that got none,
    so that a large partition does not starve the others. ``turn`` selects the first one.

    >>> limited({0: 0, 1: 0}, {0: 900, 1: 9}, 1, turn=0), limited({0: 0, 1: 0}, {0: 9, 1: 9}, 1, 1)
    ({0: 1, 1: 0}, {0: 0, 1: 1})
    """
    waiting = {n: ends[n] - starts[n] for n in ends}
    total = sum(waiting.values())
    if total <= most:
        return dict(ends)
    taken = {n: each * most // total for n, each in waiting.items()}
    left = most - sum(taken.values())
    having = [n for n in sorted(ends) if waiting[n]]
    begin = turn % len(having)
    around = having[begin:] + having[:begin]
    for n in sorted(around, key=lambda n: taken[n] > 0)[:left]:
        taken[n] += 1
    return {n: starts[n] + each for n, each in taken.items()}
