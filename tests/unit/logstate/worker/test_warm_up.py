"""Before a member joins it waits for what others have of its tasks, and for nothing else."""

from __future__ import annotations

import pytest

from logstate.restore.standby_assignor import GroupView, Peer, TaskOwner
from logstate.testing import FakeCluster
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, send

#: of two static members the first has 0_0 by the assignor's rule, and the second 0_1
FIRST, SECOND = Peer("", "a", "first"), Peer("", "b", "second")


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = cluster_of({"in": 2, "out": 1})
    first = WorkerRig(cluster, counted, name="a", instance_id="a").start()
    first.until_running("0_0", "0_1")
    for partition in (0, 1):
        send(cluster, "x", partition=partition)
    first.commit()
    return cluster


def joining(cluster: FakeCluster, told: GroupView) -> WorkerRig:
    """The second member, with what it knows of the group."""
    rig = WorkerRig(
        cluster, counted, name="b", instance_id="b", standby_replicas=1, acceptable_lag=0
    )
    rig.worker.control.group_view = told
    return rig


@pytest.mark.parametrize(
    "told",
    [
        GroupView((FIRST, SECOND), (TaskOwner(frozenset("a"), frozenset({"0_0"})),)),
        GroupView((FIRST,), (TaskOwner(frozenset("a"), frozenset({"0_0"})),)),
        GroupView(
            (FIRST, SECOND),
            (
                TaskOwner(frozenset("a"), frozenset({"0_0"})),
                TaskOwner(frozenset("b"), frozenset({"0_1"})),
            ),
        ),
    ],
    ids=["told", "not told yet", "its last run is told yet"],
)
def test_a_static_member_that_comes_back_joins_at_once(
    cluster: FakeCluster, told: GroupView
) -> None:
    rig = joining(cluster, told)
    rig.drive_to("subscribe")
    assert {"standby_poll", "wait_for_peers"}.isdisjoint(rig.steps)


@pytest.mark.parametrize("peers", [(FIRST, SECOND), (FIRST,)], ids=["told", "not told yet"])
def test_what_others_have_is_copied_before_the_group_is_joined(
    cluster: FakeCluster, peers: tuple[Peer, ...]
) -> None:
    told = GroupView(peers, (TaskOwner(frozenset("a"), frozenset({"0_0", "0_1"})),))
    rig = joining(cluster, told)
    rig.drive_to("subscribe")
    assert "standby_poll" in rig.steps
    assert {str(task): one.lag for task, one in rig.worker.followed.reports.items()}["0_1"] == 0


def test_who_joins_has_what_it_is_given_before_others_have_joined_and_after() -> None:
    cluster = cluster_of({"in": 6, "out": 1})
    first = WorkerRig(cluster, counted, name="a", instance_id="a").start()
    first.until_running(*(f"0_{n}" for n in range(6)))
    everything = TaskOwner(frozenset("a"), frozenset(f"0_{n}" for n in range(6)))
    third = Peer("", "c", "third")
    joins_too = TaskOwner(frozenset("c"), frozenset())
    rig = joining(cluster, GroupView((FIRST, SECOND, third), (everything, joins_too)))
    rig.drive_to("subscribe")
    lags = {str(task): one.lag for task, one in rig.worker.followed.reports.items()}
    assert {task for task in lags if lags[task] == 0} >= {"0_2", "0_3", "0_4", "0_5"}, lags


def test_nobody_joins_before_it_is_known_who_has_what(cluster: FakeCluster) -> None:
    rig = joining(cluster, GroupView((FIRST,)))
    for _ in range(10):
        rig.drive_to("wait_for_peers")
    assert "subscribe" not in rig.steps
