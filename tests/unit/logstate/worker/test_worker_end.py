"""The end of a worker, wanted or not: what is committed, and that nothing is left open."""

from __future__ import annotations

from collections import Counter

import pytest

from logstate.contracts.clients import Step
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    DeserializationError,
    ProcessingError,
)
from logstate.contracts.records import Record, TopicPartition
from logstate.testing import FakeCluster, Fault
from logstate.topology import Processor, StreamsBuilder
from logstate.worker.worker import Worker
from tests.unit.logstate.flows import counted, named
from tests.unit.logstate.task.task_bench import topology_of
from tests.unit.logstate.worker.worker_rig import Disk, WorkerRig, cluster_of, outputs, send

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)


@pytest.fixture
def cluster() -> FakeCluster:
    return cluster_of({"in": 2, "out": 1})


def started(cluster: FakeCluster, **options: object) -> WorkerRig:
    rig = WorkerRig(cluster, counted, **options).start()  # type: ignore[arg-type]
    return rig.until_running("0_0", "0_1")


def test_stopping_commits_everything_that_was_processed(cluster: FakeCluster) -> None:
    rig = started(cluster)
    send(cluster, *"abcdef")
    rig.turn()
    assert outputs(cluster) == []
    rig.stop()
    assert len(outputs(cluster)) == 6
    assert cluster.committed_offset("app", "in", 0) == cluster.log(IN_0).end
    assert cluster.transactions.open_transactions() == []
    assert cluster.group("app").members == {}
    assert rig.stages == {}


def test_stopping_writes_committed_rows_to_the_disk(cluster: FakeCluster) -> None:
    disk = Disk()
    rig = started(cluster, disk=disk)
    send(cluster, *"abcdef")
    rig.turn()
    rig.stop()
    again = started(cluster, disk=disk)
    assert sum(owned.restored_records for owned in again.tasks.values()) == 0
    rows = [key for name in again.tasks for key, _ in again.store(name, "counts").all()]
    assert sorted(rows) == list("abcdef")


def test_a_last_commit_that_fails_ends_quietly_and_is_repeated_by_the_next_start(
    cluster: FakeCluster,
) -> None:
    rig = started(cluster)
    send(cluster, "a", "b")
    rig.turn()
    cluster.faults.add(Fault("commit", AbortableError("no")))
    rig.stop()
    assert outputs(cluster) == []
    assert cluster.transactions.open_transactions() == []
    rig = started(cluster)
    rig.commit()
    assert sorted(outputs(cluster)) == [("a", "1"), ("b", "1")]


def test_a_stop_before_the_first_turn_ends_at_once(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted)
    rig.worker.stop()
    rig.finish()
    assert rig.is_finished
    assert cluster.group("app").members == {}


@pytest.mark.parametrize("ask", ["task_count", "global_stores", "stop"])
def test_whoever_asks_while_it_lets_go_of_what_it_started_is_answered(
    cluster: FakeCluster, ask: str
) -> None:
    worker, (sub,) = started(cluster).worker, topology_of(counted).sub_topologies
    looks = iter([worker._started])

    class LetsGo(Worker):
        """What was started is there at the first look, and gone at the next."""

        _started = property(lambda _: next(looks, None))  # type: ignore[assignment]

    worker.__class__ = LetsGo
    if ask == "task_count":
        assert worker.task_count(sub) == 2
    elif ask == "global_stores":
        assert worker.global_stores is not None
    else:
        worker.stop(leaves_group=True)
        assert worker.is_stopping


def test_every_client_is_closed_at_the_end(cluster: FakeCluster) -> None:
    rig = WorkerRig(cluster, counted, guarantee="at_least_once").start()
    rig.until_running()
    send(cluster, "a")
    rig.commit()
    closed: list[str] = []
    rig.before = lambda step: (
        closed.append(_client(step)) if step.name.startswith("close") else None
    )
    rig.stop()
    assert set(closed) >= {
        "FakeTransactionalProducer",
        "RenewedProducer",
        "Membership",
        "FakeAdmin",
    }


