"""What the producers decide by themselves: who reports a delivery, which partition a key has."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from logstate.contracts.errors import AbortableError, FencedError, RefusedError, RetriableError
from logstate.contracts.records import ProducedRecord
from logstate.kafka.partition_counts import PartitionCounts
from logstate.kafka.producer import KafkaPlainProducer, _last_per_partition


def to(topic: str, partition: int | None) -> ProducedRecord:
    return ProducedRecord(topic, partition, b"key", b"value", 1)


def test_the_last_record_of_every_given_partition_reports_its_delivery() -> None:
    records = [to("log", 0), to("log", 0), to("log", 1), to("log", 0), to("other", 0)]

    assert _last_per_partition(records) == [2, 3, 4]


def test_records_whose_partition_is_left_open_report_nothing() -> None:
    assert _last_per_partition([to("out", None), to("out", None)]) == []
    assert _last_per_partition([]) == []


def test_open_partitions_between_given_ones_end_no_run_wrongly() -> None:
    records = [to("out", 0), to("out", None), to("out", 0), to("out", None)]

    assert _last_per_partition(records) == [2]


class Metadata:
    """A client that knows topics and counts how often it is asked."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.asked = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        self.asked += 1
        partitions = dict.fromkeys(range(self.counts.get(topic, 0)))
        unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        error = None if partitions else unknown
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions, error=error)})


def test_a_topic_is_asked_for_its_partitions_once() -> None:
    client = Metadata(out=4)
    counts = PartitionCounts(client)  # type: ignore[arg-type]
    assert (counts.of("out"), counts.of("out")) == (4, 4)
    assert client.asked == 1


def test_a_topic_without_partitions_is_an_error_that_names_it() -> None:
    counts = PartitionCounts(Metadata())  # type: ignore[arg-type]

    with pytest.raises(RefusedError, match="'missing' does not exist"):
        counts.of("missing")


def test_a_topic_that_was_there_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has just started may not know it yet; nothing need stop for that."""
    client, now = Metadata(out=4), [1.0]
    counts = PartitionCounts(client)  # type: ignore[arg-type]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    counts.of("out")
    now[0] = 10_000.0
    client.counts = {}
    with pytest.raises(RetriableError, match="'out' does not exist"):
        counts.of("out")


def test_brokers_that_do_not_answer_are_asked_again_later() -> None:
    class Unreachable:
        def list_topics(self, topic: str, timeout: float) -> object:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    with pytest.raises(RetriableError, match="looking up the partitions of 'out'"):
        PartitionCounts(Unreachable()).of("out")  # type: ignore[arg-type]


class Broken:
    """A client that has become unusable and says so from a callback."""

    def flush(self, timeout: float) -> int:
        told = KafkaException(KafkaError(KafkaError._FENCED, "taken over", fatal=True))
        raise SystemError("a delivery report returned a result with an exception set") from told

    def purge(self) -> None:
        raise SystemError("and nobody knows why")

    def close(self) -> None:
        self.is_closed = True


def test_what_the_interpreter_makes_of_a_fatal_error_is_a_fatal_error() -> None:
    producer = KafkaPlainProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    native = producer._producer = Broken()  # type: ignore[assignment]

    with pytest.raises(FencedError, match="taken over"):
        producer.flush()
    producer.close()
    assert native.is_closed


def test_a_producer_that_does_not_close_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    producer = KafkaPlainProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    producer._producer = SimpleNamespace(  # type: ignore[assignment]
        purge=lambda: None, poll=lambda _: None, close=released.wait
    )
    monkeypatch.setattr("logstate.kafka.producer._PATIENCE_S", 0.01)

    producer.close()
    released.set()


def unconnected(call_limit_s: float, **settings: object) -> KafkaPlainProducer:
    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **settings}
    return KafkaPlainProducer(config, call_limit_s=call_limit_s)


def test_a_record_that_the_empty_client_has_no_room_for_is_refused() -> None:
    producer = unconnected(600, **{"queue.buffering.max.kbytes": 1})
    with pytest.raises(RefusedError, match=r"10003 bytes for 'out'.*queue\.buffering\.max\.kbytes"):
        producer.produce([ProducedRecord("out", 0, b"key", b"v" * 10_000, 1)])


def test_a_client_that_stays_full_is_waited_for_as_long_as_a_call_may_take() -> None:
    producer = unconnected(0.1, **{"queue.buffering.max.messages": 1})
    with pytest.raises(AbortableError, match=r"no room for another one, within 0\.1 s"):
        producer.produce([to("out", 0), to("out", 0)])
