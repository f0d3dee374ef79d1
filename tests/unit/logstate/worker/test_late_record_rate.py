"""A task that loses much of its input as late says so, once in a while and not for a few."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.contracts.records import TaskId
from logstate.topology import StreamsBuilder, TumblingWindows
from logstate.worker.late_record_rate import TELL_INTERVAL_MS, LateRecordRate, late_line
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of


def test_a_tenth_of_a_thousand_records_is_told() -> None:
    assert LateRecordRate().check(0, 1_000, 100) == (1_000, 100)
    assert LateRecordRate().check(0, 1_000, 99) is None


def test_a_quiet_topic_is_judged_every_ten_seconds() -> None:
    share = LateRecordRate()
    assert share.check(0, 20, 10) is None
    assert share.check(9_999, 40, 20) is None
    assert share.check(10_000, 40, 20) == (40, 20)


def test_a_few_stragglers_are_no_news() -> None:
    share = LateRecordRate()
    share.check(0, 0, 0)
    assert share.check(10_000, 9, 9) is None


def test_what_was_in_time_before_does_not_hide_what_is_late_now() -> None:
    share = LateRecordRate()
    assert share.check(0, 1_000_000, 0) is None
    assert share.check(200, 1_001_000, 900) == (1_000, 900)


def test_it_is_said_again_after_a_while_only() -> None:
    share = LateRecordRate()
    assert share.check(0, 1_000, 500) is not None
    assert share.check(TELL_INTERVAL_MS - 1, 2_000, 1_000) is None
    assert share.check(TELL_INTERVAL_MS, 3_000, 1_500) == (1_000, 500)


def test_the_line_names_the_repartition_topic_and_the_page() -> None:
    line = late_line(TaskId(1, 0), ["app-by-user-repartition", "prices"], 1_000, 400)
    for part in (
        "task 1_0",
        "400",
        "1000",
        "'app-by-user-repartition'",
        "is not in order",
        "grace",
    ):
        assert part in line
    assert "docs/late-records.md" in line
    assert "repartition" not in late_line(TaskId(0, 0), ["in"], 1_000, 400)


def by_word(builder: StreamsBuilder) -> None:
    minutes = TumblingWindows(size=timedelta(minutes=1))
    words = builder.stream("in", key=str, value=str).group_by(lambda k, v: v, key=str, name="words")
    words.windowed_by(minutes).count(store="counts")


def test_a_backlog_behind_a_repartition_topic_that_comes_in_no_order_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = cluster_of({"in": 2})
    one = WorkerRig(cluster, by_word).start().until_running()
    # Two partitions of one hour each: whichever is read first makes the other late.
    for partition in (0, 1):
        for minute in range(60):
            for word in (b"a", b"b"):
                cluster.produce("in", b"k", word, partition=partition, timestamp=minute * 60_000)
    for _ in range(100):
        one.turn()
        one.clock.advance(200)
    one.stop()

    told = [line for line in caplog.messages if "late records" in line]
    assert 1 <= len(told) <= 2  # once for each of the tasks behind the topic
    assert "'app-words-repartition'" in told[0]
