"""What Spark hands down is evaluated while reading, and gives what Spark itself would give."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import logstate
from logstate.contracts.partitioner import partition_of
from tests.spark.changelog_writer import (
    INT64,
    ApplicationLog,
    int64,
    session_key,
    window_key,
)

SETTING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def without(spark: SparkSession) -> Iterator[Callable[[bool], None]]:
    """Turns the handing down off and on again."""
    yield lambda is_off: spark.conf.set(SETTING, str(not is_off).lower())
    spark.conf.set(SETTING, "true")


@pytest.fixture(scope="module")
def stores(bootstrap: str) -> ApplicationLog:
    """A store of each key format and kind, in two partitions; nothing here writes to it."""
    log = ApplicationLog(bootstrap, f"filters-{time.monotonic_ns()}")
    topics = {
        "spend": log.add_store("spend"),
        "numbers": log.add_store("numbers", key=INT64),
        "places": log.add_store("places", key=PLACE),
        "windows": log.add_store("windows", "window", window_size_ms=1_000),
        "sessions": log.add_store("sessions", "session"),
    }
    for n in (0, 1):
        rows = {
            "spend": SPEND[n],
            "numbers": [(int64(k * 2 + n), int64(k)) for k in range(-2, 3)],
            "places": [(b'{"city":"%c","zone":%d}' % (97 + k, n), int64(k)) for k in range(3)],
            "windows": [(window_key("a", t * 1_000), int64(t)) for t in range(5)],
            "sessions": [(session_key("a", t, t + 500), int64(t)) for t in range(5)],
        }
        for store, changes in rows.items():
            log.write(topics[store], changes, partition=n)
    return log


@pytest.fixture
def load(spark: SparkSession, stores: ApplicationLog) -> Callable[..., DataFrame]:
    """A store of ``stores``, with the columns that tell where a row came from."""

    def load(store: str, **options: str) -> DataFrame:
        reader = spark.read.format("logstate").options(
            bootstrap=stores.bootstrap, application=stores.application, store=store, cut="latest"
        )
        return reader.options(includeMeta="true", **options).load()

    return load


@pytest.fixture(scope="module")
def everything(spark: SparkSession, stores: ApplicationLog) -> dict[str, DataFrame]:
    """All rows of each store, which Spark itself filters."""
    tables = {}
    for store in ("spend", "numbers", "places", "windows", "sessions"):
        reader = spark.read.format("logstate").options(
            bootstrap=stores.bootstrap, application=stores.application, store=store, cut="latest"
        )
        loaded = reader.option("includeMeta", "true").load()
        tables[store] = spark.createDataFrame(loaded.collect(), loaded.schema)
    return tables


SPEND = {
    0: [(b"a", int64(1)), (b"b", int64(2)), (b"a", int64(3)), (b"gone", None)],
    1: [(b"c", int64(4)), (b"d", int64(5)), (b"\xc3\xa9", int64(6))],
}

PLACE = {
    "format": "json",
    "schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "zone": {"type": "integer"}},
    },
}

QUERIES = [
    ("spend", "key = 'a'"),
    ("spend", "key in ('a', 'd', 'nobody') and value > 2"),
    ("spend", "key = 'a' and key = 'b'"),
    ("spend", "key > 'b'"),
    ("spend", "key <= 'c' and key is not null"),
    ("spend", "key <> 'a'"),
    ("spend", "not (key in ('a', 'b'))"),
    ("spend", "key <=> 'd'"),
    ("spend", "key is null"),
    ("spend", "key = 'é'"),
    ("spend", "key = null"),
    ("spend", "not (key in ('a', null))"),
    ("spend", "key = 'a' or value = 5"),
    ("spend", "key like 'a%'"),
    ("spend", "_partition = 1"),
    ("spend", "_partition > 1"),
    ("spend", "_partition in (0, 7) and key = 'b'"),
    ("spend", "_offset >= 2"),
    ("spend", "_offset < 2 and _partition <> 0"),
    ("spend", "_timestamp > timestamp'2001-01-01'"),
    ("numbers", "key = 3"),
    ("numbers", "key in (-4, -3, 99)"),
    ("numbers", "key >= -1 and key < 3"),
    ("places", "key.city = 'a' and key.zone = 1"),
    ("places", "key.zone in (1, 5) and key.city <> 'b'"),
    ("places", "key = named_struct('city', 'a', 'zone', 1L)"),
    ("windows", "window_start = timestamp'1970-01-01 00:00:02'"),
    ("windows", "window_start >= timestamp'1970-01-01 00:00:01' and value < 4"),
    ("windows", "window_end < timestamp'1970-01-01 00:00:03.5'"),
    ("windows", "key = 'a' and window_start < timestamp'1970-01-01 00:00:02'"),
    ("sessions", "window_end <= timestamp'1970-01-01 00:00:00.502'"),
]


@pytest.mark.parametrize(("store", "query"), QUERIES)
def test_a_filter_gives_the_same_wherever_it_is_evaluated(
    load: Callable[..., DataFrame], everything: dict[str, DataFrame], store: str, query: str
) -> None:
    expected = everything[store].where(query).collect()

    assert sorted(load(store).where(query).collect(), key=repr) == sorted(expected, key=repr)


def test_the_plan_tells_what_was_pushed(load: Callable[..., DataFrame]) -> None:
    plan = plan_of(load("spend").where("key = 'a' and _partition = 0 and value > 2"))

    pushed = next(line for line in plan.splitlines() if "PushedFilters" in line)
    assert "key" in pushed
    assert "_partition" in pushed
    assert "value" not in pushed, "what is not taken stays with Spark"


def test_the_plan_tells_which_fields_of_keys_were_pushed(load: Callable[..., DataFrame]) -> None:
    plan = plan_of(load("places").where("key.city = 'a' and key.zone = 1"))

    pushed = next(line for line in plan.splitlines() if "PushedFilters" in line)
    assert "EqualTo(key.city,a)" in pushed
    assert "EqualTo(key.zone,1)" in pushed


def test_off_means_off(load: Callable[..., DataFrame], without: Callable[[bool], None]) -> None:
    assert "EqualTo(key" not in plan_of(load("spend", pushKeyFilter="false").where("key = 'a'"))
    without(True)
    rows = load("spend").where("key = 'a'").select("key", "value").collect()
    assert rows == [("a", 3)]


@pytest.mark.parametrize(("placed_by", "expected"), [("murmur2", 1), (None, 2)])
def test_one_partition_is_read_where_the_application_places_keys(
    log: ApplicationLog, table: Callable[..., DataFrame], placed_by: str | None, expected: int
) -> None:
    topic = log.add_store("spend", placed_by=placed_by)
    for n in range(20):
        key = f"key-{n}".encode()
        log.write(topic, [(key, int64(n))], partition=partition_of(key, 2))

    found = table("spend", cut="latest").where("key = 'key-7'")
    read = logstate.read(
        log.application, "spend", bootstrap=log.bootstrap, cut="latest", keys=["key-7"]
    )

    assert found.collect() == [("key-7", 7)]
    assert found.rdd.getNumPartitions() == expected
    assert len(read.partitions()) == expected
    assert read.to_arrow().to_pylist() == [{"key": "key-7", "value": 7}]


def plan_of(found: DataFrame) -> str:
    plan: Any = found._jdf.queryExecution().explainString(  # type: ignore[operator]
        found.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")  # type: ignore[union-attr]
    )
    return str(plan)
