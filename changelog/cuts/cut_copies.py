"""Copy the records of a cut to topics without compaction, while the application continues to run.

How it works: in rounds. Each round takes the newest cut and copies every changelog from the end of
the previous round up to that cut, committed records only. The first round takes as long as the log
is; later rounds are shorter and shorter, and the cut of the last round is the one that is kept.

Why it is exact: compaction removes a record in favor of a newer record of its key. A record that a
round did not find was superseded by one that was in the log already, so a later round copies that
one, if its cut reaches far enough: to the end that the log had after the round in which records
were missing. (The newest commit that a coordinator returns may be behind the log.) What remains is
the range of the last round: seconds of a log. A round is the last only if it took less time than
the log cleaner needs to write, close and clean a segment, and if it misses no offsets except
transaction markers. Otherwise another round follows.

The settings of the log cleaner do not matter. ``min.compaction.lag.ms`` compares event times with
the wall clock, so it does not protect reprocessed records.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from logstate.changelog.cuts.cut_value import CutValue
from logstate.changelog.cuts.logs import ChangelogSource, log_reader
from logstate.contracts.clients import PlainProducer
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import FetchedRecord, ProducedFields, TopicPartition

#: the last round is shorter; cleaners look for work every 15 s (log.cleaner.backoff.ms)
_SHORT_S = 10.0
_ROUNDS_MAX = 50
_READERS = 4


class CutCopies:
    """The copies of a cut that is being made. ``topics``: changelog to the topic of its copy."""

    def __init__(
        self,
        config: Mapping[str, Any],
        producer: PlainProducer,
        sources: Iterable[ChangelogSource],
        topics: Mapping[str, str],
    ) -> None:
        self._config = config
        self._producer = producer
        self._sources = list(sources)
        self._topics = topics
        self._positions: dict[TopicPartition, int] = {}
        self._copied: dict[TopicPartition, int] = {}
        #: where the log ended when records were found to be missing: the cut must reach that
        self._needed: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()

    def follow(
        self, newest: Callable[[], CutValue], ahead: Callable[[], CutValue] | None = None
    ) -> CutValue:
        """Copy until a round is short enough, and return the cut that it reached.

        ``ahead`` returns a cut for an additional first round, which is the longest.

        Raises RestoreError if the application commits faster than it can be copied.
        """
        logs = [log for source in self._sources for log in source.logs]
        bounds = log_reader().log_bounds(self._config, logs)
        self._positions = {log: bounds[log].start for log in logs}
        self._copied = dict.fromkeys(logs, 0)
        if ahead is not None:
            self._copy_all(logs, ahead())
        for _ in range(_ROUNDS_MAX):
            cut, begun = newest(), time.monotonic()
            if self._copy_all(logs, cut) and time.monotonic() - begun < _SHORT_S:
                return cut
        raise RestoreError(
            f"could not copy a consistent cut in {_ROUNDS_MAX} attempts: the application writes "
            "faster than its changelogs are copied, or they are compacted all the time. Retry "
            "under lower load, or name fewer stores"
        )

    def _copy_all(self, logs: list[TopicPartition], cut: CutValue) -> bool:
        with ThreadPoolExecutor(_READERS, "copy-of-a-cut") as pool:
            untouched = list(pool.map(partial(self._copy, cut), logs))
        self._producer.flush()
        return all(untouched)

    def ends(self, source: ChangelogSource) -> dict[int, int]:
        """Return partition to next offset of the copy. Raises RestoreError if the counts differ."""
        logs = [TopicPartition(self._topics[source.topic], n) for n in range(source.partitions)]
        bounds = log_reader().log_bounds(self._config, logs)
        ends = {log.partition: self._copied[log] for log in source.logs}
        for copy, found in bounds.items():
            if (found.start, found.end) != (0, ends[copy.partition]):
                raise RestoreError(
                    f"{copy} has the offsets {found.start} to {found.end} and should have 0 to "
                    f"{ends[copy.partition]}: another process writes to it, or made a cut of this "
                    "name at the same moment. Try again"
                )
        return ends

    def _copy(self, cut: CutValue, log: TopicPartition) -> bool:
        """Copy up to the cut; return whether compaction cannot have removed a copied record."""
        start, end = self._positions[log], cut.positions[log.topic][log.partition]
        if end < start:  # a lagging coordinator returned an older commit; the next round is later
            return False
        expected, is_untouched = start, True
        for records in log_reader().read_partition(
            self._config, log, start=start, end=end, may_skip=True
        ):
            is_untouched = is_untouched and not _has_wide_hole(expected, records)
            expected = (records[-1].offset() or 0) + 1
            self._write(log, records)
        self._positions[log] = end
        if not is_untouched or end > expected + 1:
            self._needed[log] = self._stable_end(log)
            return False
        return end >= self._needed.get(log, 0) or not self._has_records(log, end)

    def _stable_end(self, log: TopicPartition) -> int:
        end: int = log_reader().log_bounds(self._config, [log])[log].stable_end
        return end

    def _has_records(self, log: TopicPartition, start: int) -> bool:
        """Whether there is more than marks of transactions, and what was aborted."""
        read = log_reader().read_partition
        end = self._stable_end(log)
        return any(read(self._config, log, start=start, end=end, may_skip=True))

    def _write(self, log: TopicPartition, records: list[FetchedRecord]) -> None:
        topic = self._topics[log.topic]
        with self._lock:
            self._producer.produce([_row(topic, log.partition, record) for record in records])
        self._copied[log] += len(records)


def _has_wide_hole(expected: int, records: list[FetchedRecord]) -> bool:
    """Whether more than one offset in a row is missing; one can be a transaction marker."""
    first, last = records[0].offset() or 0, records[-1].offset() or 0
    if first <= expected + 1 and last - first < len(records):  # nothing is missing within
        return False
    for record in records:
        offset: int = record.offset()  # type: ignore[assignment]
        if offset > expected + 1:
            return True
        expected = offset + 1
    return False


def _row(topic: str, partition: int, record: FetchedRecord) -> ProducedFields:
    # The client takes a time of 0 as "now"; readers take "no time" as 0.
    time_ms = record.timestamp()[1] or -1
    return (topic, partition, record.key(), record.value(), time_ms, record.headers() or None)
