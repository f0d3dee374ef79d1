"""The extension module by itself; tests/log_conformance has what it must do on a real cluster."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition

from logstate.contracts.clients import Polled
from logstate.contracts.records import ProducedFields, TopicPartition
from logstate.kafka.extension import (
    RecordSender,
    extension,
    record_sender,
)
from logstate.kafka.librdkafka import librdkafka
from logstate.kafka.record_source import ExtensionRecords, record_source
from tests.patience import until
from tests.unit.logstate.kafka.native.mock_cluster import (
    TOPIC,
    consumer_settings,
    resident_bytes,
    rows,
)


def sender_of(producer: Producer, count_of: Callable[[str], int]) -> RecordSender:
    sender = record_sender(producer, count_of)
    assert sender is not None
    return sender


class Reading:
    """A consumer of one partition with its source of records."""

    def __init__(self, address: str, partition: TopicPartition, offset: int) -> None:
        self.consumer = Consumer(dict(consumer_settings(address)))
        self.source = record_source(self.consumer, {})
        self.source.attach([partition])
        self.consumer.assign([ClientPartition(*partition, offset)])
        self.source.attach([partition])
        self.records: list[Any] = []
        self.ends: list[tuple[TopicPartition, int]] = []

    def poll(self, max_records: int = 1_000) -> Polled:
        polled = self.source.take(max_records, 0.5, "fetch")
        for found in polled.records.values():
            self.records += found
        self.ends += polled.ends
        return polled

    def read_to(self, end: int) -> None:
        until(lambda: self.poll() and any(at >= end for _, at in self.ends), "the end was not read")

    def close(self) -> None:
        self.source.close()
        self.consumer.close()


def test_records_come_back_as_they_were_sent(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    send = sender_of(producer, lambda topic: 4).send
    sent: list[ProducedFields] = [
        (TOPIC, 1, b"k", b"v", 5, None),
        (TOPIC, 1, None, b"", 6, None),
        (TOPIC, 1, b"", None, 7, None),
        (TOPIC, 1, b"a\x00b", b"x" * 500_000, 8, None),
    ]
    assert send(sent, 0, len(sent)) == len(sent)
    assert producer.flush(30) == 0
    reading = Reading(address, TopicPartition(TOPIC, 1), 0)
    assert isinstance(reading.source, ExtensionRecords)
    reading.read_to(len(sent))
    found = [(r.topic(), r.partition(), r.key(), r.value()) for r in reading.records]
    assert found == [fields[:4] for fields in sent]
    assert [r.offset() for r in reading.records] == [0, 1, 2, 3]
    assert [r.timestamp() for r in reading.records] == [(1, 5), (1, 6), (1, 7), (1, 8)]
    assert [r.headers() for r in reading.records] == [None] * 4
    reading.close()


def test_a_batch_is_bounded_in_records_and_bytes_and_loses_none(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for n in range(100):
        producer.produce(TOPIC, b"x" * 1_000, b"%d" % n, 2)
    producer.flush(30)
    library = librdkafka()
    assert library is not None
    consumer = Consumer(dict(consumer_settings(address)))
    handle = library.handle_of(consumer)
    assert handle is not None
    queue = extension().Queue(consumer, handle, TopicPartition)
    assert queue.attach(TOPIC, 2)
    consumer.assign([ClientPartition(TOPIC, 2, 0)])
    queue.attach(TOPIC, 2)
    assert queue.take(0, 1 << 20) == ({}, [])
    assert queue.take(10, 0) == ({}, [])
    sizes, offsets = [], []

    def take(max_records: int, max_bytes: int) -> bool:
        consumer.consume(1, 0)
        records, _ = queue.take(max_records, max_bytes)
        found = records.get(TopicPartition(TOPIC, 2), [])
        sizes.append(len(found))
        offsets.extend(record.offset() for record in found)
        return len(offsets) >= 100

    until(lambda: take(7, 1 << 20) or len(offsets) >= 50, "no records")
    assert max(sizes) == 7
    sizes.clear()
    until(lambda: take(100, 2_500), "no records")
    assert max(sizes) == 3, "the record that exceeds the limit is the last one"
    assert offsets == list(range(100))
    queue.close()
    consumer.close()


def test_errors_come_between_records(address: str) -> None:
    reading = Reading(address, TopicPartition(TOPIC, 3), 99)
    found: dict[TopicPartition, int] = {}
    until(lambda: found.update(reading.poll().out_of_range) or found, "no error")  # type: ignore[func-returns-value]
    assert found == {TopicPartition(TOPIC, 3): 99}
    reading.close()


def test_what_the_extension_cannot_send_is_left_to_the_client(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    send = sender_of(producer, lambda topic: 4).send
    good: ProducedFields = (TOPIC, 0, b"k", b"v", 5, None)
    others: list[Any] = [
        (TOPIC, 0, b"k", b"v", 5, [("a", b"1")]),
        (TOPIC, 0, "text", b"v", 5, None),
        (TOPIC, 0, b"k", bytearray(b"v"), 5, None),
        (TOPIC, 0, b"k", b"v", 1 << 70, None),
        (TOPIC, 0, b"k", b"v", 1.5, None),
        (TOPIC, 1 << 40, b"k", b"v", 5, None),
        (TOPIC, "0", b"k", b"v", 5, None),
        (b"bytes", 0, b"k", b"v", 5, None),
        ("", 0, b"k", b"v", 5, None),
        ("nul\x00", 0, b"k", b"v", 5, None),
        ("surrogate\ud800", 0, b"k", b"v", 5, None),
        (TOPIC, 0, b"k", b"v", 5),
        None,
    ]
    for other in others:
        assert send([good, other, good], 0, 3) == 1, other
    assert send([good], 1, 1) == 1
    assert send((good,), 0, 1) == 0, "a list only"
    producer.purge()
    producer.flush(30)


def test_a_full_queue_stops_the_batch_at_its_record() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 10}
    producer = Producer({**settings, "log_level": 0})
    send = sender_of(producer, len).send
    assert send(rows(30), 0, 30) == 10
    assert send(rows(30), 10, 30) == 10
    producer.purge()
    producer.close()  # type: ignore[attr-defined]  # unknown to the client's stubs


def test_an_error_of_the_partition_count_is_raised_at_its_record() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})

    def count_of(topic: str) -> int:
        raise LookupError(topic)

    send = sender_of(producer, count_of).send
    records = [*rows(3), *rows(1, partition=None)]
    with pytest.raises(LookupError, match=TOPIC):
        send(records, 0, 4)
    assert len(producer) >= 3  # it counts events, too
    bad = sender_of(producer, lambda topic: 0).send
    with pytest.raises(ValueError, match="no partition count"):
        bad(records, 3, 4)
    producer.purge()
    producer.close()  # type: ignore[attr-defined]  # unknown to the client's stubs


def test_more_topics_than_it_keeps_in_a_batch_are_sent(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    send = sender_of(producer, lambda topic: 4).send
    records: list[ProducedFields] = [
        (f"topic-{n % 30}", None if n % 2 else 0, b"%d" % n, b"v", 5, None) for n in range(300)
    ]
    assert send(records, 0, 300) == 300
    assert producer.flush(30) == 0


def test_a_closed_client_is_refused_and_never_used() -> None:
    library, records = librdkafka(), rows(1)
    assert library is not None
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    send = sender_of(producer, len).send
    producer.close()  # type: ignore[attr-defined]  # unknown to the client's stubs
    with pytest.raises(RuntimeError, match="the client is closed"):
        send(records, 0, 1)
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    handle = library.handle_of(consumer)
    assert handle is not None
    queue = extension().Queue(consumer, handle, TopicPartition)
    queue.close()
    queue.close()
    for call in (lambda: queue.take(1, 1), lambda: queue.attach("t", 0), lambda: queue.notify(1)):
        with pytest.raises(RuntimeError, match="the queue is closed"):
            call()
    other = extension().Queue(consumer, handle, TopicPartition)
    consumer.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        other.take(1, 1)
    del other
    gc.collect()
    with pytest.raises(RuntimeError, match="the client is closed"):
        extension().Queue(consumer, handle, TopicPartition)
    assert handle
    with pytest.raises(RuntimeError, match="the client is closed"):
        extension().produce(producer, 0, records, 0, 1, len)


def open_files() -> set[str]:
    """The open pipes, sockets and files of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with suppress(FileNotFoundError):  # that of the folder, and one that was closed meanwhile
            found.add(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115
    return found


def _are_closed(opened: set[str]) -> bool:
    return opened.isdisjoint(open_files())


def test_a_consumer_in_a_cycle_with_its_source_is_collected_with_its_pipe(address: str) -> None:
    class Member:
        def __init__(self) -> None:
            self.consumer = Consumer({"bootstrap.servers": address, "group.id": "cycles"})
            self.source = record_source(self.consumer, {})
            self.consumer.subscribe([TOPIC], on_assign=self.assigned)

        def assigned(self, *_: Any) -> None: ...

    for is_closed in (True, False):
        before = open_files()
        member = Member()
        opened = open_files() - before
        assert any(one.startswith("pipe:") for one in opened)
        gone = weakref.ref(member.source)
        if is_closed:
            member.source.close()
            member.consumer.close()
        del member
        gc.collect()
        assert gone() is None
        until(partial(_are_closed, opened), "files stay open")


def test_wrong_arguments_are_refused() -> None:
    module = extension()
    with pytest.raises(TypeError):
        module.bind([])
    with pytest.raises(KeyError):
        module.bind({})
    with pytest.raises(ValueError, match="has no address"):
        module.bind(dict.fromkeys(module.needed(), 0))
    with pytest.raises(TypeError):
        module.Record()
    with pytest.raises(TypeError):
        module.Queue()


def test_closing_while_another_thread_waits_for_records_ends_the_wait(address: str) -> None:
    for _ in range(20):
        reading = Reading(address, TopicPartition(TOPIC, 0), 0)
        failures: list[BaseException] = []

        def read(reading: Reading = reading, failures: list[BaseException] = failures) -> None:
            try:
                for _ in range(100):
                    reading.source.take(10, 60, "fetch")
            except RuntimeError as exc:  # the queue, or the client, is closed
                failures.append(exc)

        thread = threading.Thread(target=read)
        thread.start()
        reading.source.close()
        reading.consumer.close()
        thread.join(60)
        assert not thread.is_alive()
        assert all("closed" in str(failure) for failure in failures)


def test_a_missing_topic_is_reported_as_the_client_does_it(address: str) -> None:
    reported: list[KafkaError] = []
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 0})
    library = librdkafka()
    assert library is not None
    source = record_source(consumer, {"error_cb": reported.append})
    assert isinstance(source, ExtensionRecords)
    text = f"{TOPIC} [7]: desired partition is not available (Local: Unknown partition)"

    class Queue:
        def attach(self, topic: str, partition: int) -> bool:
            return True

        def take(self, *limits: int) -> Any:
            return {}, [(TOPIC, 7, 0, KafkaError._UNKNOWN_PARTITION, text)]

        def close(self) -> None: ...

    queue, source._queue = source._queue, Queue()
    assert source.take(1, 0, "group") == Polled()
    assert [(error.code(), error.str()) for error in reported] == [
        (KafkaError._UNKNOWN_PARTITION, text)
    ]
    source.close()
    queue.close()
    consumer.close()


