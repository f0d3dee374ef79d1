"""Inputs without a committed offset: refused where their results are in committed state."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from logstate.contracts.clients import Committed
from logstate.contracts.errors import RestoreError
from logstate.contracts.records import TopicPartition
from logstate.testing import FakeCluster
from logstate.topics.reached_stores import feeding_sub_topologies, reached
from logstate.topology import Materialized, StreamsBuilder
from tests.unit.logstate.flows import counted, passed, recounted
from tests.unit.logstate.plans import plan_of
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

Declare = Callable[[StreamsBuilder], object]


def through_topic(builder: StreamsBuilder) -> None:
    """The first part writes to a topic that the second part counts."""
    builder.stream("in", key=str, value=str).to("mid")
    grouped = builder.stream("mid", key=str, value=str).group_by_key()
    grouped.count(store="counts").to_stream().map_values(str, value=str).to("out")


def twice_repartitioned(builder: StreamsBuilder) -> None:
    """Two parts without stores are above the one that counts."""
    stream = builder.stream("in", key=str, value=str).repartition(name="first")
    grouped = stream.filter(lambda value: True).repartition(name="second").group_by_key()
    grouped.count(store="counts").to_stream().map_values(str, value=str).to("out")


def without_changelog(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    counts = grouped.count(store=Materialized("counts", logged=False))
    counts.to_stream().map_values(str, value=str).to("out")


def repartitioned_without_changelog(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str)
    grouped = stream.group_by(lambda value: value, name="by-word", key=str)
    counts = grouped.count(store=Materialized("counts", logged=False))
    counts.to_stream().map_values(str, value=str).to("out")


def regrouped_table(builder: StreamsBuilder) -> None:
    """The rows of a table are counted by their values."""
    table = builder.table("in", key=str, value=str, store="rows")
    grouped = table.group_by(lambda key, value: (value, value), name="by-value", key=str, value=str)
    grouped.count(store="counts").to_stream().map_values(str, value=str).to("out")


def counted_beside_passed(builder: StreamsBuilder) -> None:
    """The results of "in" are counted; those of "other" only leave."""
    recounted(builder)
    builder.stream("other", key=str, value=str).to("out")


def only_one_is_counted(builder: StreamsBuilder) -> None:
    """One part reads both topics, and counts those of "in" alone behind a repartition topic."""
    stream = builder.stream("in", key=str, value=str)
    words = stream.group_by(lambda value: value, name="by-word", key=str)
    words.count(store="counts")
    stream.merge(builder.stream("other", key=str, value=str)).to("out")


def repartitioned(builder: StreamsBuilder) -> None:
    """A repartition topic without any store behind it."""
    builder.stream("in", key=str, value=str).repartition(name="again").to("out")


def cluster() -> FakeCluster:
    return cluster_of({"in": 2, "other": 2, "mid": 2, "out": 1})


def offsets(cluster: FakeCluster) -> dict[TopicPartition, Committed]:
    return cluster.group("app").offsets.committed


def ran(cluster: FakeCluster, declare: Declare, disk: Disk, keys: str = "abcdefga") -> None:
    rig = WorkerRig(cluster, declare, disk=disk).start().until_running()
    send(cluster, *keys)
    for _ in range(4):
        rig.commit()
    rig.stop()


def refused(cluster: FakeCluster, declare: Declare, disk: Disk) -> str:
    """What a start says that has to be refused."""
    rig = WorkerRig(cluster, declare, disk=disk).start()
    with pytest.raises(RestoreError) as caught:
        rig.turn(20)
    return str(caught.value)


def named(message: str) -> set[str]:
    return set(re.findall(r"input (\S+): nothing is committed", message))


@pytest.mark.parametrize("is_all", [True, False], ids=["all offsets", "those of one input"])
@pytest.mark.parametrize("disk", ["kept", "lost"])
@pytest.mark.parametrize(
    ("declare", "store"),
    [
        (counted, "the changelogs of its task"),
        (recounted, "'counts', which they reach through 'app-by-word-repartition'"),
        (through_topic, "'counts', which they reach through 'mid'"),
        (
            twice_repartitioned,
            "which they reach through 'app-first-repartition', 'app-second-repartition'",
        ),
        (regrouped_table, "the changelogs of its task"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_every_input_whose_results_are_in_committed_state_is_in_one_error(
    declare: Declare, store: str, disk: str, is_all: bool
) -> None:
    brokers, rows = cluster(), Disk()
    ran(brokers, declare, rows)
    committed = dict(offsets(brokers))
    gone = {tp for tp in committed if is_all or tp.topic == "in"}
    for tp in gone:
        del offsets(brokers)[tp]
    message = refused(brokers, declare, rows if disk == "kept" else Disk())
    written = {tp for tp in gone if brokers.log(tp).end}
    assert {str(tp) for tp in written} <= named(message) <= {str(tp) for tp in gone}
    assert store in message
    assert "the command of EVERY input" in message


@pytest.mark.parametrize(
    "declare", [counted, recounted, through_topic, twice_repartitioned, regrouped_table]
)
def test_the_advice_followed_for_every_input_doubles_nothing(declare: Declare) -> None:
    brokers, rows = cluster(), Disk()
    ran(brokers, declare, rows)
    offsets(brokers).clear()
    message = refused(brokers, declare, rows)
    for topic, partition in re.findall(r"--topic (\S+):(\d+) --to-offset N", message):
        at = TopicPartition(topic, int(partition))
        brokers.admin().commit_without_members("app", {at: brokers.log(at).end})
    before = outputs(brokers)
    ran(brokers, declare, rows, keys="z")
    assert outputs(brokers)[len(before) :] == [("z", "1")]


def test_one_partition_of_several_is_named_alone() -> None:
    brokers = cluster()
    ran(brokers, recounted, Disk())
    del offsets(brokers)[TopicPartition("in", 1)]
    assert named(refused(brokers, recounted, Disk())) == {"in-1"}


def test_an_input_whose_results_only_leave_is_not_named() -> None:
    brokers = cluster()
    ran(brokers, counted_beside_passed, Disk())
    offsets(brokers).clear()
    assert {"in-0", "in-1"} <= named(refused(brokers, counted_beside_passed, Disk()))
    assert "other-" not in refused(brokers, counted_beside_passed, Disk())


def test_of_a_task_with_two_inputs_the_one_that_is_not_counted_has_its_reset_policy() -> None:
    brokers = cluster()
    ran(brokers, only_one_is_counted, Disk())
    for partition in range(2):
        del offsets(brokers)[TopicPartition("other", partition)]
    WorkerRig(brokers, only_one_is_counted).start().until_running()
    brokers = cluster()
    ran(brokers, only_one_is_counted, Disk())
    for partition in range(2):
        del offsets(brokers)[TopicPartition("in", partition)]
    assert named(refused(brokers, only_one_is_counted, Disk())) == {"in-0", "in-1"}


@pytest.mark.parametrize("declare", [without_changelog, repartitioned_without_changelog])
def test_rows_without_a_changelog_are_state_as_well(declare: Declare) -> None:
    brokers, rows = cluster(), Disk()
    ran(brokers, declare, rows)
    offsets(brokers).clear()
    message = refused(brokers, declare, rows)
    assert {"in-0", "in-1"} <= named(message)
    assert "'counts'" in message


def test_without_offsets_and_without_rows_an_unlogged_store_begins_anew() -> None:
    brokers = cluster()
    ran(brokers, without_changelog, Disk())
    offsets(brokers).clear()
    rig = WorkerRig(brokers, without_changelog).start().until_running()
    rig.commit()
    counts = [row.value for task in ("0_0", "0_1") for _, row in rig.store(task, "counts").all()]
    assert sum(counts) == 8


def test_records_that_wait_in_a_repartition_topic_are_state_too() -> None:
    """They were written and not yet counted: reading the input again would write them twice."""
    brokers = cluster()
    rig = WorkerRig(brokers, recounted).start().until_running()
    send(brokers, "a")
    rig.turn()
    rig.clock.advance(rig.config.commit_interval_ms)
    rig.turn()
    rig.kill()
    brokers.group("app").leave(next(iter(brokers.group("app").members)))
    for tp in [tp for tp in offsets(brokers) if tp.topic == "in"]:
        del offsets(brokers)[tp]
    assert brokers.log(TopicPartition("app-counts-changelog", 0)).end == 0
    assert brokers.log(TopicPartition("app-counts-changelog", 1)).end == 0
    assert named(refused(brokers, recounted, Disk())) == {"in-0", "in-1"}


@pytest.mark.parametrize("declare", [passed, repartitioned])
def test_without_any_store_the_reset_policy_decides(declare: Declare) -> None:
    brokers = cluster()
    ran(brokers, declare, Disk())
    for tp in [tp for tp in offsets(brokers) if tp.topic == "in"]:
        del offsets(brokers)[tp]
    ran(brokers, declare, Disk(), keys="")
    assert len(outputs(brokers)) == 16


# --- what is new ----------------------------------------------------------------------------------


def with_other(builder: StreamsBuilder) -> None:
    """As `through_topic`, and another input for the same topic."""
    through_topic(builder)
    builder.stream("other", key=str, value=str).to("mid")


def test_an_input_that_was_added_is_read_from_where_its_policy_says() -> None:
    brokers = cluster()
    ran(brokers, through_topic, Disk())
    send(brokers, "n", topic="other")
    ran(brokers, with_other, Disk(), keys="")
    assert outputs(brokers)[-1] == ("n", "1")


def enforced(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str).repartition(name="again", partitions=2)
    stream.group_by_key().count(store="counts").to_stream().map_values(str, value=str).to("out")


def test_partitions_that_were_added_are_read_from_where_their_policy_says() -> None:
    brokers = cluster()
    ran(brokers, enforced, Disk())
    brokers.add_partitions("in", 4)
    send(brokers, "n", partition=3)
    ran(brokers, enforced, Disk(), keys="")
    assert outputs(brokers)[-1] == ("n", "1")


def test_tasks_that_began_under_an_earlier_version_are_covered_after_their_next_commit() -> None:
    """Nothing in the cuts topic tells of them at first."""
    brokers = cluster()
    ran(brokers, recounted, Disk())
    cuts = TopicPartition("app-cuts", 0)
    brokers.admin().delete_topics(["app-cuts"])
    brokers.create_topic("app-cuts", 1, {"cleanup.policy": "compact"})
    assert brokers.log(cuts).end == 0
    ran(brokers, recounted, Disk(), keys="bcdefg")
    for tp in [tp for tp in offsets(brokers) if tp.topic == "in"]:
        del offsets(brokers)[tp]
    assert {"in-0", "in-1"} == named(refused(brokers, recounted, Disk()))


# --- the graph ------------------------------------------------------------------------------------


def test_stores_are_found_behind_topics_of_every_kind() -> None:
    def stores(declare: Declare) -> list[list[str]]:
        plan = plan_of(declare, **{"in": 1, "other": 1, "mid": 1})
        sub = next(sub for sub in plan.topology.sub_topologies if "in" in plan.source_topics(sub))
        return [[spec.name for spec in one.sub_topology.stores] for one in reached(plan, sub, "in")]

    assert stores(passed) == stores(counted) == stores(repartitioned) == []
    for declare in (recounted, through_topic, twice_repartitioned, regrouped_table):
        assert stores(declare) == [["counts"]]


def test_tasks_that_feed_no_store_of_others_record_nothing() -> None:
    assert feeding_sub_topologies(plan_of(counted, **{"in": 1})) == frozenset()
    assert feeding_sub_topologies(plan_of(twice_repartitioned, **{"in": 1})) == {0, 1}
    brokers = cluster()
    ran(brokers, counted, Disk())
    assert [record.key() for record in brokers.records("app-cuts")] == [b"manifest"]


def test_one_record_for_each_start_of_a_task_tells_what_it_has_read() -> None:
    brokers = cluster()
    rig = WorkerRig(brokers, recounted).start().until_running()
    for key in "abcdef":
        send(brokers, key)
        rig.commit()
    keys = [record.key() for record in brokers.records("app-cuts")]
    assert sorted(keys) == [b"cut:0_0", b"cut:0_1", b"manifest"]
