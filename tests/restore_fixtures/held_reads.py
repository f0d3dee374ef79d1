"""Restores that stop in the middle of every log until they are let go.

The clients read on meanwhile; what they bring waits here. So nothing depends on how fast a broker
or a machine is, and the worker goes on polling its group.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from logstate.contracts.clients import Cluster, LogConsumer, Polled
from logstate.contracts.records import FetchedRecord, TopicPartition

#: records of a log that come through before it is let go
HELD_AFTER = 100


class HeldReads:
    """A cluster whose log readers are held; everything else is the cluster's own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.released = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def log_consumer(self, *, queue_bytes: int | None = None) -> LogConsumer:
        return _HeldConsumer(self._cluster.log_consumer(), self.released)


class _HeldConsumer:
    def __init__(self, consumer: LogConsumer, released: threading.Event) -> None:
        self._consumer = consumer
        self._released = released
        self._passed: dict[TopicPartition, int] = {}
        self._waiting: dict[TopicPartition, list[FetchedRecord]] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._waiting = {}  # the positions are those before it: it will come again
        self._consumer.assign(positions)

    def poll(self, max_records: int, timeout_s: float) -> Polled:
        polled = self._consumer.poll(max_records, timeout_s)
        for partition, records in polled.records.items():
            self._waiting.setdefault(partition, []).extend(records)
        polled.records = {tp: self._let_through(tp) for tp in list(self._waiting)}
        polled.records = {tp: records for tp, records in polled.records.items() if records}
        polled.ends = [(tp, end) for tp, end in polled.ends if not self._waiting.get(tp)]
        return polled

    def _let_through(self, partition: TopicPartition) -> list[FetchedRecord]:
        waiting = self._waiting[partition]
        passed = self._passed.get(partition, 0)
        count = len(waiting) if self._released.is_set() else max(0, HELD_AFTER - passed)
        found, self._waiting[partition] = waiting[:count], waiting[count:]
        self._passed[partition] = passed + len(found)
        return found

    def position(self, partition: TopicPartition) -> int | None:
        waiting = self._waiting.get(partition)
        return waiting[0].offset() if waiting else self._consumer.position(partition)

    def close(self) -> None:
        self._consumer.close()
