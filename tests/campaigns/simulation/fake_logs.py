"""The logs of a cluster in memory, for the code that reads logs outside of any group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from logstate.contracts.errors import BrokerError, RestoreError, TopicError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.kafka.log_reader import LogBounds, LogTopic
from logstate.testing.fake.client import ProcessLife
from logstate.testing.fake.cluster import FakeCluster
from logstate.testing.fake.fetched import StoredRecord
from logstate.testing.fake.partition_log import PartitionLog

#: between two looks at a log that a transaction holds back
_LOOK_S = 0.1
_BATCH = 1_000

Config = Mapping[str, Any]


@dataclass(frozen=True)
class FakeLogReader:
    """The functions of :mod:`logstate.kafka.log_reader`; they ignore the settings of a client.

    ``sleep`` lets seconds pass on the clock of the cluster. Every call, and every batch that is
    read, is a call of ``process``, which may die of it.
    """

    cluster: FakeCluster
    process: ProcessLife
    sleep: Callable[[float], None]

    def log_topics(self, _: Config, topics: Iterable[str]) -> dict[str, LogTopic]:
        self.process.check_alive()
        found = {name: self.cluster.topic(name) for name in topics}
        return {name: LogTopic(topic.topic_id, len(topic.logs)) for name, topic in found.items()}

    def log_bounds(
        self, _: Config, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LogBounds]:
        self.process.check_alive()
        logs = {tp: self._log(tp) for tp in partitions}
        return {tp: LogBounds(log.start, log.lso, log.end) for tp, log in logs.items()}

    def read_partition(
        self,
        _: Config,
        partition: TopicPartition,
        *,
        start: int,
        end: int,
        may_skip: bool = False,
        stall_seconds: float = 60.0,
    ) -> Iterator[list[FetchedRecord]]:
        log = self._log(partition)
        position, waited_s = start, 0.0
        while position < end:
            self.process.check_alive()
            if position < log.start and may_skip:
                position = log.start
            if not log.start <= position <= log.end:
                raise RestoreError(f"{partition}: offset {position} is not in the log")
            limit = self.cluster.fetch_limit(_BATCH)
            records, reached = log.read(position, limit)
            if reached == position:
                if waited_s > stall_seconds:
                    raise BrokerError(f"{partition}: no data arrived at {position} of {end}")
                self.sleep(_LOOK_S)
                waited_s += _LOOK_S
                continue
            position, waited_s = reached, 0.0
            below = [record for record in records if record.offset() < end]
            if below:
                yield [*below]

    def latest_records(
        self, config: Config, partition: TopicPartition, *, waits: bool = False
    ) -> dict[bytes, StoredRecord]:
        self.log_topics(config, [partition.topic])
        bounds = self.log_bounds(config, [partition])[partition]
        end = bounds.end if waits else bounds.stable_end
        latest: dict[bytes, Any] = {}
        for records in self.read_partition(
            config, partition, start=bounds.start, end=end, may_skip=True
        ):
            for record in records:
                if record.value() is None:
                    latest.pop(record.key(), None)
                else:
                    latest[record.key()] = record
        return latest

    def latest_values(
        self, config: Config, partition: TopicPartition, *, waits: bool = False
    ) -> dict[bytes, bytes]:
        found = self.latest_records(config, partition, waits=waits)
        return {key: record.value() or b"" for key, record in found.items()}

    def _log(self, partition: TopicPartition) -> PartitionLog:
        found = self.cluster.log_or_none(partition)
        if found is None or partition.topic not in self.cluster.topics:
            raise TopicError(f"there is no {partition}")
        return found


@dataclass(frozen=True)
class FakeLogs:
    """See :class:`logstate.admin.logs.Logs`."""

    reader: FakeLogReader

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return self.reader.log_bounds({}, partitions)

    def read(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        queue_kib: int | None = None,
    ) -> Iterator[list[FetchedRecord]]:
        return self.reader.read_partition({}, partition, start=start, end=end, may_skip=True)

    def latest_values(self, partition: TopicPartition) -> dict[bytes, bytes]:
        return self.reader.latest_values({}, partition, waits=True)
