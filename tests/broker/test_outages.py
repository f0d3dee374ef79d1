"""A broker that goes away under a running application, and functions that take long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from logstate import Application, StreamsBuilder
from logstate.contracts.records import ProducedRecord
from logstate.contracts.seams import NewTopic
from logstate.kafka.cluster import KafkaCluster
from logstate.local_broker.broker import LocalBroker
from tests.chaos.surroundings import brokers_that_start_fast

pytestmark = [pytest.mark.broker, pytest.mark.slow]

LIMIT_S = 90.0
WATCH = "logstate.worker.watch"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """One that may be killed."""
    with (
        brokers_that_start_fast(),
        LocalBroker.start(data=tmp_path_factory.mktemp("broker"), heap="400m") as made,
    ):
        yield made


def until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def produce(broker: LocalBroker, topic: str, *values: str, partition: int = 0) -> None:
    producer = KafkaCluster(broker.bootstrap).plain_producer()
    producer.produce([ProducedRecord(topic, partition, b"k", v.encode(), 1) for v in values])
    producer.flush()
    producer.close()


def create(broker: LocalBroker, **topics: int) -> None:
    KafkaCluster(broker.bootstrap).admin().create_topics(
        [NewTopic(name, partitions, 1, {}) for name, partitions in topics.items()]
    )


def test_reads_go_on_while_the_broker_is_killed_and_the_log_tells_it_in_two_lines(
    broker: LocalBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "logstate")
    create(broker, clicks=1)
    builder = StreamsBuilder()
    builder.stream("clicks", key=str, value=str).group_by_key().count(store="counts")
    app = Application(
        builder.build(), application_id="outage", bootstrap=broker.bootstrap, state_dir=tmp_path
    )

    def count() -> int:
        row = app.store("counts").get("k")
        return 0 if row is None else row.value

    def told(level: int) -> list[str]:
        return [r.getMessage() for r in caplog.records if r.name == WATCH and r.levelno == level]

    with app:
        app.wait_until_running()
        produce(broker, "clicks", "a", "b")
        until(lambda: count() == 2)
        caplog.clear()

        broker.kill()
        until(lambda: told(logging.WARNING))
        assert count() == 2
        until(lambda: app.store("counts").age > timedelta(seconds=5))
        assert app.is_live()
        assert app.is_ready()
        assert not app.is_ready(max_age=timedelta(seconds=1))

        broker.restart()
        until(lambda: told(logging.INFO))
        produce(broker, "clicks", "c")
        until(lambda: count() == 3)
        until(lambda: app.store("counts").age < timedelta(seconds=5))
    (warning,), (info,) = told(logging.WARNING), told(logging.INFO)
    assert "Connection refused" in warning or "Disconnected" in warning
    assert "answer again after" in info
    ours = [r for r in caplog.records if r.name == "logstate.kafka"]
    assert all(r.levelno < logging.ERROR for r in caplog.records)
    assert not [r for r in ours if "FAIL" in r.getMessage()]


class Waiting:
    """A flow whose function waits where it is told to."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.calls: list[str] = []
        self.is_in = threading.Event()

    def ask(self, value: str) -> str:
        self.calls.append(value)
        if value == "slow":
            self.is_in.set()
            threading.Event().wait(self.seconds)
        return value

    def application(
        self, broker: LocalBroker, name: str, path: Path, interval_ms: int
    ) -> Application:
        builder = StreamsBuilder()
        values = builder.stream(f"{name}-in", key=str, value=str)
        values.map_values(self.ask, value=str).to(f"{name}-out")
        return Application(
            builder.build(),
            application_id=name,
            bootstrap=broker.bootstrap,
            state_dir=path,
            kafka={"max.poll.interval.ms": interval_ms},
        )


def test_a_call_longer_than_the_poll_interval_is_made_once(
    broker: LocalBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(broker, **{"alone-in": 1, "alone-out": 1})
    waiting = Waiting(13.0)
    with waiting.application(broker, "alone", tmp_path, 6_000) as app:
        app.wait_until_running()
        produce(broker, "alone-in", "slow", "next")
        assert waiting.is_in.wait(LIMIT_S)
        until(lambda: not app.is_live())
        assert "ask at" in app.is_live().reason
        until(lambda: "next" in waiting.calls)
        until(lambda: app.metrics_registry.total("commit_total") >= 2)
    assert waiting.calls == ["slow", "next"]
    assert "a call has been running for" in caplog.text
    assert not [r for r in caplog.records if "replayed" in r.getMessage()]


def test_a_rebalance_during_a_call_waits_for_its_end(broker: LocalBroker, tmp_path: Path) -> None:
    create(broker, **{"shared-in": 2, "shared-out": 1})
    waiting = Waiting(15.0)
    first = waiting.application(broker, "shared", tmp_path / "a", 30_000)
    second = waiting.application(broker, "shared", tmp_path / "b", 30_000)
    with first:
        first.wait_until_running()
        produce(broker, "shared-in", "slow", partition=1)  # which goes to the second one
        assert waiting.is_in.wait(LIMIT_S)
        with second:
            until(lambda: list(second.tasks().values()) == ["running"])
            until(lambda: list(first.tasks().values()) == ["running"])
            produce(broker, "shared-in", "x", partition=0)
            produce(broker, "shared-in", "y", partition=1)
            until(lambda: len(waiting.calls) == 3)
    assert sorted(waiting.calls) == ["slow", "x", "y"]
