"""Failed deliveries of records that the extension passed to librdkafka."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from logstate.kafka.extension import (
    RecordSender,
    extension,
    record_sender,
    with_failure_reports,
)
from logstate.kafka.librdkafka import librdkafka
from tests.patience import until
from tests.unit.logstate.kafka.native.mock_cluster import TOPIC, rows


def watched(address: str, **settings: Any) -> tuple[Producer, RecordSender]:
    """Return a producer whose failed deliveries are noted, and its sender."""
    producer = Producer(with_failure_reports({"bootstrap.servers": address, **settings}))
    sender = record_sender(producer, lambda topic: 4, reports_failures=True)
    assert sender is not None
    return producer, sender


def test_a_failed_delivery_is_returned_once(address: str) -> None:
    producer, sender = watched(address)
    assert sender.send(rows(3), 0, 3) == 3
    assert producer.flush(30) == 0
    assert sender.take_failure() is None

    sender.send(rows(1), 0, 1)
    producer.purge()
    failed = sender.take_failure()
    assert failed is not None
    code, topic, _ = failed
    assert (code, topic) == (KafkaError._PURGE_QUEUE, TOPIC)
    assert sender.take_failure() is None


def test_records_that_are_delivered_late_enough_to_expire_are_failed() -> None:
    settings = {"message.timeout.ms": 1, "log_level": 0}
    producer, sender = watched("127.0.0.1:1", **settings)
    other, quiet = watched("127.0.0.1:1", log_level=0)
    assert sender.send(rows(5), 0, 5) == 5
    until(lambda: producer.flush(0.1) == 0, "the records did not expire")
    failed = sender.take_failure()
    assert failed is not None
    assert failed[:2] == (KafkaError._MSG_TIMED_OUT, TOPIC)
    assert quiet.take_failure() is None
    other.purge()


def test_an_unknown_partition_is_for_the_call_of_the_client_to_report(address: str) -> None:
    producer, sender = watched(address)
    producer.list_topics(TOPIC, timeout=30)
    sender.send(rows(1), 0, 1)
    producer.flush(30)
    assert sender.send([(TOPIC, 99, b"k", b"v", 1, None)], 0, 1) == 0
    assert sender.take_failure() is None


def test_a_producer_without_the_plugin_reports_no_failures(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    assert record_sender(producer, lambda topic: 4, reports_failures=True) is None
    module, library = extension(), librdkafka()
    assert library is not None
    assert module.take_failure(producer, library.handle_of(producer)) is None
    producer.close()  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="closed"):
        module.watches(producer, 1)


def test_failures_after_the_end_of_a_producer_are_dropped(address: str) -> None:
    for _ in range(20):
        producer, sender = watched("127.0.0.1:1", log_level=0)
        sender.send(rows(100), 0, 100)
        del sender, producer  # destroyed with records in its queue
    gc.collect()
