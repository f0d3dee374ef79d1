"""A store read as a table is what the store holds, whatever the log looks like."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark.source import LogstateDataSource
from logstate.contracts.errors import ConfigError
from tests.spark.changelog_writer import (
    STRING,
    ApplicationLog,
    int64,
    session_key,
    window_key,
    write_open,
)

Rows = Callable[..., list[tuple[Any, ...]]]
Table = Callable[..., DataFrame]


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)


def test_the_latest_value_of_each_key_is_the_row(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"b", int64(2)), (b"a", int64(3))])
    log.write(topic, [(b"c", int64(4))], partition=1)

    assert rows("spend", cut="latest") == [("a", 3), ("b", 2), ("c", 4)]


@pytest.mark.parametrize(("value", "is_accepted"), [(pa.int64(), True), (pa.string(), False)])
def test_a_schema_may_be_given_as_an_arrow_schema(
    value: pa.DataType, is_accepted: bool, log: ApplicationLog
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    options = {"bootstrap": log.bootstrap, "application": log.application, "store": "spend"}
    source = LogstateDataSource({**options, "cut": "latest"})
    given: Any = pa.schema({"key": pa.string(), "value": value})

    if not is_accepted:
        with pytest.raises(ConfigError, match=r"given is struct<key:string,value:string>, and"):
            source.reader(given)
        return
    reader = source.reader(given)
    batches = [batch for one in reader.partitions() for batch in reader.read(one)]
    assert [row for batch in batches for row in batch.to_pylist()] == [{"key": "a", "value": 1}]


def test_a_tombstone_deletes_the_row_and_does_not_resurrect_the_value_before(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"b", int64(2))])
    log.write(topic, [(b"a", None)])

    assert rows("spend", cut="latest") == [("b", 2)]
    assert rows("spend", cut="latest", includeTombstones="true") == [
        ("a", None, True),
        ("b", 2, False),
    ]


def test_a_key_written_again_after_its_tombstone_is_back(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"a", None), (b"a", int64(2))])

    assert rows("spend", cut="latest") == [("a", 2)]


def test_an_aborted_transaction_leaves_no_trace(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    log.write(topic, [(b"a", int64(99)), (b"z", int64(99))], aborts=True)

    assert rows("spend", cut="latest") == [("a", 1)]


def test_an_open_transaction_is_neither_seen_nor_waited_for(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    position = log.write(topic, [(b"a", int64(1))])
    log.commit(1, {topic: position})
    log.commit(0, {}, partition=1)
    other = log.new_producer()
    other.begin_transaction()
    write_open(other, topic, [(b"a", int64(99))])

    try:
        assert rows("spend", cut="latest") == [("a", 1)]
        assert rows("spend") == [("a", 1)]
    finally:
        log.end(other, aborts=True)


def test_a_commit_marker_at_the_end_is_passed_without_waiting(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    log.write(topic, [(b"b", int64(2))], aborts=True)

    # A reader that waits for the record before the end runs into the time-out and fails.
    assert rows("spend", cut="latest") == [("a", 1)]


def test_empty_partitions_and_an_empty_store_are_no_error(log: ApplicationLog, rows: Rows) -> None:
    log.add_store("empty")

    assert rows("empty", cut="latest") == []
    assert rows("empty") == []


def test_offset_decides_what_is_latest_and_not_the_time(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    # Recent times: records of long ago are behind the marker by so much that the segment is
    # closed, and the cleaner may leave the latest record only.
    now = int(time.time() * 1000)
    log.write(topic, [(b"a", int64(1), now), (b"a", int64(2), now - 8_000)])

    assert rows("spend", cut="latest") == [("a", 2)]


def test_window_keys_become_a_key_and_two_times(log: ApplicationLog, table: Table) -> None:
    topic = log.add_store("hourly", "timestamped_window", window_size_ms=60_000)
    log.write(
        topic,
        [
            (window_key("a", 0), int64(1)),
            (window_key("a", 60_000), int64(2)),
            (window_key("a", 0), int64(3)),
            (window_key("b", 60_000), None),
        ],
    )

    found = table("hourly", cut="latest")

    assert found.columns == ["key", "window_start", "window_end", "value"]
    assert dict(found.dtypes)["window_start"] == "timestamp"
    assert sorted(found.collect()) == [
        ("a", utc(0), utc(60_000), 3),
        ("a", utc(60_000), utc(120_000), 2),
    ]


def test_times_can_be_milliseconds(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("hourly", "window", window_size_ms=60_000)
    log.write(topic, [(window_key("a", 60_000), int64(1))])

    assert rows("hourly", cut="latest", times="ms") == [("a", 60_000, 120_000, 1)]


def test_session_keys_carry_their_end_before_their_start(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("visits", "session")
    log.write(topic, [(session_key("a", 5, 25), int64(2)), (session_key("a", 5, 7), None)])

    assert rows("visits", cut="latest", times="ms") == [("a", 5, 25, 2)]


def test_a_table_of_windowed_keys_has_window_columns(log: ApplicationLog, rows: Rows) -> None:
    windowed = {"format": "windowed", "inner": STRING, "window_size_ms": 10, "schema": None}
    topic = log.add_store("copied", "timestamped_key_value", key=windowed)
    log.write(topic, [(b"a" + int64(20), int64(1))])

    assert rows("copied", cut="latest", times="ms") == [("a", 20, 30, 1)]


def test_versions_are_ordered_by_validity_and_ended_by_their_successor(
    log: ApplicationLog, rows: Rows
) -> None:
    # Recent times, and the compaction lag that such stores have: or the cleaner takes versions.
    topic = log.add_store("prices", "versioned", config={"min.compaction.lag.ms": "86400000"})
    t = int(time.time() * 1000)
    times = [(int64(1), t), (int64(3), t + 20), (int64(2), t + 10), (int64(22), t + 10)]
    log.write(topic, [(b"a", value, at) for value, at in [*times, (None, t + 30)]])

    assert rows("prices", cut="latest", times="ms") == [
        ("a", 1, t, t + 10),
        ("a", 22, t + 10, t + 20),
        ("a", 3, t + 20, t + 30),
    ]


def test_meta_columns_say_where_a_row_comes_from(log: ApplicationLog, table: Table) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1), 5_000)])
    log.write(topic, [(b"a", int64(2), 7_000)], partition=1)

    found = sorted(table("spend", cut="latest", includeMeta="true", times="ms").collect())

    assert [row.asDict() for row in found] == [
        {
            "key": "a", "value": 1, "_partition": 0, "_offset": 0, "_timestamp": 5_000,
            "_headers": None, "_is_tombstone": False,
        },
        {
            "key": "a", "value": 2, "_partition": 1, "_offset": 0, "_timestamp": 7_000,
            "_headers": None, "_is_tombstone": False,
        },
    ]  # fmt: skip


def test_json_values_with_a_schema_are_structs(log: ApplicationLog, table: Table) -> None:
    schema = {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "tags": {"type": "array", "items": STRING_}},
    }
    topic = log.add_store("spend", value={"format": "json", "schema": schema})
    log.write(topic, [(b"a", b'{"count": 3, "tags": ["x"]}'), (b"b", b'{"count": 1}')])

    found = table("spend", cut="latest")

    assert dict(found.dtypes)["value"] == "struct<count:bigint,tags:array<string>>"
    assert sorted(found.select("key", "value.count", "value.tags").collect()) == [
        ("a", 3, ["x"]),
        ("b", 1, None),
    ]


STRING_ = {"type": "string"}


def test_one_partition_can_be_read_alone(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    log.write(topic, [(b"b", int64(2))], partition=1)

    assert rows("spend", cut="latest", partition="1") == [("b", 2)]


def test_a_topic_can_be_read_without_an_application(
    spark: SparkSession, log: ApplicationLog
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    reader = spark.read.format("logstate").options(bootstrap=log.bootstrap, topic=topic)

    assert reader.load().collect() == [(b"a", int64(1))]
    assert reader.options(keyFormat="string", valueFormat="int64").load().collect() == [("a", 1)]


def test_rows_do_not_shuffle(log: ApplicationLog, table: Table) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])

    plan = table("spend", cut="latest")._jdf.queryExecution().executedPlan().toString()

    assert "Exchange" not in plan
