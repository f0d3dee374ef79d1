"""Restores that wait for a dead worker's open transaction: who ends it, and what is said."""

from __future__ import annotations

import logging

import pytest

from logstate.contracts.errors import BrokerError, RetriableError
from logstate.contracts.records import ProducedRecord
from logstate.restore.standby_assignor import GroupView
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

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
    rig.drive_to(call)
    rig.kill()
    assert cluster.transactions.open_transactions() != []
    return rig


def waiting(cluster: FakeCluster, stage: Stage, rig: WorkerRig | None = None) -> WorkerRig:
    """Another worker that was given the dead one's task and can get no further."""
    rig = rig or WorkerRig(cluster, counted, name="new_owner").start()
    rig.turn()
    rig.clock.advance(SESSION_MS)
    rig.turn()
    rig.clock.advance(1)
    cluster.tick()
    rig.until(lambda: rig.stages == {"0_0": stage})
    rig.turn(5)
    assert rig.stages == {"0_0": stage}
    return rig


def check(rig: WorkerRig, times: int) -> None:
    """So much time that it looks again, so often."""
    for _ in range(times):
        rig.clock.advance(PATIENCE_MS)
        rig.turn(2)


@pytest.mark.parametrize(
    ("call", "stage"), [("commit", Stage.ASSIGNED), ("send_offsets", Stage.RESTORING)]
)
def test_a_dead_workers_transaction_is_ended_long_before_it_times_out(
    cluster: FakeCluster, call: str, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed_before(cluster, call)
    new_owner = waiting(cluster, stage)

    check(new_owner, 2)
    new_owner.until_running("0_0")
    new_owner.commit()

    assert outputs(cluster) == [("a", "1"), ("b", "1")]
    assert "app-dead is fenced: restores wait for a transaction that it left open" in caplog.text
    assert new_owner.total("transactions_aborted_total") == 0


def test_nobody_waits_for_one_that_is_known_to_be_dead(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed_before(cluster, "send_offsets")
    new_owner = waiting(cluster, Stage.RESTORING)
    new_owner.worker.control.group_view = GroupView(silent=frozenset({"app-dead", "app-new_owner"}))

    new_owner.turn()

    assert cluster.transactions.open_transactions() == []
    assert "app-dead is fenced: it stopped without leaving, and its tasks are here" in caplog.text
    new_owner.until_running("0_0")
    new_owner.turn(5)
    assert caplog.text.count("is fenced:") == 1


def test_the_owner_before_who_lives_is_left_alone_and_the_silent_one_after_it_is_fenced(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed_before(cluster, "commit")
    # Who wrote the cut lives; who had the task after it did not live to write one.
    after = cluster.transactional_producer("app-after")
    after.init_transactions()
    after.begin()
    after.produce([ProducedRecord("app-counts-changelog", 0, b"k", None, 1)])
    after.flush()
    new_owner = waiting(cluster, Stage.ASSIGNED)
    new_owner.worker.control.group_view = GroupView(
        present=frozenset({"app-dead", "app-new_owner"}), silent=frozenset({"app-after"})
    )

    check(new_owner, 5)

    assert caplog.text.count("is fenced:") == 1
    assert "app-after is fenced: restores wait for a transaction that it left open" in caplog.text
    assert new_owner.stages == {"0_0": Stage.ASSIGNED}
    new_owner.worker.control.group_view = GroupView(present=frozenset({"app-new_owner"}))
    check(new_owner, 1)
    new_owner.until_running("0_0")


@pytest.mark.parametrize("is_known_before", [True, False])
def test_one_that_died_inside_its_commit_and_is_known_to_be_dead_is_fenced_at_once(
    cluster: FakeCluster, *, is_known_before: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed_before(cluster, "commit")
    known = GroupView(present=frozenset({"app-new_owner"}), silent=frozenset({"app-dead"}))
    new_owner = WorkerRig(cluster, counted, name="new_owner").start()
    if is_known_before:
        new_owner.worker.control.group_view = known
    new_owner = waiting(cluster, Stage.ASSIGNED, new_owner)
    new_owner.worker.control.group_view = known
    new_owner.clock.advance(200)

    new_owner.turn(2)

    assert caplog.text.count("app-dead is fenced:") == 1
    new_owner.until_running("0_0")


def test_who_is_back_after_it_was_fenced_is_fenced_again_when_it_dies_again(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed_before(cluster, "commit")
    new_owner = waiting(cluster, Stage.ASSIGNED)
    silent = GroupView(present=frozenset({"app-new_owner"}), silent=frozenset({"app-dead"}))
    new_owner.worker.control.group_view = silent
    new_owner.turn(2)
    new_owner.worker.control.group_view = GroupView(
        present=frozenset({"app-new_owner", "app-dead"})
    )
    new_owner.turn(2)
    new_owner.worker.control.group_view = silent

    new_owner.turn(2)

    assert caplog.text.count("app-dead is fenced:") == 2


def test_it_happens_once_and_not_before_patience_ends(cluster: FakeCluster) -> None:
    killed_before(cluster, "commit")
    new_owner = waiting(cluster, Stage.ASSIGNED)

    new_owner.clock.advance(PATIENCE_MS - 1)
    new_owner.turn(3)
    assert "committed_so_far" not in new_owner.steps
    new_owner.clock.advance(1)
    new_owner.turn(3)
    assert new_owner.steps.count("committed_so_far") == 1
    assert "fence" not in new_owner.steps
    check(new_owner, 1)
    new_owner.until_running("0_0")
    assert new_owner.steps.count("fence") == 1


def test_brokers_that_do_not_answer_are_no_reason_to_fence_anybody(cluster: FakeCluster) -> None:
    killed_before(cluster, "commit")
    new_owner = waiting(cluster, Stage.ASSIGNED)

    for _ in range(5):
        check(new_owner, 1)
        cluster.faults.add(Fault("committed_so_far", RetriableError("not now")))
        check(new_owner, 1)
    assert "fence" not in new_owner.steps
    check(new_owner, 2)
    assert "fence" in new_owner.steps


def test_a_worker_does_not_fence_itself_and_says_what_it_waits_for(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    ran = WorkerRig(cluster, counted, name="new_owner").start().until_running()
    send(cluster, "a")
    ran.commit()
    ran.stop()
    foreign = cluster.transactional_producer("somebody-else")
    foreign.init_transactions()
    foreign.begin()
    foreign.produce([ProducedRecord("app-counts-changelog", 0, b"k", None, 1)])
    foreign.flush()
    again = WorkerRig(cluster, counted, name="new_owner").start()
    again.turn(5)

    check(again, 8)
    assert (
        "task 0_0 has waited 10 s for an open transaction: app-counts-changelog-0 can be read to 2"
        " of 3. Its partitions were last committed by this worker, or by a program that left no"
        " name." in caplog.text
    )
    assert "find-hanging" not in caplog.text
    check(again, 40)
    assert "kafka-transactions.sh find-hanging" in caplog.text
    assert "fence" not in again.steps
    foreign.abort()
    again.until_running("0_0")


def test_a_fence_that_fails_is_tried_again(cluster: FakeCluster) -> None:
    killed_before(cluster, "commit")
    new_owner = waiting(cluster, Stage.ASSIGNED)
    cluster.faults.add(Fault("init_transactions", BrokerError("not now")))

    check(new_owner, 3)

    new_owner.until_running("0_0")
    assert new_owner.steps.count("fence") == 2


def test_restores_that_get_on_are_left_alone(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted).start().until_running()
    send(cluster, *"abcabc")
    rig.commit()
    rig.stop()
    again = WorkerRig(cluster, counted, name="next").start()
    again.clock.advance(PATIENCE_MS)
    again.until_running("0_0")
    assert "committed_so_far" not in again.steps
