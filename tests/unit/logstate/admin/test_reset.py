"""Setting an application back, and every instant at which that can be interrupted."""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from logstate.admin.reset import At, Reset, Target, as_plain_data, carried_out, planned_reset
from logstate.contracts.clients import Committed, Steps, run_steps
from logstate.contracts.clock import ManualClock
from logstate.contracts.compatibility import NOTHING_DECIDED, MigrationOptions
from logstate.contracts.errors import (
    FencedError,
    MembersLiveError,
    RestoreError,
    TopicError,
    UpgradeError,
)
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import offline_transactional_id
from logstate.testing import FakeCluster
from logstate.testing.fake.producers import FakeTransactionalProducer
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import Manifest
from logstate.topics.manifest_log import ManifestLog, decoded
from logstate.topology import StreamsBuilder, Topology
from tests.unit.logstate.flows import recounted
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)
#: calls of a reset, and those up to the one that writes the mark
STEPS = 8
BEFORE_THE_MARK = range(3)


class World:
    """One application that has counted three records, behind a repartition topic."""

    def __init__(self) -> None:
        self.cluster: FakeCluster = cluster_of({"in": 2, "out": 1, "app-eu-counts-changelog": 1})
        self.disk = Disk()
        send(self.cluster, "a", "b", "a")
        rig = self.started()
        rig.commit()
        rig.commit()
        rig.stop()
        assert sorted(outputs(self.cluster)) == [("a", "1"), ("a", "2"), ("b", "1")]

    def started(self) -> WorkerRig:
        return WorkerRig(self.cluster, recounted, disk=self.disk).start()

    def plan(self, target: Target = "earliest") -> Reset:
        admin = self.cluster.admin()
        log = ManifestLog("app", self.cluster, admin, ManualClock())
        found = run_steps(log.new_manifests(lambda: False))
        stored = decoded(found[-1]) if found else None
        return run_steps(planned_reset(admin, "app", stored, target))

    def carrying_out(self, reset: Reset) -> Steps[None]:
        admin = self.cluster.admin()
        return carried_out(
            reset, admin, self.offline_producer, self.disk.clear, now="2026-01-02T03:04:05"
        )

    def offline_producer(self) -> FakeTransactionalProducer:
        return self.cluster.transactional_producer(offline_transactional_id("app"))

    def reset(self, target: Target = "earliest") -> None:
        run_steps(self.carrying_out(self.plan(target)))


@pytest.fixture
def world() -> World:
    return World()


def counted_again(world: World) -> list[tuple[str | None, str | None]]:
    """What a start says that processes everything there is."""
    before = len(outputs(world.cluster))
    rig = world.started()
    rig.commit()
    rig.commit()
    rig.stop()
    return sorted(outputs(world.cluster)[before:])


def test_an_application_begins_from_nothing_afterwards(world: World) -> None:
    world.reset()
    assert not world.disk
    assert set(world.cluster.topics) == {"in", "out", "app-eu-counts-changelog"}
    assert counted_again(world) == [("a", "1"), ("a", "2"), ("b", "1")]


def test_exactly_what_goes_is_told_before(world: World) -> None:
    told = str(world.plan()).splitlines()
    logs = sorted(name for name in world.cluster.topics if name.startswith("app-"))
    logs.remove("app-eu-counts-changelog")  # of an application whose id begins alike
    logs.remove("app-cuts")  # last of all
    deleted = [f"delete topic {name}" for name in (*logs, "app-cuts")]
    assert told == ["offset 0 for in-0", "offset 0 for in-1", *deleted]
    assert counted_again(world) == []


def test_it_is_refused_while_an_instance_lives(world: World) -> None:
    rig = world.started().until_running()
    plan = world.plan()
    with pytest.raises(MembersLiveError):
        run_steps(world.carrying_out(plan))
    rig.stop()
    assert counted_again(world) == []


@pytest.mark.parametrize("has_offsets", [True, False])
def test_who_joins_just_before_the_mark_is_noticed_behind_it(
    world: World, has_offsets: bool
) -> None:
    plan = world.plan()
    if not has_offsets:
        plan = replace(plan, offsets={}, repartitions=[])
    topics = set(world.cluster.topics)
    machine = world.carrying_out(plan)
    first = next(machine)
    first.call(*first.arguments)
    rig = world.started().until_running()
    with pytest.raises(MembersLiveError):
        run_on(machine)
    assert set(world.cluster.topics) == topics
    rig.stop()


