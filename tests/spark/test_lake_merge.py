"""A batch of changes and tables that know no MERGE: what is missing is said by its name.

There are no jars of Delta or Iceberg for the PySpark of these tests, so the statements as such are
not run here; docs/spark.md says which releases of Spark have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from logstate.changelog.spark import create_merge_target, lake_packages, merge_into
from logstate.changelog.spark.lake_merge import check_columns, target_schema
from logstate.contracts.errors import ConfigError

CHANGES = "change_type string, key string, value bigint, _partition int, _offset bigint"


@pytest.fixture
def changes(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("update", "a", 1, 0, 0), ("delete", "b", None, 0, 1)], CHANGES)


@pytest.fixture
def plain_table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table of parquet files."""
    name = "plain_target"
    spark.sql(
        f"CREATE TABLE {name} (key string, value bigint, _partition int, _offset bigint) "
        f"USING parquet LOCATION '{tmp_path}'"
    )
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_a_table_that_knows_no_merge_names_the_jars_that_are_missing(
    spark: SparkSession, changes: DataFrame, plain_table: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        merge_into(plain_table)(changes, 7)

    said = str(caught.value)
    assert said.startswith("batch 7 cannot be merged into plain_target")
    for coordinate in lake_packages():
        assert re.search(re.escape(coordinate) + ":VERSION", said)
    assert spark.table(plain_table).count() == 0
    assert not spark.catalog.listTables(pattern="logstate_fresh*")


def test_a_merge_leaves_the_changes_of_another_query_alone(
    spark: SparkSession, changes: DataFrame, plain_table: str
) -> None:
    others = "logstate_fresh_changes"
    spark.range(3).createOrReplaceTempView(others)

    with pytest.raises(ConfigError):
        merge_into(plain_table)(changes, 0)

    assert spark.table(others).count() == 3
    spark.catalog.dropTempView(others)


def test_other_mistakes_are_told_in_the_words_of_spark(changes: DataFrame) -> None:
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        merge_into("nobody_has_this")(changes, 0)


def test_a_target_without_its_jars_is_refused_by_their_names(changes: DataFrame) -> None:
    with pytest.raises(ConfigError) as caught:
        create_merge_target(changes, "no_jars", using="delta")

    said = str(caught.value)
    assert said.startswith("the table no_jars cannot be created as a table of delta")
    assert all(f"{coordinate}:VERSION" in said for coordinate in lake_packages())


def test_a_target_of_another_format_is_refused(changes: DataFrame) -> None:
    with pytest.raises(ConfigError, match="using is 'parquet'"):
        create_merge_target(changes, "target", using="parquet")


def test_a_target_has_the_columns_of_the_feed_without_the_change_type(changes: DataFrame) -> None:
    assert target_schema(changes).names == ["key", "value", "_partition", "_offset"]


def test_a_target_of_iceberg_avoids_the_reserved_column_partition(changes: DataFrame) -> None:
    names = target_schema(changes, "iceberg").names
    assert names == ["key", "value", "_changelog_partition", "_offset"]


@pytest.mark.parametrize("column", ["change_type", "_partition", "_offset"])
def test_a_frame_that_is_not_a_change_feed_has_no_target(changes: DataFrame, column: str) -> None:
    with pytest.raises(ConfigError, match=f"has no column {column}"):
        target_schema(changes.drop(column))


def test_versions_and_keys_with_maps_have_no_target(spark: SparkSession) -> None:
    versions = spark.createDataFrame([], f"{CHANGES}, valid_from timestamp")
    maps = spark.createDataFrame([], CHANGES.replace("key string", "key map<string,string>"))

    with pytest.raises(ConfigError, match="versioned store"):
        target_schema(versions)
    with pytest.raises(ConfigError, match="Spark does not compare maps"):
        target_schema(maps)


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        ("key string, value int", "value is int, not bigint"),
        ("key string", "value is missing, not bigint"),
        ("key string, value bigint, note string", "note is not in the feed"),
    ],
)
def test_an_existing_target_with_other_columns_is_refused(found: str, difference: str) -> None:
    wanted = StructType.fromDDL("key string, value bigint")

    check_columns("spend", wanted, wanted)
    with pytest.raises(ConfigError, match=difference):
        check_columns("spend", StructType.fromDDL(found), wanted)
