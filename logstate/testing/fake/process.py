"""One process's view of a fake cluster: it can be killed, and then none of its clients acts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstate.testing.fake.admin import FakeAdmin
from logstate.testing.fake.background import FakeBackground
from logstate.testing.fake.consumers import FakeGroupConsumer, FakeLogConsumer
from logstate.testing.fake.producers import FakePlainProducer, FakeTransactionalProducer

if TYPE_CHECKING:
    from logstate.testing.fake.cluster import FakeCluster


class ProcessKilled(BaseException):
    """Raised by every client of a killed process.

    Not an ``Exception``: code that survives errors must not survive its own death.
    """


class FakeProcess:
    """A :class:`logstate.contracts.seams.Cluster` whose clients die together."""

    def __init__(self, cluster: FakeCluster, name: str) -> None:
        self._cluster = cluster
        self.name = name
        self.is_killed = False

    def kill(self) -> None:
        """From now on its clients raise ProcessKilled; its member misses its heartbeats.

        What its producers had handed over may still arrive (see ``FakeCluster.arrive``).
        """
        self.is_killed = True

    def check_alive(self) -> None:
        """Raises ProcessKilled in a killed process."""
        if self.is_killed:
            raise ProcessKilled(self.name)

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> FakeGroupConsumer:
        self.check_alive()
        return FakeGroupConsumer(self._cluster, self, group_id, instance_id)

    def log_consumer(self) -> FakeLogConsumer:
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
        return self._cluster.background()

    def partition_for(self, key: bytes, partitions: int) -> int:
        return self._cluster.partition_for(key, partitions)
