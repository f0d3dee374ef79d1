"""The restore fixtures' world on a real broker: waiting for its housekeeping."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from logstate.contracts.clients import NewTopic, TransactionalProducer
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.broker.group_settings import expect_heartbeats_within
from tests.broker.patient_producers import initialised
from tests.patience import PATIENCE_S, until

#: the cleaner looks for work every second
_CLEANER_PAUSE_S = 1.3
#: of a transaction whose end is waited for: a process may stand still for less before it flushes
_EXPIRY_MS = 15_000
#: of all others
_PATIENT_MS = 300_000


class KafkaWorld:
    """See :class:`tests.restore_fixtures.world.World`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.cluster = KafkaCluster(bootstrap, transaction_timeout_ms=_PATIENT_MS)
        self._rolls = 0
        # A segment is rolled by the first record that comes after its time; what is rolled is
        # cleaned within seconds. A tombstone or marker may go at once.
        self.compacting = {
            "segment.ms": "200",
            "min.cleanable.dirty.ratio": "0.001",
            "delete.retention.ms": "0",
        }

    def compact(self, partition: TopicPartition) -> None:
        self._roll(partition)
        self._until(
            lambda: max(Counter(self._keys(partition)).values()) == 1,
            nudge=lambda: self._roll(partition),
        )

    def drop_markers(self, partition: TopicPartition) -> None:
        """Markers cannot be seen, but tombstones can, and both go by the same rule.

        A pass of the cleaner takes superseded records; the next one notes that a marker has none
        left; the one after it takes the marker. So does a tombstone take two passes, one that notes
        it and one that takes it, and there is a pass only where there is something new.
        """
        for _ in range(2):
            tombstone = self._roll(partition)
            self._until(
                lambda gone=tombstone: gone not in self._keys(partition),
                nudge=lambda: self._roll(partition),
            )

    def recreate(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        seam = self.cluster.admin()
        count = seam.describe_topics([topic])[topic].partitions
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        self._until(lambda: topic not in seam.describe_topics([topic]))
        seam.create_topics([NewTopic(topic, count, 1, {"cleanup.policy": "compact"})])
        seam.close()

    def delete_before(self, partition: TopicPartition, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        seam = self.cluster.admin()
        for policy in ("compact,delete", "compact"):  # with the first one brokers delete records
            entry = ConfigEntry(
                "cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET
            )
            topic = ConfigResource(
                ConfigResource.Type.TOPIC, partition.topic, incremental_configs=[entry]
            )
            admin.incremental_alter_configs([topic])[topic].result(PATIENCE_S)
            if policy != "compact":
                seam.delete_records({partition: offset})
        seam.close()

    def foreign_producer(self, name: str, *, expires: bool = False) -> TransactionalProducer:
        timeout_ms = _EXPIRY_MS if expires else _PATIENT_MS
        cluster = KafkaCluster(self._bootstrap, transaction_timeout_ms=timeout_ms)
        return initialised(cluster.transactional_producer(name))

    def expire(self, name: str) -> None:
        """The broker does, by itself."""

    def is_patient_with(self, group: str) -> None:
        expect_heartbeats_within(self._bootstrap, group)

    def _roll(self, partition: TopicPartition) -> bytes:
        """Close the active segment: with records that say nothing (tombstones of absent keys).

        Returns the key of the first one, which lies in a segment of its own.
        """
        producer = self.cluster.plain_producer()
        for _ in range(2):
            # Age is told by the records' timestamps, and the fixtures' are of 1970.
            self._rolls += 1
            later_ms = int(time.time() * 1000) + self._rolls * 10_000
            key = f"roll-{self._rolls}".encode()
            producer.produce([ProducedRecord(*partition, key, None, later_ms)])
            producer.flush()
        producer.close()
        return f"roll-{self._rolls - 1}".encode()

    def _keys(self, partition: TopicPartition) -> list[bytes | None]:
        """Of every committed record, in order."""
        admin = self.cluster.admin()
        end = admin.end_offsets([partition])[partition]
        start = admin.start_offsets([partition])[partition]
        admin.close()
        consumer = self.cluster.log_consumer()
        consumer.assign({partition: start})
        found: list[bytes | None] = []

        def is_read() -> bool:
            records = consumer.poll(1_000, 0.1).records.get(partition, [])
            found.extend(record.key() for record in records)
            return (consumer.position(partition) or 0) >= end

        until(is_read, f"reading {partition} does not come to {end}")
        consumer.close()
        return found

    def _until(
        self, is_true: Callable[[], bool], nudge: Callable[[], object] = lambda: None
    ) -> None:
        """Wait; whoever has been idle for long is nudged."""
        nudged = time.monotonic()

        def is_so() -> bool:
            nonlocal nudged
            if is_true():
                return True
            if time.monotonic() > nudged + _CLEANER_PAUSE_S:
                nudge()
                nudged = time.monotonic()
            return False

        until(is_so, "the broker has not cleaned up")
