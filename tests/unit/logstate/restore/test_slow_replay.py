"""A replay that takes longer than deletions are kept may miss some: what is done about it."""

from __future__ import annotations

import logging

import pytest

from logstate.contracts.clients import Step
from logstate.contracts.errors import RestoreError
from logstate.testing import FakeCluster
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, send

LIFETIME_MS = 86_400_000
LOG = "app-counts-changelog"


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1, "out": 1})


def left_behind(cluster: FakeCluster) -> Disk:
    """The rows of a worker that was killed; "a" was counted, and deleted by somebody since."""
    disk = Disk()
    rig = WorkerRig(cluster, counted, disk=disk, checkpoint_interval_ms=0).start()
    rig.until_running()
    send(cluster, "a")
    rig.commit()
    rig.commit()
    rig.kill()
    rig.clock.advance(60_000)
    cluster.tick()  # its session is over
    cluster.produce(LOG, b"a", None, partition=0)
    return disk


def slow(rig: WorkerRig, *, passes: int) -> None:
    """So many replays take so long that the tombstone is gone before they come to it."""
    left = [passes]

    def reads(step: Step) -> None:
        if step.name == "restore_assign" and left[0] > 0:
            left[0] -= 1
            rig.clock.advance(LIFETIME_MS)
            rig.cluster.clean(LOG)

    rig.before = reads


def test_rows_whose_deletion_was_compacted_away_during_a_slow_replay_do_not_come_back(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    disk = left_behind(cluster)
    rig = WorkerRig(cluster, counted, name="next", disk=disk).start()
    slow(rig, passes=1)
    with caplog.at_level(logging.WARNING):
        rig.until_running()
    assert rig.store("0_0", "counts").get("a") is None
    assert [str(task) for task in disk.destroyed] == ["0_0"]
    assert "its local state is rebuilt" in caplog.text
    assert "keeps deletions for 1440" in caplog.text


def test_a_quick_replay_keeps_the_local_rows(cluster: FakeCluster) -> None:
    disk = left_behind(cluster)
    rig = WorkerRig(cluster, counted, name="next", disk=disk).start()
    rig.until_running()
    assert rig.store("0_0", "counts").get("a") is None
    assert disk.destroyed == []


def test_a_log_that_cannot_be_read_in_time_at_all_stops_the_application(
    cluster: FakeCluster,
) -> None:
    disk = left_behind(cluster)
    rig = WorkerRig(cluster, counted, name="next", disk=disk).start()
    slow(rig, passes=2)
    with pytest.raises(RestoreError, match=r"app-counts-changelog-0.*raise delete\.retention\.ms"):
        rig.until_running()
