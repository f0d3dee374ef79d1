"""The same tables by SQL expressions over raw records, as Spark's own Kafka source gives them."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark.kafka_sql import (
    decoded,
    kafka_packages,
    kafka_table,
    newest_rows,
    row_condition,
    row_expressions,
)
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds, read_partition
from logstate.serdes.json_serde import json_of
from tests.spark.changelog_writer import (
    INT64,
    STRING,
    ApplicationLog,
    int64,
    session_key,
    window_key,
)

IDENTIFIER = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
RAW = "key binary, value binary, partition int, offset long, timestamp timestamp"


class Order(msgspec.Struct):
    item: str
    amount: float
    tags: list[str] = []


def raw_records(spark: SparkSession, log: ApplicationLog, topic: str) -> DataFrame:
    """What the Kafka source would read of a topic."""
    settings = {"bootstrap.servers": log.bootstrap}
    rows = []
    for tp in (TopicPartition(topic, n) for n in range(log.partitions)):
        end = log_bounds(settings, [tp])[tp].stable_end
        for batch in read_partition(settings, tp, start=0, end=end):
            rows += [
                (r.key(), r.value(), tp.partition, r.offset(), r.timestamp()[1]) for r in batch
            ]
    plain = spark.createDataFrame(rows, RAW.replace("timestamp timestamp", "time long"))
    return plain.selectExpr(
        "key", "value", "partition", "offset", "timestamp_millis(time) as timestamp"
    )


@pytest.mark.parametrize("kind", ["key_value", "timestamped_window", "session", "versioned"])
def test_expressions_give_the_table_of_every_kind_of_store(
    spark: SparkSession,
    log: ApplicationLog,
    table: Callable[..., DataFrame],
    kind: str,
) -> None:
    # Recent times, and the lag that versioned stores have: or the cleaner takes versions.
    config = {"min.compaction.lag.ms": "86400000"}
    topic = log.add_store("rows", kind, window_size_ms=10, history_ms=10_000, config=config)
    now = int(time.time() * 1000)
    keys = {
        "timestamped_window": [window_key("a", 0), window_key("a", 10), window_key("b", 0)],
        "session": [session_key("a", 0, 5), session_key("b", 7, 9), session_key("b", 1, 2)],
    }.get(kind, [b"a", b"b", b"c"])
    a, b, c = keys
    log.write(topic, [(a, int64(1), now), (b, int64(-2), now), (a, int64(3), now + 9)])
    log.write(topic, [(b, None, now), (c, int64(7), now)], partition=1)
    entry = {"kind": kind, "key": STRING, "value": INT64, "window_size_ms": 10}

    found = newest_rows(raw_records(spark, log, topic), row_expressions(entry), entry, None)
    ours = table("rows", cut="latest", includeExpired="true")

    assert found.columns == ours.columns
    assert sorted(map(repr, found.collect())) == sorted(map(repr, ours.collect()))


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("int32", -5, struct.pack(">i", -5)),
        ("int64", -(2**63), struct.pack(">q", -(2**63))),
        ("float64", -2.75, struct.pack(">d", -2.75)),
        ("float64", 1e-310, struct.pack(">d", 1e-310)),
        ("float64", 0.1, struct.pack(">d", 0.1)),
        ("float64", float("-inf"), struct.pack(">d", float("-inf"))),
        ("int16", -5, struct.pack(">h", -5)),
        ("int16", 32767, struct.pack(">h", 32767)),
        ("float32", -2.75, struct.pack(">f", -2.75)),
        ("float32", 2.0**-140, struct.pack(">f", 2.0**-140)),
        ("float32", float("inf"), struct.pack(">f", float("inf"))),
        ("uuid", IDENTIFIER, IDENTIFIER.upper().encode()),
        ("uuid_bytes", IDENTIFIER, UUID(IDENTIFIER).bytes),
        ("boolean", True, b"\x01"),
        ("string", "ä", "ä".encode()),
        ("bytes", bytearray(b"\x00"), b"\x00"),
    ],
)
def test_scalars_are_decoded_by_sql(
    spark: SparkSession, name: str, value: Any, data: bytes
) -> None:
    frame = spark.createDataFrame([(data,)], "raw binary")

    assert frame.selectExpr(decoded({"format": name}, "raw") + " as v").first().v == value


def test_what_is_no_number_is_none_by_sql_too(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(struct.pack(">d", float("nan")),)], "raw binary")

    found = frame.selectExpr(decoded({"format": "float64"}, "raw") + " as v").first().v

    assert math.isnan(found)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *(("int32", bytes(8)), ("int64", b"\x01"), ("boolean", b"\x02"), ("string", b"\xff")),
        *(("int16", bytes(4)), ("float32", bytes(8)), ("uuid", bytes(16)), ("uuid_bytes", b"1")),
    ],
)
def test_bytes_of_another_format_are_an_error_and_no_value(
    spark: SparkSession, name: str, data: bytes
) -> None:
    frame = spark.createDataFrame([(data,), (None,)], "raw binary")
    column = decoded({"format": name}, "raw") + " as v"

    assert frame.where("raw is null").selectExpr(column).first().v is None
    with pytest.raises(Exception, match=r"was the format changed|INVALID_UTF8_STRING"):
        frame.selectExpr(column).collect()


def test_versions_that_came_too_late_are_no_rows_and_time_0_is_no_time_before_it(
    spark: SparkSession,
) -> None:
    entry = {"kind": "versioned", "key": STRING, "value": INT64, "history_ms": 10}
    # Time 0 travels as -1. The version of 85 came when the store was at 100.
    written = [(b"a", 1, -1), (b"a", 2, 100), (b"b", 3, 85), (b"b", 4, 95)]
    rows = [
        (key, int64(value), 0, offset, time_ms)
        for offset, (key, value, time_ms) in enumerate(written)
    ]
    plain = spark.createDataFrame(rows, RAW.replace("timestamp timestamp", "time long"))
    records = plain.selectExpr("*", "timestamp_millis(time) as timestamp").drop("time")

    found = newest_rows(records, row_expressions(entry), entry, None)

    shown = found.selectExpr("key", "value", "unix_millis(valid_from)", "unix_millis(valid_to)")
    assert sorted(map(tuple, shown.collect())) == [
        ("a", 1, 0, 100),
        ("a", 2, 100, None),
        ("b", 4, 95, None),
    ]


def test_a_struct_is_decoded_by_its_schema(spark: SparkSession) -> None:
    serde = json_of(Order)
    data = serde.serializer("t", False)(Order("tea", 2.5, ["hot"]))
    frame = spark.createDataFrame([(data,)], "raw binary")

    row = frame.selectExpr(decoded(serde.describe(), "raw") + " as v").first().v

    assert row.asDict() == {"item": "tea", "amount": 2.5, "tags": ["hot"]}


def test_a_document_that_does_not_fit_is_an_error_and_not_null(spark: SparkSession) -> None:
    document = decoded(
        {"format": "json", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "raw",
    )
    frame = spark.createDataFrame([(b'{"n": 1.5}',)], "raw binary")

    with pytest.raises(Exception, match=r"value 1\.5 of the JSON token"):
        frame.selectExpr(document + " as v").collect()


def test_a_json_key_of_a_source_topic_is_one_row_however_others_write_it(
    spark: SparkSession,
) -> None:
    entry = {
        "kind": "timestamped_key_value",
        "key": {"format": "json"},
        "value": INT64,
        "changelog_topic": "rows",
        "source_topics": ["rows"],
    }
    written = [
        (b'{"a":1,"b":"x"}', int64(1)),
        (b'"tea"', int64(2)),
        (b'{ "b": "x", "a": 1 }', int64(3)),
        (b' "te\\u0061" ', int64(4)),
        (b"7", int64(5)),
        (b"no document", int64(6)),
    ]
    now = datetime(2026, 11, 25, tzinfo=UTC)
    rows = [(key, value, 0, offset, now) for offset, (key, value) in enumerate(written)]
    records = spark.createDataFrame(rows, RAW)

    found = newest_rows(records, row_expressions(entry), entry, None)

    assert {row.key: row.value for row in found.collect()} == {
        '{"a":1,"b":"x"}': 3,
        '"tea"': 4,
        "7": 5,
        "no document": 6,
    }


def test_null_documents_of_a_source_topic_only_are_no_rows() -> None:
    document = {"format": "json"}
    source = {"changelog_topic": "rows", "source_topics": ["rows"]}

    assert "rlike" in row_condition({**source, "value": document})
    assert (
        row_condition({**source, "changelog_topic": "log", "value": document})
        == "value is not null"
    )
    assert row_condition({**source, "value": INT64}) == "value is not null"


def test_without_the_connector_the_missing_coordinate_is_named(
    spark: SparkSession, log: ApplicationLog
) -> None:
    topic = log.add_store("counts")
    log.write(topic, [(b"a", int64(1))])

    with pytest.raises(ConfigError, match=kafka_packages().replace(".", r"\.")):
        kafka_table(
            spark,
            bootstrap=log.bootstrap,
            application=log.application,
            store="counts",
            options={"cut": "latest"},
        )
    with pytest.raises(ConfigError, match="no SQL expression decodes"):
        row_expressions({"kind": "outer_join", "key": STRING, "value": INT64})
