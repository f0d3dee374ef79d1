"""A task that Kafka Streams ran before: what is there at its first record here.

What must come out was read in Kafka Streams 4.3: ``StreamTask.completeRestoration`` sets partition
times, and so stream time, before it initialises processors; ``StreamThread.runOnce`` punctuates in
the round in which a task is restored, before its partitions are polled.
"""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest

from logstate.contracts.clients import Committed
from logstate.contracts.records import Record, TopicPartition
from logstate.testing import FakeCluster
from logstate.topology import Processor, ProcessorContext, StreamsBuilder
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs

IN_0 = TopicPartition("in", 0)


class Ticking(Processor[str, str, str, str]):
    """Forwards every record, and the time of every call of its schedules."""

    anchor: int | None = None

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        context.schedule(timedelta(milliseconds=100), "stream_time", self._tick, start=self.anchor)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)

    def _tick(self, timestamp: int) -> None:
        self.context.forward(Record("tick", str(timestamp), timestamp))


class Anchored(Ticking):
    """The same from a point of time on."""

    anchor = 30


def ticking(builder: StreamsBuilder, processor: type[Ticking] = Ticking) -> None:
    ticks = builder.stream("in", key=str, value=str).process(processor)
    ticks.to("out", key=str, value=str)


def anchored(builder: StreamsBuilder) -> None:
    ticking(builder, Anchored)


@pytest.fixture
def cluster() -> FakeCluster:
    """Kafka Streams has committed one record, and the time of its partition."""
    made = cluster_of({"in": 1, "out": 1})
    made.produce("in", b"k", b"theirs", timestamp=570)
    version, partition_time = b"\x02", (570).to_bytes(8, "big")
    metadata = base64.b64encode(version + partition_time).decode()
    made.group("app").offsets.committed[IN_0] = Committed(1, metadata)
    return made


def more(cluster: FakeCluster, *times: int) -> None:
    for time in times:
        cluster.produce("in", b"k", str(time).encode(), timestamp=time)


def test_a_schedule_is_called_at_the_committed_stream_time_before_any_record(
    cluster: FakeCluster,
) -> None:
    rig = WorkerRig(cluster, ticking).start().until_running()
    rig.commit()
    assert outputs(cluster) == [("tick", "570")], "without a record"
    more(cluster, 580, 599, 600)
    rig.commit()
    assert outputs(cluster)[1:] == [("k", "580"), ("k", "599"), ("k", "600"), ("tick", "600")]


def test_it_is_called_first_where_records_wait_already(cluster: FakeCluster) -> None:
    more(cluster, 575, 700)
    rig = WorkerRig(cluster, ticking).start().until_running()
    rig.commit()
    assert outputs(cluster) == [
        ("tick", "570"),
        ("k", "575"),
        ("k", "700"),
        ("tick", "700"),
    ]


def test_an_anchored_schedule_goes_on_at_the_next_point_of_its_grid(cluster: FakeCluster) -> None:
    more(cluster, 575, 629, 630)
    rig = WorkerRig(cluster, anchored).start().until_running()
    rig.commit()
    assert outputs(cluster) == [("k", "575"), ("k", "629"), ("k", "630"), ("tick", "630")]


def test_the_call_is_repeated_where_it_was_not_committed_and_not_where_it_was(
    cluster: FakeCluster,
) -> None:
    killed = WorkerRig(cluster, ticking, name="killed").start().until_running()
    killed.turn()
    killed.kill()
    cluster.group("app").leave(next(iter(cluster.group("app").members)))
    for name in ("one", "two"):
        rig = WorkerRig(cluster, ticking, name=name).start().until_running()
        rig.commit()
        rig.stop()
    assert outputs(cluster) == [("tick", "570")]


def test_a_task_without_a_past_waits_for_its_first_record() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, ticking).start().until_running()
    rig.commit()
    assert outputs(cluster) == []
    more(cluster, 7)
    rig.commit()
    assert outputs(cluster) == [("k", "7"), ("tick", "7")]
