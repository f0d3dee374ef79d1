"""Compaction may erase what a cut covers. A read notices, or is right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pytest
from pyspark.errors import PySparkException

from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import log_bounds, read_partition
from tests.patience import until
from tests.spark.changelog_writer import ApplicationLog, int64, window_key, write_open

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
    ticks = count(int(time.time() * 1000), 1_000)

    def are_erased() -> bool:
        log.write(topic, [(b"tick", int64(0), next(ticks))])
        return not erased & set(offsets_left(log, topic))

    until(are_erased, "the cleaner did not come by")


def test_a_loaded_table_from_which_records_are_gone_is_refused_and_never_another(
    log: ApplicationLog, table: Callable[..., Any]
) -> None:
    topic = log.add_store("spend", config=EAGER)
    at_cut = log.write(topic, [(b"a", int64(1)), (b"x", int64(1)), (b"b", int64(2))])
    log.commit(10, {topic: at_cut})
    log.commit(10, {topic: 0}, partition=1)
    loaded = table("spend")
    log.write(topic, [(b"a", int64(5)), (b"x", int64(5))])
    write_until_compacted(log, topic, {0, 1})
    log.commit(11, {topic: log.write(topic, [(b"c", int64(6))])})

    # At the old cut "a" was 1, which is gone; at the newest it is 5, which is another table.
    with pytest.raises(PySparkException, match="compaction may have removed records"):
        loaded.collect()
    found = {row["key"]: row["value"] for row in table("spend").collect()}
    assert found == {"a": 5, "x": 5, "b": 2, "c": 6, "tick": 0}


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


def test_aborted_records_before_a_fixed_cut_are_no_sign_of_compaction(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    log.write(topic, [(b"x", int64(9)), (b"y", int64(9)), (b"z", int64(9))], aborts=True)
    at_cut = log.write(topic, [(b"b", int64(2))])
    log.write(topic, [(b"new", int64(3))])

    assert rows("spend", cut=json.dumps({topic: {"0": at_cut, "1": 0}})) == [("a", 1), ("b", 2)]


def write_below_two_markers(log: ApplicationLog, topic: str, keys: Sequence[bytes]) -> int:
    """A record each of two transactions, whose markers come one behind the other."""
    other = log.new_producer()
    other.begin_transaction()
    write_open(other, topic, [(keys[0], int64(1))])
    with log.transaction() as producer:
        position = write_open(producer, topic, [(keys[1], int64(2))])
    log.end(other)
    return position


def test_markers_one_behind_the_other_are_no_sign_of_compaction(
    log: ApplicationLog, rows: Rows
) -> None:
    """A writer that died before the first record of its transaction had arrived leaves these."""
    topic = log.add_store("spend")
    write_below_two_markers(log, topic, [b"a", b"b"])
    at_cut = log.write(topic, [(b"c", int64(3))])
    assert offsets_left(log, topic) == [0, 1, 4]
    log.write(topic, [(b"new", int64(9))])

    found = rows("spend", cut=json.dumps({topic: {"0": at_cut, "1": 0}}))

    assert found == [("a", 1), ("b", 2), ("c", 3)]


def test_records_of_a_join_that_nothing_replaces_are_never_missed(
    log: ApplicationLog, rows: Rows
) -> None:
    """Whatever is missing between them, also where events from the future hide the markers."""
    future = int(time.time() * 1000) + 3_600_000
    topic = log.add_store("joined", "window", window_size_ms=10, retain_duplicates=True)
    log.write(topic, [(window_key("x", 0, 1), int64(0), future)])
    write_below_two_markers(log, topic, [window_key("a", 5, 2), window_key("a", 5, 3)])
    at_cut = log.write(topic, [(window_key("a", 7, 4), int64(3))])
    log.write(topic, [(window_key("a", 9, 5), int64(4))])

    found = rows("joined", cut=json.dumps({topic: {"0": at_cut, "1": 0}}), times="ms")

    assert [row[-1] for row in found] == [1, 2, 3, 0]
