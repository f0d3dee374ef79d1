"""Views and tables record the topic that their rows are of, and refuse the changes of another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from logstate.changelog.spark import bucketed_view, parquet_view
from logstate.changelog.spark.feed_source import (
    FeedSource,
    record_in_table,
    source_of,
    with_source,
)
from logstate.changelog.spark.views import latest_changes
from logstate.contracts.errors import RestoreError
from tests.spark.changelog_writer import ApplicationLog, int64

SCHEMA = "change_type string, key string, value long, _partition int, _offset long"
RECORDED = FeedSource("shop", "shop-spend-changelog", "ZbQ0", 2)
OTHERS = {
    "created again": FeedSource("shop", "shop-spend-changelog", "x1Yp", 2),
    "resharded": FeedSource("shop", "shop-spend-changelog-2", "x1Yp", 4),
    "other partition count": FeedSource("shop", "shop-spend-changelog", "ZbQ0", 4),
    "other application": FeedSource("bank", "shop-spend-changelog", "ZbQ0", 2),
}
Batch = Callable[..., DataFrame]


@pytest.fixture
def batch(spark: SparkSession) -> Batch:
    def make(source: FeedSource | None, *keys: str) -> DataFrame:
        changes = [("update", key, n, 0, n) for n, key in enumerate(keys)]
        found = spark.createDataFrame(changes, SCHEMA)
        return found if source is None else found.to(with_source(found.schema, source))

    return make


@pytest.fixture(params=[parquet_view, bucketed_view])
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    is_bucketed = request.param is bucketed_view
    return request.param(tmp_path / "view", **({"buckets": 2} if is_bucketed else {}))


def forget_source(view: Any) -> None:
    """Make it a view of an earlier version."""
    path = view.path / "CURRENT"
    published = json.loads(path.read_text())
    del published["source"]
    path.write_text(json.dumps(published))


def test_a_view_refuses_the_changes_of_a_topic_that_was_created_again(
    spark: SparkSession, log: ApplicationLog, view: Any
) -> None:
    def feed() -> DataFrame:
        reader = spark.read.format("logstate").option("readChangeFeed", "true")
        options = {"bootstrap": log.bootstrap, "application": log.application, "store": "spend"}
        return reader.options(**options, cut="latest").load().where("value >= 0")

    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"b", int64(2)), (b"c", int64(3))])
    view(feed(), 0)
    view(feed(), 1)
    log.create_again(topic)
    log.write(topic, [(b"new", int64(9))])

    for batch_id in (0, 2):
        with pytest.raises(RestoreError, match="whose offsets count other records") as caught:
            view(feed(), batch_id)

    said = str(caught.value)
    assert f"application {log.application!r}, topic {topic!r} with the id " in said
    assert said.count(". ") == 0
    assert said.endswith("start the query with a new checkpoint and a new, empty target")
    assert view.read(spark).count() == 3


@pytest.mark.parametrize("other", OTHERS)
def test_a_view_refuses_the_changes_of_another_source(
    spark: SparkSession, batch: Batch, view: Any, other: str
) -> None:
    view(batch(RECORDED, "a"), 0)
    before = view.state()
    assert before.source == RECORDED

    for changes in (batch(OTHERS[other], "b"), batch(OTHERS[other])):
        with pytest.raises(RestoreError, match=r"holds changes of .* and this batch is of "):
            view(changes, 1)

    assert view.state() == before
    view(batch(FeedSource("", RECORDED.topic, RECORDED.topic_id, 2), "a", "c"), 1)
    assert view.read(spark).count() == 2


def test_a_view_refuses_changes_that_do_not_tell_their_source(batch: Batch, view: Any) -> None:
    view(batch(RECORDED, "a"), 0)

    with pytest.raises(RestoreError, match="keep both columns of the change feed unchanged"):
        view(batch(None, "a", "b"), 1)


def test_a_view_of_an_earlier_version_records_the_source_of_the_next_batch(
    batch: Batch, view: Any
) -> None:
    view(batch(RECORDED, "a"), 0)
    forget_source(view)
    with pytest.raises(RestoreError, match="does not record the topic of its rows"):
        view(batch(RECORDED, "a", "b"), 0)

    view(batch(RECORDED, "a", "b"), 1)

    assert view.state().source == RECORDED


def test_the_source_stays_with_changes_that_are_filtered_projected_and_grouped(
    batch: Batch,
) -> None:
    changes = batch(RECORDED, "a", "b")
    others = changes.withColumn("_partition", f.col("_partition") + 0)

    for kept in (
        changes.where("value > 0").select("_offset", "_partition", "key"),
        latest_changes(changes),
        others,
    ):
        assert source_of(kept) == RECORDED
    assert source_of(others.withColumn("_offset", f.col("_offset") + 0)) is None


def test_a_table_records_its_source_and_refuses_another(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    table = "recorded_target"
    spark.sql(f"CREATE TABLE {table} (key string) USING parquet LOCATION '{tmp_path}'")
    try:
        record_in_table(spark, table, 0, batch(None, "a"))
        record_in_table(spark, table, 0, batch(RECORDED, "a"))
        record_in_table(spark, table, 0, batch(RECORDED, "a"))
        for other in (*OTHERS.values(), None):
            with pytest.raises(RestoreError, match=f"the table {table} holds changes of applicat"):
                record_in_table(spark, table, 7, batch(other, "a"))

        rows = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
        properties = {row["key"]: row["value"] for row in rows}
        assert properties["logstate.application"] == "shop"
        assert properties["logstate.topic_id"] == "ZbQ0"
        assert properties["logstate.partitions"] == "2"
    finally:
        spark.sql(f"DROP TABLE {table}")


def test_a_table_with_rows_of_an_unknown_source_is_refused_at_a_new_checkpoint(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    table = "unrecorded_target"
    spark.sql(f"CREATE TABLE {table} (key string) USING parquet LOCATION '{tmp_path}'")
    try:
        spark.sql(f"INSERT INTO {table} VALUES ('a')")
        with pytest.raises(RestoreError, match="run ALTER TABLE unrecorded_target SET"):
            record_in_table(spark, table, 0, batch(RECORDED, "a"))
        record_in_table(spark, table, 5, batch(RECORDED, "a"))
        with pytest.raises(RestoreError, match="whose offsets count other records"):
            record_in_table(spark, table, 0, batch(OTHERS["resharded"], "a"))
    finally:
        spark.sql(f"DROP TABLE {table}")