def run_on(machine: Steps[None]) -> None:
    """The rest of its calls, of which the first has been made."""
    with suppress(StopIteration):
        step = machine.send(None)
        while True:
            step = machine.send(step.call(*step.arguments))


def test_a_reset_that_was_interrupted_lets_nobody_start_until_it_is_taken_up(
    world: World,
) -> None:
    crash_after = 0
    while True:
        is_over = interrupted(world, crash_after)
        if is_over:
            break
        if crash_after in BEFORE_THE_MARK:
            assert counted_again(world) == []
        else:
            with pytest.raises(
                UpgradeError, match=r"a reset of application .* started at 2026-01-02"
            ):
                world.started()
            world.reset()
            assert counted_again(world) == [("a", "1"), ("a", "2"), ("b", "1")]
        crash_after += 1
    assert crash_after == STEPS


def interrupted(world: World, crash_after: int) -> bool:
    """A reset that ends for ever after so many of its calls; True where there were no more."""
    machine = world.carrying_out(world.plan())
    step = next(machine)
    try:
        for _ in range(crash_after):
            step = machine.send(step.call(*step.arguments))
    except StopIteration:
        return True
    _dead.append(machine)  # closing it would be a clean end
    return False


_dead: list[Steps[None]] = []


def test_offsets_begin_where_they_are_wanted(world: World) -> None:
    ends = world.cluster.admin().end_offsets([IN_0, IN_1])
    assert world.plan("latest").offsets == ends
    assert world.plan(At(0)).offsets == {IN_0: 0, IN_1: 0}
    assert world.plan(0).offsets == {IN_0: 0, IN_1: 0}
    with pytest.raises(RestoreError, match="offset 99 is not in every input: in-0 holds 0 to"):
        world.plan(99)


def test_an_application_that_never_ran_is_not_reset(world: World) -> None:
    admin = world.cluster.admin()
    with pytest.raises(TopicError, match="'other' has no manifest in 'other-cuts'"):
        run_steps(planned_reset(admin, "other", None, "earliest"))


def test_the_directory_of_the_instances_goes_too_where_there_is_one(world: World) -> None:
    world.cluster.create_topic("app-logstate-instances", 1)
    assert "app-logstate-instances" in world.plan().topics
    world.reset()
    assert "app-logstate-instances" not in world.cluster.admin().topic_names()


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    return builder.build()


def manifest_after(
    cluster: FakeCluster,
    topology: Topology,
    stored: Manifest | None = None,
    decisions: MigrationOptions = NOTHING_DECIDED,
) -> Manifest:
    """What a start notes that finds ``stored``."""
    admin = cluster.admin()
    plan = run_steps(check_topics_of_others(admin, topology, "app"))
    prepared = prepare(
        admin, plan, replication_factor=1, overrides={}, stored=stored, decisions=decisions
    )
    return manifest(run_steps(prepared))


def reset_of(cluster: FakeCluster, stored: Manifest) -> Reset:
    """The reset, carried out."""
    admin = cluster.admin()
    found = run_steps(planned_reset(admin, "app", stored, "earliest"))
    producer = partial(cluster.transactional_producer, offline_transactional_id("app"))
    run_steps(carried_out(found, admin, producer, lambda: None, now="now"))
    return found


def test_the_source_topic_of_a_table_that_was_given_up_is_not_deleted() -> None:
    builder = StreamsBuilder()
    builder.table("customers", key=str, value=str, store="customers-table").to_stream().to("out")
    cluster = cluster_of({"in": 1, "out": 1, "customers": 1})
    stored = manifest_after(cluster, builder.build(optimization="all"))
    assert stored["stores"]["customers-table"]["changelog_topic"] == "customers"
    forgetting = MigrationOptions(forget={"customers-table"})
    reset_of(cluster, manifest_after(cluster, counting(), stored, forgetting))
    assert set(cluster.topics) == {"in", "out", "customers"}


def test_the_log_of_a_store_that_was_renamed_and_given_up_is_deleted() -> None:
    cluster = cluster_of({"in": 1})
    before = manifest_after(cluster, counting())
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="tallies")
    stored = manifest_after(
        cluster, builder.build(), before, MigrationOptions({"counts": "tallies"})
    )
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="others")
    given_up = manifest_after(
        cluster, builder.build(), stored, MigrationOptions(forget={"tallies"})
    )
    assert given_up["forgotten"]["tallies"]["changelog_topic"] == "app-counts-changelog"
    reset_of(cluster, given_up)
    assert set(cluster.topics) == {"in"}