def _client(step: Step) -> str:
    return type(getattr(step.call, "__self__", None)).__name__


# --- records that fail ----------------------------------------------------------------------------


def test_a_poison_record_stops_the_worker_and_nothing_past_it_is_committed() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, counted).start()
    rig.until_running()
    send(cluster, "a")
    rig.commit()
    send(cluster, "b")
    cluster.produce("in", b"\xff", b"not text", timestamp=3)
    send(cluster, "c")
    with pytest.raises(DeserializationError, match="topic 'in', partition 0, offset 2"):
        rig.turn(5)
    assert rig.is_finished
    assert cluster.committed_offset("app", "in") == 1
    assert outputs(cluster) == [("a", "1")]
    assert cluster.transactions.open_transactions() == []
    assert cluster.group("app").members == {}


def test_a_function_that_raises_stops_the_worker_before_anything_of_it_is_committed() -> None:
    cluster = cluster_of({"in": 1, "out": 1})

    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.map_values(lambda value: str(6 // int(value)), value=str).to("out")

    rig = WorkerRig(cluster, declare).start()
    rig.until_running()
    send(cluster, "3", "0", "2")
    with pytest.raises(ProcessingError, match=r"offset 1, task 0_0.*ZeroDivisionError"):
        rig.turn(5)
    assert outputs(cluster) == []
    assert cluster.committed_offset("app", "in") == 0
    assert cluster.transactions.open_transactions() == []


def test_a_processor_that_cannot_close_does_not_keep_the_rest_from_closing() -> None:
    cluster = cluster_of({"in": 2, "out": 1})
    closed = []

    class Clumsy(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)

        def close(self) -> None:
            closed.append(self.context.partition)
            raise RuntimeError("cannot close")

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Clumsy).to("out", key=str, value=str)

    rig = WorkerRig(cluster, declare).start()
    rig.until_running()
    send(cluster, *"abcd")
    rig.turn()
    with pytest.raises(ProcessingError, match=r"in close: RuntimeError: cannot close"):
        rig.stop()
    assert sorted(closed) == [0, 1]
    assert cluster.transactions.open_transactions() == []
    assert cluster.group("app").members == {}
    assert len(outputs(cluster)) == 4


# --- starts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", ["describe_topics", "create_topics", "init_transactions", "group_consumer", "subscribe"]
)
def test_a_start_that_fails_anywhere_closes_every_client_it_has_made(step: str) -> None:
    cluster = cluster_of({"in": 1, "out": 1, "names": 1})
    rig = WorkerRig(cluster, named, guarantee="at_least_once")
    made, closed = Counter[str](), Counter[str]()
    failing = [step]

    def watch(next_step: Step) -> None:
        if next_step.name in failing:
            failing.clear()
            raise BrokerError("refused")
        closes = {"close_" + name: name for name in CLIENTS.values()}
        if next_step.name in CLIENTS:
            made[CLIENTS[next_step.name]] += 1
        elif next_step.name in closes:
            closed[closes[next_step.name]] += 1

    rig.before = watch
    with pytest.raises(BrokerError, match="refused"):
        rig.start()
    assert rig.is_finished
    assert made == closed


CLIENTS = {
    "admin": "admin",
    "new_log_consumer": "log_consumer",
    "new_manifest_reader": "manifest_reader",
    "new_producer": "producer",
    "plain_producer": "plain_producer",
    "group_consumer": "consumer",
}


def test_a_stop_during_the_start_is_heard_between_its_parts() -> None:
    cluster = cluster_of({"in": 1, "out": 1, "names": 1})
    cluster.produce("names", b"a", b"Ada", timestamp=1)
    rig = WorkerRig(cluster, named)

    def stop(step: Step) -> None:
        if step.name == "global_poll":
            rig.worker.stop()

    rig.before = stop
    rig.start()
    assert rig.is_finished
    assert "group_consumer" not in rig.steps
    closed = ["close_log_consumer", "close_admin", "close_producer"]
    assert [name for name in rig.steps if name.startswith("close_")] == closed
