"""A registered kind of store, read from the changelog that an application wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import logstate
from logstate.changelog.spark.source import LogstateDataSource
from logstate.cli.main import app as command
from logstate.contracts.clients import NewTopic
from logstate.contracts.records import ProducedRecord
from logstate.kafka.cluster import KafkaCluster
from tests.patience import until
from tests.unit.changelog.stores.toy_kind import largest_values

ROWS = [("ada", 7, 2), ("cy", 1, 1)]


class SourceWithToyKind(LogstateDataSource):
    """Imports this file, and with it the kind, in Spark's Python processes."""

    @classmethod
    def name(cls) -> str:
        return "logstate-with-toy-kind"


@pytest.fixture
def application(bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> str:
    """The id of an application that has stored :data:`ROWS`, and ended."""
    name = unique("largest")
    cluster = KafkaCluster(bootstrap)
    admin, producer = cluster.admin(), cluster.plain_producer()
    admin.create_topics([NewTopic(f"{name}.{one}", 1, 1, {}) for one in ("in", "out")])
    encode = logstate.int64.serializer("", False)
    given = [(b"ada", 7), (b"bob", 5), (b"ada", 3), (b"bob", -1), (b"cy", 1)]
    producer.produce([ProducedRecord(f"{name}.in", 0, k, encode(v), 9) for k, v in given])
    producer.flush()
    with logstate.Application(
        largest_values(f"{name}.in", f"{name}.out"),
        application_id=name,
        bootstrap=bootstrap,
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=10),
    ) as app:
        store = app.store("best")
        until(lambda: store.partitions == [0] and store.get("cy") == 1)
    producer.close()
    admin.close()
    return name


def test_commands_and_tables_read_it(bootstrap: str, application: str, spark: SparkSession) -> None:
    arguments = ["get", "best", "ada", "--application-id", application]
    arguments += ["--bootstrap", bootstrap, "--json"]
    (shown,) = json.loads(CliRunner().invoke(command, arguments).stdout)["rows"]
    assert (shown["key"], shown["value"]) == ("ada", 7)

    table = logstate.read(bootstrap=bootstrap, application=application, store="best").to_arrow()
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == ROWS

    spark.dataSource.register(SourceWithToyKind)
    reader = spark.read.format(SourceWithToyKind.name())
    frame = reader.options(bootstrap=bootstrap, application=application, store="best").load()
    assert frame.columns == ["key", "value", "puts"]
    assert sorted(tuple(row) for row in frame.collect()) == ROWS
