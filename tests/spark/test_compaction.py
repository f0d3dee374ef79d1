"""Compaction may erase what a cut covers. A read notices, or is right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException

from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds, read_partition
from tests.spark.changelog_writer import ApplicationLog, int64

Rows = Callable[..., list[tuple[Any, ...]]]

# A cleaner in a hurry, and segments that are closed by every later record.
EAGER = {
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "60000",
}


def offsets_left(log: ApplicationLog, topic: str) -> list[int | None]:
    config = {"bootstrap.servers": log.bootstrap}
    partition = TopicPartition(topic, 0)
    bounds = log_bounds(config, [partition])[partition]
    batches = read_partition(config, partition, start=bounds.start, end=bounds.stable_end)
    return [record.offset() for records in batches for record in records]


def write_until_compacted(log: ApplicationLog, topic: str, erased: set[int]) -> None:
    """Close segments with records of key "tick" until the cleaner has erased these offsets."""
    deadline = time.monotonic() + 60
    tick = int(time.time() * 1000)
    while erased & set(offsets_left(log, topic)):
        assert time.monotonic() < deadline, "the cleaner did not come by"
        tick += 1_000
        log.write(topic, [(b"tick", int64(0), tick)])


def test_a_read_at_the_latest_commit_goes_on_to_the_newest_when_records_are_gone(
    log: ApplicationLog, rows: Rows, table: Callable[..., Any]
) -> None:
    topic = log.add_store("spend", config=EAGER)
    at_cut = log.write(topic, [(b"a", int64(1)), (b"b", int64(2))])
    log.commit(10, {topic: at_cut})
    log.commit(10, {topic: 0}, partition=1)
    loaded = table("spend")
    log.write(topic, [(b"a", int64(5))])
    write_until_compacted(log, topic, {0})
    log.commit(11, {topic: log.write(topic, [(b"c", int64(6))])})

    # At the old cut "a" was 1, which is gone; without it the table would lack the key.
    found = {row["key"]: row["value"] for row in loaded.collect()}

    assert found == {"a": 5, "b": 2, "c": 6, "tick": 0}


def test_a_read_at_given_offsets_fails_when_records_are_gone(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend", config=EAGER)
    at_cut = log.write(topic, [(b"a", int64(1)), (b"x", int64(1)), (b"b", int64(2))])
    log.write(topic, [(b"a", int64(5)), (b"x", int64(5))])
    write_until_compacted(log, topic, {0, 1})

    with pytest.raises(PySparkException, match="compaction may have removed records"):
        rows("spend", cut=json.dumps({topic: {"0": at_cut, "1": 0}}))


def test_new_keys_behind_the_cut_are_no_reason_for_doubt_while_old_values_are_there(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    log.write(topic, [(b"z", int64(9))], aborts=True)
    at_cut = log.write(topic, [(b"a", int64(2))])
    log.write(topic, [(b"new", int64(3))])

    assert rows("spend", cut=json.dumps({topic: {"0": at_cut, "1": 0}})) == [("a", 2)]
