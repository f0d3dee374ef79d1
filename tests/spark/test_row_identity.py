"""Rows of views are the rows of the store: keys that Spark takes for equal stay apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.reading.tables import StoreTable
from logstate.changelog.spark import bucketed_view, merge_into, parquet_view
from logstate.changelog.spark.lake_merge import merge_statement
from logstate.changelog.spark.views import latest_changes, row_identity
from logstate.contracts.errors import ConfigError
from logstate.serdes.built_in import serde_of
from tests.spark.changelog_writer import ApplicationLog, int64, window_key


class Price(msgspec.Struct, frozen=True):
    amount: Decimal
    note: str | None = None


def at(hour: int, offset: int) -> datetime:
    return datetime(2026, 1, 1, hour, tzinfo=timezone(timedelta(hours=offset)))


KEYS: dict[str, tuple[Any, Sequence[Any]]] = {
    "decimals": (Decimal, [Decimal("1.0"), Decimal("1.00"), Decimal("2")]),
    "floats": (float, [0.0, -0.0, 1.5]),
    "instants": (datetime, [at(12, 0), at(13, 1), at(13, 1).replace(tzinfo=None)]),
    "maps": (dict[str, int], [{"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {}]),
    "lists": (list[Decimal], [[Decimal("1.0")], [Decimal("1.00")]]),
    "structs": (Price, [Price(Decimal("1.0")), Price(Decimal("1.00"), "x")]),
    "plain": (Any, [1, 1.0, "1"]),
    "texts": (str, ["a", "A", "a ", "á"]),
    "numbers": (int, [-1, 0, 1]),
    "flags": (bool, [False, True]),
}
#: bytes that other writers, or earlier versions of a type, leave for what is shown the same
OTHER_BYTES = {"structs": [b'{"amount":1.0}', b'{"note":null,"amount":1.0}']}


#: keys for which a bucketed view is compared too: both kinds of view identify rows by one function
BUCKETED = ("decimals", "maps", "structs")


def changes_of(spark: SparkSession, log: ApplicationLog, store: str) -> DataFrame:
    reader = spark.read.format("logstate").option("readChangeFeed", "true")
    options = {"bootstrap": log.bootstrap, "application": log.application, "store": store}
    return reader.options(**options, cut="latest").load()


@pytest.mark.parametrize("name", KEYS)
def test_a_view_has_the_rows_of_the_store(
    name: str, spark: SparkSession, log: ApplicationLog, tmp_path: Path
) -> None:
    type_, values = KEYS[name]
    serde = serde_of(type_, what="the key")
    encode = serde.serializer("topic", is_key=True)
    keys = [*map(encode, values), *OTHER_BYTES.get(name, ())]
    keys = list(dict.fromkeys(keys))
    topic = log.add_store(name, key=serde.describe())
    log.write(topic, [(key, int64(n)) for n, key in enumerate(keys)])
    views: list[Any] = [parquet_view(tmp_path / "parquet")]
    if name in BUCKETED:
        views.append(bucketed_view(tmp_path / "buckets", buckets=4))

    def values_of(batch: int) -> list[list[int]]:
        changes = changes_of(spark, log, name)
        for view in views:
            view(changes, batch)
        return [sorted(row["value"] for row in view.read(spark).collect()) for view in views]

    all_values = list(range(len(keys)))
    assert values_of(0) == [all_values] * len(views)
    log.write(topic, [(keys[0], None)])
    assert values_of(1) == [all_values[1:]] * len(views)


def test_rows_of_windows_are_told_apart_by_key_and_window(
    spark: SparkSession, log: ApplicationLog, tmp_path: Path
) -> None:
    serde = serde_of(Decimal, what="the key")
    encode = serde.serializer("topic", is_key=True)
    topic = log.add_store("hourly", "timestamped_window", window_size_ms=10, key=serde.describe())
    numbers = [Decimal("1.0"), Decimal("1.00")]
    keys = [window_key(encode(one).decode(), start) for one in numbers for start in (0, 10)]
    log.write(topic, [(key, int64(n)) for n, key in enumerate(keys)])
    view = parquet_view(tmp_path / "view")

    view(changes_of(spark, log, "hourly"), 0)

    assert sorted(row["value"] for row in view.read(spark).collect()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ({"format": "string"}, False),
        ({"format": "int64"}, False),
        ({"format": "bytes"}, False),
        ({"format": "boolean"}, False),
        ({"format": "float64"}, True),
        ({"format": "json", "schema": None}, True),
        (None, False),  # shown as bytes
    ],
)
def test_changes_have_key_bytes_where_columns_do_not_tell_keys_apart(
    key: dict[str, Any] | None, expected: bool
) -> None:
    table = StoreTable({"kind": "key_value", "key": key, "value": None})

    assert table.has_key_bytes is expected
    names = [column.name for column in table.change_columns(with_meta=True)]
    assert ("_key" in names) is expected


def with_bytes(spark: SparkSession) -> DataFrame:
    schema = "change_type string, key double, value long, _partition int, _offset long, _key binary"
    rows = [("update", 0.0, 1, 0, 0, b"+"), ("update", -0.0, 2, 0, 1, b"-")]
    return spark.createDataFrame([tuple(row) for row in rows], schema)


def test_a_merge_compares_the_bytes_of_keys(spark: SparkSession) -> None:
    changes = with_bytes(spark)

    assert latest_changes(changes).count() == 2
    statement = merge_statement("target", row_identity(changes))
    assert "ON old.`_key` <=> new.`_key` AND old.`_partition` <=> new.`_partition`\n" in statement


@pytest.mark.parametrize("kind", [parquet_view, bucketed_view])
def test_a_view_without_key_bytes_is_refused_and_stays_as_it_is(
    kind: Callable[..., Any], spark: SparkSession, tmp_path: Path
) -> None:
    changes = with_bytes(spark)
    view = kind(tmp_path / "view")
    view(changes.drop("_key").limit(1), 0)

    with pytest.raises(ConfigError, match=r"has no column _key .* a new checkpoint"):
        view(changes, 1)
    assert view.read(spark).count() == 1


def test_a_target_without_key_bytes_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(
        "CREATE TABLE old_target (key double, value bigint, _partition int, _offset bigint) "
        f"USING parquet LOCATION '{tmp_path / 'target'}'"
    )
    try:
        with pytest.raises(ConfigError, match="the table old_target has no column _key"):
            merge_into("old_target")(with_bytes(spark), 0)
    finally:
        spark.sql("DROP TABLE old_target")


@pytest.mark.parametrize("column", ["map<string,int>", "struct<at:map<string,int>>"])
def test_maps_without_key_bytes_are_refused_with_what_to_do(
    column: str, spark: SparkSession, tmp_path: Path
) -> None:
    schema = f"change_type string, key {column}, value long, _partition int, _offset long"
    changes = spark.createDataFrame([], schema)

    for refuses in (
        lambda: latest_changes(changes),
        lambda: bucketed_view(tmp_path / "view")(changes, 0),
    ):
        with pytest.raises(
            ConfigError, match=r"Spark does not compare maps\. Keep the column _key"
        ):
            refuses()


def test_an_instant_at_two_offsets_is_two_keys() -> None:
    encode = serde_of(datetime, what="the key").serializer("topic", is_key=True)

    assert at(12, 0) == at(13, 1) == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert len({encode(one) for one in (at(12, 0), at(13, 1))}) == 2
