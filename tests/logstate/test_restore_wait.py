"""Restores that wait for a dead worker's open transaction: who ends it, and what is said."""

from __future__ import annotations

import logging

import pytest

from logstate.errors import BrokerError
from logstate.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from tests.logstate.flows import counted
from tests.logstate.worker_rig import WorkerRig, cluster_of, outputs, send

#: in this order: the group gives a member up long before its transaction times out
SESSION_MS, TRANSACTION_MS = 3_000, 1_000_000
PATIENCE_MS = 2_000


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of(
        {"in": 1, "out": 1}, session_timeout_ms=SESSION_MS, transaction_timeout_ms=TRANSACTION_MS
    )


def killed_before(cluster: FakeCluster, call: str) -> WorkerRig:
    """A worker that has committed once and died in its next commit, its transaction open."""
    rig = WorkerRig(cluster, counted, name="dead").start().until_running()
    send(cluster, "a")
    rig.commit()
    send(cluster, "b")
    rig.turn()
    rig.clock.advance(100)
    rig._drive_to(call)
    rig.kill()
    assert cluster.transactions.open_transactions() != []
    return rig


def waiting(cluster: FakeCluster, stage: Stage) -> WorkerRig:
    """Another worker that was given the dead one's task and can get no further."""
    rig = WorkerRig(cluster, counted, name="heir").start()
    rig.turn()
    rig.clock.advance(SESSION_MS)
    rig.turn()
    rig.clock.advance(1)
    cluster.tick()
    rig.until(lambda: rig.stages == {"0_0": stage})
    rig.turn(5)
    assert rig.stages == {"0_0": stage}
    return rig


@pytest.mark.parametrize(
    ("call", "stage"), [("commit", Stage.ASSIGNED), ("send_offsets", Stage.RESTORING)]
)
def test_a_dead_workers_transaction_is_ended_long_before_it_times_out(
    cluster: FakeCluster, call: str, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed_before(cluster, call)
    heir = waiting(cluster, stage)

    heir.clock.advance(PATIENCE_MS)
    heir.until_running("0_0")
    heir.commit()

    assert outputs(cluster) == [("a", "1"), ("b", "1")]
    assert "wait for app-dead, whose member has left the group: it is fenced" in caplog.text
    assert heir.total("transactions_aborted_total") == 0


def test_it_happens_once_and_not_before_patience_ends(cluster: FakeCluster) -> None:
    killed_before(cluster, "commit")
    heir = waiting(cluster, Stage.ASSIGNED)

    heir.clock.advance(PATIENCE_MS - 1)
    heir.turn(3)
    assert "fence" not in heir.steps
    heir.clock.advance(1)
    heir.until_running("0_0")
    assert heir.steps.count("fence") == 1


def test_a_worker_whose_member_lives_is_not_fenced(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    dead = killed_before(cluster, "commit")
    heir = waiting(cluster, Stage.ASSIGNED)
    group = cluster.group("app")
    cut = heir.worker._live.restore_wait  # its view of the group, with the silent member in it
    cut._admin.group_members = lambda _: frozenset({*group.members, "app-member-0001"})  # type: ignore[method-assign]

    for _ in range(6):
        heir.clock.advance(PATIENCE_MS)
        heir.turn(2)

    assert "fence" not in heir.steps
    assert heir.stages == {"0_0": Stage.ASSIGNED}
    assert (
        "task 0_0 has waited 10 s for an open transaction: the committed offsets of ['in-0'] are"
        " not stable. Its partitions were last committed by 'app-dead' (member 'app-member-0001'"
        " is in the group)." in caplog.text
    )
    assert dead.process.is_killed


def test_a_wait_that_outlives_every_transaction_names_the_tool_that_ends_it(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    killed_before(cluster, "send_offsets")
    heir = waiting(cluster, Stage.RESTORING)
    heir.worker._live.restore_wait._admin.group_members = lambda _: None  # type: ignore[method-assign]

    for _ in range(40):
        heir.clock.advance(PATIENCE_MS)
        heir.turn(2)

    assert "can be read to" in caplog.text
    assert "kafka-transactions.sh find-hanging" in caplog.text


def test_a_question_that_fails_is_asked_again(cluster: FakeCluster) -> None:
    killed_before(cluster, "commit")
    heir = waiting(cluster, Stage.ASSIGNED)
    cluster.faults.add(Fault("group_members", BrokerError("not now")))
    cluster.faults.add(Fault("init_transactions", BrokerError("not now")))

    for _ in range(3):
        heir.clock.advance(PATIENCE_MS)
        heir.turn(2)

    heir.until_running("0_0")
    assert heir.steps.count("fence") == 2


def test_restores_that_get_on_are_left_alone(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted).start().until_running()
    send(cluster, *"abcabc")
    rig.commit()
    rig.stop()
    again = WorkerRig(cluster, counted, name="next").start()
    again.clock.advance(PATIENCE_MS)
    again.until_running("0_0")
    assert "group_members" not in again.steps
