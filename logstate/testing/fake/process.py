"""One process's view of a fake cluster: it can be killed, and then none of its clients acts."""

from __future__ import annotations

from logstate.contracts.partitioner import partition_of
from logstate.testing.fake.admin import FakeAdmin
from logstate.testing.fake.background import FakeBackground
from logstate.testing.fake.brokers import FakeBrokers
from logstate.testing.fake.client import ProcessLife
from logstate.testing.fake.consumers import FakeGroupConsumer, FakeLogConsumer
from logstate.testing.fake.probe import FakeProbe
from logstate.testing.fake.producers import FakePlainProducer, FakeTransactionalProducer


class FakeProcess(ProcessLife):
    """A :class:`logstate.contracts.clients.Cluster` whose clients die together."""

    def __init__(self, cluster: FakeBrokers, name: str) -> None:
        super().__init__(name)
        self._cluster = cluster

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> FakeGroupConsumer:
        self.check_alive()
        return FakeGroupConsumer(self._cluster, self, group_id, instance_id)

    def log_consumer(self, *, queue_bytes: int | None = None) -> FakeLogConsumer:  # noqa: ARG002
        self.check_alive()
        return FakeLogConsumer(self._cluster, self)

    def transactional_producer(self, transactional_id: str) -> FakeTransactionalProducer:
        self.check_alive()
        return FakeTransactionalProducer(self._cluster, self, transactional_id)

    def plain_producer(self) -> FakePlainProducer:
        self.check_alive()
        return FakePlainProducer(self._cluster, self, self.name)

    def admin(self) -> FakeAdmin:
        self.check_alive()
        return FakeAdmin(self._cluster, self)

    def background(self) -> FakeBackground:
        return FakeBackground(self._cluster)

    def probe(self) -> FakeProbe:
        return FakeProbe(self._cluster)

    def partition_for(self, key: bytes, partitions: int) -> int:
        return partition_of(key, partitions)
