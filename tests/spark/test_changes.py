"""The stream of a store is every committed change, in order, with deletes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark import tables
from logstate.changelog.spark.change_reader import limited
from tests.campaigns.spark_versions.late_python import run_available
from tests.spark.changelog_writer import ApplicationLog, int64, window_key, write_open

Stream = Callable[..., DataFrame]


@pytest.fixture
def stream(spark: SparkSession, log: ApplicationLog) -> Stream:
    def load(store: str, **options: Any) -> DataFrame:
        reader = spark.readStream.format("logstate").options(
            bootstrap=log.bootstrap,
            application=log.application,
            store=store,
            readChangeFeed="true",
            stallSeconds="150",
        )
        return reader.options(**options).load()

    return load


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[list[tuple[Any, ...]]]]:
    """Run a stream over what is there now; returns the rows of each micro-batch."""

    def collect(stream: DataFrame, *columns: str) -> list[list[tuple[Any, ...]]]:
        batches: list[list[tuple[Any, ...]]] = []

        def take(batch: DataFrame, batch_id: int) -> None:
            rows = batch.select(*columns).orderBy("_partition", "_offset").collect()
            batches.append([tuple(row) for row in rows])

        writer = stream.writeStream.foreachBatch(take)
        run_available(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
        return batches

    return collect


def test_updates_and_deletes_come_in_order_with_their_coordinates(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"a", int64(2)), (b"b", int64(3))])
    log.write(topic, [(b"a", None)])

    changes = stream("spend")
    batches = run(changes, "change_type", "key", "value", "_partition", "_offset")

    assert changes.columns == ["change_type", "key", "value", "_partition", "_offset", "_timestamp"]
    assert batches == [
        [
            ("update", "a", 1, 0, 0),
            ("update", "a", 2, 0, 1),
            ("update", "b", 3, 0, 2),
            ("delete", "a", None, 0, 4),
        ]
    ]


def test_a_query_goes_on_where_its_checkpoint_stands(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    assert run(stream("spend"), "key", "value") == [[("a", 1)]]
    log.write(topic, [(b"b", int64(9))], aborts=True)
    log.write(topic, [(b"c", int64(2))], partition=1)

    assert run(stream("spend"), "key", "value") == [[("c", 2)]]


def test_two_stores_are_joined_at_one_cut_in_each_micro_batch(
    log: ApplicationLog, stream: Stream, tmp_path: Path
) -> None:
    spend, visits = log.add_store("spend"), log.add_store("visits")
    log.commit(0, {spend: 0, visits: 0}, partition=1)
    joined: list[list[tuple[Any, ...]]] = []

    def update(number: int) -> None:
        """One commit that sets both stores to the same number."""
        written = [(key, int64(number)) for key in (b"a", b"b")]
        log.commit(number, {topic: log.write(topic, written) for topic in (spend, visits)})

    def take(batch: DataFrame, batch_id: int) -> None:
        found = tables(log.application, ["spend", "visits"], bootstrap=log.bootstrap)
        update(10 * (batch_id + 1))  # between the cut and the reads of both stores
        pairs = found["spend"].withColumnRenamed("value", "spend").join(found["visits"], "key")
        rows = pairs.join(batch.select("key").distinct(), "key").select("key", "spend", "value")
        joined.append(sorted(tuple(row) for row in rows.collect()))

    writer = stream("spend").writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    update(1)
    run_available(writer)
    update(11)
    run_available(writer)

    assert joined == [[("a", 1, 1), ("b", 1, 1)], [("a", 11, 11), ("b", 11, 11)]]


def test_aborted_and_open_transactions_are_not_in_the_feed(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])
    log.write(topic, [(b"x", int64(9))], aborts=True)
    other = log.new_producer()
    other.begin_transaction()
    write_open(other, topic, [(b"y", int64(9))])

    try:
        assert run(stream("spend"), "key", "value") == [[("a", 1)]]
    finally:
        log.end(other, aborts=True)


def test_batches_are_bounded_and_lose_nothing(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("spend")
    for partition in (0, 1):
        changes = [(b"%d" % n, int64(n)) for n in range(10)]
        log.write(topic, changes, partition=partition)

    batches = run(stream("spend", maxOffsetsPerTrigger="6"), "value")

    assert len(batches) >= 4
    assert max(len(batch) for batch in batches) <= 6
    assert sorted(value for batch in batches for (value,) in batch) == sorted([*range(10)] * 2)


def test_windows_are_columns_of_the_feed_too(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("hourly", "window", window_size_ms=1_000)
    log.write(topic, [(window_key("a", 5_000), int64(1))])

    batches = run(stream("hourly", times="ms"), "key", "window_start", "window_end", "value")

    assert batches == [[("a", 5_000, 6_000, 1)]]


def test_a_query_can_start_at_given_offsets(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"b", int64(2))])

    starting = json.dumps({topic: {"0": 1, "1": 0}})

    assert run(stream("spend", startingOffsets=starting), "key") == [[("b",)]]


def test_changes_up_to_a_cut_can_be_read_as_a_table(
    log: ApplicationLog, table: Callable[..., DataFrame]
) -> None:
    topic = log.add_store("spend")
    position = log.write(topic, [(b"a", int64(1)), (b"a", None)])
    log.write(topic, [(b"a", int64(9))])

    cut = json.dumps({topic: {"0": position, "1": 0}})
    changes = table("spend", readChangeFeed="true", cut=cut)

    assert changes.select("change_type", "key", "value").collect() == [
        ("update", "a", 1),
        ("delete", "a", None),
    ]


def test_a_stream_without_the_change_feed_says_what_to_set(
    spark: SparkSession, log: ApplicationLog, run: Callable[..., Any]
) -> None:
    log.add_store("spend")
    stream = (
        spark.readStream.format("logstate")
        .options(bootstrap=log.bootstrap, application=log.application, store="spend")
        .load()
    )

    with pytest.raises(PySparkException, match="readChangeFeed") as caught:
        run(stream)
    assert "Traceback" not in str(caught.value)


def test_a_checkpoint_beyond_the_end_of_the_log_is_another_topic(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("spend")
    starting = json.dumps({topic: {"0": 100, "1": 0}})

    with pytest.raises(PySparkException, match="truncated or created again"):
        run(stream("spend", startingOffsets=starting), "key")


def test_a_start_that_retention_removed_is_refused_unless_gaps_are_allowed(
    log: ApplicationLog, stream: Stream, run: Callable[..., Any]
) -> None:
    topic = log.add_store("spend", config={"cleanup.policy": "compact,delete"})
    log.write(topic, [(b"a", int64(1)), (b"b", int64(2)), (b"c", int64(3))])
    log.delete_before(topic, 2)
    starting = json.dumps({topic: {"0": 0, "1": 0}})

    with pytest.raises(PySparkException, match="retention removed the changes"):
        run(stream("spend", startingOffsets=starting), "key")
    lenient = stream("spend", startingOffsets=starting, failOnDataLoss="false")
    assert run(lenient, "key") == [[("c",)]]


def test_a_query_does_not_go_on_in_a_topic_that_was_created_again(
    log: ApplicationLog, stream: Stream, tmp_path: Path
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])

    def catch_up() -> None:
        writer = stream("spend").writeStream.foreachBatch(lambda batch, _: batch.collect())
        run_available(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))

    catch_up()
    log.create_again(topic)
    # As many as were read, and more: by its offsets alone the new topic is the old one, gone on.
    log.write(topic, [(b"b", int64(2)), (b"c", int64(3)), (b"d", int64(4))])

    with pytest.raises(PySparkException, match="the checkpoint's topic had the id"):
        catch_up()


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_a_batch_never_has_more_offsets_than_asked_for_and_nobody_starves(most: int) -> None:
    starts, ends = dict.fromkeys(range(5), 0), {0: 10_000, 1: 3, 2: 0, 3: 3, 4: 10_000}
    turns = 0
    while starts[1] < 3 or starts[3] < 3:
        after = limited(starts, ends, most, turns)
        assert sum(after.values()) - sum(starts.values()) == most
        assert all(starts[n] <= after[n] <= ends[n] for n in ends)
        starts, turns = after, turns + 1
        assert turns <= 20
