"""A table is read at a cut: what the application committed, and nothing after it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from logstate.changelog.spark import latest_cut, tables, temp_views
from logstate.changelog.spark.store_tables import view_names
from logstate.contracts.errors import ConfigError, RestoreError
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

    with pytest.raises(
        PySparkException, match=r"no commit of .* contains the position where its state ends"
    ):
        rows("spend")


def test_a_commit_that_another_library_has_overtaken_names_no_position(
    log: ApplicationLog, rows: Rows
) -> None:
    """Of a task with two inputs the JVM commits the one that brought records."""
    other = log.add_input()
    topic = log.add_store("spend", source_topics=[log.source, other])
    commit_both(log, topic, log.write(topic, [(b"a", int64(1))]), 0)
    assert rows("spend") == [("a", 1)]
    log.commit_by_another(other, 3)

    with pytest.raises(
        PySparkException, match=r"no commit of .* contains the position where its state ends"
    ):
        rows("spend")
    with pytest.raises(
        RestoreError, match=r"no commit of .* contains the position where its state ends"
    ):
        latest_cut(log.bootstrap, log.application)


def test_given_offsets_are_exclusive_ends(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1)), (b"a", int64(2)), (b"a", int64(3))])

    assert rows("spend", cut=json.dumps({topic: {"0": 2, "1": 0}})) == [("a", 2)]


def test_given_offsets_behind_the_end_are_refused(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))])

    with pytest.raises(PySparkException, match="truncated or created again"):
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

    told = json.loads(cut)
    assert told["positions"] == {spend: {"0": 2, "1": 0}, visits: {"0": 2, "1": 0}}
    assert told["inputs"] == {log.source: {"0": 10, "1": 10}}
    assert set(told["topic_ids"]) == {spend, visits}
    assert rows("spend", cut=cut) == [("a", 2)]
    assert rows("visits", cut=cut) == [("a", 20)]
    found = tables(log.application, ["spend", "visits"], bootstrap=log.bootstrap, cut=cut)
    assert found["spend"].collect() == [("a", 2)]
    log.commit(11, {spend: 4, visits: 4})
    found = tables(log.application, ["spend", "visits"], bootstrap=log.bootstrap)
    assert {name: table.collect() for name, table in found.items()} == {
        "spend": [("a", 3)],
        "visits": [("a", 30)],
    }


def test_views_of_a_session_answer_at_one_cut_until_they_are_made_again(
    log: ApplicationLog, spark: SparkSession
) -> None:
    spend, visits = log.add_store("spend-per.user"), log.add_store("visits")

    def commit(at: int, value: int) -> None:
        ends = {topic: log.write(topic, [(b"a", int64(value))]) for topic in (spend, visits)}
        log.commit(at, ends)

    def joined() -> list[tuple[int, int]]:
        query = "SELECT s.value, v.value FROM my_spend_per_user s JOIN my_visits v USING (key)"
        return [tuple(row) for row in spark.sql(query).collect()]

    commit(10, 1)
    log.commit(10, {spend: 0, visits: 0}, partition=1)
    made = temp_views(log.application, bootstrap=log.bootstrap, prefix="my_")
    commit(11, 2)

    assert made == ["my_spend_per_user", "my_visits"]
    assert joined() == [(1, 1)]
    temp_views(log.application, ["spend-per.user"], bootstrap=log.bootstrap, prefix="my_")
    assert joined() == [(2, 1)], "only what is named is made again"
    temp_views(log.application, bootstrap=log.bootstrap, prefix="my_")
    assert joined() == [(2, 2)]
    for name in made:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("other", ["spend-per.user", "SPEND_PER_USER"])
def test_two_stores_that_would_have_one_view_are_refused(other: str) -> None:
    assert view_names(["visits", other], "my_")[other].lower() == "my_spend_per_user"

    with pytest.raises(ConfigError, match="would both be the view 'my_"):
        view_names(["spend_per.user", "visits", other], "my_")


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

    with pytest.raises(PySparkException, match=r"has 2 partitions, but .* declared with 3"):
        table("spend")


def test_what_was_only_aborted_is_no_state(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    log.write(topic, [(b"a", int64(1))], aborts=True)
    assert json.loads(latest_cut(log.bootstrap, log.application))["positions"][topic]["0"] == 0

    assert rows("spend") == []


def test_a_cut_of_a_log_that_was_emptied_begins_where_the_log_does(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend", config={"cleanup.policy": "compact,delete"})
    log.delete_before(topic, log.write(topic, [(b"a", int64(1))]) + 1)
    cut = latest_cut(log.bootstrap, log.application)

    assert json.loads(cut)["positions"][topic] == {"0": 2, "1": 0}
    assert rows("spend", cut=cut) == []


def test_an_old_cut_does_not_read_a_topic_that_was_created_again(
    log: ApplicationLog, rows: Rows, table: Callable[..., DataFrame]
) -> None:
    topic = log.add_store("spend")
    commit_both(log, topic, log.write(topic, [(b"a", int64(1))]), 0)
    cut, loaded = latest_cut(log.bootstrap, log.application), table("spend")
    log.create_again(topic)
    log.write(topic, [(b"b", int64(2)), (b"c", int64(3))])

    for read in (lambda: rows("spend", cut=cut), loaded.collect):
        with pytest.raises(PySparkException, match="was deleted and created again"):
            read()


def test_a_changelog_that_is_not_the_one_of_the_manifest_is_not_read(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend", changelog_topic_id="of the first")
    log.write(topic, [(b"a", int64(1))])

    with pytest.raises(PySparkException, match="the application's topic had the id of the first"):
        rows("spend", cut="latest")
    with pytest.raises(RestoreError, match="the application's topic had the id of the first"):
        latest_cut(log.bootstrap, log.application)


def test_an_instance_that_died_before_its_commit_does_not_hold_up_a_read(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    commit_both(log, topic, log.write(topic, [(b"a", int64(1))]), 0)
    before = json.loads(latest_cut(log.bootstrap, log.application))
    with log.pending_commit(11, {topic: 3}, topic, [(b"a", int64(2))]):
        # It ends behind this block, or by its time-out of ten minutes: who waits for it stays here.
        pending = json.loads(latest_cut(log.bootstrap, log.application))
        assert rows("spend") == [("a", 1)]

    assert {**pending, "taken_at_ms": 0} == {**before, "taken_at_ms": 0}


@pytest.mark.parametrize("way", ["load", "collect"])
def test_the_first_line_of_an_error_says_what_happened(
    log: ApplicationLog, table: Callable[..., DataFrame], way: str
) -> None:
    topic = log.add_store("spend", value={"format": "int64"})
    log.write(topic, [(b"a", b"seven bytes no int64 has")])

    read = {
        "load": lambda: table("spent"),
        "collect": lambda: table("spend", cut="latest").collect(),
    }[way]

    with pytest.raises(PySparkException) as caught:
        read()

    what = {"load": "has no store 'spent'", "collect": "the value does not decode"}[way]
    lines = str(caught.value).splitlines()
    assert "Traceback" not in str(caught.value)
    assert what in next(line for line in lines if "logstate" in line)
    assert what in " ".join(lines[:3])


def test_a_wrong_address_is_told_and_not_waited_for(table: Callable[..., DataFrame]) -> None:
    begun = time.monotonic()

    with pytest.raises(PySparkException, match=r"no broker answers at 127\.0\.0\.1:1 within 3 s"):
        table("spend", bootstrap="127.0.0.1:1")

    assert time.monotonic() - begun < 75  # half of what a read waits for an answer that may come
