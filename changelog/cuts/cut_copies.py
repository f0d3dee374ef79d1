"""Copying what a cut covers into topics that nothing compacts, while the application goes on.

How it works: in rounds. Each takes the newest cut and copies every changelog from where the round
before ended up to it, committed records only. The first round takes as long as the log is; the
cuts of later ones are closer and closer, and the cut of the last one is the cut that is kept.

Why it is exact: compaction removes a record in favour of a newer one of its key. Whatever a round
did not find any more had been superseded by something that was there already, so a later round has
it, if its cut reaches that far: the end of the log after the round in which records were missing.
(The newest commit that a coordinator tells may be behind what the log holds.) What remains is what
the last round reads: seconds of a log. It is the last only if it took less than a cleaner needs to
write, close, and clean a segment, and if no more than the marks of transactions are missing in it.
Else another round follows.

Nothing is asked of the cleaner's settings. ``min.compaction.lag.ms`` compares event times with the
wall clock, so it protects nothing that was processed again.
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
    """The copies of one cut in the making. ``topics`` is changelog to the topic of its copy."""

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
        """Copy until a cut is reached for good, and return it.

        ``ahead`` gives a cut for one round more, the first, which is the longest.

        Raises RestoreError if the application's commits run away from the copying.
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
        """Partition to next offset of the copy. Raises RestoreError if it has other records too."""
        logs = [TopicPartition(self._topics[source.topic], n) for n in range(source.partitions)]
        bounds = log_reader().log_bounds(self._config, logs)
        ends = {log.partition: self._copied[log] for log in source.logs}
        for copy, found in bounds.items():
            if (found.start, found.end) != (0, ends[copy.partition]):
                raise RestoreError(
                    f"{copy} has the offsets {found.start} to {found.end} and should have 0 to "
                    f"{ends[copy.partition]}: somebody else writes to it, or made a cut of this "
                    "name at the same moment; try again"
                )
        return ends

    def _copy(self, cut: CutValue, log: TopicPartition) -> bool:
        """Copy up to the cut; whether nothing can have been removed from what was copied."""
        start, end = self._positions[log], cut.positions[log.topic][log.partition]
        if end < start:  # told by a coordinator that is behind; the next round knows better
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
    """Whether more than one offset in a row is missing; one is the mark of a transaction's end."""
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
    # The client takes a time of 0 for "now"; readers take "no time" for 0.
    time_ms = record.timestamp()[1] or -1
    return (topic, partition, record.key(), record.value(), time_ms, record.headers() or None)
