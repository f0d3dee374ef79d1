"""A result that fails when it is due is skipped itself, not the record that came then."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError
from logstate.task.error_handlers import Action, Decision, ErrorHandlers, dead_letter, skip
from logstate.task.handler_outcomes import HandlerOutcomes
from logstate.task.late_results import LateResultFailed, LateResults
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    JoinWindows,
    Materialized,
    StreamsBuilder,
    TumblingWindows,
    until_time_limit,
    until_window_closes,
)
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of

TEN = timedelta(milliseconds=10)
WINDOWS = JoinWindows(before=TEN, after=TEN, grace=timedelta(0))
SKIP = ErrorHandlers(processing=skip, production=skip)


def raises(value: Any) -> str:
    if value in (2, "b", "b+None"):
        raise ValueError("two")
    return str(value)


def not_encodable(value: Any) -> Any:
    return 5 if value in (2, "b", "b+None") else str(value)


def by_time(builder: StreamsBuilder, function: Any) -> None:
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="n")
    rows = counts.suppress(until_time_limit(TEN), name="s").to_stream()
    rows.map_values(function, value=str).to("out")


def windowed(builder: StreamsBuilder) -> Any:
    stream = builder.stream("in", key=str, value=str)
    return stream.group_by_key().windowed_by(TumblingWindows(size=TEN, grace=timedelta(0)))


def by_suppressed_close(builder: StreamsBuilder, function: Any) -> None:
    counts = windowed(builder).count(store="n").suppress(until_window_closes(), name="s")
    rows = counts.to_stream(lambda w, _: w.key, key=str)
    rows.map_values(function, value=str).to("out")


def by_close(builder: StreamsBuilder, function: Any) -> None:
    store = Materialized("n", retention=timedelta(seconds=1))
    rows = windowed(builder).count(store=store, emit="close").to_stream(lambda w, _: w.key, key=str)
    rows.map_values(function, value=str).to("out")


#: two windows' worth; "b" has two in the first one
RECORDS = [("a", 1), ("b", 2), ("b", 3), ("c", 4), ("a", 30), ("d", 31), ("a", 60), ("a", 90)]

DECLARED = {"time": by_time, "suppressed": by_suppressed_close, "close": by_close}
declared = pytest.mark.parametrize("declare", DECLARED.values(), ids=DECLARED)


def driven(declare: Any, function: Any, handlers: ErrorHandlers, **options: Any) -> Any:
    builder = StreamsBuilder()
    declare(builder, function)
    topology = builder.build()
    with TopologyTestDriver(topology, error_handlers=handlers, **options) as driver:
        for key, time in RECORDS:
            driver.advance_wall_clock(1_000)
            driver.pipe("in", key, "x", timestamp=time)
        return [(r.topic, r.key, r.value) for r in driver.outputs], driver.task


def clustered(declare: Any, function: Any, handlers: ErrorHandlers) -> Any:
    cluster = cluster_of({"in": 1, "out": 1, "dead": 1})
    rig = WorkerRig(cluster, lambda b: declare(b, function), error_handlers=handlers)
    rig.start().until_running()
    for key, time in RECORDS:
        cluster.produce("in", key.encode(), b"x", timestamp=time)
        for _ in range(10):
            rig.clock.advance(200)
            rig.turn()
    records = [*cluster.records("out"), *cluster.records("dead")]
    return [(r.topic(), r.key(), r.value()) for r in records], rig.tasks["0_0"].task


both = pytest.mark.parametrize("run", [driven, clustered])


@declared
@both
@pytest.mark.parametrize("function", [raises, not_encodable])
def test_only_the_row_is_passed_over(run: Any, declare: Any, function: Any) -> None:
    whole, _ = run(declare, str, ErrorHandlers())
    found, task = run(declare, function, SKIP)
    assert found == [(topic, key, value) for topic, key, value in whole if value != b"2"]
    assert task.skipped_total == sum(value == b"2" for _, _, value in whole) > 0


@declared
def test_so_it_is_where_commits_are_rare(declare: Any) -> None:
    assert (
        driven(declare, raises, SKIP, commit_every=100)[0]
        == driven(declare, raises, SKIP)[0]
    )  # fmt: skip


@declared
@both
def test_without_a_handler_the_application_stops(run: Any, declare: Any) -> None:
    with pytest.raises(ProcessingError, match="two") as caught:
        run(declare, raises, ErrorHandlers())
    assert "test_late_results.py" in str(caught.value.function)


@declared
@both
def test_its_dead_letter_tells_the_story(run: Any, declare: Any) -> None:
    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    found, task = run(declare, raises, handlers)
    letters = [letter for letter in found if letter[0] == "dead"]
    assert letters == [("dead", None, None)] * task.dead_letters_total
    assert letters


def test_an_unmatched_row_of_a_join_is_one_too() -> None:
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=str)
    right = builder.stream("right", key=str, value=str)

    def join(one: str, other: str | None) -> str:
        return raises(f"{one}+{other}")

    joined = left.left_join(right, join, windows=WINDOWS, value=str, name="j")
    joined.to("out")
    with TopologyTestDriver(builder.build(), error_handlers=SKIP) as driver:
        for i, value in enumerate("abcde"):
            driver.advance_wall_clock(2_000)
            driver.pipe("left", value, value, timestamp=1 + 40 * i)
        assert [v for _, v in driver.read("out", value=str)] == ["a+None", "c+None", "d+None"]
        assert driver.task.skipped_total == 1


def test_a_row_is_skipped_until_its_record_is_complete() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out")
    with TopologyTestDriver(builder.build(), error_handlers=SKIP) as rig:
        rows = LateResults(rig.task, HandlerOutcomes(rig.task, SKIP), lambda _: True)
        forward = rows.guarded("node", lambda _key, value: raises(value))
        with pytest.raises(LateResultFailed) as late:
            forward("k", 2)
        rows.decided(late.value.row, Decision(Action.SKIP), late.value.failed)
        forward("k", 2)
        rows.forget_decided()
        with pytest.raises(LateResultFailed):
            forward("k", 2)
