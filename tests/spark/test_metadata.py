"""What there is to read is a table too: ``format("logstate-metadata")``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from logstate.changelog.spark import create_cut
from logstate.cli.main import app as command
from tests.spark.changelog_writer import ApplicationLog, int64

Metadata = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def metadata(spark: SparkSession, log: ApplicationLog) -> Metadata:
    def load(table: str, **options: str) -> list[dict[str, Any]]:
        reader = spark.read.format("logstate-metadata").options(bootstrap=log.bootstrap)
        found = reader.options(table=table, **{"application": log.application, **options}).load()
        return [row.asDict() for row in found.collect()]

    return load


def test_applications_stores_and_schemas_are_tables(
    log: ApplicationLog, metadata: Metadata, spark: SparkSession
) -> None:
    topic = log.add_store("spend")
    log.add_store("hourly", "window", window_size_ms=1_000)

    (found,) = metadata("applications")
    assert (found["application"], found["stores"]) == (log.application, 2)
    everywhere = spark.read.format("logstate-metadata").options(bootstrap=log.bootstrap)
    listed = everywhere.option("table", "applications").load().where(f"stores = {2}").collect()
    assert log.application in {row["application"] for row in listed}
    stores = {row["store"]: row for row in metadata("stores")}
    assert stores["spend"]["changelog"] == topic
    assert stores["hourly"]["window_size_ms"] == 1_000
    columns = [
        (row["column"], row["type"]) for row in metadata("schemas") if row["store"] == "hourly"
    ]
    assert columns == [
        ("key", "string"),
        ("window_start", "timestamp"),
        ("window_end", "timestamp"),
        ("value", "bigint"),
    ]


def test_cuts_and_lag_are_tables(log: ApplicationLog, metadata: Metadata) -> None:
    topic = log.add_store("spend")
    log.write_manifest(inputs=[log.source])
    log.write(log.source, [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
    log.commit(2, {topic: log.write(topic, [(b"a", int64(1))])})
    log.commit(0, {topic: 0}, partition=1)
    create_cut(log.bootstrap, log.application, "noon")

    cuts = [
        (row["cut"], row["partition"], row["position"], row["records"]) for row in metadata("cuts")
    ]
    assert cuts == [
        ("latest-commit", 0, 1, None),
        ("latest-commit", 1, 0, None),
        ("noon", 0, 1, 1),
        ("noon", 1, 0, 0),
    ]
    lags = [(row["partition"], row["committed"], row["end"], row["lag"]) for row in metadata("lag")]
    assert lags == [(0, 2, 4, 2), (1, 0, 0, 0)]


def test_an_application_without_a_commit_is_in_every_table(
    log: ApplicationLog, metadata: Metadata
) -> None:
    topic = log.add_store("spend")
    log.write_manifest(inputs=[log.source])
    log.write(topic, [(b"a", int64(1))])

    found = {table: metadata(table) for table in ("applications", "stores", "schemas", "lag")}
    assert all(found.values())
    cuts = [(row["cut"], row["partition"], row["position"]) for row in metadata("cuts")]
    assert cuts == [("latest-commit", 0, None), ("latest-commit", 1, None)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "shops"}, "must be one of"),
        ({"table": "lag", "application": "nobody"}, "has no topic 'nobody-cuts'"),
        ({"table": "lag", "stores": "x"}, "unknown option 'stores'"),
    ],
)
def test_a_wrong_request_of_metadata_says_what_is_there(
    log: ApplicationLog, metadata: Metadata, options: dict[str, str], message: str
) -> None:
    log.add_store("spend")

    with pytest.raises(PySparkException, match=message):
        metadata(**options)


def test_the_doctor_finds_keys_that_were_put_where_they_do_not_belong(log: ApplicationLog) -> None:
    topic = log.add_store("spend")
    keys = [b"%d" % n for n in range(10)]
    log.write(topic, [(key, int64(1)) for key in keys])
    log.write(topic, [(key, int64(1)) for key in keys], partition=1)

    asked = ["doctor", "spark", "--bootstrap", log.bootstrap, "--application-id", log.application]
    answer = CliRunner().invoke(command, [*asked, "--json"])

    found = {one["subject"]: one for one in json.loads(answer.stdout)["findings"]}
    assert found["keys of spend"]["found"].startswith("10 of 20 in another partition")
    assert found["worker's python"]["level"] == "ok"
