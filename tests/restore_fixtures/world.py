"""What a fixture needs of a cluster beside the clients: brokers' housekeeping, on demand."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from logstate.contracts.clients import Cluster, TransactionalProducer
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from tests.patience import until

#: a process may stand still, and that is not what the cases are about
_NEVER_MS = 3_600_000


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

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """Delete records of a log that is only compacted, as a change of its policy does."""

    def foreign_producer(self, name: str, *, expires: bool = False) -> TransactionalProducer:
        """A transactional producer, initialised; ``expires``: one whose transactions time out."""

    def expire(self, name: str) -> None:
        """The open transaction of one that expires times out, at once or in a while."""

    def is_patient_with(self, group: str) -> None:
        """The group keeps its members while a machine stands still."""


class FakeWorld:
    """The fake cluster; its housekeeping happens at once."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(transaction_timeout_ms=_NEVER_MS, session_timeout_ms=_NEVER_MS)
        self.compacting = {"delete.retention.ms": "0"}

    def compact(self, partition: TopicPartition) -> None:
        self.cluster.clean(partition.topic)
        keys = Counter(record.key() for record in self.cluster.records(*partition))
        assert max(keys.values()) == 1

    def drop_markers(self, partition: TopicPartition) -> None:
        log = self.cluster.log(partition)
        assert any(entry.marks is not None for entry in log.entries())
        self._pause()  # markers are as old as delete.retention.ms
        self.cluster.clean(partition.topic)
        assert not any(entry.marks is not None for entry in log.entries())

    def recreate(self, topic: str) -> None:
        self.cluster.recreate_topic(topic)

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        with self.cluster.lock:
            self.cluster.log(partition).delete_before(offset)

    def foreign_producer(self, name: str, *, expires: bool = False) -> TransactionalProducer:
        del expires  # by `expire` alone
        producer = self.cluster.transactional_producer(name)
        producer.init_transactions()
        return producer

    def expire(self, name: str) -> None:
        with self.cluster.lock:
            for transaction in self.cluster.transactions.open_transactions():
                if transaction.owner == name:
                    transaction.started_ms -= 2 * _NEVER_MS

    def is_patient_with(self, group: str) -> None:
        pass

    def _pause(self) -> None:
        before = self.cluster.now_ms()
        until(lambda: self.cluster.now_ms() > before + 1)
