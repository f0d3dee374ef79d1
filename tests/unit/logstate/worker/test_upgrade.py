"""What a start does about a topology that is stored already: alone, and beside others."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from logstate.changelog.cut import MANIFEST_KEY
from logstate.contracts.clients import Step
from logstate.contracts.compatibility import MigrationOptions
from logstate.contracts.errors import UpgradeError
from logstate.contracts.records import ProducedRecord
from logstate.testing import FakeCluster
from logstate.topics.manifest_log import decoded
from logstate.topology import JoinWindows, StreamsBuilder
from tests.campaigns.upgrades.topologies import (
    Declare,
    both,
    counted,
    records,
    suppressed,
    windowed,
)
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of

CUTS = "app-cuts"


def manifest_of(declare: Callable[[StreamsBuilder], object]) -> bytes:
    """What an instance writes that starts over nothing."""
    elsewhere = cluster_of({"in": 2, "out": 1, "other": 2})
    WorkerRig(elsewhere, declare).start().stop()
    (record,) = elsewhere.records(CUTS)
    return record.value() or b""


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 2, "out": 1, "other": 2})


def manifests(cluster: FakeCluster) -> list[set[str]]:
    """The stores of each manifest on the log, oldest first."""
    records = [r for r in cluster.records(CUTS) if r.key() == MANIFEST_KEY]
    return [set(decoded(record.value())["stores"]) for record in records]


def test_an_instance_with_more_stores_joins_while_the_first_lives(cluster: FakeCluster) -> None:
    first = WorkerRig(cluster, counted()).start()
    second = WorkerRig(cluster, both(counted(), counted("late", "other")), name="two").start()
    assert not first.is_finished
    assert not second.is_finished
    assert manifests(cluster) == [{"counts"}, {"counts", "late"}]


def test_an_instance_that_does_not_fit_is_refused_while_the_first_lives(
    cluster: FakeCluster,
) -> None:
    first = WorkerRig(cluster, counted()).start()
    second = WorkerRig(cluster, windowed(), name="two")
    with pytest.raises(UpgradeError, match="store 'counts': kind"):
        second.start()
    assert second.is_finished
    assert "subscribe" not in second.steps
    assert not first.is_finished
    assert manifests(cluster) == [{"counts"}]


def test_of_two_that_start_at_once_and_do_not_fit_the_later_one_gives_way(
    cluster: FakeCluster,
) -> None:
    later = WorkerRig(cluster, counted(), name="two")
    first: list[WorkerRig] = []

    def start_the_first(step: Step) -> None:
        if step.name == "produce" and not first:  # it has looked, and found nothing
            first.append(WorkerRig(cluster, windowed()).start())

    later.before = start_the_first
    with pytest.raises(UpgradeError, match="store 'counts': kind"):
        later.start()
    assert not first[0].is_finished
    kinds = [decoded(r.value())["stores"]["counts"]["kind"] for r in cluster.records(CUTS)]
    assert kinds == ["timestamped_window", "timestamped_key_value", "timestamped_window"]


def test_of_two_that_start_at_once_the_first_goes_on_whatever_is_written_behind_it(
    cluster: FakeCluster,
) -> None:
    first = WorkerRig(cluster, counted())
    rival = manifest_of(windowed())

    def write_behind_it(step: Step) -> None:
        if step.name == "manifest_ends":  # the second look: at the first there was no topic
            cluster.produce(CUTS, MANIFEST_KEY, rival, timestamp=0)

    first.before = write_behind_it
    first.start()
    assert not first.is_finished
    assert len(manifests(cluster)) == 2


def test_a_manifest_behind_an_open_transaction_is_waited_for(cluster: FakeCluster) -> None:
    WorkerRig(cluster, counted()).start().stop()
    producer = cluster.process("dead").transactional_producer("dead")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(CUTS, 0, b"cut:0_0", b"", 0)])
    producer.flush()
    cluster.produce(CUTS, MANIFEST_KEY, manifest_of(windowed()), timestamp=0)
    rig = WorkerRig(cluster, counted(), name="two")
    polls: list[Step] = []

    def end_it_at_last(step: Step) -> None:
        if step.name == "manifest_poll":
            polls.append(step)
            if len(polls) == 3:
                producer.abort()

    rig.before = end_it_at_last
    with pytest.raises(UpgradeError, match="store 'counts': kind"):
        rig.start()
    assert len(manifests(cluster)) == 2  # and it has written none of its own


def test_an_older_version_that_comes_back_has_to_say_what_becomes_of_the_new_store(
    cluster: FakeCluster,
) -> None:
    WorkerRig(cluster, both(counted(), counted("late", "other"))).start().stop()
    with pytest.raises(UpgradeError, match=r"forget=\{'late'\}"):
        WorkerRig(cluster, counted()).start()
    WorkerRig(cluster, counted(), decisions=MigrationOptions(forget={"late"})).start()
    assert manifests(cluster)[-1] == {"counts"}


def test_a_store_that_was_given_up_does_not_come_back_with_what_it_held(
    cluster: FakeCluster,
) -> None:
    WorkerRig(cluster, both(counted(), counted("late", "other"))).start().stop()
    WorkerRig(cluster, counted(), decisions=MigrationOptions(forget={"late"})).start().stop()
    WorkerRig(cluster, counted()).start().stop()  # the decision is remembered
    again = both(counted(), counted("late", "other"))
    with pytest.raises(UpgradeError, match=r"'app-late-changelog' has the rows.*Delete that topic"):
        WorkerRig(cluster, again).start()
    del cluster.topics["app-late-changelog"]
    assert not WorkerRig(cluster, again).start().is_finished


def test_a_renamed_store_keeps_its_rows_its_changelog_and_its_clocks(cluster: FakeCluster) -> None:
    first = WorkerRig(cluster, windowed(name="old")).start()
    first.until_running()
    cluster.produce("in", b"a", b"one", timestamp=15_000)
    first.commit()
    first.stop()
    renamed = {"decisions": MigrationOptions(renamed={"old": "counts"})}
    for options in (renamed, {}):  # the second start finds it in the manifest
        rig = WorkerRig(cluster, windowed(), **options).start().until_running()
        assert "app-counts-changelog" not in cluster.topics
        (task,) = [o.task for o in rig.observer.tasks.values() if o.task.state.positions["counts"]]
        assert task.state.time_cell("observed:counts").time == 15_000
        cluster.produce("in", b"a", b"late", timestamp=1_000)  # its window was closed before
        rig.commit()
        rig.stop()
    assert len(cluster.records("app-old-changelog")) == 1


def test_a_manifest_of_a_newer_version_is_refused(cluster: FakeCluster) -> None:
    WorkerRig(cluster, counted()).start().stop()
    newer = b'{"version":99,"application_id":"app","stores":{}}'
    cluster.produce(CUTS, MANIFEST_KEY, newer, timestamp=0)
    with pytest.raises(UpgradeError, match="version 99, and this logstate reads version 2"):
        WorkerRig(cluster, counted()).start()


def test_an_application_that_is_being_reset_does_not_start(cluster: FakeCluster) -> None:
    WorkerRig(cluster, counted()).start().stop()
    cluster.produce(CUTS, MANIFEST_KEY, marked("reset_since"), timestamp=0)
    with pytest.raises(UpgradeError, match="run `logstate reset --application-id app` again"):
        WorkerRig(cluster, counted()).start()


def marked(since: str) -> bytes:
    mark = {"version": 1, "application_id": "app", "stores": {}, since: "2026-01-02T03:04:05+00:00"}
    return json.dumps(mark).encode()


def written_before_joining(cluster: FakeCluster, *manifests: bytes) -> WorkerRig:
    """It has read the log of the manifests and written its own, and joins when these are there."""
    rig = WorkerRig(cluster, counted())
    rig.drive_to("subscribe")
    for manifest in manifests:
        cluster.produce(CUTS, MANIFEST_KEY, manifest, timestamp=0)
    return rig


@pytest.mark.parametrize("since", ["reset_since", "resharding_since"])
def test_a_mark_that_is_written_between_announcing_and_joining_is_seen_before_a_task_begins(
    cluster: FakeCluster, since: str
) -> None:
    cluster.produce("in", b"a", b"one", timestamp=1)
    rig = written_before_joining(cluster, marked(since))
    with pytest.raises(UpgradeError, match=r"a reset of application|a reshard of application"):
        rig.until_running()
    assert rig.is_finished
    assert "committed" not in rig.steps
    assert cluster.committed_offset("app", "in") is None


def test_a_mark_that_another_one_has_written_over_is_seen_as_well(cluster: FakeCluster) -> None:
    """Who starts beside this one puts the mark back, but that may come too late."""
    rig = written_before_joining(cluster, marked("reset_since"), manifest_of(counted()))
    with pytest.raises(UpgradeError, match="a reset of application"):
        rig.until_running()


def test_the_look_before_the_first_task_is_one_question_where_nothing_was_written(
    cluster: FakeCluster,
) -> None:
    rig = written_before_joining(cluster)
    rig.steps.clear()
    rig.until_running().turn(5)
    looks = [name for name in rig.steps if "manifest" in name]
    assert looks == ["manifest_stable_end", "close_manifest_reader"]


def test_the_look_before_the_first_task_waits_for_no_open_transaction(cluster: FakeCluster) -> None:
    rig = written_before_joining(cluster)
    producer = cluster.transactional_producer("dead")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(CUTS, 0, b"cut:0_0", b"", 0)])
    producer.flush()
    rig.until_running()


def test_a_stop_is_heard_while_an_open_transaction_hides_the_manifest(
    cluster: FakeCluster,
) -> None:
    WorkerRig(cluster, counted()).start().stop()
    producer = cluster.process("dead").transactional_producer("dead")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(CUTS, 0, b"cut:0_0", b"", 0)])
    producer.flush()
    rig = WorkerRig(cluster, counted(), name="two")

    def stop(step: Step) -> None:
        if step.name == "manifest_poll":
            rig.worker.stop()

    rig.before = stop
    rig.start()
    assert rig.is_finished
    assert "subscribe" not in rig.steps


def test_a_store_that_is_renamed_twice_keeps_its_clocks(cluster: FakeCluster) -> None:
    first = WorkerRig(cluster, windowed(name="old")).start().until_running()
    cluster.produce("in", b"a", b"one", timestamp=15_000)
    first.commit()
    first.stop()
    steps = (("old", "middle"), ("middle", "counts"))
    for before, now in steps:
        decided = MigrationOptions(renamed={before: now})
        rig = WorkerRig(cluster, windowed(name=now), decisions=decided).start().until_running()
        (task,) = [o.task for o in rig.observer.tasks.values() if o.task.state.positions[now]]
        assert task.state.time_cell(f"observed:{now}").time == 15_000
        cluster.produce("in", b"a", b"late", timestamp=1_000)  # its window was closed before
        rig.commit()
        rig.stop()
    assert len(cluster.records("app-old-changelog")) == 1


def test_the_name_that_a_renamed_store_had_is_not_given_to_another(cluster: FakeCluster) -> None:
    WorkerRig(cluster, counted("old")).start().until_running().stop()
    decided = MigrationOptions(renamed={"old": "counts"})
    WorkerRig(cluster, counted(), decisions=decided).start().until_running().stop()
    with pytest.raises(UpgradeError, match="changelog would be that of 'counts'"):
        WorkerRig(cluster, both(counted(), counted("old", "other"))).start()


@pytest.mark.parametrize("is_outer", [False, True])
def test_a_renamed_join_keeps_its_clocks(cluster: FakeCluster, is_outer: bool) -> None:
    kind, own = ("outer", "outer-this") if is_outer else ("left", "this")
    suffixes = (f"{own}-join-store", "outer-other-join-store", f"{kind}-shared-join-store")
    first = WorkerRig(cluster, outer_joined("old", is_outer=is_outer)).start().until_running()
    cluster.produce("in", b"a", b"one", timestamp=15_000)
    first.commit()
    first.stop()
    renamed = {f"old-{suffix}": f"new-{suffix}" for suffix in suffixes}
    now = outer_joined("new", is_outer=is_outer)
    rig = (
        WorkerRig(cluster, now, decisions=MigrationOptions(renamed=renamed)).start().until_running()
    )
    tasks = [one.task for one in rig.observer.tasks.values()]
    assert max(one.state.time_cell("new-stream-time").time for one in tasks) == 15_000
    rig.stop()


def outer_joined(name: str, *, is_outer: bool) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        one, other = records(builder), records(builder, "other")
        join = one.outer_join if is_outer else one.left_join
        near = JoinWindows.symmetric(timedelta(seconds=1))
        join(other, lambda left, right: f"{left}{right}", windows=near, name=name)

    return declare


def test_a_renamed_suppression_keeps_its_clock(cluster: FakeCluster) -> None:
    first = WorkerRig(cluster, suppressed(3_600, name="old")).start().until_running()
    cluster.produce("in", b"a", b"one", timestamp=15_000)
    first.commit()
    first.stop()
    decided = MigrationOptions(renamed={"old-store": "new-store"})
    now = suppressed(3_600, name="new")
    rig = WorkerRig(cluster, now, decisions=decided).start().until_running()
    tasks = [one.task for one in rig.observer.tasks.values()]
    assert max(one.state.time_cell("new").time for one in tasks) == 15_000
    rig.stop()
