"""The change feed in Spark's words: what a commit did to rows, by whole commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.cuts.source_topic_records import as_stored
from logstate.changelog.reading.tables import StoreTable
from logstate.changelog.spark import offsets_behind
from logstate.changelog.spark.admission import CommitSize, admitted
from logstate.changelog.spark.row_changes import DELETE, INSERT, RowHistory
from logstate.serdes import json
from logstate.testing.fake.fetched import StoredRecord
from tests.campaigns.spark_versions.late_python import run_available
from tests.spark.changelog_writer import INT64, STRING, ApplicationLog, int64, window_key

FEED = {"readChangeFeed": "true", "changeFeedFormat": "spark", "times": "ms"}
COLUMNS = ("_change_type", "key", "value", "_commit_version", "_offset")
Batches = list[list[tuple[Any, ...]]]


@pytest.fixture
def follow(spark: SparkSession, log: ApplicationLog, tmp_path: Path) -> Callable[..., Batches]:
    """Run the stream of a store up to now; returns the rows of each micro-batch."""

    def run(store: str, **options: Any) -> Batches:
        batches: Batches = []
        reader = spark.readStream.format("logstate").options(
            bootstrap=log.bootstrap, application=log.application, store=store, stallSeconds="150"
        )
        writer = reader.options(**FEED).options(**options).load().writeStream
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        run_available(writer.foreachBatch(lambda batch, _: batches.append(told(batch))))
        return batches

    return run


def told(changes: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in changes.select(*COLUMNS).collect()]


def test_a_change_inserts_updates_or_deletes_its_row_with_the_position_of_its_commit(
    log: ApplicationLog, follow: Callable[..., Batches]
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"b", int64(2))])
    log.write(topic, [(b"a", int64(3)), (b"b", None)])

    assert follow("spend") == [
        [
            ("insert", "a", 1, 2, 0),
            ("insert", "b", 2, 2, 1),
            ("update_postimage", "a", 3, 5, 3),
            ("delete", "b", None, 5, 4),
        ]
    ]
    log.write(topic, [(b"z", int64(9))], aborts=True)
    log.write(topic, [(b"b", int64(4)), (b"a", int64(5))])

    assert follow("spend") == [[("insert", "b", 4, 10, 8), ("update_postimage", "a", 5, 10, 9)]]


def test_preimages_are_shown_where_the_change_is(
    log: ApplicationLog, table: Callable[..., DataFrame]
) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1), 1_000)])
    log.write(topic, [(b"a", int64(2), 2_000), (b"a", None, 3_000)])

    changes = table("spend", **FEED, includePreimages="true", cut="latest")

    told_of_commits = ["_change_type", "_commit_version", "_commit_timestamp"]
    assert changes.columns[:5] == ["key", "value", *told_of_commits]
    assert changes.columns[5:] == ["_partition", "_offset", "_timestamp"]
    assert [tuple(row) for row in changes.drop("_partition").collect()] == [
        ("a", 1, "insert", 1, 1_000, 0, 1_000),
        ("a", 1, "update_preimage", 4, 3_000, 2, 2_000),
        ("a", 2, "update_postimage", 4, 3_000, 2, 2_000),
        ("a", 2, "delete", 4, 3_000, 3, 3_000),
    ]


def test_batches_that_are_bounded_are_whole_commits(
    log: ApplicationLog, follow: Callable[..., Batches]
) -> None:
    topic = log.add_store("spend")
    for number in range(4):
        for partition in (0, 1):
            changes = [(b"%d" % n, int64(number)) for n in range(3)]
            log.write(topic, changes, partition=partition)

    batches = follow("spend", maxRecordsPerTrigger="7")

    assert [len(batch) for batch in batches if batch] == [6, 6, 6, 6]
    assert all(len({row[2] for row in batch}) == 1 for batch in batches if batch)


def test_a_commit_that_is_larger_than_the_bound_is_taken_alone(
    log: ApplicationLog, follow: Callable[..., Batches]
) -> None:
    topic = log.add_store("spend")
    for size in (1, 9, 1):
        log.write(topic, [(b"%d" % n, int64(size)) for n in range(size)])

    batches = follow("spend", maxBytesPerTrigger="20")

    assert [len(batch) for batch in batches if batch] == [1, 9, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"includePreimages": "true", "changeFeedFormat": "log"}, "needs changeFeedFormat"),
        ({"maxOffsetsPerTrigger": "5"}, "ends batches within commits"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    log: ApplicationLog, follow: Callable[..., Batches], options: dict[str, str], message: str
) -> None:
    log.add_store("spend")

    with pytest.raises(PySparkException, match=message):
        follow("spend", **options)


def commits(sizes: list[int], start: int = 0) -> Iterator[CommitSize]:
    end = 0
    for size in sizes:
        end += size + 1
        if end > start:
            yield CommitSize(end, size, 10 * size)


def test_every_partition_has_its_turn_and_no_commit_is_split_or_lost() -> None:
    sizes = {0: [3] * 50, 1: [1, 20, 1], 2: [], 3: [2] * 3}
    ends = {n: sum(each) + len(each) + 1 for n, each in sizes.items()}
    boundaries = {n: [c.end for c in commits(each)] for n, each in sizes.items()}
    starts, batches = dict.fromkeys(sizes, 0), []
    while starts != ends:
        walks = {n: commits(sizes[n], at) for n, at in starts.items() if at < ends[n]}
        turn = len(batches)
        after = starts | admitted(ends, walks, records_max=7, bytes_max=None, turn=turn)
        for n in sizes:
            assert after[n] == starts[n] or after[n] in [*boundaries[n], ends[n]]
        taken = [
            c.records for n in sizes for c in commits(sizes[n], starts[n]) if c.end <= after[n]
        ]
        assert sum(taken) <= 7 or taken == [20]
        batches.append(after)
        starts = after
        assert len(batches) < 60
    assert batches[5][3] == ends[3], "a partition starved"
    assert all(a[n] <= b[n] for a, b in pairwise(batches) for n in sizes)


def test_how_far_a_query_is_behind_is_told_by_its_progress(
    spark: SparkSession, log: ApplicationLog, tmp_path: Path
) -> None:
    topic = log.add_store("spend")
    for number in range(3):
        log.write(topic, [(b"a", int64(number))])
    reader = spark.readStream.format("logstate").options(
        bootstrap=log.bootstrap, application=log.application, store="spend"
    )
    writer = reader.options(**FEED, maxRecordsPerTrigger="1").load().writeStream
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = run_available(writer.foreachBatch(lambda batch, _: batch.count()))

    behind = [offsets_behind(one) for one in query.recentProgress]

    assert behind[0]["maxOffsetsBehindLatest"] == 5
    assert behind[-1] == dict.fromkeys(behind[0], 0)


def test_a_null_document_of_a_source_topic_deletes_its_row() -> None:
    document = json.describe()
    entry = {"changelog_topic": "rows", "source_topics": ["rows"], "value": document}
    written = [
        StoredRecord("rows", 0, offset, b"a", value, 5, None)
        for offset, value in enumerate((b"{}", b" null ", None))
    ]

    history = RowHistory(with_values=False, is_versioned=False)

    found = [change.kind for change in history.changes(as_stored(entry)(written))]
    assert found == [INSERT, DELETE, DELETE]


def written_windows(starts_ms: range) -> list[StoredRecord]:
    """One key with a window a minute, each a record."""
    return [
        StoredRecord("log", 0, n, window_key("ada", start), int64(n), start, None)
        for n, start in enumerate(starts_ms)
    ]


@pytest.mark.parametrize("is_versioned", [False, True])
def test_rows_that_have_expired_are_forgotten_and_the_feed_stays_the_same(
    is_versioned: bool,
) -> None:
    kept, minute = 3_600_000, 60_000
    times = {"history_ms": kept} if is_versioned else {"retention_ms": kept}
    entry = {"kind": "versioned" if is_versioned else "window", "window_size_ms": minute, **times}
    table = StoreTable({"key": STRING, "value": INT64, **entry})
    history, whole = (
        RowHistory(
            with_values=True,
            is_versioned=is_versioned,
            changes_within_ms=within,
            expiry_time=table.expiry_time,
        )
        for within in (table.changes_within_ms, None)
    )
    written = written_windows(range(0, 25_000 * minute, minute))
    again = written[-61:]  # all that the store shows

    told = [list(one.changes(written)) + list(one.changes(again)) for one in (history, whole)]

    assert told[0] == told[1]
    assert len(whole) == 25_000
    assert len(history) <= 10_000


def test_of_windows_those_are_remembered_whose_segment_may_be_alive() -> None:
    entry = {"kind": "window", "key": STRING, "value": INT64, "retention_ms": 3_600_000}

    assert StoreTable(entry).changes_within_ms == 3_600_000 - 1 + 1_800_000
    assert StoreTable({**entry, "retention_ms": None}).changes_within_ms is None
