"""Partitions with too much waiting are paused until half of it is gone."""

from __future__ import annotations

import pytest

from logstate.contracts.clients import Polled
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import UnreadableBatchError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task_table import TaskTable
from logstate.testing import FakeCluster
from logstate.testing.fake.consumers import FakeGroupConsumer
from logstate.testing.fake.fetched import StoredRecord
from logstate.topology import StreamsBuilder
from logstate.worker.assignment import WorkerControl
from logstate.worker.buffer_limit import BufferLimit
from logstate.worker.fetch_buffer import FetchBuffer
from logstate.worker.worker_observer import WorkerObserver
from tests.unit.logstate.commit.step_recorder import StepRecorder
from tests.unit.logstate.task.task_bench import TaskBench
from tests.unit.logstate.worker.worker_rig import cluster_of, send

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)
LIMIT = 10


def merged(builder: StreamsBuilder) -> None:
    left = builder.stream("left", key=str, value=str)
    left.merge(builder.stream("right", key=str, value=str)).to("out")


class Balance:
    """A task of two partitions and the consumer that feeds it."""

    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.cluster: FakeCluster = cluster_of({"left": 1, "right": 1})
        self.consumer: FakeGroupConsumer = self.cluster.group_consumer(
            group_id="app", instance_id=None
        )
        self.consumer.subscribe(["left", "right"], lambda _: None)
        self.consumer.poll(10, 0)
        self.consumer.start({LEFT: 0, RIGHT: 0})
        self.bench = TaskBench(merged)
        self.owned = OwnedTask(TaskId(0, 0), (LEFT, RIGHT), 1, self.bench.task)
        for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
            self.owned.move_to(stage)
        tasks = TaskTable()
        tasks.add(self.owned)
        limit = BufferLimit(LIMIT, bytes_max)
        self.fetch_buffer = FetchBuffer(
            tasks, WorkerObserver(), ManualClock(), limit, WorkerControl()
        )
        self.recorder = StepRecorder()

    def wait(self, count: int, topic: str = "left") -> None:
        self.bench.add(topic, *(("k", "v", 1) for _ in range(count)))

    def process(self, count: int) -> None:
        self.bench.end("left")
        self.bench.end("right")
        assert self.bench.task.process(count) == count

    def take(self) -> None:
        self.recorder.run(self.fetch_buffer.take(self.poll(), self.consumer))

    def balance(self) -> list[str]:
        self.recorder.run(self.fetch_buffer.pause_or_resume(self.consumer))
        return self.recorder.take()

    def poll(self) -> Polled:
        return self.consumer.poll(100, 0)


@pytest.fixture
def rig() -> Balance:
    return Balance()


def test_as_many_records_as_allowed_do_not_pause(rig: Balance) -> None:
    rig.wait(LIMIT)
    assert rig.balance() == []


def test_one_more_pauses_the_partition_and_only_it(rig: Balance) -> None:
    rig.wait(LIMIT + 1)
    assert rig.balance() == ["pause"]
    assert rig.owned.paused == {LEFT}
    send(rig.cluster, "a", topic="left")
    send(rig.cluster, "b", topic="right")
    assert set(rig.poll().records) == {RIGHT}


def test_a_paused_partition_is_not_paused_again(rig: Balance) -> None:
    rig.wait(LIMIT + 1)
    rig.balance()
    assert rig.balance() == []


def test_it_is_resumed_below_half_of_the_limit_not_before(rig: Balance) -> None:
    rig.wait(LIMIT + 1)
    rig.balance()
    rig.process(LIMIT + 1 - LIMIT // 2)
    assert rig.balance() == []
    rig.process(1)
    assert rig.balance() == ["resume"]
    assert rig.owned.paused == set()
    send(rig.cluster, "a", topic="left")
    assert set(rig.poll().records) == {LEFT}


def test_several_full_partitions_are_one_call(rig: Balance) -> None:
    rig.wait(LIMIT + 1)
    rig.wait(LIMIT + 1, topic="right")
    assert rig.balance() == ["pause"]
    assert rig.owned.paused == {LEFT, RIGHT}


def test_large_records_pause_their_partition_earlier() -> None:
    rig = Balance(bytes_max=60_000)
    paused = []
    for _ in range(4):
        send(rig.cluster, "a" * 5_000, topic="left")  # the key and the value
        rig.take()
        paused.append(rig.owned.paused.copy())
    assert paused == [set(), set(), {LEFT}, {LEFT}]
    rig.process(3)
    rig.recorder.take()
    assert rig.balance() == ["resume"]


def test_a_record_that_is_larger_than_all_may_take_together_is_still_processed() -> None:
    rig = Balance(bytes_max=1_000)
    for _ in range(3):
        send(rig.cluster, "a" * 5_000, topic="left")
        rig.take()
    assert rig.owned.paused == {LEFT}
    rig.process(2)
    rig.recorder.take()
    assert rig.balance() == ["resume"]


@pytest.mark.parametrize("partitions", [1, 10, 100, 1_000])
@pytest.mark.parametrize("size", [0, 100, 10_000, 1_000_000])
def test_what_waits_is_bounded_whatever_the_number_of_partitions(
    partitions: int, size: int
) -> None:
    limit, bytes_max = BufferLimit(10_000, 64 << 20), 64 << 20
    for _ in range(50):
        limit.fetched([StoredRecord("in", 0, 0, b"", b"x" * size, 0, None)] * 7)
    waiting = limit.per_partition(partitions) * partitions
    assert waiting * size <= max(bytes_max, partitions * size)
    assert waiting * (size + 400) <= max(bytes_max, partitions * (size + 400))


class Unreadable(StoredRecord):
    """A record in place of a batch that the client cannot decompress."""

    def value(self) -> bytes:
        raise UnreadableBatchError("the batch cannot be decompressed")


def test_a_batch_that_cannot_be_read_waits_for_its_task_like_every_record() -> None:
    limit = BufferLimit(10_000, 64 << 20)
    limit.fetched([Unreadable("in", 0, 0, None, None, 0)])
    assert limit.per_partition(partitions=4) == 10_000


def test_sizes_of_fetches_are_averaged() -> None:
    limit = BufferLimit(10_000, 1 << 20)
    limit.fetched([StoredRecord("in", 0, 0, b"k", None, 0, None)])
    small = limit.per_partition(1)
    limit.fetched([StoredRecord("in", 0, 0, b"k", b"x" * 100_000, 0, None)] * 3)
    assert limit.per_partition(1) < small / 20
