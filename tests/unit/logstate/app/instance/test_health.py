"""What an orchestrator is told: whether an instance lives, whether it is ready, and why not."""

from __future__ import annotations

import pytest

from logstate.app.instance.health import Health, liveness, readiness
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.owned_task import OwnedTask, Stage
from logstate.worker.worker_observer import WorkerObserver


class Instance:
    """What is seen of an instance from outside, at a time."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.observer = WorkerObserver(monotonic_ms=lambda: self.now_ms)
        self.owned = task(1)
        self.standbys = 0
        self.waits_ms = 0.0

    def ready(self, *, why_not: str | None = None) -> Health:
        return readiness(
            self.observer, self.now_ms, why_not, standbys=self.standbys, waits_ms=self.waits_ms
        )

    def has(self, *tasks: OwnedTask) -> None:
        self.observer.tasks_changed({owned.task_id: owned for owned in tasks})

    def starts(self) -> None:
        self.observer.started()
        self.observer.rebalanced("assigned", 1)
        self.has(self.owned)

    def runs(self) -> None:
        self.starts()
        for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
            self.owned.move_to(stage)
        self.owned.current_ms = self.now_ms
        self.has(self.owned)


def task(partition: int) -> OwnedTask:
    return OwnedTask(TaskId(0, partition), (TopicPartition("in", partition),), 1)


@pytest.fixture
def instance() -> Instance:
    return Instance()


def test_one_that_has_not_started_is_not_ready(instance: Instance) -> None:
    assert instance.ready() == Health(False, "the application has not started")


def test_one_that_has_ended_is_neither_ready_nor_live(instance: Instance) -> None:
    assert instance.ready(why_not="it failed") == Health(False, "it failed")
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


def test_at_a_start_every_task_is_waited_for(instance: Instance) -> None:
    instance.standbys, instance.waits_ms = 1, 10_000
    instance.starts()
    assert instance.ready() == Health(False, "tasks are not ready yet: 0_1 is assigned")
    instance.owned.move_to(Stage.RESTORING)
    instance.has(instance.owned, task(2))
    reason = "tasks are not ready yet: 0_1 is restoring, 0_2 is assigned"
    assert instance.ready() == Health(False, reason)


def test_one_that_is_idle_at_first_waits_for_the_tasks_that_it_gets_then(
    instance: Instance,
) -> None:
    """Its tasks were still to be revoked from others when it joined."""
    instance.observer.started()
    instance.observer.rebalanced("assigned", 0)
    instance.has()
    assert instance.ready()
    instance.has(instance.owned)
    assert not instance.ready()


def test_tasks_that_come_in_a_rebalance_take_nothing_away(instance: Instance) -> None:
    instance.runs()
    assert instance.ready() == Health(True, "1 tasks can be read")
    instance.has(instance.owned, task(2))
    reason = "1 tasks and 0 standbys can be read; tasks are not ready yet: 0_2 is assigned"
    assert instance.ready() == Health(True, reason)


def test_standbys_answer_while_no_task_of_its_own_can(instance: Instance) -> None:
    instance.runs()
    instance.has(task(2))
    assert not instance.ready()
    instance.standbys = 3
    assert instance.ready().reason.startswith("0 tasks and 3 standbys can be read")


def test_while_nothing_can_be_read_it_is_ready_as_long_as_requests_wait(
    instance: Instance,
) -> None:
    instance.waits_ms = 10_000
    instance.runs()
    instance.has(task(2))
    instance.now_ms += 9_999
    assert instance.ready() == Health(
        True, "requests wait; tasks are not ready yet: 0_2 is assigned"
    )
    instance.now_ms += 1
    instance.has(task(2), task(3))
    assert not instance.ready()
    instance.has(instance.owned, task(3))
    instance.has(task(3))
    assert instance.ready(), "it waits from now on"


def test_a_spare_instance_stays_ready_when_it_takes_over(instance: Instance) -> None:
    instance.waits_ms = 10_000
    instance.observer.started()
    instance.observer.rebalanced("assigned", 0)
    instance.now_ms += 15_000
    instance.has(instance.owned)
    assert instance.ready()


def test_a_replaced_worker_begins_again(instance: Instance) -> None:
    instance.runs()
    instance.has(instance.owned, task(2))
    instance.observer.replaced()
    instance.observer.started()
    assert not instance.ready()
