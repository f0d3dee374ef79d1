"""Wrong use is caught at build or start, with an error that says what to do."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.app.application import Application
from logstate.contracts.clients import NewTopic
from logstate.contracts.errors import (
    BrokerError,
    ConfigError,
    DeserializationError,
    StateDirectoryError,
    TopicError,
    TopologyError,
)
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.patience import PATIENCE_S


def create(bootstrap: str, **partitions: int) -> None:
    topics = [NewTopic(name, count, 1, {}) for name, count in partitions.items()]
    KafkaCluster(bootstrap).admin().create_topics(topics)


def counting(topic: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(topic, key=str, value=int).group_by_key().count(store="counts")
    return builder.build()


def application(topology: Topology, bootstrap: str, path: Path, **options: Any) -> Application:
    options.setdefault("application_id", path.name)
    return Application(topology, bootstrap=bootstrap, state_dir=path / "state", **options)


@pytest.fixture
def place(tmp_path: Path, unique: Callable[[str], str]) -> Path:
    path = tmp_path / unique("wrong")
    path.mkdir()
    return path


def test_a_missing_source_topic_is_named(bootstrap: str, place: Path) -> None:
    app = application(counting("never-created"), bootstrap, place)

    with pytest.raises(TopicError, match="'never-created' does not exist") as caught:
        app.start()

    assert "create it" in str(caught.value)
    app.close()


def test_more_copies_than_brokers_are_told_with_the_setting_that_asked_for_them(
    bootstrap: str, place: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    create(bootstrap, **{topic: 1})
    app = application(counting(topic), bootstrap, place, replication_factor=3)

    told = r"creating topic '.*3 copies of each partition.*1 broker: give replication_factor="
    with pytest.raises(BrokerError, match=told):
        app.start()
    app.close()


def test_settings_of_topics_that_brokers_refuse_are_told_with_the_topic(
    bootstrap: str, place: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("orders")
    create(bootstrap, **{topic: 1})
    wrong = {"compression.type": "gzp"}
    app = application(counting(topic), bootstrap, place, topic_config=wrong)

    with pytest.raises(BrokerError, match=r"creating topic '.*gzp.*Correct topic_config="):
        app.start()
    app.close()


def test_joining_topics_of_different_partition_counts_is_refused(
    bootstrap: str, place: Path, unique: Callable[[str], str]
) -> None:
    orders, customers = unique("orders"), unique("customers")
    create(bootstrap, **{orders: 3, customers: 2})
    builder = StreamsBuilder()
    table = builder.table(customers, key=str, value=str, store="customers")
    builder.stream(orders, key=str, value=str).join(table, lambda order, name: order + name).to(
        unique("out"), value=str
    )
    app = application(builder.build(), bootstrap, place)

    with pytest.raises(TopicError, match="different partition counts") as caught:
        app.start()

    assert orders in str(caught.value)
    assert customers in str(caught.value)
    app.close()


def test_a_changelog_with_another_partition_count_is_refused(
    bootstrap: str, place: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("clicks")
    create(bootstrap, **{topic: 2, f"{place.name}-counts-changelog": 5})
    app = application(counting(topic), bootstrap, place)

    with pytest.raises(TopicError, match="has 5 partitions and needs 2"):
        app.start()

    app.close()


def test_an_unreachable_broker_is_reported_at_once_and_ends_the_start_at_its_time_out(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = application(counting("clicks"), "127.0.0.1:1", place, start_timeout=timedelta(seconds=12))

    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1.*Connection refused"):
        app.start()

    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING][:1]
    assert "have not answered" in warning
    assert "Connection refused" in warning
    assert "The start waits for them. Check bootstrap=" in warning
    app.close()


def test_a_state_directory_that_cannot_be_made_is_refused(bootstrap: str, place: Path) -> None:
    (place / "state").write_text("a file is in the way")

    with pytest.raises(StateDirectoryError, match="state"):
        application(counting("clicks"), bootstrap, place)


def test_a_second_process_on_the_same_state_directory_is_refused(
    bootstrap: str, place: Path
) -> None:
    app = application(counting("clicks"), bootstrap, place)
    second = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys; from logstate.changelog.directory import StateDirectory;"
                " StateDirectory(sys.argv[1], sys.argv[2])"
            ),
            str(place / "state"),
            place.name,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    app.close()

    assert second.returncode != 0
    assert "StateDirectoryError" in second.stderr


def test_a_record_that_does_not_decode_stops_the_application_before_it(
    bootstrap: str, place: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("clicks")
    create(bootstrap, **{topic: 1})
    cluster = KafkaCluster(bootstrap)
    producer = cluster.plain_producer()
    good = (7).to_bytes(8, "big")
    producer.produce(
        [
            ProducedRecord(topic, 0, b"k", value, i + 1)
            for i, value in enumerate([good, b"bad", good])
        ]
    )
    producer.flush()
    app = application(counting(topic), bootstrap, place)

    with pytest.raises(DeserializationError) as caught:
        app.run(handle_signals=False)

    error = caught.value
    assert (error.topic, error.partition, error.offset) == (topic, 0, 1)
    partition = TopicPartition(topic, 0)
    consumer = cluster.group_consumer(group_id=place.name, instance_id=None)
    committed = consumer.committed([partition], PATIENCE_S)[partition]
    consumer.close()
    assert (committed.offset or 0) <= 1
    producer.close()
    app.close()


def test_settings_the_library_owns_and_bad_values_are_listed_together(place: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        application(
            counting("clicks"),
            "127.0.0.1:9092",
            place,
            guarantee="at_most_once",
            commit_interval=timedelta(0),
            kafka={"enable.idempotence": "false"},
        )

    assert len(caught.value.problems) == 3


def test_a_duplicate_store_name_is_refused_at_build() -> None:
    builder = StreamsBuilder()
    builder.stream("a", key=str, value=int).group_by_key().count(store="counts")
    builder.stream("b", key=str, value=int).group_by_key().count(store="counts")

    with pytest.raises(TopologyError, match="counts"):
        builder.build()


def test_a_missing_serde_is_refused_where_it_is_declared() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("a", key=str, value=int).map(lambda key, value: (value, key))

    with pytest.raises(TopologyError, match="serde") as caught:
        stream.to("out")

    assert "test_wrong_use.py" in str(caught.value)
