"""What an orchestrator is told: whether an instance lives, whether it is ready, and why not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.app.instance.health import Health, liveness, readiness
from logstate.contracts.records import TaskId, TopicPartition
from logstate.queries.reader import Freshness
from logstate.task.owned_task import OwnedTask, Stage
from logstate.worker.worker_observer import WorkerObserver


class Instance:
    """What is seen of an instance from outside, at a time."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.away_since_ms: float | None = None
        self.observer = WorkerObserver(monotonic_ms=lambda: self.now_ms)
        self.owned = OwnedTask(TaskId(0, 1), (TopicPartition("in", 1),), 1)

    def ready(self, *, ended: str | None = None, max_age_s: float | None = None) -> Health:
        freshness = Freshness(lambda: self.now_ms, lambda: self.away_since_ms)
        max_age = None if max_age_s is None else timedelta(seconds=max_age_s)
        return readiness(self.observer, freshness, ended, max_age)

    def runs(self) -> None:
        self.observer.started()
        self.observer.rebalanced("assigned", 1)
        self.observer.tasks = {self.owned.task_id: self.owned}
        for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
            self.owned.move_to(stage)
        self.owned.current_ms = self.now_ms


@pytest.fixture
def instance() -> Instance:
    return Instance()


def test_one_that_has_not_started_is_not_ready(instance: Instance) -> None:
    assert instance.ready() == Health(False, "the application has not started")


def test_one_that_has_ended_is_neither_ready_nor_live(instance: Instance) -> None:
    assert instance.ready(ended="it failed") == Health(False, "it failed")
    assert liveness("it failed") == Health(False, "it failed")
    assert liveness(None)


def test_a_new_member_waits_for_its_first_assignment_but_not_for_ever(instance: Instance) -> None:
    instance.observer.started()
    assert instance.ready() == Health(False, "the group has not assigned any partitions to it yet")
    instance.now_ms += 15_000
    assert instance.ready() == Health(True, "it is idle: all tasks belong to other instances")


def test_a_member_that_was_given_nothing_is_ready(instance: Instance) -> None:
    instance.observer.started()
    instance.observer.rebalanced("assigned", 0)
    assert instance.ready()


def test_a_task_that_is_restored_for_the_first_time_is_waited_for(instance: Instance) -> None:
    instance.runs()
    assert instance.ready() == Health(True, "1 tasks can be read")
    instance.owned.current_ms = None
    instance.owned.move_to(Stage.ASSIGNED)
    assert instance.ready() == Health(False, "tasks are not ready yet: 0_1 is assigned")


def test_one_that_is_cut_off_is_ready_until_what_it_has_is_too_old(instance: Instance) -> None:
    instance.runs()
    instance.away_since_ms = instance.now_ms
    instance.now_ms += 20_000
    assert instance.ready()
    assert instance.ready(max_age_s=20)
    assert instance.ready(max_age_s=19).reason == "its data is 20.0 s old, max_age allows 19 s"
