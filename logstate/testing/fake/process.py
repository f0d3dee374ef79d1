"""One process's view of a fake cluster: it can be killed, and then none of its clients acts."""

from __future__ import annotations

from logstate.contracts.clients import ClientErrors
from logstate.contracts.partitioner import partition_of
from logstate.testing.fake.admin import FakeAdmin
from logstate.testing.fake.background import FakeBackground
from logstate.testing.fake.brokers import FakeBrokers
from logstate.testing.fake.client import ProcessLife
from logstate.testing.fake.consumers import FakeGroupConsumer, FakeLogConsumer
from logstate.testing.fake.producers import FakePlainProducer, FakeTransactionalProducer


class FakeProbe:
    """See :class:`logstate.contracts.clients.Probe`; ``FakeCluster.away`` is what it notices."""

    brokers = "fake:9092"

    def __init__(self, cluster: FakeBrokers) -> None:
        self._cluster = cluster
        #: the last argument of ``fold``
        self.folds = False

    def ask(self, timeout_s: float) -> bool:  # noqa: ARG002  it knows at once
        return self._cluster.away is None

    def client_errors(self) -> ClientErrors:
        away = self._cluster.away
        return ClientErrors() if away is None else ClientErrors(1, away, "refused you" in away)

    def fold(self, *, is_away: bool) -> None:
        self.folds = is_away

    def close(self) -> None:
        self.folds = False


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

    partition_for = staticmethod(partition_of)