#: records per test of memory; LOGSTATE_MEMORY_RECORDS=10000000 is the long run of CONTRIBUTING.md
MEMORY_RECORDS = int(os.environ.get("LOGSTATE_MEMORY_RECORDS", "60000"))


def test_memory_is_constant_however_many_records_pass(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    send = sender_of(producer, lambda topic: 4).send
    step, at = 2_000, 0
    reading = Reading(address, TopicPartition("memory", 0), 0)
    records: list[ProducedFields] = [
        ("memory", 0, b"%d" % n, b"x" * 100, 1_000 + n, None) for n in range(step)
    ]
    sizes = []
    while at < MEMORY_RECORDS:
        start = 0
        while (start := send(records, start, step)) < step:
            producer.poll(0.01)
        headers: list[Any] = [("a", b"1"), ("a", None), (b"\xff".decode("latin1"), b"")]
        producer.produce("memory", b"v", None, 0, headers=headers)
        assert producer.flush(60) == 0
        at += step + 1
        reading.ends.clear()
        reading.records.clear()
        reading.read_to(at)
        assert len(reading.records) == step + 1
        assert reading.records[-1].headers() == headers
        gc.collect()
        sizes.append(resident_bytes())
    reading.close()
    settled = sizes[len(sizes) // 2 :]
    assert max(settled) - min(settled) < 20 << 20
