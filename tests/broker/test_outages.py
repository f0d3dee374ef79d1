"""A broker that goes away under a running application, and functions that take long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from logstate import Application, StreamsBuilder
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.local_broker.broker import LocalBroker
from tests.broker.group_settings import expect_heartbeats_within
from tests.campaigns.chaos.environment import brokers_that_start_fast
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

WATCH = "logstate.worker.watchdog"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """One that may be killed."""
    with (
        brokers_that_start_fast(),
        LocalBroker.start(data=tmp_path_factory.mktemp("broker"), heap="400m") as made,
    ):
        yield made


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
    expect_heartbeats_within(broker.bootstrap, "outage")  # its reads go on through any pause
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
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        produce(broker, "clicks", "a", "b")
        until(lambda: count() == 2)
        caplog.clear()

        killed = time.monotonic()
        broker.kill()
        until(lambda: told(logging.WARNING))
        assert count() == 2
        until(lambda: app.store("counts").age > timedelta(seconds=5))
        assert app.is_live()
        assert app.is_ready()
        assert not app.is_ready(max_age=timedelta(seconds=1))

        broker.restart()
        until(lambda: told(logging.INFO))
        minutes = (time.monotonic() - killed) / 60
        (info, *_), (warning, *reminders) = told(logging.INFO), told(logging.WARNING)
        assert len(reminders) <= minutes  # one a minute, of an outage that lasts
        produce(broker, "clicks", "c")
        until(lambda: count() == 3)
        until(lambda: app.store("counts").age < timedelta(seconds=5))
    assert "Connection refused" in warning or "Disconnected" in warning
    assert "answer again after" in info
    ours = [r for r in caplog.records if r.name == "logstate.kafka"]
    assert all(r.levelno < logging.ERROR for r in caplog.records)
    assert not [r for r in ours if "FAIL" in r.getMessage()]


@pytest.mark.usefixtures("way")
def test_results_outside_transactions_that_expire_during_an_outage_are_sent_again(
    broker: LocalBroker,
    tmp_path: Path,
    unique: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Their deliveries fail; if nobody noticed, the commit after the outage would skip them."""
    name, count = unique("expiring"), 300
    caplog.set_level(logging.DEBUG, "logstate")
    create(broker, **{f"{name}-in": 1, f"{name}-out": 1})
    expect_heartbeats_within(broker.bootstrap, name)
    is_in, is_killed = threading.Event(), threading.Event()

    def wait_for_the_kill(value: str) -> str:
        if value == str(count - 1):
            is_in.set()
            is_killed.wait(PATIENCE_S)
        return value

    builder = StreamsBuilder()
    values = builder.stream(f"{name}-in", key=str, value=str)
    values.map_values(wait_for_the_kill, value=str).to(f"{name}-out")
    app = Application(
        builder.build(),
        application_id=name,
        bootstrap=broker.bootstrap,
        state_dir=tmp_path,
        guarantee="at_least_once",
        kafka={"message.timeout.ms": 1_500},
    )
    found: set[bytes | None] = set()

    def read(*wanted: str) -> bool:
        for records in reader.poll(1_000, 0.2).records.values():
            found.update(one.value() for one in records)
        return found >= {value.encode() for value in wanted}

    with app, closing(KafkaCluster(broker.bootstrap).log_consumer()) as reader:
        reader.assign({TopicPartition(f"{name}-out", 0): 0})
        # After the first result, the client knows the topic and its partitions.
        produce(broker, f"{name}-in", "0")
        until(lambda: read("0"))
        produce(broker, f"{name}-in", *map(str, range(1, count)))
        until(is_in.is_set, "the last record is not processed")
        broker.kill()
        is_killed.set()
        until(lambda: "delivering a record" in caplog.text, lambda: caplog.text)
        broker.restart()
        until(lambda: read(*map(str, range(count))), lambda: f"{len(found)} of {count} results")


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
        # A pause of the machine must neither cost the membership nor the transaction: what is
        # processed then is processed again, and the function is called again.
        expect_heartbeats_within(broker.bootstrap, name)
        settings = {"max.poll.interval.ms": interval_ms}
        cluster = KafkaCluster(broker.bootstrap, settings, transaction_timeout_ms=300_000)
        builder = StreamsBuilder()
        values = builder.stream(f"{name}-in", key=str, value=str)
        values.map_values(self.ask, value=str).to(f"{name}-out")
        return Application(
            builder.build(),
            application_id=name,
            bootstrap=broker.bootstrap,
            state_dir=path,
            kafka=settings,
            cluster=cluster,
        )


def test_a_call_longer_than_the_poll_interval_is_made_once(
    broker: LocalBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(broker, **{"alone-in": 1, "alone-out": 1})
    waiting = Waiting(32.0)
    with waiting.application(broker, "alone", tmp_path, 15_000) as app:
        app.wait_until_running(timedelta(seconds=PATIENCE_S))
        produce(broker, "alone-in", "slow", "next")
        assert waiting.is_in.wait(PATIENCE_S)
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
    first = waiting.application(broker, "shared", tmp_path / "a", 60_000)
    second = waiting.application(broker, "shared", tmp_path / "b", 60_000)
    with first:
        first.wait_until_running(timedelta(seconds=PATIENCE_S))
        produce(broker, "shared-in", "slow", partition=1)  # which goes to the second one
        assert waiting.is_in.wait(PATIENCE_S)
        with second:
            until(lambda: list(second.tasks().values()) == ["running"])
            until(lambda: list(first.tasks().values()) == ["running"])
            produce(broker, "shared-in", "x", partition=0)
            produce(broker, "shared-in", "y", partition=1)
            until(lambda: len(waiting.calls) == 3)
    assert sorted(waiting.calls) == ["slow", "x", "y"]
