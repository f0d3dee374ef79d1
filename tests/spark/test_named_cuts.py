"""A named cut is kept: it reads back equal until its time is over, whatever compaction does."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from logstate.changelog.cuts.named_cuts import create_cut, delete_cut, incomplete_cuts, list_cuts
from logstate.changelog.reading.store_read import read
from logstate.changelog.spark import latest_cut, tables
from logstate.cli.main import app as command
from logstate.contracts.errors import ConfigError
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import cut_copy_topic, named_cuts_topic
from logstate.kafka.log_reader import log_bounds
from tests.patience import PATIENCE_S, until
from tests.spark.changelog_writer import ApplicationLog, int64, window_key
from tests.spark.cut_campaign import campaign
from tests.spark.test_compaction import EAGER, write_until_compacted

Rows = Callable[..., list[tuple[Any, ...]]]


def commit_all(log: ApplicationLog, at: int, topic: str, changes: list[Any]) -> None:
    log.commit(at, {topic: log.write(topic, changes)})
    log.commit(at, {topic: 0}, partition=1)


def topics_of(log: ApplicationLog, beginning: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    there = admin.list_topics(timeout=PATIENCE_S).topics
    return sorted(name for name in there if beginning in name)


def test_a_named_cut_reads_back_equal_after_the_cleaner_has_erased_what_it_covers(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend", config=EAGER)
    commit_all(log, 10, topic, [(b"a", int64(1)), (b"x", int64(1)), (b"b", int64(2))])
    at_cut, text = rows("spend"), latest_cut(log.bootstrap, log.application)
    create_cut(log.bootstrap, log.application, "before")
    log.write(topic, [(b"a", int64(5)), (b"x", None), (b"new", int64(7))])
    write_until_compacted(log, topic, {0, 1})
    log.commit(11, {topic: log.write(topic, [(b"c", int64(6))])})

    assert rows("spend", cut="before") == at_cut == [("a", 1), ("b", 2), ("x", 1)]
    with pytest.raises(PySparkException, match="compaction may have removed records"):
        rows("spend", cut=text)
    assert ("a", 5) in rows("spend")


def test_rows_that_are_larger_than_brokers_allow_by_default_are_kept_too(
    log: ApplicationLog,
) -> None:
    config = {"max.message.bytes": "3000000"}
    topic = log.add_store("pages", value={"format": "bytes"}, config=config)
    value = bytes(2_000_000)
    settings = {"bootstrap.servers": log.bootstrap, "message.max.bytes": "3000000"}
    log.stop_counting()
    producer = Producer(settings)
    producer.produce(topic, key=b"a", value=value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    commits = {0: 1, 1: 0}
    for partition, position in commits.items():
        log.commit(10, {topic: position}, partition=partition)

    create_cut(log.bootstrap, log.application, "large")

    found = read(log.application, "pages", bootstrap=log.bootstrap, cut="large").to_arrow()
    assert found.to_pylist() == [{"key": "a", "value": value}]


def test_cuts_of_a_log_that_is_written_and_compacted_meanwhile_are_each_of_one_commit(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    found = campaign(bootstrap, unique("app"), cuts=3)

    assert found["read_back_equal"] == 3
    assert found["commits"] > 6


def test_the_command_makes_shows_and_deletes_cuts(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    commit_all(log, 10, topic, [(b"a", int64(1))])

    def told(*arguments: str) -> str:
        place = ["--application-id", log.application, "--bootstrap", log.bootstrap]
        answer = CliRunner().invoke(command, ["cut", *arguments, *place])
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    told("create", "x", "--keep", "30d", "--store", "spend")
    assert rows("spend", cut="x") == [("a", 1)]
    (listed,) = json.loads(told("list", "--json"))["cuts"]
    assert (listed["name"], listed["stores"], listed["records"]) == ("x", ["spend"], 1)
    assert "x, taken" in told("show", "x")
    assert rows("spend", cut=told("show", "latest-commit")) == [("a", 1)]
    told("delete", "x")
    assert json.loads(told("list", "--json"))["cuts"] == []


def test_windows_deletes_times_and_clocks_are_kept(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store(
        "visits", "window", window_size_ms=1_000, retention_ms=10_000, retain_duplicates=False
    )
    end = log.write(
        topic,
        [
            (window_key("a", 0), int64(1), 0),
            (window_key("a", 50_000), int64(2), 50_000),
            (window_key("b", 50_000), int64(3), 50_000),
            (window_key("b", 50_000), None, 50_001),
        ],
    )
    log.commit(10, {topic: end}, clocks={"store:visits": 50_001})
    log.commit(10, {topic: 0}, partition=1)
    options = {"includeTombstones": "true", "times": "ms"}
    create_cut(log.bootstrap, log.application, "noon")

    for more in ({}, options, {**options, "includeExpired": "true"}):
        assert rows("visits", cut="noon", **more) == rows("visits", **more)
    assert len(rows("visits", cut="noon")) == 1
    assert len(rows("visits", cut="noon", includeExpired="true")) == 2


def test_stores_of_a_named_cut_belong_together_and_stay_as_they_were_declared(
    log: ApplicationLog,
) -> None:
    spend, visits = log.add_store("spend"), log.add_store("visits")
    ends = {
        spend: log.write(spend, [(b"a", int64(1))]),
        visits: log.write(visits, [(b"a", int64(9))]),
    }
    log.commit(10, ends)
    log.commit(10, {spend: 0, visits: 0}, partition=1)
    named = create_cut(log.bootstrap, log.application, "v1")
    log.add_store("later")

    found = tables(log.application, bootstrap=log.bootstrap, cut="v1")
    assert {name: table.collect() for name, table in found.items()} == {
        "spend": [("a", 1)],
        "visits": [("a", 9)],
    }
    assert named.cut.inputs == {log.source: {0: 10, 1: 10}}
    assert named.records == 2


def test_a_cut_is_refused_below_its_horizon_and_given_up_with_the_next_one(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    commit_all(log, 10, topic, [(b"a", int64(1))])
    create_cut(log.bootstrap, log.application, "short", keep=timedelta(0))
    create_cut(log.bootstrap, log.application, "kept", keep=timedelta(days=1))
    assert rows("spend", cut="kept") == [("a", 1)]

    with pytest.raises(PySparkException, match=r"has no cut 'short'; it has \['kept'\]"):
        rows("spend", cut="short")
    assert [cut.name for cut in list_cuts(log.bootstrap, log.application)] == ["kept"]
    # A broker hears a little later than the controller what is gone.
    until(lambda: topics_of(log, f"{log.application}-logstate-cut.short.") == [])
    create_cut(log.bootstrap, log.application, "over", keep=timedelta(0))
    with pytest.raises(PySparkException, match="the cut 'over' was kept until"):
        rows("spend", cut="over")


def test_a_cut_whose_copy_lost_records_is_refused(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    commit_all(log, 10, topic, [(b"a", int64(1)), (b"b", int64(2))])
    copy = cut_copy_topic(log.application, "before", "spend")
    create_cut(log.bootstrap, log.application, "before")
    log.delete_before(copy, 1)

    with pytest.raises(PySparkException, match=r"records were deleted there"):
        rows("spend", cut="before")
    log.create_again(copy)
    with pytest.raises(PySparkException, match="was deleted and created again"):
        rows("spend", cut="before")


def test_names_are_unique_and_free_again_after_a_delete(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    commit_all(log, 10, topic, [(b"a", int64(1))])
    create_cut(log.bootstrap, log.application, "x")
    with pytest.raises(ConfigError, match="has a cut 'x' already"):
        create_cut(log.bootstrap, log.application, "x")
    with pytest.raises(ConfigError, match=r"no stores \['spent'\]"):
        create_cut(log.bootstrap, log.application, "y", stores=["spent"])
    with pytest.raises(ConfigError, match=r"'latest' is not a valid name of a cut"):
        create_cut(log.bootstrap, log.application, "latest")

    delete_cut(log.bootstrap, log.application, "x")
    with pytest.raises(ConfigError, match=r"has no cut 'x'"):
        delete_cut(log.bootstrap, log.application, "x")
    commit_all(log, 11, topic, [(b"a", int64(2))])
    create_cut(log.bootstrap, log.application, "x")

    assert rows("spend", cut="x") == [("a", 2)]
    kept = [cut_copy_topic(log.application, "x", "spend"), named_cuts_topic(log.application)]
    until(lambda: topics_of(log, f"{log.application}-logstate-") == sorted(kept))


def test_what_a_maker_left_that_died_is_no_cut_and_is_removed(
    log: ApplicationLog, rows: Rows
) -> None:
    topic = log.add_store("spend")
    commit_all(log, 10, topic, [(b"a", int64(1))])
    log.create_topic(cut_copy_topic(log.application, "x", "spend"))

    assert incomplete_cuts(log.bootstrap, log.application) == ["x"]
    with pytest.raises(PySparkException, match="has no cut 'x'"):
        rows("spend", cut="x")
    with pytest.raises(ConfigError, match="is being made by another process, or its maker died"):
        create_cut(log.bootstrap, log.application, "x")
    delete_cut(log.bootstrap, log.application, "x")
    create_cut(log.bootstrap, log.application, "x")

    assert rows("spend", cut="x") == [("a", 1)]


def test_a_cut_stays_what_it_was_when_a_second_maker_fails(log: ApplicationLog, rows: Rows) -> None:
    topic = log.add_store("spend")
    commit_all(log, 10, topic, [(b"a", int64(1))])
    create_cut(log.bootstrap, log.application, "x")
    copy = cut_copy_topic(log.application, "x", "spend")
    log.write(copy, [(b"a", int64(99))])  # what another maker has begun to copy

    assert rows("spend", cut="x") == [("a", 1)]
    bounds = log_bounds({"bootstrap.servers": log.bootstrap}, [TopicPartition(copy, 0)])
    assert bounds[TopicPartition(copy, 0)].end > 1
