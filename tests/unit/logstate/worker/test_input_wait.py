"""Waits for empty input partitions: how long they last, and when they are worth a warning."""

from __future__ import annotations

import logging

import pytest

from logstate.contracts.clock import ManualClock
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.owned_task import OwnedTask, Stage
from logstate.topology.dsl.builder import StreamsBuilder
from logstate.worker.input_wait import WARN_AFTER_MS, WARN_INTERVAL_MS, InputWait, wait_line
from logstate.worker.worker_observer import WorkerObserver
from tests.unit.logstate.task.task_bench import TaskBench

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)


def merged(builder: StreamsBuilder) -> None:
    left = builder.stream("left", key=str, value=str)
    left.merge(builder.stream("right", key=str, value=str)).to("out")


class Waiting:
    """A running task of two inputs, and the observer of its worker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.observer = WorkerObserver(monotonic_ms=self.clock.monotonic_ms)
        self.bench = TaskBench(merged)
        task = self.bench.task
        self.owned = OwnedTask(task.task_id, task.partitions, 1, task)
        for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
            self.owned.move_to(stage)

    def after(self, ms: float) -> float:
        self.clock.advance(ms)
        self.observer.refresh({self.owned.task_id: self.owned})
        return self.observer.input_wait_ms(self.bench.task)

    def gauge(self, name: str, **labels: str) -> float:
        return self.observer.metrics.total(name, **labels)


def test_a_wait_lasts_from_the_first_sight_of_it_to_the_next_processed_record() -> None:
    waiting = Waiting()
    waiting.bench.add("left", ("k", "l5", 5))
    assert waiting.after(1_000) == 0
    assert waiting.after(700) == 700
    assert waiting.gauge("input_wait_ms", task="0_0") == 700
    waiting.bench.add("right", ("k", "r3", 3))
    assert waiting.bench.task.process(1) == 1
    assert waiting.after(200) == 0, "a record was processed, and the next wait begins"
    assert waiting.gauge("partition_time_ms", topic="right", partition="0") == 3


def test_a_paused_worker_and_a_task_that_does_not_run_wait_for_nothing() -> None:
    waiting = Waiting()
    waiting.bench.add("left", ("k", "l5", 5))
    waiting.after(1_000)
    waiting.observer.is_paused = True
    assert waiting.after(90_000) == 0
    waiting.observer.is_paused = False
    assert waiting.after(90_000) == 0, "it begins when the worker continues"


def test_a_wait_of_a_minute_is_logged_once_in_ten(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    waiting = Waiting()
    waiting.bench.add("left", ("k", "l5", 5))
    waiting.owned.ends[RIGHT] = 40
    for _ in range(10):
        waiting.after(WARN_AFTER_MS - 1)
        assert len(caplog.records) <= 1
    (line,) = caplog.messages
    assert line.startswith(
        "task 0_0: no record of right-0 has arrived for 120 s, and the records of its other inputs"
        " wait for it: stream time does not advance. It is at offset 0, with end 40:"
    )
    waiting.after(WARN_INTERVAL_MS)
    assert len(caplog.records) == 2


def test_each_partition_is_warned_about_once() -> None:
    wait = InputWait()
    for at in (0.0, WARN_AFTER_MS):
        wait.update(at, 3, [LEFT, RIGHT])
    assert wait.to_warn_about(WARN_AFTER_MS - 1) == []
    assert wait.to_warn_about(WARN_AFTER_MS) == [LEFT, RIGHT]
    assert wait.to_warn_about(WARN_AFTER_MS + 1) == []


@pytest.mark.parametrize(
    ("position", "end", "cause"),
    [
        (7, 40, "It is at offset 7, with end 40: the leader of the partition may be unavailable"),
        (7, None, "It is at offset 7, with an end that is not known: the leader"),
        (7, 7, "It is at its end, offset 7, and max_task_idle makes the task wait"),
    ],
)
def test_a_warning_names_the_likely_cause(position: int, end: int | None, cause: str) -> None:
    times = {LEFT: 1_700_000_000_000, RIGHT: 1_600_000_000_000}
    line = wait_line(TaskId(0, 0), RIGHT, 61_000, position, end, times)
    assert cause in line
    assert "The newest record of right-0 is of 2020-09-13T12:26:40.000Z" in line
    assert "that of the other inputs is of 2023-11-14T22:13:20.000Z" in line


def test_a_warning_without_times_says_that_nothing_was_processed() -> None:
    line = wait_line(TaskId(0, 0), RIGHT, 61_000, 0, 0, {LEFT: 10**15})
    assert "The newest record of right-0 has not been processed, that" in line
    assert "of the other inputs is of 1000000000000000 ms." in line
