"""The producer of a schedule's inputs: in small steps, possibly in transactions, some aborted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.testing.fake.cluster import FakeCluster
from logstate.testing.fake.faults import Faults


class Input(NamedTuple):
    """One input record, on its way to a topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class Upstream:
    """Another application, to which nothing happens."""

    def __init__(
        self,
        cluster: FakeCluster,
        records: Sequence[Input],
        rng: random.Random,
        *,
        is_transactional: bool,
    ) -> None:
        self._cluster = cluster
        #: not written so far
        self.waiting = list(records)
        self._random = rng
        self._is_transactional = is_transactional

    def write(self, count: int | None = None) -> None:
        """The next records, or all of the rest."""
        count = len(self.waiting) if count is None else count
        records, self.waiting = self.waiting[:count], self.waiting[count:]
        if not self._is_transactional:
            for record in records:
                self._append(record)
            return
        # Ordered faults are for the application's clients.
        faults, self._cluster.faults = self._cluster.faults, Faults()
        producer = self._cluster.transactional_producer("upstream")
        producer.init_transactions()
        for start in range(0, len(records), 3):
            chunk = records[start : start + 3]
            if self._random.random() < 0.3:
                producer.begin()
                producer.produce([_as_produced(r, b"aborted") for r in chunk])
                producer.flush()
                producer.abort()
            producer.begin()
            producer.produce([_as_produced(r) for r in chunk])
            producer.commit()
        self._cluster.faults = faults

    def _append(self, record: Input) -> None:
        # Straight into the log: a client would replace event time 0.
        topic, partition, key, value, timestamp = record
        log = self._cluster.log(TopicPartition(topic, partition))
        log.append(key, value, timestamp, None, self._cluster.now_ms(), writer="inputs")


def _as_produced(record: Input, value: bytes | None = None) -> ProducedRecord:
    topic, partition, key, own_value, timestamp = record
    # Event time 0 cannot be produced; see FakeCluster.
    return ProducedRecord(topic, partition, key, value or own_value, timestamp or 1)
