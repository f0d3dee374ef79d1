"""Offsets and records that are gone on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
)

from logstate import Application, RestoreError, StreamsBuilder
from logstate.topology.plan.plan import Topology
from tests.broker.jvm_program import answer
from tests.broker.raw_topic import create_topic, write
from tests.patience import PATIENCE_S, until


@pytest.fixture
def topic(bootstrap: str, unique: Callable[[str], str]) -> str:
    name = unique("missing")
    create_topic(bootstrap, name)
    create_topic(bootstrap, f"{name}.out")
    return name


def counted(topic: str) -> Topology:
    """Counts per value behind a repartition topic."""
    builder = StreamsBuilder()
    words = builder.stream(topic, value=str).group_by(lambda _, v: v, key=str, name="words")
    words.count(store="n").to_stream().map_values(str, value=str).to(f"{topic}.out")
    return builder.build()


def passed(topic: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(topic, value=str).to(f"{topic}.out")
    return builder.build()


def application(topology: Topology, bootstrap: str, topic: str, state: Path, **more: Any) -> Any:
    return Application(
        topology,
        application_id=topic,
        bootstrap=bootstrap,
        state_dir=state,
        commit_interval=timedelta(milliseconds=50),
        **more,
    )


def results(bootstrap: str, topic: str) -> list[bytes]:
    """Every committed value of the output topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader-of-results",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(f"{topic}.out", 0, 0)])
    values: list[bytes] = []
    try:
        while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
            values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def ran(app: Application, bootstrap: str, topic: str, count: int) -> None:
    """Until so many results are committed."""
    with app:
        until(lambda: len(results(bootstrap, topic)) >= count)


def test_a_deleted_group_is_refused_where_results_are_counted_behind_a_repartition_topic(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    write(bootstrap, topic, [b"a", b"b", b"a"])
    ran(application(counted(topic), bootstrap, topic, tmp_path), bootstrap, topic, 3)
    answer("GroupDeletion.java", bootstrap, topic, lines=[])
    app = application(counted(topic), bootstrap, topic, tmp_path).start()
    until(lambda: app.state.is_over)
    with pytest.raises(RestoreError, match="2 inputs were read before") as refused:
        app.close()
    message = str(refused.value)
    assert f"input {topic}-0: nothing is committed, while its results are in the state" in message
    assert f"input {topic}-words-repartition-0: nothing is committed" in message
    assert sorted(results(bootstrap, topic)) == [b"1", b"1", b"2"]


@pytest.mark.parametrize("reset", ["earliest"])
def test_deleted_input_records_stop_it_and_are_passed_where_that_was_chosen(
    bootstrap: str, topic: str, tmp_path: Path, reset: str
) -> None:
    write(bootstrap, topic, [b"a", b"b"])
    options = {"offset_reset": "earliest"}
    ran(application(passed(topic), bootstrap, topic, tmp_path, **options), bootstrap, topic, 2)
    write(bootstrap, topic, [b"c", b"d", b"e", b"f"])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    until_4 = TopicPartition(topic, 0, 4)
    for deleted in admin.delete_records([until_4]).values():
        deleted.result()
    options = {"offset_reset": reset}
    app = application(passed(topic), bootstrap, topic, tmp_path, **options).start()
    until(lambda: app.state.is_over)
    with pytest.raises(RestoreError, match="Records 2 to 3 were not processed and are gone"):
        app.close()
    options["on_data_loss"] = "continue"
    ran(application(passed(topic), bootstrap, topic, tmp_path, **options), bootstrap, topic, 4)
    assert results(bootstrap, topic) == [b"a", b"b", b"e", b"f"]
