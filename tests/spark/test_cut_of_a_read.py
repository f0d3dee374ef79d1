"""A table is read at a cut: what the application committed, and nothing after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from logstate.changelog.spark import latest_cut
from tests.spark.changelog_writer import ApplicationLog, int64

Rows = Callable[..., list[tuple[Any, ...]]]


def commit_both(log: ApplicationLog, topic: str, *positions: int) -> None:
    for partition, position in enumerate(positions):
        log.commit(10, {topic: position}, partition=partition)


def test_the_latest_commit_is_the_default_and_later_records_are_not_seen(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    first = log.write(topic, [(b"a", int64(1))])
    second = log.write(topic, [(b"b", int64(2))], partition=1)
    commit_both(log, topic, first, second)
    log.write(topic, [(b"a", int64(99)), (b"c", int64(99))])

    assert rows("spend") == [("a", 1), ("b", 2)]
    assert rows("spend", cut="latest") == [("a", 99), ("b", 2), ("c", 99)]


def test_the_newest_of_several_commits_counts(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    commit_both(log, topic, log.write(topic, [(b"a", int64(1))]), 0)
    log.commit(11, {topic: log.write(topic, [(b"a", int64(2))])})

    assert rows("spend") == [("a", 2)]


def test_records_and_cut_of_one_transaction_are_seen_together(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    commit_both(log, topic, 0, 0)

    # Position 1 is known before the record is there: what an application's own commit looks like.
    log.commit(11, {topic: 1}, changes=lambda producer: producer.produce(topic, int64(5), b"a", 0))

    assert rows("spend") == [("a", 5)]


def test_a_cut_too_long_for_the_offset_is_found_in_the_cuts_topic(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    position = log.write(topic, [(b"a", int64(1))])
    log.write(topic, [(b"a", int64(99))])
    log.commit(10, {topic: position}, padding=2_000)
    log.commit(10, {topic: 0}, partition=1)

    assert rows("spend") == [("a", 1)]


def test_a_store_whose_commits_name_no_position_is_refused(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])

    with pytest.raises(PySparkException, match=r"no commit of .* says where its state ends"):
        rows("spend")


def test_given_offsets_are_exclusive_ends(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"a", int64(2)), (b"a", int64(3))])

    assert rows("spend", cut=json.dumps({topic: {"0": 2, "1": 0}})) == [("a", 2)]


def test_given_offsets_behind_the_end_are_refused(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])

    with pytest.raises(PySparkException, match="truncated or created anew"):
        rows("spend", cut=json.dumps({topic: {"0": 50, "1": 0}}))


def test_given_offsets_of_another_topic_are_refused(log: ApplicationLog, rows: Rows) -> None:
    log.add_store("spend")

    with pytest.raises(PySparkException, match="must name an offset for each"):
        rows("spend", cut=json.dumps({"other": {"0": 0}}))


def test_a_loaded_table_stays_as_it_was(
    log: ApplicationLog, table: Callable[..., DataFrame]
) -> None:
    topic = log.add_store("spend")
    commit_both(log, topic, log.write(topic, [(b"a", int64(1))]), 0)
    loaded = table("spend")
    log.commit(11, {topic: log.write(topic, [(b"a", int64(2))])})

    assert loaded.collect() == [("a", 1)]
    assert table("spend").collect() == [("a", 2)]


def test_one_cut_serves_all_stores(log: ApplicationLog, rows: Rows) -> None:
    spend, visits = log.add_store("spend"), log.add_store("visits")
    ends = {
        spend: log.write(spend, [(b"a", int64(1)), (b"a", int64(2))]),
        visits: log.write(visits, [(b"a", int64(10)), (b"a", int64(20))]),
    }
    log.commit(10, ends)
    log.commit(10, {spend: 0, visits: 0}, partition=1)
    cut = latest_cut(log.bootstrap, log.application)
    log.write(spend, [(b"a", int64(3))])
    log.write(visits, [(b"a", int64(30))])

    assert json.loads(cut) == {spend: {"0": 2, "1": 0}, visits: {"0": 2, "1": 0}}
    assert rows("spend", cut=cut) == [("a", 2)]
    assert rows("visits", cut=cut) == [("a", 20)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": "spent"}, r"has no store 'spent'; it has \['spend'\]"),
        ({"store": "spend", "application": "nobody"}, "has no topic 'nobody-cuts'"),
        ({"store": "spend", "includeTombstone": "true"}, 'unknown option "includetombstone"'),
    ],
)
def test_a_wrong_request_says_what_is_there(
    log: ApplicationLog,
    table: Callable[..., DataFrame],
    options: dict[str, str],
    message: str,
) -> None:
    log.add_store("spend")

    with pytest.raises(PySparkException, match=message):
        table(**options)


def test_a_changelog_with_another_partition_count_is_refused(
    log: ApplicationLog, table: Callable[..., DataFrame]
) -> None:
    log.add_store("spend", partitions=3)

    with pytest.raises(PySparkException, match=r"has 2 partitions, and .* declared with 3"):
        table("spend")
