"""Topics written and read with the plain client, for tests that are not about the library."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.patience import PATIENCE_S, until


def create_topic(bootstrap: str, topic: str, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)


def write(bootstrap: str, topic: str, values: Iterable[bytes]) -> None:
    """Write to partition 0 and return when all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def read_all(bootstrap: str, topic: str) -> list[bytes]:
    """Every value of partition 0 up to the end offset at the time of the call."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "raw-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    partition = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S)
    consumer.assign([partition])
    values: list[bytes] = []

    def is_read() -> bool:
        message = consumer.poll(1.0) if len(values) < end else None
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value() or b"")
        return len(values) >= end

    until(is_read, lambda: f"only {len(values)} of {end} records of {topic}")
    consumer.close()
    return values
