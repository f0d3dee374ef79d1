"""A standby whose rows cannot be written costs its own replay, and no other task anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from logstate.contracts.errors import LogstateError, StoreCorruptedError, StoreError
from logstate.contracts.records import TaskId
from logstate.restore.standby_assignor import GroupView, Peer
from logstate.testing import FakeCluster
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

TASKS = ("0_0", "0_1", "0_2")
DAMAGED, FULL = StoreCorruptedError("a block is damaged"), StoreError("the disk is full")


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 3, "out": 1})


def peer(rig: WorkerRig) -> Peer:
    return Peer(rig.worker._live.consumer.member_id(), None, rig.process.name)


@pytest.fixture
def pair(cluster: FakeCluster) -> Iterator[tuple[WorkerRig, WorkerRig]]:
    """Two that share the tasks; the second one follows those of the first, whose rows it has."""
    first = WorkerRig(cluster, counted, name="a", standby_replicas=1).start()
    first.until_running(*TASKS)
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1).start()
    for _ in range(30):
        first.turn()
        second.turn()
    for rig in (first, second):
        rig.worker.control.group_view = GroupView((peer(first), peer(second)))
    for partition in range(3):
        send(cluster, "a", partition=partition)
    for _ in range(12):
        first.clock.advance(1_000)
        first.turn(2)
        second.turn(2)
    yield first, second
    second.stop()


def break_one(rig: WorkerRig, error: LogstateError) -> TaskId:
    """The first of those that it follows, which are more than one, cannot be written any more."""
    followed = rig.worker.followed.tasks
    assert len(followed) > 1

    def apply(*_: object) -> None:
        raise error

    state: Any = followed[min(followed)].task.state
    state.apply = apply
    return min(followed)


def test_every_task_that_is_given_runs_though_the_standby_of_the_first_one_is_damaged(
    cluster: FakeCluster, pair: tuple[WorkerRig, WorkerRig]
) -> None:
    first, second = pair
    broken = break_one(second, DAMAGED)
    gone = peer(first).member_id
    first.kill()
    cluster.group("app").leave(gone)
    second.until_running(*TASKS)
    assert second.disk.destroyed == [broken]
    for partition in range(3):
        send(cluster, "a", partition=partition)
    second.commit()
    second.commit()
    assert outputs(cluster).count(("a", "2")) == 3


@pytest.mark.parametrize("error", [DAMAGED, FULL], ids=["damaged", "full"])
def test_a_standby_that_is_not_wanted_any_more_may_fail_to_be_written(
    pair: tuple[WorkerRig, WorkerRig], error: LogstateError
) -> None:
    first, second = pair
    broken = break_one(second, error)
    aborted = second.total("transactions_aborted_total")
    nearer = Peer(peer(first).member_id + "0", None, "c")  # the order of the ids decides
    second.worker.control.group_view = GroupView((peer(first), nearer, peer(second)))
    second.turn(6)
    assert second.worker.followed.tasks == {}
    assert second.disk.destroyed == ([broken] if error is DAMAGED else [])
    assert second.total("transactions_aborted_total") == aborted
