"""A query with a new checkpoint may not skip changes that an existing view or table lacks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark import bucketed_view, parquet_view
from logstate.changelog.spark.feed_source import FeedSource, record_in_table, with_source
from logstate.changelog.spark.feed_start import FeedStart, check_start, start_of
from logstate.contracts.errors import RestoreError
from tests.campaigns.spark_versions.late_python import run_available
from tests.spark.changelog_writer import ApplicationLog, int64

SCHEMA = "change_type string, key string, value long, _partition int, _offset long"
TOPIC = "shop-spend-changelog"
SOURCE = FeedSource("shop", TOPIC, "ZbQ0", 2)
#: starts of a new checkpoint, and whether a target that has reached ``REACHED`` may lack changes
REACHED = {0: 5, 1: 9}
STARTS = {
    "latest": (FeedStart(TOPIC, None), "at the latest offsets"),
    "offsets beyond": (FeedStart(TOPIC, {0: 5, 1: 10}), '{"1": 10}}, so'),
    "a partition that it lacks": (FeedStart(TOPIC, {0: 0, 2: 1}), '{"2": 1}}, so'),
    "deleted": (FeedStart(TOPIC, {0: 7, 1: 0}, False), '{"0": 7}} now'),
    "reached offsets": (FeedStart(TOPIC, REACHED), ""),
    "offsets before": (FeedStart(TOPIC, {0: 2, 1: 9}), ""),
    "earliest": (FeedStart(TOPIC, {0: 0, 1: 0}, False), ""),
    "an earlier version": (None, ""),
}
Batch = Callable[..., DataFrame]


@pytest.fixture
def batch(spark: SparkSession) -> Batch:
    def make(start: FeedStart | None, *offsets: int) -> DataFrame:
        changes = [("update", f"k{offset}", offset, 0, offset) for offset in offsets]
        found = spark.createDataFrame(changes, SCHEMA)
        return found.to(with_source(found.schema, SOURCE, start))

    return make


@pytest.fixture(params=[parquet_view, bucketed_view])
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    is_bucketed = request.param is bucketed_view
    return request.param(tmp_path / "view", **({"buckets": 2} if is_bucketed else {}))


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Any:
    name = "started_target"
    columns = "key string, value long, _partition int, _offset long"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING parquet LOCATION '{tmp_path}'")
    yield name
    spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("case", STARTS)
def test_a_start_is_refused_if_a_target_may_lack_the_changes_before_it(case: str) -> None:
    start, said = STARTS[case]

    if not said:
        check_start("the view", start, REACHED)
        return
    with pytest.raises(RestoreError) as caught:
        check_start("the view", start, REACHED)
    assert said in str(caught.value)
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize("case", ["latest", "deleted"])
def test_an_old_view_refuses_a_new_checkpoint_that_skips_changes(
    batch: Batch, view: Any, case: str
) -> None:
    view(batch(None, 1, 2), 0)
    view(batch(None, 4), 1)
    before = view.state()

    # Without the check of an empty first batch the next batch would be accepted.
    for first_batch in (batch(STARTS[case][0], 12), batch(STARTS[case][0])):
        with pytest.raises(RestoreError, match="the changes in between"):
            view(first_batch, 0)
        assert view.state() == before


@pytest.mark.parametrize("case", ["offsets before", "earliest", "an earlier version"])
def test_an_old_view_continues_with_a_new_checkpoint_that_skips_none(
    spark: SparkSession, batch: Batch, view: Any, case: str
) -> None:
    start = STARTS[case][0]
    view(batch(None, 1, 2), 0)
    view(batch(None, 8), 1)
    if start is not None:
        start = FeedStart(TOPIC, {0: start.offsets[0]}, start.is_given)  # the batch has one

    view(batch(start, 2, 8, 9), 0)

    assert view.read(spark).count() == 4


def test_a_first_batch_that_starts_at_the_latest_offsets_can_be_repeated(
    spark: SparkSession, batch: Batch, view: Any
) -> None:
    latest = FeedStart(TOPIC, None)

    for changes in (batch(latest, 12), batch(latest, 12)):
        view(changes, 0)
    view(batch(latest, 14), 1)

    assert view.read(spark).count() == 2
    with pytest.raises(RestoreError, match="at the latest offsets"):
        view(batch(latest, 20), 0)


def test_a_table_refuses_a_new_checkpoint_that_skips_changes(
    spark: SparkSession, batch: Batch, table: str
) -> None:
    latest = FeedStart(TOPIC, None)
    record_in_table(spark, table, 0, batch(latest, 12))
    record_in_table(spark, table, 0, batch(latest, 12))
    spark.sql(f"INSERT INTO {table} VALUES ('k12', 12, 0, 12)")
    record_in_table(spark, table, 0, batch(latest, 12))
    record_in_table(spark, table, 1, batch(latest, 14))

    for changes in (batch(latest, 20), batch(latest)):
        with pytest.raises(RestoreError, match=r"the table .* has the changes up to the offsets"):
            record_in_table(spark, table, 0, changes)
    record_in_table(spark, table, 0, batch(FeedStart(TOPIC, {0: 13}), 20))
    with pytest.raises(RestoreError, match='"0": 14'):
        record_in_table(spark, table, 0, batch(FeedStart(TOPIC, {0: 14}), 20))


def test_a_table_that_began_at_the_earliest_offsets_refuses_the_latest_even_if_it_is_empty(
    spark: SparkSession, batch: Batch, table: str
) -> None:
    record_in_table(spark, table, 0, batch(FeedStart(TOPIC, {0: 0, 1: 0}, False), 1))

    with pytest.raises(RestoreError, match="at the latest offsets"):
        record_in_table(spark, table, 0, batch(FeedStart(TOPIC, None), 20))


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({}, {0: 0, 1: 0}),
        ({"partition": "1"}, {1: 0}),
        ({"startingOffsets": "latest"}, None),
        ({"startingOffsets": '{"TOPIC": {"0": 1, "1": 0}}'}, {0: 1, 1: 0}),
        ({"failOnDataLoss": "false"}, "unknown"),
    ],
)
def test_a_change_feed_names_its_start(
    spark: SparkSession, log: ApplicationLog, options: dict[str, str], offsets: Any
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"b", int64(2))])
    given = {name: value.replace("TOPIC", topic) for name, value in options.items()}

    start = start_of(feed(spark, log, **given).where("value >= 0"))

    assert ("unknown" if start is None else start.offsets) == offsets


def test_a_query_that_lost_its_checkpoint_cannot_go_on_at_the_latest_offsets(
    spark: SparkSession, log: ApplicationLog, tmp_path: Path
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    view = parquet_view(tmp_path / "view")

    def run(checkpoint: str, **options: str) -> None:
        changes = feed(spark, log, streaming=True, **options)
        writer = changes.writeStream.foreachBatch(view)
        run_available(writer.option("checkpointLocation", str(tmp_path / checkpoint)))

    run("first")
    log.write(topic, [(b"missed", int64(2))])
    for _ in range(2):
        with pytest.raises(PySparkException, match="has the changes up to the offsets"):
            run("second", startingOffsets="latest")
        log.write(topic, [(b"b", int64(3))])

    run("third")
    assert sorted(row["key"] for row in view.read(spark).collect()) == ["a", "b", "missed"]


def feed(
    spark: SparkSession, log: ApplicationLog, *, streaming: bool = False, **options: str
) -> DataFrame:
    names = {"bootstrap": log.bootstrap, "application": log.application, "store": "spend"}
    reader: Any = spark.readStream if streaming else spark.read
    given = {**names, "readChangeFeed": "true", "stallSeconds": "150", **options}
    return reader.format("logstate").options(**given).load()
