"""Windows that close while the inputs are idle: what the worker asks, and when it ticks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.clients import Step, TransactionalProducer
from logstate.contracts.errors import RetriableError
from logstate.testing import FakeCluster
from logstate.topology import StreamsBuilder, TumblingWindows, until_window_closes
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

IDLE_MS = 500
WINDOWS = TumblingWindows(
    size=timedelta(milliseconds=10), close_on_idle=timedelta(milliseconds=IDLE_MS)
)


class Killed(BaseException):
    """SIGKILL."""


def finals(stream: Any, windows: TumblingWindows = WINDOWS) -> None:
    counts = stream.group_by_key().windowed_by(windows).count(store="n", emit="close")
    counts.to_stream(lambda w, _: w.key, key=str).map_values(str, value=str).to("out")


def windowed(builder: StreamsBuilder, windows: TumblingWindows = WINDOWS) -> None:
    finals(builder.stream("in", key=str, value=str), windows)


def repartitioned(builder: StreamsBuilder, windows: TumblingWindows = WINDOWS) -> None:
    stream = builder.stream("in", key=str, value=str)
    stream = stream.select_key(lambda _, value: value, key=str).repartition(name="r")
    finals(stream, windows)


def running(
    cluster: FakeCluster | None = None,
    declare: Callable[[StreamsBuilder], None] = windowed,
    **options: Any,
) -> WorkerRig:
    rig = WorkerRig(cluster or cluster_of(), declare, **options)
    return rig.start().until_running()


def idle(rig: WorkerRig, for_ms: int) -> None:
    """Time passes while the worker polls, ten times a second."""
    for _ in range(for_ms // 100):
        rig.clock.advance(100)
        rig.turn(4)


def open_transaction(cluster: FakeCluster, partition: int) -> TransactionalProducer:
    """One record of an open transaction."""
    producer = cluster.process("upstream").transactional_producer("upstream")
    producer.init_transactions()
    producer.begin()
    producer.produce([("in", partition, b"a", b"a", 3, None)])
    producer.flush()
    return producer


def results(rig: WorkerRig) -> list[str]:
    return sorted(key or "" for key, _ in outputs(rig.cluster))


def test_windows_close_within_the_idle_time_and_two_commits() -> None:
    rig = running()
    send(rig.cluster, *"abcdefghijkl")
    rig.turn(4)
    idle(rig, IDLE_MS - 100)
    assert len(results(rig)) < 12
    idle(rig, 100 + 2 * rig.config.commit_interval_ms)
    assert results(rig) == [*"abcdefghijkl"]
    idle(rig, 10_000)
    assert len(results(rig)) == 12


@pytest.mark.parametrize("declare", [windowed, repartitioned])
def test_a_window_longer_than_the_idle_time_closes_when_it_has_passed(
    declare: Callable[..., None],
) -> None:
    windows = TumblingWindows(
        size=timedelta(seconds=5), close_on_idle=timedelta(milliseconds=IDLE_MS)
    )
    rig = running(declare=lambda builder: declare(builder, windows))
    send(rig.cluster, *"abc")
    rig.turn(4)
    idle(rig, 4_800)
    assert results(rig) == []
    idle(rig, 3_000 + 2 * rig.config.commit_interval_ms)
    assert results(rig) == [*"abc"]


def test_without_the_option_no_request_is_sent() -> None:
    rig = running(
        declare=lambda builder: finals(
            builder.stream("in", key=str, value=str),
            TumblingWindows(size=timedelta(milliseconds=10)),
        )
    )
    send(rig.cluster, "a")
    rig.turn(4)
    steps = len(rig.steps)
    idle(rig, 10_000)
    assert "end_offsets" not in rig.steps[steps:]
    assert results(rig) == []


def test_one_request_confirms_that_the_inputs_are_idle() -> None:
    rig = running()
    send(rig.cluster, "a")
    rig.turn(4)
    steps = len(rig.steps)
    idle(rig, IDLE_MS + 300)
    assert rig.steps[steps:].count("end_offsets") == 1
    assert results(rig) == ["a"]
    idle(rig, 5_000)
    assert rig.steps[steps:].count("end_offsets") == 1


def test_a_record_that_was_not_fetched_yet_begins_a_new_wait() -> None:
    rig = running()
    send(rig.cluster, "a")
    rig.turn(4)

    def arrives(step: Step) -> None:
        if step.name == "end_offsets":
            rig.before = lambda _: None
            rig.cluster.produce("in", b"a", b"a", timestamp=2, partition=0)
            rig.cluster.produce("in", b"a", b"a", timestamp=2, partition=1)

    rig.before = arrives
    idle(rig, IDLE_MS + 200)
    assert results(rig) == []
    idle(rig, IDLE_MS + 200)
    assert {key for key, _ in outputs(rig.cluster)} == {"a"}
    assert sum(int(value or 0) for _, value in outputs(rig.cluster)) == 3


def test_an_open_transaction_of_an_upstream_producer_is_waited_for() -> None:
    rig = running()
    send(rig.cluster, "a", partition=0)
    rig.turn(4)
    producer = open_transaction(rig.cluster, 0)
    idle(rig, 3 * IDLE_MS)
    assert results(rig) == []
    producer.abort()
    idle(rig, IDLE_MS + 400)
    assert outputs(rig.cluster) == [("a", "1")]


def test_nothing_closes_while_the_worker_is_paused() -> None:
    rig = running()
    send(rig.cluster, "a")
    rig.turn(4)
    rig.worker.control.is_paused = True
    idle(rig, 3 * IDLE_MS)
    assert results(rig) == []
    rig.worker.control.is_paused = False
    idle(rig, IDLE_MS - 100)
    assert results(rig) == []
    idle(rig, 400)
    assert results(rig) == ["a"]


def test_nothing_closes_while_the_brokers_do_not_answer() -> None:
    rig = running()
    send(rig.cluster, "a")
    rig.turn(4)

    def fails(step: Step) -> None:
        if step.name == "end_offsets":
            raise RetriableError("no answer")

    rig.before = fails
    idle(rig, 5_000)
    assert results(rig) == []
    assert rig.steps.count("end_offsets") < 10
    rig.before = lambda _: None
    idle(rig, 1_500)
    assert results(rig) == ["a"]


@pytest.mark.parametrize("step", ["begin", "produce", "flush", "send_offsets", "commit"])
def test_a_tick_that_was_not_committed_is_made_again(step: str) -> None:
    cluster = cluster_of()
    rig = running(cluster)
    send(cluster, *"abcdefghijkl")
    rig.commit()
    before = set(results(rig))

    def dies(at: Step) -> None:
        if at.name == step:
            raise Killed

    rig.before = dies
    with pytest.raises(Killed):
        idle(rig, 10_000)
    rig.process.kill()
    cluster.clock.advance(60_000)  # type: ignore[attr-defined]
    cluster.tick()
    after = running(cluster, name="two", disk=rig.disk)
    assert set(results(after)) == before
    idle(after, IDLE_MS + 500)
    assert results(after) == [*"abcdefghijkl"]


def test_behind_a_repartition_topic_windows_close_when_all_tasks_above_are_idle() -> None:
    rig = running(declare=repartitioned)
    send(rig.cluster, *"abcdefghijkl")
    rig.turn(10)
    idle(rig, IDLE_MS - 200)
    assert len(results(rig)) < 12
    idle(rig, 1_000)
    assert results(rig) == [*"abcdefghijkl"]


def test_while_tasks_above_are_busy_there_are_few_requests() -> None:
    rig = running(declare=repartitioned)
    send(rig.cluster, "a")
    rig.turn(10)
    open_transaction(rig.cluster, 0)
    idle(rig, IDLE_MS)
    steps = len(rig.steps)
    idle(rig, 10_000)
    assert 10 <= rig.steps[steps:].count("committed_so_far") <= 40
    assert results(rig) == []


def test_records_above_that_do_not_reach_a_task_keep_it_open() -> None:
    cluster = cluster_of({"in": 2, "out": 1})

    def some(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str).filter(lambda _, value: value != "not")
        finals(stream.select_key(lambda _, value: value, key=str).repartition(name="r"))

    rig = running(cluster, some)
    send(cluster, "a")
    rig.turn(10)
    for _ in range(20):
        cluster.produce("in", b"x", b"not", timestamp=5, partition=1)
        idle(rig, 300)
    assert results(rig) == []
    idle(rig, 2 * IDLE_MS + 1_200)
    assert results(rig) == ["a"]


def test_an_open_transaction_above_keeps_a_task_open() -> None:
    rig = running(declare=repartitioned)
    producer = open_transaction(rig.cluster, 1)
    send(rig.cluster, "a", partition=0)
    rig.turn(10)
    idle(rig, 5_000)
    assert results(rig) == []
    producer.abort()
    idle(rig, 2 * IDLE_MS + 1_200)
    assert results(rig) == ["a"]


def test_a_tick_comes_after_the_updates_that_wait_for_the_commit() -> None:
    def suppressed(builder: StreamsBuilder) -> None:
        windows = TumblingWindows(
            size=timedelta(milliseconds=10), close_on_idle=timedelta(milliseconds=100)
        )
        groups = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
        counts = groups.count(store="n", emit="commit")
        final = counts.suppress(until_window_closes(), name="final")
        final.to_stream(lambda w, _: w.key, key=str).map_values(str, value=str).to("out")

    rig = running(declare=suppressed, commit_interval_ms=1_000)
    send(rig.cluster, "a")
    rig.turn(4)
    rig.clock.advance(1_000)
    rig.turn(1)  # the commit sends the first update to the buffer
    send(rig.cluster, "a")
    rig.turn(2)
    idle(rig, 5_000)
    assert outputs(rig.cluster) == [("a", "2")]


def test_an_aborted_transaction_above_does_not_keep_a_task_open() -> None:
    rig = running(declare=repartitioned)
    send(rig.cluster, "a")
    rig.turn(10)
    idle(rig, 2 * rig.config.commit_interval_ms)
    open_transaction(rig.cluster, 0).abort()
    idle(rig, 2 * IDLE_MS + 1_200)
    assert results(rig) == ["a"]


def test_control_records_above_are_committed_at_once() -> None:
    def twice(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str).repartition(name="first")
        finals(stream.select_key(lambda _, value: value, key=str).repartition(name="second"))

    rig = running(declare=twice)
    open_transaction(rig.cluster, 0).commit()
    rig.turn(10)
    idle(rig, 2 * IDLE_MS + 1_200)
    assert results(rig) == ["a"]
    commits = rig.steps.count("commit")
    idle(rig, 10_000)
    assert rig.steps.count("commit") == commits
