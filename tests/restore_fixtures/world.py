"""What a fixture needs of a cluster beside the clients: brokers' housekeeping, on demand."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from logstate.contracts.records import TopicPartition
from logstate.contracts.seams import Cluster, TransactionalProducer
from logstate.testing import FakeCluster


class World(Protocol):
    """A cluster whose logs can be compacted and whose topics can be made anew."""

    cluster: Cluster
    #: configuration that makes its cleaner work within a test
    compacting: dict[str, str]

    def compact(self, partition: TopicPartition) -> None:
        """Return when the partition holds one record per key, the last one."""

    def drop_markers(self, partition: TopicPartition) -> None:
        """Return when compaction has removed what old transaction markers it can."""

    def recreate(self, topic: str) -> None:
        """Delete a topic and create it again, empty, with the same configuration."""

    def foreign_producer(self, name: str) -> TransactionalProducer:
        """A transactional producer with a short transaction time-out, initialised."""

    def pause(self) -> None:
        """A moment for the brokers."""


class FakeWorld:
    """The fake cluster; its housekeeping happens at once."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(transaction_timeout_ms=600)
        self.compacting = {"delete.retention.ms": "0"}

    def compact(self, partition: TopicPartition) -> None:
        self.cluster.clean(partition.topic)
        keys = Counter(record.key() for record in self.cluster.records(*partition))
        assert max(keys.values()) == 1

    def drop_markers(self, partition: TopicPartition) -> None:
        log = self.cluster.log(partition)
        assert any(entry.marks is not None for entry in log.entries())
        self.pause()  # markers are as old as delete.retention.ms
        self.cluster.clean(partition.topic)
        assert not any(entry.marks is not None for entry in log.entries())

    def recreate(self, topic: str) -> None:
        self.cluster.recreate_topic(topic)

    def foreign_producer(self, name: str) -> TransactionalProducer:
        producer = self.cluster.transactional_producer(name)
        producer.init_transactions()
        return producer

    def pause(self) -> None:
        before = self.cluster.now_ms()
        self.cluster.wait_for(lambda: self.cluster.now_ms() > before + 1, 1.0)
