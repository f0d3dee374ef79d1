"""Batches that the client cannot decompress: the deserialization handler decides about each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from logstate import Application, StreamsBuilder
from logstate.contracts.errors import DeserializationError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.task.error_handlers import ErrorHandlers, dead_letter
from tests.broker.raw_topic import create_topic
from tests.patience import PATIENCE_S, until

#: what the client decompresses at most; by default it is 100 MB
LIMITS = {"receive.message.max.bytes": 1_100_000, "fetch.max.bytes": 1_000_000}
BOMB = bytes(900_000)


class Bench:
    """Two records, a batch of five that expands too far, another one of two, and a last record."""

    def __init__(self, bootstrap: str, name: str, path: Path) -> None:
        self.bootstrap, self.name, self.path = bootstrap, name, path
        for topic in ("in", "out", "dead"):
            create_topic(bootstrap, f"{name}-{topic}")
        for batch in ([b"one", b"two"], [BOMB] * 5, [BOMB] * 2, [b"three"]):
            self._write_batch(batch)

    def _write_batch(self, values: list[bytes]) -> None:
        settings = {"compression.type": "zstd", "linger.ms": 60_000, "batch.size": 100_000_000}
        largest = {"message.max.bytes": 10_000_000}  # before it is compressed
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings, **largest})
        for value in values:
            producer.produce(f"{self.name}-in", value)
        assert producer.flush(PATIENCE_S) == 0

    def app(self, **options: Any) -> Application:
        builder = StreamsBuilder()
        builder.stream(f"{self.name}-in", value=str).to(f"{self.name}-out")
        return Application(
            builder.build(),
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.path,
            consumer=LIMITS,
            **options,
        )

    def read(self, topic: str, count: int) -> list[FetchedRecord]:
        reader = KafkaCluster(self.bootstrap).log_consumer()
        reader.assign({TopicPartition(f"{self.name}-{topic}", 0): 0})
        found: list[FetchedRecord] = []

        def are_read() -> bool:
            for records in reader.poll(100, 0.2).records.values():
                found.extend(records)
            return len(found) >= count

        until(are_read, lambda: f"{len(found)} of {count} records in {topic}")
        reader.close()
        return found


@pytest.fixture
def bench(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Bench:
    return Bench(bootstrap, unique("batches"), tmp_path)


def test_a_batch_that_cannot_be_decompressed_becomes_one_dead_letter(bench: Bench) -> None:
    handlers = ErrorHandlers(deserialization=dead_letter, dead_letter_topic=f"{bench.name}-dead")
    with bench.app(error_handlers=handlers):
        values = [record.value() for record in bench.read("out", 3)]
        letters = bench.read("dead", 2)

    assert values == [b"one", b"two", b"three"]
    told = [dict(letter.headers()) for letter in letters]
    assert [one["__streams.errors.offset"] for one in told] == [b"6", b"8"]
    assert [letter.value() for letter in letters] == [None, None]
    assert told[0]["__streams.errors.message"].startswith(
        b"the batch of the offsets 2 to 6 cannot be decompressed: "
    )
    assert b"the offsets 7 to 8" in told[1]["__streams.errors.message"]


def test_without_a_handler_it_stops_the_application_and_names_the_setting(bench: Bench) -> None:
    with pytest.raises(DeserializationError) as caught, bench.app() as app:
        until(lambda: not app.is_alive, "the application continues")

    error = caught.value
    assert (error.topic, error.offset, error.task) == (f"{bench.name}-in", 6, "0_0")
    assert "a batch of records cannot be read" in str(error)
    assert "receive.message.max.bytes" in str(error)
