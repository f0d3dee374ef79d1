"""A view in buckets is the store, and a batch rewrites few of its files."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark import BucketedView, bucketed_view, parquet_view
from logstate.changelog.spark.bucketed_view import BucketedState
from logstate.changelog.spark.retention import Retention
from logstate.contracts.errors import ConfigError, RestoreError, StoreAccessError

SCHEMA = "change_type string, key string, value long, _partition int, _offset long"
Batch = Callable[[list[tuple[Any, ...]]], DataFrame]


@pytest.fixture
def batch(spark: SparkSession) -> Batch:
    return lambda changes: spark.createDataFrame(changes, SCHEMA)


def rows_of(view: BucketedView, spark: SparkSession) -> dict[str, int]:
    rows = view.read(spark).select("key", "value").collect()
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


class Changes:
    """Changes of one partition, and what they come to."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.offset = 0
        self.random = random.Random(5)

    def next(self, count: int, keys: int = 200) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for _ in range(count):
            key = f"k{self.random.randrange(keys)}"
            if key in self.rows and self.random.random() < 0.2:
                del self.rows[key]
                found.append(("delete", key, None, 0, self.offset))
            else:
                self.rows[key] = self.offset
                found.append(("update", key, self.offset, 0, self.offset))
            self.offset += 1
        return found


