"""The fake cluster: brokers in memory behind the seam's factories of clients."""

from __future__ import annotations

from logstate.contracts.partitioner import partition_of
from logstate.testing.fake.admin import FakeAdmin
from logstate.testing.fake.background import FakeBackground
from logstate.testing.fake.brokers import FakeBrokers
from logstate.testing.fake.consumers import FakeGroupConsumer, FakeLogConsumer
from logstate.testing.fake.process import FakeProbe, FakeProcess
from logstate.testing.fake.producers import FakePlainProducer, FakeTransactionalProducer


class FakeCluster(FakeBrokers):
    """An in-memory cluster for tests (see :class:`logstate.contracts.clients.Cluster`).

    Pass it to ``Application(..., cluster=FakeCluster({"clicks": 2}))``: everything else of the
    application is real. With the system clock, polls wait as they do on Kafka and any number of
    threads may use it. With a manual clock nothing ever waits. While ``away`` is a text, no call
    reaches the brokers, for that reason; None brings them back.

    Args:
        topics: topic -> partitions, made at once.
        clock: times of records, sessions and transactions.
        group_protocol: ``"consumer"`` (KIP-848) or ``"classic"`` (eager).
        transaction_timeout_ms, session_timeout_ms: time-outs of the coordinators.
        delays_markers: transaction markers wait until ``deliver_marker`` is called.
        buffers_sends: produced records wait until they are flushed or ``arrive`` is called.
        fetch_records_max: at most so many records per poll, whatever is asked for.
        splits_assignments: partitions are revoked and assigned in random portions.
        background_looks_max: how often at most a commit under way is found unfinished, each time
            its worker looks for what the brokers answered.
        seed: of all random choices.

    >>> cluster = FakeCluster({"clicks": 1})
    >>> _ = cluster.produce("clicks", b"ada", b"home", timestamp=5)
    >>> [(r.key(), r.value()) for r in cluster.records("clicks")]
    [(b'ada', b'home')]
    """

    _plain_producers = 0

    def group_consumer(self, *, group_id: str, instance_id: str | None) -> FakeGroupConsumer:
        return FakeGroupConsumer(self, None, group_id, instance_id)

    def log_consumer(self, *, queue_bytes: int | None = None) -> FakeLogConsumer:  # noqa: ARG002
        return FakeLogConsumer(self, None)

    def transactional_producer(self, transactional_id: str) -> FakeTransactionalProducer:
        return FakeTransactionalProducer(self, None, transactional_id)

    def plain_producer(self) -> FakePlainProducer:
        self._plain_producers += 1
        return FakePlainProducer(self, None, f"plain-{self._plain_producers}")

    def admin(self) -> FakeAdmin:
        return FakeAdmin(self, None)

    def background(self) -> FakeBackground:
        return FakeBackground(self)

    def probe(self) -> FakeProbe:
        return FakeProbe(self)

    partition_for = staticmethod(partition_of)

    def process(self, name: str) -> FakeProcess:
        """A view of this cluster whose clients can be killed together."""
        return FakeProcess(self, name)