def test_what_kafka_streams_left_and_a_takeover_gave_up_stays_and_is_told() -> None:
    cluster = cluster_of({"in": 1})
    for name in ("app-counts-changelog", "app-eu-totals-changelog"):
        cluster.create_topic(name, 1, {"cleanup.policy": "compact"})
    times_of_the_jvm = base64.b64encode(struct.pack(">bq", 2, 5)).decode()
    cluster.group("app").offsets.committed[IN_0] = Committed(0, times_of_the_jvm)
    stored = manifest_after(cluster, counting(), None, MigrationOptions(forget={"eu-totals"}))
    found = reset_of(cluster, stored)
    assert set(cluster.topics) == {"in", "app-eu-totals-changelog"}
    assert "leave topic app-eu-totals-changelog: Kafka Streams wrote it" in str(found)
    assert as_plain_data(found)["left"] == ["app-eu-totals-changelog"]


def test_what_a_move_to_other_partitions_left_is_deleted() -> None:
    cluster = cluster_of({"in": 1, "app-old-changelog": 1, "app-word-repartition": 1})
    stored = {**manifest_after(cluster, counting())}
    stored["forgotten"] = {
        topic: {"kind": "before it was moved", "changelog_topic": topic, "moved_away": True}
        for topic in ("app-old-changelog", "app-word-repartition")
    }
    reset_of(cluster, stored)
    assert set(cluster.topics) == {"in"}


def test_a_move_that_slept_over_a_reset_hands_nothing_over(world: World) -> None:
    asleep = world.offline_producer()
    asleep.init_transactions()

    world.reset()
    world.started().stop()

    with pytest.raises(FencedError):
        hand_over(asleep)


def hand_over(producer: FakeTransactionalProducer) -> None:
    producer.begin()
    producer.produce([ProducedRecord("app-cuts", 0, b"manifest", b"{}", 0)])
    producer.flush()
    producer.commit()


def test_topics_of_a_move_that_was_interrupted_go_too(world: World) -> None:
    made = "app-g1.counts-changelog"
    world.cluster.create_topic(made, 2)
    stored = {**world.plan().manifest, "resharding_since": "then", "resharding_topics": [made]}
    admin = world.cluster.admin()

    plan = run_steps(planned_reset(admin, "app", stored, "earliest"))

    assert made in plan.topics


def test_topics_of_others_in_a_forged_manifest_stay_and_are_told() -> None:
    others = {"payments": 2, "orders-of-others": 1, "billing": 1, "app-orders": 1}
    cluster = cluster_of({"in": 1, **others})
    stored = {
        **manifest_after(cluster, counting()),
        "topics": {"payments": {"partitions": 2}},
        "resharding_topics": ["orders-of-others", "app-orders"],
        "forgotten": {"old": {"kind": "old", "changelog_topic": "billing", "moved_away": True}},
    }
    found = reset_of(cluster, stored)
    assert set(cluster.topics) == {"in", *others}
    assert "leave topic payments: the manifest calls it a repartition topic" in str(found)
    assert as_plain_data(found)["left"] == sorted(others)


def test_a_changelog_that_another_application_names_as_well_stays() -> None:
    cluster = cluster_of({"in": 1, "app-eu-counts-changelog": 1})
    stored = {**manifest_after(cluster, counting())}
    entry = {**stored["stores"]["counts"], "changelog_topic": "app-eu-counts-changelog"}
    stored["stores"] = {"eu-counts": {**entry, "logged_as": "eu-counts"}}
    admin = cluster.admin()
    theirs = {"app-eu-counts-changelog": "app-eu"}
    found = run_steps(planned_reset(admin, "app", stored, "earliest", of_other_applications=theirs))
    assert "app-eu-counts-changelog" not in found.topics
    assert "leave topic app-eu-counts-changelog: the manifest of application 'app-eu'" in str(found)


def test_a_null_deletes_a_damaged_manifest(world: World) -> None:
    producer = world.offline_producer()
    producer.init_transactions()
    for value, told in ((b"{", "is damaged"), (None, "never ran")):
        producer.begin()
        producer.produce([ProducedRecord("app-cuts", 0, b"manifest", value, 0)])
        producer.flush()
        producer.commit()
        with pytest.raises((RestoreError, TopicError), match=told):
            world.plan()