def test_the_view_is_the_store_after_every_batch_and_when_it_is_compacted(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    view, changes = bucketed_view(tmp_path / "view", buckets=8), Changes()
    for number, count in enumerate((150, 40, 3, 60)):
        view(batch(changes.next(count)), number)
        assert rows_of(view, spark) == changes.rows

    view.compact(spark)

    assert rows_of(view, spark) == changes.rows
    state = view.state()
    assert state is not None
    assert state.changes == ()


def test_a_batch_that_is_repeated_changes_nothing(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    view, changes = bucketed_view(tmp_path / "view", buckets=8), Changes()
    first, second = changes.next(20), changes.next(20)
    view(batch(first), 0)
    view(batch(second), 1)
    before = view.state()

    view(batch(second), 1)

    assert view.state() == before
    assert rows_of(view, spark) == changes.rows


def test_a_view_whose_first_batches_have_no_changes_begins_empty(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    view, changes = bucketed_view(tmp_path / "view", buckets=2), Changes()
    view(batch([]), 0)
    assert rows_of(view, spark) == {}
    view(batch([]), 1)

    view(batch(changes.next(5)), 2)

    assert rows_of(view, spark) == changes.rows
    with pytest.raises(RestoreError, match="the changes of batch 3 would be missing"):
        view(batch(changes.next(5)), 4)


def test_a_sessions_way_to_overwrite_leaves_no_files_of_a_failed_attempt(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    view = bucketed_view(tmp_path / "view", buckets=8)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        rows = batch([("update", "a", 1, 0, 0)])
        for bucket in ("1 _bucket", "2 _bucket"):
            view.written(rows.selectExpr("*", bucket), tmp_path / "base", by_bucket=True)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")

    assert [path.name for path in (tmp_path / "base").glob("_bucket=*")] == ["_bucket=2"]


class Crash(Exception):
    pass


class Crashing(BucketedView):
    """Dies at a step. All that it knows is in its files, so an error is as good as a kill."""

    dies_at = -1

    def _step(self) -> None:
        self.dies_at -= 1
        if self.dies_at < 0:
            raise Crash

    def written(self, frame: DataFrame, directory: Path, *, by_bucket: bool = False) -> None:
        self._step()
        super().written(frame.limit(1), directory, by_bucket=by_bucket)  # half of it
        self._step()
        super().written(frame, directory, by_bucket=by_bucket)

    def _publish(self, state: BucketedState) -> None:
        self._step()
        super()._publish(state)
        self._step()


def test_a_crash_at_any_step_leaves_the_version_before_or_after(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    view, changes = Crashing(tmp_path / "view", buckets=4), Changes()
    view.dies_at = 100
    view(batch(changes.next(30)), 0)
    before = dict(changes.rows)
    second = batch(changes.next(30))
    for step in range(6):
        view.dies_at = step
        with pytest.raises(Crash):
            view(second, 1)
        assert rows_of(view, spark) == (changes.rows if step == 5 else before)

    view.dies_at = 100
    view(second, 1)

    assert rows_of(view, spark) == changes.rows


def test_a_change_of_a_row_in_a_thousand_rewrites_a_twentieth_of_the_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    view = bucketed_view(tmp_path / "view")
    columns = ("'update' change_type", "concat('k', id) key", "id value", "0 _partition")
    view(spark.range(100_000).selectExpr(*columns, "id _offset"), 0)
    before = view.state()

    some = spark.range(100).selectExpr(
        "'update' change_type",
        "concat('k', id * 997) key",
        "-id value",
        "0 _partition",
        "100000 + id _offset",
    )
    view(some, 1)

    after = view.state()
    assert before is not None
    assert after is not None
    rewritten = sum(a != b for a, b in zip(before.bases, after.bases, strict=True))
    files = len(list((tmp_path / "view").glob("*/_bucket=*/*.parquet")))
    assert 1 <= rewritten + 1 <= 0.0625 * len(after.bases)
    assert rewritten <= 0.05 * len(after.bases)
    assert files == len(after.bases) + rewritten  # those that were replaced stay for readers
    found = view.read(spark)
    assert found.count() == 100_000
    assert found.where("value < 0").count() == 99


def test_a_reader_keeps_its_files_for_keep_for(
    spark: SparkSession, batch: Batch, tmp_path: Path
) -> None:
    clock = [1_000_000]
    view, changes = bucketed_view(tmp_path / "view", buckets=2, keep_versions=2), Changes()
    view._retention = Retention(2, timedelta(seconds=2), clock=lambda: clock[0])
    view(batch(changes.next(40)), 0)
    view(batch(changes.next(10)), 1)
    before = view.state()
    held, expected = view.read(spark), dict(changes.rows)
    for number in (2, 3):
        clock[0] += 900
        view(batch(changes.next(10)), number)
    view.compact(spark)
    rows = held.select("key", "value").collect()
    assert {row["key"]: row["value"] for row in rows} == expected

    clock[0] += 2_000
    view(batch(changes.next(10)), 4)

    after = view.state()
    assert before is not None
    assert after is not None
    names = {path.name for path in view.path.iterdir()}
    assert not {view._changes_folder(n, before).name for n in before.changes} & names
    assert {one.version for one in after.replaced} == {after.version}
    assert rows_of(view, spark) == changes.rows
    with pytest.raises(StoreAccessError, match=r"call compact\(spark\) first"):
        view.directories()
    view.compact(spark)
    files = [str(path) for path in view.directories()]
    found = {row["key"]: row["value"] for row in spark.read.parquet(*files).collect()}
    assert found == changes.rows


@pytest.mark.parametrize(
    ("given", "error"),
    [({"keep_versions": 1}, ValueError), ({"keep_for": timedelta(seconds=-1)}, ConfigError)],
)
def test_a_view_that_cannot_keep_its_files_is_refused(
    given: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    for kind in (bucketed_view, parquet_view):
        with pytest.raises(error, match="keep_"):
            kind(tmp_path, **given)


def test_the_number_of_buckets_is_fixed_with_the_first_batch(batch: Batch, tmp_path: Path) -> None:
    bucketed_view(tmp_path / "view", buckets=4)(batch(Changes().next(3)), 0)

    with pytest.raises(ConfigError, match="holds a view in 4 buckets, and buckets is 8"):
        bucketed_view(tmp_path / "view", buckets=8).state()
    with pytest.raises(FileNotFoundError, match="holds no view yet"):
        bucketed_view(tmp_path / "other").read(None)  # type: ignore[arg-type]
