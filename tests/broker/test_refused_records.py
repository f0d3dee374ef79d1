"""Results that a real broker refuses: the record they came of is skipped, and no other."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import RefusedError
from logstate.contracts.records import FetchedRecord, ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.task.error_handlers import ErrorHandlers, dead_letter, skip
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.patience import until

RECORDS = 60
BAD = frozenset({0, 41})
#: of a batch on "out"; all the good records together are far below
LIMIT_BYTES = 100_000


class Bench:
    """One application between its topics."""

    def __init__(self, bootstrap: str, name: str, path: Path) -> None:
        self.bootstrap, self.name, self.path = bootstrap, name, path
        self.cluster = KafkaCluster(bootstrap)
        narrow = {"max.message.bytes": str(LIMIT_BYTES)}
        self.cluster.admin().create_topics(
            [
                NewTopic(self.topic("in"), 2, 1, {}),
                NewTopic(self.topic("out"), 1, 1, narrow),
                NewTopic(self.topic("dead"), 1, 1, {}),
            ]
        )

    def topic(self, name: str) -> str:
        return f"{self.name}-{name}"

    def send(self, big: bytes) -> None:
        producer = self.cluster.plain_producer()
        producer.produce(
            [
                ProducedRecord(
                    self.topic("in"), i % 2, f"{i}".encode(), big if i in BAD else b"v", i + 1
                )
                for i in range(RECORDS)
            ]
        )
        producer.flush()
        producer.close()

    @contextmanager
    def running(self, topology: Topology, **options: Any) -> Iterator[Application]:
        app = Application(
            topology,
            application_id=self.name,
            bootstrap=self.bootstrap,
            state_dir=self.path / "state",
            **options,
        )
        with app:
            yield app

    def copied(self) -> Topology:
        """Counts, which is logged, and every record to "out"."""
        builder = StreamsBuilder()
        stream = builder.stream(self.topic("in"), key=str, value=bytes)
        stream.group_by_key().count(store="counts")
        stream.to(self.topic("out"))
        return builder.build()

    def read(self, name: str, count: int) -> list[FetchedRecord]:
        """All there are, once there are so many keys: outside transactions some come again."""
        reader = self.cluster.log_consumer()
        reader.assign({TopicPartition(self.topic(name), 0): 0})
        found: list[FetchedRecord] = []

        def read() -> int:
            for records in reader.poll(1_000, 0.2).records.values():
                found.extend(records)
            return len({record.key() for record in found})

        until(
            lambda: read() >= count, lambda: f"{len(found)} records, not of {count} keys, in {name}"
        )
        for _ in range(3):  # more than there should be
            read()
        reader.close()
        return found


@pytest.fixture
def bench(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Bench:
    return Bench(bootstrap, unique("refused"), tmp_path)


@pytest.fixture
def big() -> bytes:
    return random.Random(3).randbytes(3 * LIMIT_BYTES // 2)


def test_records_that_are_too_large_are_dead_lettered(bench: Bench, big: bytes) -> None:
    bench.send(big)
    handlers = ErrorHandlers(production=dead_letter, dead_letter_topic=bench.topic("dead"))
    expected = sorted(i for i in range(RECORDS) if i not in BAD)
    with bench.running(bench.copied(), error_handlers=handlers) as app:
        good = bench.read("out", RECORDS - len(BAD))
        letters = bench.read("dead", len(BAD))
        counts = {str(i): 1 for i in expected}  # they can be read a moment after the outputs
        until(lambda: {key: row.value for key, row in app.store("counts").all()} == counts)
        metrics = app.metrics()
    assert sorted(int(r.key()) for r in good) == expected
    assert sorted(int(r.key()) for r in letters) == sorted(BAD)
    assert all(r.value() == big for r in letters)
    assert "dead_letters_total" in metrics


def test_without_a_handler_nothing_past_such_a_record_is_committed(
    bench: Bench, big: bytes
) -> None:
    bench.send(big)

    def run_to_the_end() -> None:
        with bench.running(bench.copied()) as app:
            until(lambda: not app.is_alive, "it goes on")

    with pytest.raises(RefusedError, match=r"max\.message\.bytes") as caught:
        run_to_the_end()
    error = caught.value
    bad = {(bench.topic("in"), i % 2, i // 2) for i in BAD}
    assert (error.topic, error.partition, error.offset) in bad
    assert re.search(rf"It sent {len(big) // 10}\d bytes to '{bench.topic('out')}'", str(error))


@pytest.mark.usefixtures("way")
def test_outputs_outside_transactions_are_no_exception(bench: Bench, big: bytes) -> None:
    """Nothing fails with them: a refused one that nobody notices would be lost."""
    bench.send(big)
    handlers = ErrorHandlers(production=skip)
    options: dict[str, Any] = {"guarantee": "at_least_once", "error_handlers": handlers}
    with bench.running(bench.copied(), **options):
        good = bench.read("out", RECORDS - len(BAD))
    assert {int(r.key()) for r in good} == {i for i in range(RECORDS) if i not in BAD}


def test_a_chosen_topic_that_does_not_exist_is_the_fault_of_its_record(bench: Bench) -> None:
    bench.send(b"elsewhere")
    builder = StreamsBuilder()
    stream = builder.stream(bench.topic("in"), key=str, value=bytes)
    stream.to(lambda key, value, place: bench.topic("out" if value == b"v" else "nowhere"))
    handlers = ErrorHandlers(production=skip)
    with bench.running(builder.build(), error_handlers=handlers):
        good = bench.read("out", RECORDS - len(BAD))
    assert sorted(int(r.key()) for r in good) == sorted(i for i in range(RECORDS) if i not in BAD)
