"""A batch of changes and tables that know no MERGE: what is missing is said by its name.

There are no jars of Delta or Iceberg for the PySpark of these tests, so the statement as such is
not run here; docs/spark.md says which releases of Spark have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark import lake_packages, merge_into
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
