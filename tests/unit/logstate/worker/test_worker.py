"""The worker's loop: what it does, and in which order."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.contracts.errors import BrokerError
from logstate.contracts.records import ProducedRecord, Record, TopicPartition
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster, Fault
from logstate.topics.manifest import manifest
from logstate.topology import Processor, StreamsBuilder
from logstate.topology.processor.processor import ProcessorContext
from tests.unit.logstate.flows import counted, named, passed, recounted
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 2, "out": 1})


def started(cluster: FakeCluster, **options: object) -> WorkerRig:
    rig = WorkerRig(cluster, counted, **options).start()  # type: ignore[arg-type]
    return rig.until_running("0_0", "0_1")


# --- starting -------------------------------------------------------------------------------------


def test_topics_manifest_and_membership_come_in_this_order(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted).start()
    order = ["init_transactions", "create_topics", "produce", "commit", "subscribe"]
    assert [name for name in rig.steps if name in order] == order
    assert rig.observer.is_started
    (record,) = cluster.records("app-cuts")
    assert record.key() == b"manifest"
    assert rig.worker._started is not None
    assert manifest(rig.worker._started.plan)["stores"].keys() == {"counts"}


def test_the_manifest_is_there_before_any_state(cluster: FakeCluster) -> None:
    send(cluster, "a")
    rig = WorkerRig(cluster, counted).start()
    assert len(cluster.records("app-cuts")) == 1
    assert cluster.records("app-counts-changelog") == []
    rig.until_running()
    rig.commit()
    assert len(cluster.records("app-counts-changelog")) == 1


def test_partition_counts_are_known_from_the_start_on(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted)
    (sub,) = rig.worker._starting.topology.sub_topologies
    assert rig.worker.task_count(sub) is None
    rig.start()
    assert rig.worker.task_count(sub) == 2


def test_a_start_that_fails_leaves_nothing_open(cluster: FakeCluster) -> None:
    cluster.faults.add(Fault("create_topics", BrokerError("not authorised")))
    rig = WorkerRig(cluster, counted)
    with pytest.raises(BrokerError, match="not authorised"):
        rig.start()
    assert rig.is_finished
    assert not rig.observer.is_started


# --- processing and committing --------------------------------------------------------------------


def test_records_are_counted_and_the_counts_committed(cluster: FakeCluster) -> None:
    rig = started(cluster)
    send(cluster, "a", "b", "a", "c", "a")
    rig.commit()
    assert sorted(outputs(cluster)) == [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("c", "1")]
    assert cluster.committed_offset("app", "in", 0) == cluster.log(IN_0).end
    assert cluster.committed_offset("app", "in", 1) == cluster.log(IN_1).end


def test_a_commit_waits_for_its_interval(cluster: FakeCluster) -> None:
    rig = started(cluster)
    send(cluster, "a")
    rig.clock.advance(99)
    rig.turn(5)
    assert outputs(cluster) == []
    rig.clock.advance(1)
    rig.turn()
    assert outputs(cluster) == [("a", "1")]


def test_one_transaction_holds_what_all_tasks_did(cluster: FakeCluster) -> None:
    rig = started(cluster)
    rig.steps.clear()
    send(cluster, "a", "b", "c", "d")
    rig.commit()
    assert {tp for tp in (IN_0, IN_1) if cluster.log(tp).end} == {IN_0, IN_1}
    assert rig.steps.count("commit") == rig.steps.count("begin") == 1


def test_nothing_is_committed_while_nothing_happens(cluster: FakeCluster) -> None:
    rig = started(cluster)
    rig.steps.clear()
    for _ in range(5):
        rig.commit()
    assert set(rig.steps) == {"poll"}


def test_a_processor_may_ask_for_a_commit_at_once(cluster: FakeCluster) -> None:
    class Urgent(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)
            self.context.commit()

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Urgent).to("out", key=str, value=str)

    rig = WorkerRig(cluster, declare).start()
    rig.until_running()
    send(cluster, "a")
    rig.turn(2)
    assert outputs(cluster) == [("a", "a")]


def test_idle_tasks_commit_now_and_then_so_that_their_rows_do_not_age(cluster: FakeCluster) -> None:
    disk = Disk()
    rig = started(cluster, disk=disk)
    send(cluster, "a")
    rig.commit()
    rig.steps.clear()
    rig.clock.advance(600_000)
    rig.turn(2)
    assert rig.steps.count("commit") == 1
    for owned in rig.tasks.values():
        assert owned.task.state.meta.caught_up_at_ms == rig.clock.wall_clock_ms()


def test_wall_clock_punctuations_run_without_records(cluster: FakeCluster) -> None:
    class Ticking(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            context.schedule(timedelta(seconds=1), "wall_clock", self.tick)

        def tick(self, now: int) -> None:
            self.context.forward(Record("tick", str(self.context.partition), now))

        def process(self, record: Record[str, str]) -> None:
            """Only time counts here."""

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Ticking).to("out", key=str, value=str)

    rig = WorkerRig(cluster, declare).start()
    rig.until_running()
    for _ in range(3):
        rig.clock.advance(1_000)
        rig.commit()
    assert sorted(outputs(cluster)) == [("tick", "0")] * 3 + [("tick", "1")] * 3


def test_records_travel_through_repartition_topics_which_are_purged(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, recounted, purge_interval_ms=1_000).start()
    rig.until_running("0_0", "0_1", "1_0", "1_1")
    send(cluster, *"abcabca")
    for _ in range(4):
        rig.commit()
    assert sorted(outputs(cluster)) == sorted(
        (key, str(n + 1)) for key, count in (("a", 3), ("b", 2), ("c", 2)) for n in range(count)
    )
    rig.clock.advance(1_000)
    send(cluster, "z")
    rig.commit()
    rig.commit()
    logs = cluster.topic("app-by-word-repartition").logs
    assert sum(log.start for log in logs) >= 7


def test_committed_rows_reach_the_disk_when_the_checkpoint_is_due(cluster: FakeCluster) -> None:
    disk = Disk()
    rig = started(cluster, disk=disk, checkpoint_interval_ms=5_000)
    send(cluster, "a", "b", "c")

    def stored() -> int:
        return sum(len(list(rows.scan(b"\x01", b"\x02"))) for rows in disk.values())

    rig.commit()
    assert stored() == 0
    rig.clock.advance(5_000)
    send(cluster, "d")
    rig.commit()
    assert stored() == 4


# --- who is fetched and processed -----------------------------------------------------------------


def open_transaction(cluster: FakeCluster, topic: str, partition: int) -> None:
    producer = cluster.transactional_producer("slow")
    producer.init_transactions()
    producer.begin()
    producer.produce([ProducedRecord(topic, partition, b"x", b"x", 5)])
    producer.flush()


def test_a_task_that_is_restored_does_not_stop_the_others(cluster: FakeCluster) -> None:
    rig = started(cluster)
    send(cluster, *"abcdef")
    rig.commit()
    rig.stop()
    before = outputs(cluster)
    open_transaction(cluster, "app-counts-changelog", 0)
    rig = WorkerRig(cluster, counted, name="two").start()
    send(cluster, *"abcdef")
    rig.until(lambda: rig.stages.get("0_1") is Stage.RUNNING)
    rig.commit()
    assert rig.stages["0_0"] is Stage.RESTORING
    new = outputs(cluster)[len(before) :]
    assert new
    assert {value for _, value in new} == {"2"}
    assert cluster.committed_offset("app", "in", 1) == cluster.log(IN_1).end
    assert cluster.committed_offset("app", "in", 0) != cluster.log(IN_0).end
    cluster.transactional_producer("slow").init_transactions()
    rig.until_running()
    rig.commit()
    assert len(outputs(cluster)) == 2 * len(before)


def test_a_partition_is_fetched_only_while_its_task_runs(cluster: FakeCluster) -> None:
    rig = started(cluster)
    send(cluster, *"abcdef")
    rig.commit()
    rig.stop()
    open_transaction(cluster, "app-counts-changelog", 0)
    rig = WorkerRig(cluster, counted, name="two").start()
    rig.until(lambda: rig.stages.get("0_1") is Stage.RUNNING)
    send(cluster, *"abcdef")
    fetched = set()
    for _ in range(5):
        assert rig.worker._started is not None
        polled = rig.worker._started.consumer.poll(100, 0)
        fetched |= set(polled.records)
    assert fetched == {IN_1}


# --- guarantees and global tables -----------------------------------------------------------------


def test_at_least_once_outputs_are_visible_before_the_commit() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, counted, guarantee="at_least_once").start()
    rig.until_running()
    send(cluster, "a")
    rig.turn(2)
    assert outputs(cluster) == [("a", "1")]
    assert cluster.records("app-counts-changelog") == []
    rig.commit()
    assert outputs(cluster) == [("a", "1")]
    assert len(cluster.records("app-counts-changelog")) == 1


def test_global_tables_are_read_before_the_first_record_and_followed() -> None:
    cluster = cluster_of({"in": 1, "out": 1, "names": 2})
    for key, partition in (("a", 0), ("b", 1)):
        cluster.produce("names", key.encode(), key.upper().encode(), partition=partition)
    send(cluster, "a", "b", "c")
    rig = WorkerRig(cluster, named).start()
    rig.until_running()
    rig.commit()
    assert [value for _, value in outputs(cluster)] == ["a:A", "b:B", "c:None"]
    cluster.produce("names", b"c", b"C", partition=0)
    rig.turn()
    send(cluster, "c")
    rig.commit()
    assert outputs(cluster)[-1] == ("c", "c:C")


def test_stateless_tasks_need_no_rows(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, passed).start()
    rig.until_running("0_0", "0_1")
    send(cluster, "a", "b")
    rig.commit()
    assert sorted(outputs(cluster)) == [("a", "a"), ("b", "b")]
    assert not [name for name in cluster.topics if name.endswith("-changelog")]
