"""From an assigned task to a running one: offsets, local rows, targets, clocks, and refusals."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.changelog.backend.backend import KeyRange
from logstate.contracts.clients import Committed
from logstate.contracts.errors import BrokerError, RestoreError, RetriableError, StoreCorruptedError
from logstate.contracts.records import ProducedRecord, Record, TaskId, TopicPartition
from logstate.contracts.stores import VersionedRecord
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from logstate.topology import Materialized, Processor, StreamsBuilder
from tests.unit.logstate.worker.worker_rig import (
    Disk,
    KeptRows,
    WorkerRig,
    cluster_of,
    outputs,
    send,
)

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)
LOG_0 = TopicPartition("app-counts-changelog", 0)


def counted(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.count(store="counts").to_stream().map_values(str, value=str).to("out")


def passed(reset: str | timedelta | None = None) -> Callable[[StreamsBuilder], object]:
    return lambda builder: builder.stream("in", key=str, value=str, offset_reset=reset).to("out")


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 1, "out": 1})


def ran(cluster: FakeCluster, *keys: str, **options: Any) -> WorkerRig:
    """A worker that has committed some records and ended."""
    rig = WorkerRig(cluster, counted, **options).start()
    rig.until_running()
    send(cluster, *keys)
    rig.commit()
    rig.stop()
    return rig


def offsets(cluster: FakeCluster) -> dict[TopicPartition, Committed]:
    return cluster.group("app").offsets.committed


# --- first starts ---------------------------------------------------------------------------------


def test_the_start_of_a_new_group_is_committed_before_any_record(cluster: FakeCluster) -> None:
    send(cluster, "a")
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    assert cluster.committed_offset("app", "in") == 0
    assert rig.tasks["0_0"].task.processed.total() == 0
    assert rig.steps.index("commit", rig.steps.index("committed")) < rig.steps.index("start")


def test_all_new_tasks_are_started_by_one_commit() -> None:
    cluster = cluster_of({"in": 4, "out": 1})
    rig = WorkerRig(cluster, counted).start()
    rig.until_running("0_0", "0_1", "0_2", "0_3")
    assert rig.total("commit_total") == 1


def test_a_start_that_was_committed_is_not_committed_again(cluster: FakeCluster) -> None:
    ran(cluster, "a")
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    assert rig.total("commit_total") == 0


@pytest.mark.parametrize(
    ("reset", "expected"),
    [
        ("earliest", ["a", "b", "c"]),
        (None, ["a", "b", "c"]),
        ("latest", []),
        (timedelta(milliseconds=500), ["b", "c"]),
    ],
    ids=str,
)
def test_a_source_begins_where_its_policy_says(
    cluster: FakeCluster, reset: str | timedelta | None, expected: list[str]
) -> None:
    now = cluster.now_ms()
    for key, age_ms in (("a", 501), ("b", 500), ("c", 1)):
        cluster.produce("in", b"k", key.encode(), timestamp=now - age_ms)
    rig = WorkerRig(cluster, passed(reset)).start()
    rig.until_running()
    rig.commit()
    assert [value for _, value in outputs(cluster)] == expected


def test_a_source_without_a_policy_of_its_own_has_the_applications(cluster: FakeCluster) -> None:
    send(cluster, "a")
    rig = WorkerRig(cluster, passed(), offset_reset="latest").start()
    rig.until_running()
    assert cluster.committed_offset("app", "in") == 1


def test_repartition_topics_begin_at_their_start_whatever_the_policy(cluster: FakeCluster) -> None:
    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).repartition(name="again").to("out")

    policy = {"cleanup.policy": "delete", "retention.ms": "-1"}
    cluster.create_topic("app-again-repartition", 1, policy)
    send(cluster, "a", topic="app-again-repartition")
    rig = WorkerRig(cluster, declare, offset_reset="latest").start()
    rig.until_running()
    rig.commit()
    assert outputs(cluster) == [("a", "a")]


def test_the_policy_none_stops_the_application(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, passed("none")).start()
    with pytest.raises(RestoreError, match=r"input in-0: nothing is committed.*'none'"):
        rig.turn(10)


# --- offsets that are not there yet ---------------------------------------------------------------


def test_offsets_that_are_not_stable_are_asked_for_again(cluster: FakeCluster) -> None:
    ran(cluster, "a")
    for _ in range(3):
        cluster.faults.add(Fault("committed", RetriableError("not stable")))
    rig = WorkerRig(cluster, counted).start()
    rig.turn(3)
    assert rig.stages == {"0_0": Stage.ASSIGNED}
    rig.until_running()
    assert rig.total("transactions_aborted_total") == 0


def test_a_question_that_fails_for_a_moment_is_asked_again_and_disturbs_nobody() -> None:
    cluster = cluster_of({"in": 2, "out": 1})
    rig = WorkerRig(cluster, passed()).start()
    rig.until_running("0_0", "0_1")
    send(cluster, *"abcd")
    rig.turn()
    guest = cluster.group_consumer(group_id="app", instance_id=None)
    guest.subscribe(["in"], lambda _: None)
    guest.poll(1, 0)
    rig.until(lambda: len(rig.stages) == 1)
    guest.close()
    for call in ("start_offsets", "end_offsets"):
        cluster.faults.add(Fault(call, RetriableError("timed out")))
    rig.until(lambda: len(rig.stages) == 2)
    rig.until_running("0_0", "0_1")
    rig.commit()
    assert rig.total("transactions_aborted_total") == 0
    assert sorted(outputs(cluster)) == [(key, key) for key in "abcd"]


def test_targets_are_read_after_the_committed_offsets(cluster: FakeCluster) -> None:
    """What an earlier owner had in flight when they were read lies below the target then."""
    ran(cluster, "a")
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    assert rig.steps.index("committed") < rig.steps.index("end_offsets")


def test_a_client_that_cannot_seek_yet_is_asked_again_next_turn(cluster: FakeCluster) -> None:
    send(cluster, "a")
    for _ in range(3):
        cluster.faults.add(Fault("start", RetriableError("not assigned yet")))
    rig = WorkerRig(cluster, counted).start()
    rig.until(lambda: rig.stages.get("0_0") is Stage.STARTING)
    rig.turn()
    assert rig.stages == {"0_0": Stage.STARTING}
    rig.until_running()
    rig.commit()
    assert outputs(cluster) == [("a", "1")]
    assert rig.steps.count("commit") == 3, "the manifest, the start, the record"


# --- local rows -----------------------------------------------------------------------------------


def test_local_rows_are_kept_and_only_the_rest_is_replayed(cluster: FakeCluster) -> None:
    disk = Disk()
    ran(cluster, "a", "b", disk=disk)
    rig = WorkerRig(cluster, counted, disk=disk).start()
    rig.until_running()
    assert rig.tasks["0_0"].restored_records == 0
    rig.stop()
    elsewhere = WorkerRig(cluster, counted, name="two").start()
    elsewhere.until_running()
    assert elsewhere.tasks["0_0"].restored_records == 2
    assert elsewhere.store("0_0", "counts").get("b").value == 1


def test_rows_whose_identity_does_not_hold_are_rebuilt_and_the_log_says_why(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    ran(cluster, "a", "b", disk=disk)
    stale = WorkerRig(cluster, counted, disk=disk).start()
    stale.until_running()
    stale.tasks["0_0"].task.state.meta.topic_ids["counts"] = "another"
    stale.tasks["0_0"].task.state.apply()
    stale.stop()
    rig = WorkerRig(cluster, counted, disk=disk).start()
    with caplog.at_level(logging.WARNING):
        rig.until_running()
    assert disk.destroyed == [TaskId(0, 0)]
    assert rig.tasks["0_0"].restored_records == 2
    assert rig.store("0_0", "counts").get("a").value == 1
    assert "task 0_0: its local state is rebuilt" in caplog.text
    assert "another incarnation" in caplog.text


class Damaged(KeptRows):
    def get(self, key: bytes) -> bytes | None:
        raise StoreCorruptedError("block 7 is damaged")

    def write(self, rows: Any, ranges: tuple[KeyRange, ...] = ()) -> None:
        raise StoreCorruptedError("block 7 is damaged")


def test_the_age_of_new_rows_counts_from_the_beginning_of_their_restore(
    cluster: FakeCluster,
) -> None:
    ran(cluster, "a")
    producer = cluster.transactional_producer("somebody")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(LOG_0.topic, 0, b"a", bytes(8), 5)])
    producer.flush()
    rig = WorkerRig(cluster, counted).start()
    rig.turn(5)
    assert rig.stages == {"0_0": Stage.RESTORING}  # it waits for the transaction
    meta = rig.tasks["0_0"].task.state.meta
    assert rig.clock.wall_clock_ms() - 1_000 < meta.caught_up_at_ms <= rig.clock.wall_clock_ms()


def test_rows_that_cannot_be_opened_are_rebuilt(cluster: FakeCluster) -> None:
    disk = Disk()
    ran(cluster, "a", disk=disk)
    disk[TaskId(0, 0)] = Damaged()
    rig = WorkerRig(cluster, counted, disk=disk).start()
    rig.until_running()
    assert disk.destroyed == [TaskId(0, 0)]
    assert rig.store("0_0", "counts").get("a").value == 1


# --- the cut --------------------------------------------------------------------------------------


class Clocked(Processor[str, str, str, str]):
    """Forwards the stream time that it sees."""

    def process(self, record: Record[str, str]) -> None:
        now = str(self.context.current_stream_time_ms())
        self.context.forward(record._replace(value=now))


def clocked(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", key=str, value=str).process(Clocked)
    stream.to("out", key=str, value=str)


def test_clocks_survive_a_restart(cluster: FakeCluster) -> None:
    for time in (700, 5):
        rig = WorkerRig(cluster, clocked).start()
        rig.until_running()
        cluster.produce("in", b"k", b"v", timestamp=time)
        rig.commit()
        rig.stop()
    assert outputs(cluster) == [("k", "700"), ("k", "700")]


def many_clocks(rig: WorkerRig) -> None:
    task = rig.tasks["0_0"].task
    for number in range(400):
        task.time_cell(f"a clock with a rather long name {number}").time = number


def test_clocks_that_went_to_the_cuts_topic_come_back_from_there(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    for key in ("a", "b"):
        many_clocks(rig)
        send(cluster, key)
        rig.commit()
    rig.stop()
    assert len(cluster.records("app-cuts")) > 1
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    task = rig.tasks["0_0"].task
    assert task.time_cell("a clock with a rather long name 399").time == 399
    assert task.stream_time == 2


def test_clocks_that_are_not_where_they_were_written_stop_the_application(
    cluster: FakeCluster,
) -> None:
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    many_clocks(rig)
    send(cluster, "a")
    rig.commit()
    rig.stop()
    cluster.log(TopicPartition("app-cuts", 0)).delete_before(-1)
    rig = WorkerRig(cluster, counted).start()
    with pytest.raises(RestoreError, match=r"task 0_0: the clocks .* are not in 'app-cuts'"):
        rig.turn(10)


# --- what contradicts itself ----------------------------------------------------------------------


def test_lost_offsets_beside_existing_state_stop_the_application(cluster: FakeCluster) -> None:
    ran(cluster, "a")
    offsets(cluster).clear()
    rig = WorkerRig(cluster, counted).start()
    with pytest.raises(RestoreError, match=r"nothing is committed, while the changelogs .*reset"):
        rig.turn(10)


def test_an_input_topic_that_was_created_again_stops_the_application(
    cluster: FakeCluster,
) -> None:
    ran(cluster, "a", "b")
    cluster.recreate_topic("in")
    send(cluster, "x", "y", "z")
    rig = WorkerRig(cluster, counted).start()
    with pytest.raises(RestoreError, match="'in' was deleted and created again"):
        rig.turn(10)


def test_a_truncated_changelog_stops_the_application(cluster: FakeCluster) -> None:
    ran(cluster, "a", "b")
    cluster.log(LOG_0).truncate(1)
    rig = WorkerRig(cluster, counted).start()
    match = r"'app-counts-changelog' .*'counts'.* ends at 1, but the committed"
    with pytest.raises(RestoreError, match=match):
        rig.turn(10)
    assert outputs(cluster) == [("a", "1"), ("b", "1")]


def test_a_contradiction_that_another_owner_caused_meanwhile_is_none(cluster: FakeCluster) -> None:
    """A member that was silent for long reads old offsets beside its successor's logs."""
    ran(cluster, "a")
    rig = WorkerRig(cluster, counted).start()

    def successor_commits() -> None:
        rig.before = lambda step: None
        offsets(cluster)[IN_0] = Committed(1, "")

    offsets(cluster)[IN_0] = Committed(None, "")
    rig.before = lambda step: successor_commits() if step.name == "end_offsets" else None
    rig.turn(3)
    assert rig.stages["0_0"] in (Stage.ASSIGNED, Stage.RUNNING)
    rig.until_running()


def test_a_broker_that_refuses_stops_the_application(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted).start()
    cluster.faults.add(Fault("start_offsets", BrokerError("not authorised")))
    with pytest.raises(BrokerError, match="not authorised"):
        rig.turn(10)


# --- data of long ago -----------------------------------------------------------------------------


def versioned(builder: StreamsBuilder) -> None:
    history = Materialized("prices", history=timedelta(seconds=1))
    builder.table("in", key=str, value=str, store=history)


def test_versions_of_long_ago_outlive_the_cleaner_as_long_as_their_history(
    cluster: FakeCluster,
) -> None:
    cluster.clock.advance(10 * 366 * 86_400_000)
    rig = WorkerRig(cluster, versioned).start()
    rig.until_running()
    for value, timestamp in ((b"old", 5), (b"new", 900)):
        cluster.produce("in", b"a", value, timestamp=timestamp)
    rig.commit()
    rig.stop()
    cluster.clean("app-prices-changelog")
    rig = WorkerRig(cluster, versioned).start()
    rig.until_running()
    found = rig.tasks["0_0"].task.store("prices").get("a", 899)
    assert found == VersionedRecord("old", 5)
