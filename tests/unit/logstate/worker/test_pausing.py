"""A worker that is paused: what stops, what goes on, what follows a rebalance."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from logstate.contracts.clients import Step
from logstate.contracts.records import Record, TopicPartition
from logstate.task.owned_task import Stage
from logstate.testing import FakeCluster
from logstate.topology import Processor, StreamsBuilder
from logstate.topology.processor.processor import ProcessorContext
from tests.unit.logstate.flows import counted
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)


def running(
    cluster: FakeCluster, declare: Callable[[StreamsBuilder], object] = counted
) -> WorkerRig:
    return WorkerRig(cluster, declare).start().until_running("0_0", "0_1")


def paused(rig: WorkerRig) -> set[TopicPartition]:
    return set().union(*(owned.paused for owned in rig.tasks.values()))


def pause(rig: WorkerRig) -> WorkerRig:
    rig.worker.control.is_paused = True
    rig.turn(2)
    return rig


def test_nothing_is_processed_and_polling_goes_on() -> None:
    rig = pause(running(cluster_of()))
    send(rig.cluster, "a", "b")
    polls = rig.steps.count("poll")
    rig.turn(5)
    assert rig.steps.count("poll") == polls + 5
    assert rig.observer.is_paused
    rig.commit()
    assert outputs(rig.cluster) == []
    assert rig.total("records_consumed_total") == 0


def test_nothing_is_fetched_because_the_partitions_are_paused_at_the_client() -> None:
    rig = pause(running(cluster_of()))
    assert paused(rig) == {IN_0, IN_1}
    send(rig.cluster, *"abcdef")
    rig.turn(3)
    assert [owned.task.buffered(tp) for owned in rig.tasks.values() for tp in owned.partitions] == [
        0,
        0,
    ]


def test_what_was_processed_before_is_committed_and_nothing_after_it() -> None:
    rig = running(cluster_of())
    send(rig.cluster, "a", "b")
    rig.turn()
    assert outputs(rig.cluster) == []
    pause(rig)
    send(rig.cluster, "c")
    rig.clock.advance(rig.config.commit_interval_ms)
    rig.turn(3)
    assert sorted(outputs(rig.cluster)) == [("a", "1"), ("b", "1")]


def test_what_was_fetched_before_waits_and_is_processed_once_it_goes_on() -> None:
    rig = running(cluster_of())
    send(rig.cluster, "a")
    fetched: list[int] = []

    def pause_behind_the_poll(step: Step) -> None:
        if step.name == "poll" and not fetched:
            rig.worker.fetch_buffer.is_paused = rig.worker.control.is_paused = True
            fetched.append(1)

    rig.before = pause_behind_the_poll
    rig.turn(3)
    assert sum(o.task.buffered(tp) for o in rig.tasks.values() for tp in o.partitions) == 1
    rig.worker.control.is_paused = False
    rig.turn(2)
    rig.commit()
    assert outputs(rig.cluster) == [("a", "1")]


def test_resumed_it_goes_on_where_it_stood() -> None:
    rig = pause(running(cluster_of()))
    send(rig.cluster, *"abab")
    rig.turn(3)
    rig.worker.control.is_paused = False
    rig.turn(2)
    assert not rig.observer.is_paused
    assert paused(rig) == set()
    rig.commit()
    assert sorted(outputs(rig.cluster)) == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]


def test_partitions_that_come_with_a_rebalance_are_paused_too() -> None:
    cluster = cluster_of()
    one, two = WorkerRig(cluster, counted).start(), WorkerRig(cluster, counted, name="two").start()

    def turn() -> None:
        one.turn()
        two.turn()

    for _ in range(50):
        turn()
    assert len(one.tasks) == len(two.tasks) == 1
    pause(one)
    two.stop()
    send(cluster, *"abcdef")
    one.until_running("0_0", "0_1")
    one.turn(3)
    assert paused(one) == {IN_0, IN_1}
    buffered = [o.task.buffered(tp) for o in one.tasks.values() for tp in o.partitions]
    assert buffered == [0, 0], "a task that starts is paused before anything is fetched for it"
    one.commit()
    assert outputs(cluster) == []
    one.worker.control.is_paused = False
    one.turn(2)
    one.commit()
    assert len(outputs(cluster)) == 6


def test_a_pause_does_not_change_who_owns_what() -> None:
    rig = pause(running(cluster_of()))
    rebalances = rig.total("rebalance_total")
    rig.worker.control.is_paused = False
    rig.turn(3)
    assert rig.total("rebalance_total") == rebalances
    assert set(rig.stages.values()) == {Stage.RUNNING}


class Ticking(Processor[str, str, str, str]):
    """Counts its calls by wall clock, and forwards every record."""

    calls: list[int]

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(timedelta(seconds=1), "wall_clock", self.calls.append)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def test_punctuations_stop_as_well_and_come_once_afterwards() -> None:
    calls: list[int] = []

    def ticking(builder: StreamsBuilder) -> None:
        def new() -> Ticking:
            processor = Ticking()
            processor.calls = calls
            return processor

        builder.stream("in", key=str, value=str).process(new, name="tick").to(
            "out", key=str, value=str
        )

    rig = WorkerRig(cluster_of({"in": 1, "out": 1}), ticking).start().until_running("0_0")
    rig.clock.advance(1_000)
    rig.turn()
    assert len(calls) == 1
    pause(rig)
    rig.clock.advance(10_000)
    rig.turn(3)
    assert len(calls) == 1
    rig.worker.control.is_paused = False
    rig.turn(2)
    assert len(calls) == 2


def test_a_paused_worker_ends_cleanly() -> None:
    rig = running(cluster_of())
    send(rig.cluster, "a")
    rig.turn()
    pause(rig).stop()
    assert outputs(rig.cluster) == [("a", "1")]
    assert rig.cluster.group("app").members == {}
