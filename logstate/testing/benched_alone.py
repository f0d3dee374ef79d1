"""A topology at full speed in this process, without a broker.

The measured time is that of an application's own thread: decoding, functions, stores in RocksDB,
encoding, commits every 100 ms. It does not include the client, its network and the brokers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path

from logstate.contracts.clock import SystemClock
from logstate.contracts.records import ProducedFields, ProducedRecord, TopicPartition
from logstate.testing.driver_log import DriverLog
from logstate.testing.driver_tasks import DriverTasks
from logstate.testing.fake.fetched import StoredRecord
from logstate.topology.plan.plan import Topology

_BATCH = 2_000
_COMMIT_NS = 100_000_000


@dataclass
class Benched:
    """The processed records, and the time that they took."""

    records: int = 0
    seconds: float = 0.0
    #: by topic: outputs, and records of repartition topics
    outputs: Counter[str] = field(default_factory=Counter)
    changelog_records: int = 0
    #: by operators, by their rules: null keys, null values, late
    dropped: int = 0

    @property
    def records_per_s(self) -> float:
        """Input records per second."""
        return self.records / self.seconds if self.seconds else 0.0


class Bench:
    """One task for all sub-topologies, with one partition of every topic."""

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        state_dir: Path,
        rows: Iterable[ProducedRecord],
    ) -> None:
        """``rows`` are those of global tables, which are loaded before all other records."""
        clock = SystemClock()
        tasks = DriverTasks(topology, application_id, clock, state_dir, False)
        log = DriverLog()
        for row in rows:
            log.inputs[row.topic].append(row)
        self._globals = tasks.new_globals(log)
        self._task = tasks.new_task(self._globals, initialises=False)
        self._next_offsets: Counter[str] = Counter()
        self._benched = Benched()
        self._committed_ns = 0

    def run(self, records: Iterable[ProducedRecord]) -> Benched:
        """Process all records; the time to create them is not measured.

        Raises the errors of the topology.
        """
        benched = self._benched
        self._task.start_at(dict.fromkeys(self._task.partitions, 0))
        self._task.initialise()
        waiting = iter(records)
        while batch := list(islice(waiting, _BATCH)):
            by_topic = list(self._fetched(batch))
            with self._measure_time():
                for partition, fetched in by_topic:
                    self._task.add_records(partition, fetched)
                self._work()
            benched.records += len(batch)
        with self._measure_time():
            self._commit()
            self._work()
        benched.dropped = self._task.dropped.total()
        return benched

    @contextmanager
    def _measure_time(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._benched.seconds += time.perf_counter() - started

    def close(self) -> None:
        """Close the stores."""
        for task in (self._task, *self._globals):
            task.close()

    def _fetched(
        self, batch: Iterable[ProducedRecord]
    ) -> Iterator[tuple[TopicPartition, list[StoredRecord]]]:
        for topic, several in groupby(
            sorted(batch, key=lambda one: one.topic), key=lambda one: one.topic
        ):
            records = [self._stored(topic, one.key, one.value, one.timestamp) for one in several]
            yield TopicPartition(topic, 0), records

    def _stored(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int
    ) -> StoredRecord:
        offset = self._next_offsets[topic]
        self._next_offsets[topic] += 1
        return StoredRecord(topic, 0, offset, key, value, timestamp)

    def _work(self) -> None:
        while self._task.process(_BATCH):
            self._send()
            if time.monotonic_ns() - self._committed_ns > _COMMIT_NS:
                self._commit()

    def _commit(self) -> None:
        self._committed_ns = time.monotonic_ns()
        self._task.punctuate("wall_clock")
        commit = self._task.freeze()
        self._route(commit.outputs)
        self._benched.changelog_records += sum(map(len, commit.changes.writes.values()))
        self._task.committed(commit, {})
        self._task.state.apply()

    def _send(self) -> None:
        outputs = self._task.outputs.copy()
        self._task.outputs.clear()
        self._route(outputs)

    def _route(self, outputs: Iterable[ProducedFields]) -> None:
        """Return records of the task's own input topics to it; count all others."""
        back: dict[str, list[StoredRecord]] = {}
        for topic, _, key, value, timestamp, *_ in outputs:
            self._benched.outputs[topic] += 1
            if topic in self._task.source_topics:
                stored = self._stored(topic, key, value, max(timestamp or 0, 0))
                back.setdefault(topic, []).append(stored)
        for topic, records in back.items():
            self._task.add_records(TopicPartition(topic, 0), records)
