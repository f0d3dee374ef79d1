"""Stores without a changelog: their rows are on one disk, and a start without them is refused."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.restore.standby_assignor import GroupView, Peer
from logstate.testing import FakeCluster
from logstate.topology import Materialized, StreamsBuilder
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, copy_of, send

LOG = TopicPartition("app-logged-changelog", 0)


def counted(builder: StreamsBuilder) -> None:
    """One store with a changelog and two without, of which one is in memory."""
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(store=Materialized("local", logged=False))
    grouped.count(store="logged")
    grouped.count(store=Materialized("memory", logged=False, in_memory=True))


def only_logged(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(store="logged")


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1})


def started(cluster: FakeCluster, declare: Any = counted, **options: Any) -> WorkerRig:
    return WorkerRig(cluster, declare, **options).start().until_running("0_0")


def ran(cluster: FakeCluster, *keys: str, **options: Any) -> Disk:
    rig = started(cluster, **options)
    for key in keys:
        send(cluster, key)
        rig.commit()
    rig.stop()
    return rig.disk


def refusal(cluster: FakeCluster, **options: Any) -> str:
    rig = WorkerRig(cluster, counted, **options).start()
    with pytest.raises(RestoreError) as refused:
        rig.turn(20)
    assert rig.disk.destroyed == []
    return str(refused.value)


def kill(rig: WorkerRig) -> None:
    """Its session is over as well."""
    gone = next(iter(rig.cluster.group("app").members))
    rig.kill()
    rig.cluster.group("app").leave(gone)


def counts(rig: WorkerRig, store: str) -> dict[Any, Any]:
    return {key: row.value for key, row in rig.store("0_0", store).all()}


def test_rows_without_a_changelog_are_kept_with_their_disk(cluster: FakeCluster) -> None:
    disk = ran(cluster, "a", "b")
    rig = started(cluster, disk=disk)
    assert counts(rig, "local") == counts(rig, "logged") == {"a": 1, "b": 1}
    assert counts(rig, "memory") == {}, "declared so"


def test_a_start_without_these_rows_is_refused_and_says_which(cluster: FakeCluster) -> None:
    ran(cluster, "a")
    found = refusal(cluster)
    assert "task 0_0: stores ['local'] have no changelog" in found
    assert "are missing: there are none" in found
    assert "on_state_loss='continue'" in found
    assert "logstate reset" in found


def test_an_old_copy_of_the_directory_is_of_another_commit(cluster: FakeCluster) -> None:
    disk = ran(cluster, "a")
    old = copy_of(disk)
    ran(cluster, "b", disk=disk)
    assert "are missing: the rows belong to another commit" in refusal(cluster, disk=old)
    assert counts(started(cluster, disk=disk), "local") == {"a": 1, "b": 1}


@pytest.mark.parametrize("committed", [False, True])
def test_a_kill_around_the_commit_loses_no_row_without_a_changelog(
    cluster: FakeCluster, committed: bool
) -> None:
    """What was prepared counts where the transaction was committed, and only there."""
    rig = started(cluster, name="killed")
    send(cluster, "a")
    rig.commit()
    send(cluster, "b")
    rig.turn()
    rig.clock.advance(rig.config.commit_interval_ms)
    rig.drive_to("commit")
    if committed:
        rig.step(1)
    kill(rig)
    again = started(cluster, name="killed", disk=rig.disk)
    rows = {"a": 1, "b": 1} if committed else {"a": 1}
    assert counts(again, "local") == counts(again, "logged") == rows
    again.commit()
    assert counts(again, "local") == counts(again, "logged") == {"a": 1, "b": 1}
    again.stop()
    assert counts(started(cluster, disk=rig.disk), "local") == {"a": 1, "b": 1}


def test_a_kill_at_any_step_loses_no_row_without_a_changelog() -> None:
    for steps in range(0, 60, 3):
        cluster = cluster_of({"in": 1})
        rig = started(cluster, name="killed")
        for key in ("a", "b", "a"):
            send(cluster, key)
        rig.clock.advance(rig.config.commit_interval_ms)
        rig.step(steps)
        kill(rig)
        again = started(cluster, name="killed", disk=rig.disk)
        again.commit()
        assert counts(again, "local") == counts(again, "logged") == {"a": 2, "b": 1}, steps
        again.stop()


def test_an_accepted_loss_begins_with_an_empty_store_and_is_an_error_in_the_log(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    ran(cluster, "a")
    rig = started(cluster, on_state_loss="continue")
    assert counts(rig, "local") == {}
    assert counts(rig, "logged") == {"a": 1}
    (error,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "stores ['local'] have no changelog, and their rows are missing" in error.message
    send(cluster, "b")
    rig.commit()
    rig.stop()
    again = started(cluster, disk=rig.disk)
    assert counts(again, "local") == {"b": 1}, "accepted once"


def test_rows_of_an_instance_that_lost_the_task_meanwhile_are_of_another_time(
    cluster: FakeCluster,
) -> None:
    first = ran(cluster, "a", "b", name="first")
    second = ran(cluster, "a", name="second", on_state_loss="continue")
    found = refusal(cluster, name="first", disk=first)
    assert "are missing: the rows belong to another commit" in found
    rig = started(cluster, name="second", disk=second)
    assert counts(rig, "local") == {"a": 1}
    rig.stop()
    accepting = started(cluster, name="first", disk=first, on_state_loss="continue")
    assert counts(accepting, "local") == {}
    assert counts(accepting, "logged") == {"a": 2, "b": 1}
    assert first.destroyed == []


def test_rows_without_a_changelog_survive_a_rebuild_of_the_others(cluster: FakeCluster) -> None:
    disk = ran(cluster, "a", "b")
    stale = started(cluster, disk=disk)
    stale.tasks["0_0"].task.state.meta.topic_ids["logged"] = "another"
    stale.tasks["0_0"].task.state.apply()
    stale.stop()
    rig = started(cluster, disk=disk)
    assert rig.tasks["0_0"].restored_records == 2
    assert counts(rig, "local") == counts(rig, "logged") == {"a": 1, "b": 1}
    assert disk.destroyed == []


def test_a_store_that_is_new_has_no_rows_to_miss(cluster: FakeCluster) -> None:
    disk = ran(cluster, "a", declare=only_logged)
    rig = started(cluster, disk=disk)
    assert counts(rig, "local") == {}
    send(cluster, "b")
    rig.commit()
    rig.stop()
    assert counts(started(cluster, disk=disk), "local") == {"b": 1}


def test_an_abort_keeps_rows_without_a_changelog(cluster: FakeCluster) -> None:
    rig = started(cluster)
    send(cluster, "a")
    rig.commit()
    producer = cluster.transactional_producer(rig.config.transactional_id)
    producer.init_transactions()  # fences the worker's own
    send(cluster, "b")
    rig.turn()
    rig.clock.advance(rig.config.commit_interval_ms)
    rig.until(lambda: rig.total("transactions_aborted_total") > 0)
    rig.until_running("0_0")
    rig.commit()
    assert counts(rig, "local") == counts(rig, "logged") == {"a": 1, "b": 1}


def test_a_standby_has_no_rows_of_a_store_without_a_changelog(cluster: FakeCluster) -> None:
    """Its copy is of the changelogs; a promotion must not take it for the rows themselves."""
    first = started(cluster, name="a", standby_replicas=1)
    send(cluster, "a")
    first.commit()
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1).start()
    second.until(lambda: second.observer.is_assigned)
    peers = (
        Peer(r.worker._live.consumer.member_id(), None, r.process.name) for r in (first, second)
    )
    first.worker.control.group_view = second.worker.control.group_view = GroupView(tuple(peers))
    second.turn(8)
    assert second.worker.followed.tasks
    first.stop()
    with pytest.raises(RestoreError, match=r"\['local'\] have no changelog"):
        second.turn(20)
