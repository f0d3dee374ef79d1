"""Changelogs that lost a part: a restore is complete, or it is refused and no row is given up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate.contracts.errors import RestoreError, StoreCorruptedError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.restore.standby_assignor import GroupView, Peer
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster
from logstate.topology import Materialized, StreamsBuilder, TumblingWindows
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, send

LOG = TopicPartition("app-counts-changelog", 0)
MINUTE_MS = 60_000
PURGE_MS = 1_000


def counted(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")


def windowed(builder: StreamsBuilder) -> None:
    windows = TumblingWindows(size=timedelta(minutes=1), grace=timedelta(0))
    store = Materialized("counts", segment_interval=timedelta(minutes=1))
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.windowed_by(windows).count(store=store)


def table(builder: StreamsBuilder) -> None:
    builder.table("in", key=str, value=str, store="counts")


Declare = Callable[[StreamsBuilder], object]


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1})


def ran(
    cluster: FakeCluster, *keys: str, declare: Declare = counted, disk: Disk | None = None
) -> Disk:
    """A worker that committed each record by itself, and ended; its disk."""
    disk = Disk() if disk is None else disk
    rig = started(cluster, declare=declare, disk=disk)
    for key in keys:
        send(cluster, key)
        rig.commit()
    rig.stop()
    return disk


def started(cluster: FakeCluster, **options: Any) -> WorkerRig:
    rig = WorkerRig(cluster, options.pop("declare", counted), **options).start()
    return rig.until_running("0_0")


def refusal(cluster: FakeCluster, **options: Any) -> str:
    rig = WorkerRig(cluster, options.pop("declare", counted), **options).start()
    with pytest.raises(RestoreError) as refused:
        rig.turn(20)
    assert rig.disk.destroyed == [], "a start that is refused gives up no row"
    return str(refused.value)


def counts(rig: WorkerRig) -> dict[Any, Any]:
    return {key: row.value for key, row in rig.store("0_0", "counts").all()}


def lose_beginning(cluster: FakeCluster, before: int, log: TopicPartition = LOG) -> None:
    cluster.log(log).delete_before(before)


# --- the beginning --------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [1, 2, -1])
def test_a_changelog_without_its_beginning_restores_nothing(
    cluster: FakeCluster, before: int
) -> None:
    disk = ran(cluster, "a", "b", "c")
    lose_beginning(cluster, before)
    found = refusal(cluster)
    start = cluster.log(LOG).start
    assert "task 0_0: changelog 'app-counts-changelog' partition 0 of store 'counts'" in found
    assert f"it starts at offset {start}, and committed state needs its records from offset 0" in (
        found
    )
    assert "There are no local rows" in found
    assert "on_state_loss='continue'" in found
    assert "logstate reset" in found
    assert counts(started(cluster, disk=disk)) == {"a": 1, "b": 1, "c": 1}
    assert disk.destroyed == []


def test_rows_that_lack_what_the_log_lost_are_neither_used_nor_given_up(
    cluster: FakeCluster,
) -> None:
    old = ran(cluster, "a")
    newest = ran(cluster, "b", "c")
    lose_beginning(cluster, cluster.log(LOG).end - 1)
    found = refusal(cluster, disk=old)
    assert "The local rows, up to offset 1 of the changelog, were not changed, but" in found
    assert "is at offset 1 of app-counts-changelog-0, and is not complete" in found
    assert counts(started(cluster, disk=newest)) == {"a": 1, "b": 1, "c": 1}


def test_rows_that_the_log_continues_are_kept(cluster: FakeCluster) -> None:
    old = ran(cluster, "a")
    ran(cluster, "b")
    lose_beginning(cluster, 1)
    rig = started(cluster, disk=old)
    assert counts(rig) == {"a": 1, "b": 1}
    assert old.destroyed == []


def test_a_running_task_whose_changelog_is_deleted_continues_and_restarts_with_its_disk(
    cluster: FakeCluster,
) -> None:
    disk = Disk()
    rig = started(cluster, disk=disk)
    for key in ("a", "b"):
        send(cluster, key)
        rig.commit()
    lose_beginning(cluster, -1)
    send(cluster, "a")
    rig.commit()
    rig.stop()
    again = started(cluster, disk=disk)
    assert counts(again) == {"a": 2, "b": 1}
    again.stop()
    assert "starts at offset" in refusal(cluster, name="elsewhere")


def test_old_rows_that_cover_the_position_are_kept_where_the_log_is_gone(
    cluster: FakeCluster,
) -> None:
    """They missed no deletion, however old they are: nothing was committed since."""
    disk = ran(cluster, "a", "b")
    lose_beginning(cluster, -1)
    cluster.clock.advance(3 * 86_400_000)
    assert counts(started(cluster, disk=disk)) == {"a": 1, "b": 1}
    assert disk.destroyed == []


def test_a_loss_during_a_restore_refuses_it(cluster: FakeCluster) -> None:
    ran(cluster, *"abcdef")
    rig = WorkerRig(cluster, counted).start()
    rig.drive_to("restore_poll")
    lose_beginning(cluster, 5)
    with pytest.raises(RestoreError, match=r"starts at offset 5, .* from offset 0 on"):
        rig.turn(20)
    assert rig.disk.destroyed == []


# --- a loss that was accepted ---------------------------------------------------------------------


def test_an_accepted_loss_is_an_error_in_the_log_and_accepted_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    ran(cluster, "a", "b", "c")
    lose_beginning(cluster, 2)
    rig = started(cluster, on_state_loss="continue")
    assert [r.levelname for r in caplog.records if "it starts at offset 2" in r.message] == [
        "ERROR"
    ]
    left = {"b": 1, "c": 1}
    assert counts(rig) == left
    send(cluster, "d")
    rig.commit()
    rig.stop()
    again = started(cluster, name="fails")
    assert counts(again) == {**left, "d": 1}
    again.stop()
    lose_beginning(cluster, 4)
    assert "it starts at offset 4, and committed state needs its records from offset 2" in (
        refusal(cluster, name="third")
    )


# --- the topic ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["delete_topic", "recreate_topic"])
def test_a_changelog_that_is_missing_leaves_the_local_rows_where_they_are(
    cluster: FakeCluster, lost: str
) -> None:
    disk = ran(cluster, "a", "b")
    getattr(cluster, lost)(LOG.topic)
    found = refusal(cluster, disk=disk)
    assert "ends at 0, but the committed offsets belong to position" in found
    assert "local rows, up to offset 3 of the changelog, were not changed" in found


class Kept(Disk):
    """Says where it moves rows to."""

    def destroy(self, task_id: TaskId) -> Path:
        super().destroy(task_id)
        return Path("quarantine") / str(task_id)


def test_a_refusal_says_where_rows_are_that_were_given_up_before(cluster: FakeCluster) -> None:
    disk = Kept()
    rig = started(cluster, disk=disk)
    send(cluster, "a")
    rig.commit()
    lose_beginning(cluster, -1)
    damage = StoreCorruptedError("block 7 is damaged", rig.tasks["0_0"].task.state.path)
    rig.worker._live.rows.discard(rig.tasks["0_0"], damage)
    rig.tasks["0_0"].move_to(Stage.ASSIGNED)
    moved = "The local rows of the task were moved to quarantine/0_0, because block 7 is damaged"
    with pytest.raises(RestoreError, match=moved):
        rig.turn(10)


# --- windows --------------------------------------------------------------------------------------


def trimmed(cluster: FakeCluster, disk: Disk | None = None) -> Disk:
    """A worker that counted in windows, and deleted those that expired."""
    disk = Disk() if disk is None else disk
    rig = started(cluster, declare=windowed, disk=disk, purge_interval_ms=PURGE_MS)
    for minute in range(8):
        cluster.produce("in", b"a", b"v", timestamp=(minute + 1) * MINUTE_MS)
        rig.commit()
        rig.clock.advance(PURGE_MS)
        rig.commit()
    rig.stop()
    assert cluster.log(LOG).start > 0, "nothing was trimmed"
    return disk


def test_windows_that_their_owner_deleted_are_not_missing(cluster: FakeCluster) -> None:
    disk = trimmed(cluster)
    again = started(cluster, declare=windowed, disk=disk)
    rows = counts(again)
    assert rows
    again.stop()
    assert counts(started(cluster, declare=windowed, name="elsewhere")) == rows


def test_live_windows_that_somebody_else_deleted_are_missing(cluster: FakeCluster) -> None:
    disk = trimmed(cluster)
    lose_beginning(cluster, cluster.log(LOG).end - 1)
    assert "and committed state needs its records from offset" in refusal(cluster, declare=windowed)
    assert counts(started(cluster, declare=windowed, disk=disk))


def test_the_owner_of_windows_deletes_only_below_what_it_committed(cluster: FakeCluster) -> None:
    """Whatever is deleted, the newest cut says that it is not needed."""
    rig = started(cluster, declare=windowed, purge_interval_ms=PURGE_MS)
    for minute in range(12):
        cluster.produce("in", b"a", b"v", timestamp=(minute + 1) * MINUTE_MS)
        rig.commit()
        rig.clock.advance(PURGE_MS)
        rig.turn(2)
        cut = rig.tasks["0_0"].task.state.trim_points()["counts"]
        assert cluster.log(LOG).start <= cut


@pytest.mark.parametrize("keeps_disk", [True, False])
def test_windows_of_before_a_restart_are_not_deleted_after_it(
    cluster: FakeCluster, keeps_disk: bool
) -> None:
    """The first offsets of their segments are read back with the rows, or found by the replay."""

    def long_kept(builder: StreamsBuilder) -> None:
        store = Materialized(
            "counts", segment_interval=timedelta(minutes=1), retention=timedelta(minutes=10)
        )
        windows = TumblingWindows(size=timedelta(minutes=1), grace=timedelta(0))
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        grouped.windowed_by(windows).count(store=store)

    options: dict[str, Any] = {"declare": long_kept, "purge_interval_ms": PURGE_MS}
    disk = Disk()
    for minutes in (range(1, 8), range(8, 12)):
        rig = started(cluster, disk=disk if keeps_disk else Disk(), **options)
        for minute in minutes:
            cluster.produce("in", b"a", b"v", timestamp=minute * MINUTE_MS)
            rig.commit()
            rig.clock.advance(PURGE_MS)
            rig.commit()
        rows = counts(rig)
        rig.stop()
    assert len(rows) >= 10
    assert counts(started(cluster, name="elsewhere", **options)) == rows


# --- source topics --------------------------------------------------------------------------------


def test_a_source_topic_is_needed_from_the_start_that_it_had_at_first(
    cluster: FakeCluster,
) -> None:
    cluster = cluster_of({"out": 1})
    cluster.create_topic("in", 1, {"cleanup.policy": "compact"})
    send(cluster, "x", "a", "b")
    lose_beginning(cluster, 1, TopicPartition("in", 0))
    options: dict[str, Any] = {"declare": table, "optimization": "all"}
    rig = started(cluster, **options)
    rig.commit()
    rig.stop()
    again = started(cluster, name="elsewhere", **options)
    assert set(counts(again)) == {"a", "b"}
    again.stop()
    lose_beginning(cluster, 2, TopicPartition("in", 0))
    found = refusal(cluster, name="third", **options)
    assert "changelog 'in' partition 0" in found
    assert "it starts at offset 2, and committed state needs its records from offset 1" in found


# --- standbys -------------------------------------------------------------------------------------


def followed(cluster: FakeCluster, first: WorkerRig, **options: Any) -> WorkerRig:
    """A second worker, which is to follow the task of the first one."""
    second = WorkerRig(cluster, counted, name="b", standby_replicas=1, **options).start()
    second.until(lambda: second.observer.is_assigned)
    rigs = (first, second)
    peers = (Peer(r.worker._live.consumer.member_id(), None, r.process.name) for r in rigs)
    group_view = GroupView(tuple(peers))
    for rig in rigs:
        rig.worker.control.group_view = group_view
    return second


def owner(cluster: FakeCluster, *keys: str) -> WorkerRig:
    rig = started(cluster, name="a", standby_replicas=1)
    for key in keys:
        send(cluster, key)
        rig.commit()
    return rig


def test_a_standby_does_not_follow_a_log_without_its_beginning(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    first = owner(cluster, "a", "b", "c")
    lose_beginning(cluster, 2)
    second = followed(cluster, first)
    second.turn(8)
    assert not second.worker.followed.tasks
    (warning,) = [r.message for r in caplog.records if "standby of task" in r.message]
    assert "it starts at offset 2, and committed state needs its records from offset 0" in warning


def test_a_standby_that_misses_deleted_records_keeps_its_rows_and_follows_no_more(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    first = owner(cluster, "a")
    second = followed(cluster, first)
    second.turn(8)
    assert second.worker.followed.tasks
    for key in ("b", "c"):
        send(cluster, key)
        first.commit()
    lose_beginning(cluster, cluster.log(LOG).end - 1)
    first.clock.advance(1_000)
    second.turn(8)
    assert not second.worker.followed.tasks
    assert second.disk.destroyed == []
    assert "standby of task" in caplog.text
    assert "were not changed, but cannot be used" in caplog.text


def test_a_standby_whose_log_is_deleted_behind_it_is_promoted_with_its_rows(
    cluster: FakeCluster,
) -> None:
    first = owner(cluster, "a", "b")
    second = followed(cluster, first)
    second.turn(8)
    lose_beginning(cluster, -1)
    first.stop()
    second.until_running("0_0")
    assert counts(second) == {"a": 1, "b": 1}


def test_a_standby_follows_windows_that_their_owner_trims(cluster: FakeCluster) -> None:
    first = started(
        cluster, declare=windowed, name="a", standby_replicas=1, purge_interval_ms=PURGE_MS
    )
    second = WorkerRig(cluster, windowed, name="b", standby_replicas=1).start()
    second.until(lambda: second.observer.is_assigned)
    peers = (
        Peer(r.worker._live.consumer.member_id(), None, r.process.name) for r in (first, second)
    )
    first.worker.control.group_view = second.worker.control.group_view = GroupView(tuple(peers))
    for minute in range(8):
        cluster.produce("in", b"a", b"v", timestamp=(minute + 1) * MINUTE_MS)
        first.commit()
        first.clock.advance(PURGE_MS)
        first.commit()
        second.turn(8)
        assert second.worker.followed.tasks
    assert cluster.log(LOG).start > 0
