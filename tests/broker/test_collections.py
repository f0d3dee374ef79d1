"""Lists, maps, sets and counters on a real broker: a stop, a lost disk, and readers of the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import logstate
from logstate import Application, StoreAccessError
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from tests.patience import until
from tests.unit.topology.processor.collection_topology import HELD, ORDERS, PRICES, PUTS, topology

#: of HELD, as rows of a table
TABLES: dict[str, list[tuple[Any, ...]]] = {
    "orders": [(*key, value) for key, value in HELD["orders"]],
    "prices": [(*key, value) for key, value in HELD["prices"]],
    "tags": HELD["tags"],
    "visits": HELD["visits"],
}


def found(app: Application) -> dict[str, Any]:
    try:
        return {name: sorted(app.store(name).all()) for name in HELD}
    except StoreAccessError:  # not yet
        return {}


def test_elements_survive_a_lost_disk_and_are_read_from_the_changelog(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("collections")
    cluster = KafkaCluster(bootstrap)
    admin = cluster.admin()
    admin.create_topics([NewTopic(f"{name}-{one}", 2, 1, {}) for one in ("in", "out")])
    admin.close()
    producer = cluster.plain_producer()
    send = [
        ProducedRecord(f"{name}-in", len(key) % 2, key.encode(), value.to_bytes(8, signed=True), 5)
        for key, value in PUTS
    ]
    producer.produce(send)
    producer.flush()
    producer.close()
    for disk in ("first", "second"):
        with Application(
            topology(f"{name}-in", f"{name}-out"),
            application_id=name,
            bootstrap=bootstrap,
            state_dir=tmp_path / disk,
            commit_interval=timedelta(milliseconds=50),
        ) as app:
            until(lambda: found(app) == HELD)
            assert list(app.store(ORDERS).items("ada")) == [(1, -1), (2, 3), (3, 4)]
            assert app.store(PRICES).get("ada", 4) == 2.0
    for store, rows in TABLES.items():
        read = logstate.read(name, store, bootstrap=bootstrap).to_arrow().to_pylist()
        assert sorted(tuple(row.values()) for row in read) == rows
    place = ["--application-id", name, "--bootstrap", bootstrap, "--json"]
    answer = CliRunner().invoke(command, ["get", "prices", "ada", *place])
    shown = [(row["map_key"], row["value"]) for row in json.loads(answer.output)["rows"]]
    assert shown == [(-1, -0.5), (3, 1.5), (4, 2.0)]
