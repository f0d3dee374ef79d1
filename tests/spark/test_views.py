"""A parquet view is the store, kept up to date by a streaming query."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark import ParquetView, bucketed_view, merge_into, parquet_view
from logstate.changelog.spark.retention import Retention
from logstate.contracts.errors import ConfigError, RestoreError
from tests.campaigns.spark_versions.late_python import run_available
from tests.spark.changelog_writer import ApplicationLog, int64, window_key

SCHEMA = "change_type string, key string, value long, _partition int, _offset long"
Change = tuple[str, str, int | None, int, int]


@pytest.fixture
def view(tmp_path: Path) -> ParquetView:
    return parquet_view(tmp_path / "view")


@pytest.fixture
def batch(spark: SparkSession) -> Callable[..., DataFrame]:
    return lambda *changes: spark.createDataFrame(list(changes), SCHEMA)


def table_of(view: ParquetView, spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in view.read(spark).select("key", "value").collect())


def test_a_stream_keeps_the_view_equal_to_the_store(
    spark: SparkSession, log: ApplicationLog, view: ParquetView, tmp_path: Path
) -> None:
    topic = log.add_store("hourly", "timestamped_window", window_size_ms=1_000)

    def catch_up() -> list[tuple[Any, ...]]:
        options = {
            "bootstrap": log.bootstrap,
            "application": log.application,
            "store": "hourly",
            "times": "ms",
        }
        changes = spark.readStream.format("logstate").options(**options, readChangeFeed="true")
        writer = changes.load().writeStream.foreachBatch(view)
        run_available(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
        table = spark.read.format("logstate").options(**options, cut="latest").load()
        rows = view.read(spark).select(table.columns).collect()
        assert sorted(rows) == sorted(table.collect())
        return sorted(tuple(row) for row in rows)

    log.write(topic, [(window_key("a", 0), int64(1)), (window_key("a", 1_000), int64(2))])
    log.write(topic, [(window_key("b", 0), int64(5))], partition=1)
    assert catch_up() == [("a", 0, 1_000, 1), ("a", 1_000, 2_000, 2), ("b", 0, 1_000, 5)]

    log.write(topic, [(window_key("a", 0), None), (window_key("a", 1_000), int64(3))])
    log.write(topic, [(window_key("a", 1_000), int64(9))], aborts=True)
    assert catch_up() == [("a", 1_000, 2_000, 3), ("b", 0, 1_000, 5)]


def test_within_a_batch_the_highest_offset_wins(
    spark: SparkSession, view: ParquetView, batch: Callable[..., DataFrame]
) -> None:
    view(batch(("update", "a", 2, 0, 7), ("update", "a", 1, 0, 3), ("delete", "b", None, 0, 4)), 0)

    assert table_of(view, spark) == [("a", 2)]


def test_a_repeated_batch_changes_nothing(
    spark: SparkSession, view: ParquetView, batch: Callable[..., DataFrame]
) -> None:
    first = batch(("update", "a", 1, 0, 0), ("update", "b", 1, 0, 1))
    second = batch(("delete", "a", None, 0, 2), ("update", "b", 2, 0, 3))
    view(first, 0)
    view(second, 1)
    state = view.state()

    view(second, 1)

    assert view.state() == state
    assert table_of(view, spark) == [("b", 2)]


def test_a_query_started_anew_from_the_beginning_takes_only_what_is_new(
    spark: SparkSession, view: ParquetView, batch: Callable[..., DataFrame]
) -> None:
    view(batch(("update", "a", 1, 0, 0)), 0)
    view(batch(("delete", "a", None, 0, 1)), 1)

    # The same log read again in other batches: batch 0 ends before the delete.
    view(batch(("update", "a", 1, 0, 0), ("update", "z", 9, 1, 0)), 0)
    assert table_of(view, spark) == [("z", 9)]
    view(batch(("delete", "a", None, 0, 1), ("update", "c", 3, 0, 2)), 1)
    assert table_of(view, spark) == [("c", 3), ("z", 9)]


def test_a_batch_without_changes_is_noted_and_one_behind_a_gap_is_refused(
    spark: SparkSession, view: ParquetView, batch: Callable[..., DataFrame]
) -> None:
    view(batch(("update", "a", 1, 0, 0)), 0)
    view(batch(), 1)
    view(batch(("update", "a", 2, 0, 5)), 2)
    before = view.state()

    with pytest.raises(RestoreError, match="the changes of batches 3 to 4 would be missing"):
        view(batch(("update", "a", 3, 0, 9)), 5)

    assert view.state() == before
    assert table_of(view, spark) == [("a", 2)]


@pytest.mark.parametrize("take_in", [parquet_view, bucketed_view, merge_into])
def test_the_changes_of_a_versioned_store_are_refused(
    spark: SparkSession, tmp_path: Path, take_in: Callable[[str], Callable[[DataFrame, int], None]]
) -> None:
    changes = spark.createDataFrame([], SCHEMA + ", valid_from timestamp")

    with pytest.raises(ConfigError, match=r"changes of a versioned store .* Read the store itself"):
        take_in(str(tmp_path / "view"))(changes, 0)


def test_partitions_advance_on_their_own(
    spark: SparkSession, view: ParquetView, batch: Callable[..., DataFrame]
) -> None:
    view(batch(("update", "a", 1, 0, 50)), 0)
    view(batch(("update", "b", 2, 1, 0)), 1)

    state = view.state()
    assert state is not None
    assert state.positions == {0: 51, 1: 1}
    assert table_of(view, spark) == [("a", 1), ("b", 2)]


def test_a_crash_before_the_new_version_is_named_leaves_the_old_one(
    spark: SparkSession,
    view: ParquetView,
    batch: Callable[..., DataFrame],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view(batch(("update", "a", 1, 0, 0)), 0)
    change = batch(("update", "a", 2, 0, 1))

    with monkeypatch.context() as patch:
        patch.setattr(ParquetView, "_publish", lambda self, state: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            view(change, 1)
    assert table_of(view, spark) == [("a", 1)]

    view(change, 1)
    assert table_of(view, spark) == [("a", 2)]


def test_old_versions_go_and_a_reader_keeps_the_one_it_has(
    spark: SparkSession, tmp_path: Path, batch: Callable[..., DataFrame]
) -> None:
    view = parquet_view(tmp_path / "view", keep_for=timedelta(0))
    view(batch(("update", "a", 0, 0, 0)), 0)
    held = view.read(spark)
    view(batch(("update", "a", 1, 0, 1)), 1)
    assert held.select("value").collect() == [(0,)]

    for n in range(2, 6):
        view(batch(("update", "a", n, 0, n)), n)

    assert len(list(view.path.glob("version-*"))) == 3
    assert table_of(view, spark) == [("a", 5)]


def test_a_reader_keeps_its_version_for_keep_for(
    spark: SparkSession, tmp_path: Path, batch: Callable[..., DataFrame]
) -> None:
    clock = [1_000_000]
    view = parquet_view(tmp_path / "view", keep_versions=2)
    view._retention = Retention(2, timedelta(seconds=60), clock=lambda: clock[0])
    view(batch(("update", "a", 0, 0, 0)), 0)
    held = view.read(spark)
    for n in range(1, 7):
        clock[0] += 10_000
        view(batch(("update", "a", n, 0, n)), n)
        assert held.select("value").collect() == [(0,)]

    clock[0] += 10_000
    view(batch(("update", "a", 7, 0, 7)), 7)

    assert not list(view.path.glob("version-00000000-*"))
    assert len(list(view.path.glob("version-*"))) == 7


def test_a_view_without_a_batch_says_so(spark: SparkSession, view: ParquetView) -> None:
    with pytest.raises(FileNotFoundError, match="holds no view yet"):
        view.read(spark)


def test_rows_of_one_key_and_window_are_kept_apart_where_the_store_keeps_duplicates(
    spark: SparkSession, log: ApplicationLog, view: ParquetView
) -> None:
    topic = log.add_store("joined", "window", window_size_ms=1_000, retain_duplicates=True)
    keys = [window_key("a", 0, sequence) for sequence in (1, 2, 3)]
    log.write(topic, [(key, int64(n)) for n, key in enumerate(keys)] + [(keys[1], None)])
    options = {"bootstrap": log.bootstrap, "application": log.application, "store": "joined"}
    reader = spark.read.format("logstate").options(**options, cut="latest")

    view(reader.option("readChangeFeed", "true").load(), 0)

    assert sorted(view.read(spark).select("key", "_sequence", "value").collect()) == [
        ("a", 1, 0),
        ("a", 3, 2),
    ]
    table = reader.option("readChangeFeed", "false").load()
    assert sorted(table.select("key", "_sequence", "value").collect()) == [
        ("a", 1, 0),
        ("a", 3, 2),
    ]
