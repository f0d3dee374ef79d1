"""Changelogs that lose their tails under a restore: it is decided anew, and not waited for."""

from __future__ import annotations

import pytest

from logstate.contracts.errors import RestoreError, RetriableError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.restore.standby_assignor import GroupView, Peer
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

LOG = TopicPartition("app-counts-changelog", 0)
#: after which a restore that stands still is looked into
PATIENCE_MS = 2_000


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1, "out": 1}, transaction_timeout_ms=1_000_000)


def committed(cluster: FakeCluster, *keys: str) -> int:
    """A worker that has counted the keys, and ended; returns where the changelog ends."""
    rig = WorkerRig(cluster, counted).start().until_running()
    send(cluster, *keys)
    rig.commit()
    rig.stop()
    return cluster.log(LOG).end


def left_open(cluster: FakeCluster) -> None:
    """Records behind which nothing can be read, by a producer that no cut names."""
    producer = cluster.transactional_producer("stranger")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(*LOG, b"a", (99).to_bytes(8, "big"), 5)] * 3)
    producer.flush()


def standing_still(cluster: FakeCluster) -> WorkerRig:
    """A worker without rows that has read what is committed, and waits for the rest."""
    rig = WorkerRig(cluster, counted, name="heir").start()
    rig.until(lambda: rig.stages == {"0_0": Stage.RESTORING})
    rig.turn(5)
    assert rig.stages == {"0_0": Stage.RESTORING}
    return rig


def test_a_restore_whose_log_lost_its_tail_reaches_the_end_that_the_log_has_now(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    end = committed(cluster, *"ab")
    left_open(cluster)
    rig = standing_still(cluster)
    cluster.log(LOG).truncate(end)
    rig.turn(5)
    rig.clock.advance(PATIENCE_MS)
    rig.until_running("0_0")
    send(cluster, "a")
    rig.commit()
    assert outputs(cluster) == [("a", "1"), ("b", "1"), ("a", "2")]
    story = (
        f"task 0_0: {LOG} was truncated: it ends at {end}, but its restore, at offset {end}, has"
    )
    assert f"{story} the target {end + 3}" in caplog.text


def test_a_log_that_lost_what_the_cut_says_it_holds_stops_the_application(
    cluster: FakeCluster,
) -> None:
    committed(cluster, *"ab")
    rig = WorkerRig(cluster, counted, name="heir").start()
    rig.drive_to("restore_poll")
    cluster.log(LOG).truncate(1)
    rig.turn(5)
    assert rig.stages == {"0_0": Stage.RESTORING}
    rig.clock.advance(PATIENCE_MS)
    with pytest.raises(RestoreError, match=r"ends at 1, but .* belong to position 2"):
        rig.turn(5)


def test_a_restore_that_waits_for_an_open_transaction_waits_on(cluster: FakeCluster) -> None:
    committed(cluster, *"ab")
    left_open(cluster)
    rig = standing_still(cluster)
    rig.steps.clear()
    for _ in range(5):
        rig.clock.advance(PATIENCE_MS)
        rig.turn(2)
    assert rig.stages == {"0_0": Stage.RESTORING}
    assert rig.steps.count("restore_ends") == 5
    assert "restore_assign" not in rig.steps
    cluster.transactional_producer("stranger").init_transactions()
    rig.until_running("0_0")


def test_brokers_that_do_not_tell_the_end_are_asked_again(cluster: FakeCluster) -> None:
    end = committed(cluster, *"ab")
    left_open(cluster)
    rig = standing_still(cluster)
    cluster.log(LOG).truncate(end)
    cluster.faults.add(Fault("end_offsets", RetriableError("no answer")))
    rig.clock.advance(PATIENCE_MS)
    rig.turn(2)
    assert rig.stages == {"0_0": Stage.RESTORING}
    assert rig.total("transactions_aborted_total") == 0
    rig.clock.advance(PATIENCE_MS)
    rig.until_running("0_0")


def test_a_standby_whose_log_lost_its_tail_keeps_its_rows_and_says_what_is_missing(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    first = WorkerRig(cluster, counted, name="a", standby_replicas=1).start().until_running("0_0")
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1).start()
    second.until(lambda: second.observer.is_assigned)
    rigs = (first, second)
    peers = (Peer(r.worker._live.consumer.member_id(), None, r.process.name) for r in rigs)
    group_view = GroupView(tuple(peers))
    for rig in rigs:
        rig.worker.control.group_view = group_view
    send(cluster, *"ab")
    first.commit()
    first.clock.advance(1_000)
    second.turn(8)
    (followed,) = second.worker.followed.tasks.values()
    assert followed.task.state.positions == {"counts": cluster.log(LOG).end}
    cluster.log(LOG).truncate(1)
    second.clock.advance(1_000)
    second.turn(8)
    assert not second.worker.followed.tasks
    assert second.disk.destroyed == []
    assert f"task 0_0: ['{LOG}'] were truncated" in caplog.text
    assert "it ends at 1, but the committed offsets belong to position 2" in caplog.text
