"""A table kept in its source topic, on a real broker: whoever reads it sees the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from typer.testing import CliRunner

import logstate
from logstate import Application, StreamsBuilder, serdes
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.kafka.cluster import KafkaCluster
from tests.patience import PATIENCE_S, until

RECORDS = [
    (b'{"n":1}', b'{"city":"Oslo"}'),
    (b'{"n":2}', b'{"city":"Rome"}'),
    (b'{ "n" : 1 }', b" null "),  # the same key, and no row any more
    (b'{"n":3}', b"null"),
    (b'{ "n": 2 }', b'{"city":"Bonn"}'),
]
ROLLED_BACK = (b'{"n":4}', b'{"city":"Nice"}')
ROWS = {'{"n":2}': {"city": "Bonn"}}


def write(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for records, end in (
        (RECORDS, producer.commit_transaction),
        ([ROLLED_BACK], producer.abort_transaction),
    ):
        producer.begin_transaction()
        for key, value in records:
            producer.produce(topic, key=key, value=value)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)


def test_every_reader_of_a_source_topic_sees_the_rows_of_the_store(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("users")
    admin = KafkaCluster(bootstrap).admin()
    admin.create_topics([NewTopic(name, 1, 1, {"cleanup.policy": "compact"})])
    admin.close()
    write(bootstrap, name)

    def rows(disk: str) -> dict[str, Any]:
        builder = StreamsBuilder()
        builder.table(name, key=serdes.json, value=serdes.json, store="users")
        with Application(
            builder.build(optimization="all"),
            application_id=name,
            bootstrap=bootstrap,
            state_dir=tmp_path / disk,
            commit_interval=timedelta(milliseconds=10),
        ) as app:
            app.wait_until_running(timedelta(seconds=PATIENCE_S))
            users = app.store("users")
            until(lambda: {"city": "Bonn"} in [row.value for _, row in users.all()])
            assert users.get({"n": 4}) is None
            return {json.dumps(key, separators=(",", ":")): row.value for key, row in users.all()}

    assert rows("first") == ROWS
    assert rows("another") == ROWS, "after a restore"
    found = logstate.read(name, "users", bootstrap=bootstrap).to_arrow().to_pylist()
    assert {row["key"]: json.loads(row["value"]) for row in found} == ROWS
    for key, status in (('{"n": 1}', 6), ('{"n": 2}', 0), ('{"n": 3}', 6), ('{"n": 4}', 6)):
        place = ["--application-id", name, "--bootstrap", bootstrap, "--json"]
        said = CliRunner().invoke(command, ["get", "users", key, *place])
        assert said.exit_code == status, (key, said.output)
