"""A turn ends by time as well as by count: whatever user code takes, commits come in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.clock import ManualClock, SystemClock
from logstate.contracts.records import Record, TopicPartition
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.task.work_time import WorkTime
from logstate.testing import FakeCluster
from logstate.topology import Processor, ProcessorContext, StreamsBuilder
from logstate.worker.processing import _PROCESS_RECORDS
from tests.patience import until
from tests.unit.logstate.task.task_bench import TaskBench
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs, send

#: what a turn may take
WORK_MS = 100
IN = TopicPartition("in", 0)


def slow(cluster: FakeCluster, cost_ms: Callable[[str], int]) -> Callable[[StreamsBuilder], object]:
    """Every record through a function that takes its time."""

    def declare(builder: StreamsBuilder) -> None:
        def work(value: str) -> str:
            clock_of(cluster).advance(cost_ms(value))
            cluster.tick()  # transactions that are open for too long are aborted
            return value

        builder.stream("in", key=str, value=str).map_values(work, value=str).to("out")

    return declare


def clock_of(cluster: FakeCluster) -> ManualClock:
    assert isinstance(cluster.clock, ManualClock)
    return cluster.clock


def committed(rig: WorkerRig, records: int) -> None:
    """Turns until that many records are processed and committed."""
    rig.until(lambda: rig.tasks["0_0"].task.consumed[IN] == records)
    rig.commit()
    assert rig.cluster.committed_offset("app", "in") == records


# --- commits come in time -------------------------------------------------------------------------


@pytest.mark.parametrize("cost_ms", [12, 99, 900, 9_000])
def test_a_backlog_of_slow_records_does_not_outlive_the_open_transaction(cost_ms: int) -> None:
    """10 s is what a transaction may last: 2,000 records of 12 ms each took 24 s."""
    cluster = cluster_of({"in": 1, "out": 1}, transaction_timeout_ms=10_000)
    rig = WorkerRig(cluster, slow(cluster, lambda _: cost_ms)).start().until_running()
    send(cluster, "first")
    rig.turn()
    backlog = 12_000 // cost_ms + 2
    send(cluster, *(f"k{n}" for n in range(backlog)))
    committed(rig, backlog + 1)
    assert rig.total("transactions_aborted_total") == 0
    assert len(outputs(cluster)) == backlog + 1


def test_the_first_slow_record_after_thousands_of_quick_ones_ends_the_turn() -> None:
    cluster = cluster_of({"in": 1, "out": 1}, transaction_timeout_ms=10_000)
    is_slow = lambda value: 5_000 if value.startswith("slow") else 0  # noqa: E731
    rig = WorkerRig(cluster, slow(cluster, is_slow)).start().until_running()
    send(cluster, *(f"k{n}" for n in range(1_500)), *(f"slow{n}" for n in range(5)))
    rig.turn()
    assert rig.tasks["0_0"].task.processed["in"] == 1_501
    committed(rig, 1_505)
    assert rig.total("transactions_aborted_total") == 0


def test_quick_records_are_bounded_by_their_number_alone() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, slow(cluster, lambda _: 0)).start().until_running()
    send(cluster, *(f"k{n}" for n in range(_PROCESS_RECORDS + 10)))
    rig.turn()
    assert rig.tasks["0_0"].task.processed["in"] == _PROCESS_RECORDS


def test_a_slow_task_leaves_the_others_their_turns() -> None:
    cluster = cluster_of({"in": 3, "out": 1})
    rig = WorkerRig(cluster, slow(cluster, lambda _: WORK_MS)).start().until_running()
    for partition in range(3):
        send(cluster, *(f"k{n}" for n in range(9)), partition=partition)
    seen = []
    for _ in range(9):
        rig.turn()
        seen.append([owned.task.processed["in"] for owned in rig.tasks.values()])
    assert seen[-1] == [3, 3, 3], seen
    assert all(max(counts) - min(counts) <= 1 for counts in seen), seen


def test_a_turn_that_took_its_time_waits_for_the_commit_under_way() -> None:
    """Otherwise each step of a commit could wait for a slow record, and its transaction with it."""
    cluster = cluster_of({"in": 1, "out": 1}, background_looks_max=10)
    clock = clock_of(cluster)
    rig = WorkerRig(cluster, slow(cluster, lambda value: 150 if value == "slow" else 0))
    rig.start().until_running()
    send(cluster, "quick")
    rig.turn()
    clock.advance(rig.config.commit_interval_ms)
    rig.turn()
    assert cluster.committed_offset("app", "in") == 0, "it is under way"
    send(cluster, "slow")
    rig.turn(2)
    assert (cluster.committed_offset("app", "in") or 0) >= 1


# --- a task that is interrupted -------------------------------------------------------------------


class Interrupting:
    """A bench whose function interrupts its task at chosen values."""

    def __init__(
        self, declare: Callable[[StreamsBuilder, Callable[[str], str]], object], **options: Any
    ) -> None:
        def work(value: str) -> str:
            if value.startswith("stop"):
                self.bench.task.interrupt()
            if value.endswith("bad"):
                raise ValueError(value)
            return value

        self.bench = TaskBench(lambda builder: declare(builder, work), **options)

    def process(self, limit: int = 1_000) -> list[Any]:
        self.bench.task.process(limit)
        return self.bench.take()


def one(builder: StreamsBuilder, work: Callable[[str], str]) -> None:
    builder.stream("in", key=str, value=str).map_values(work, value=str).to("out")


def two(builder: StreamsBuilder, work: Callable[[str], str]) -> None:
    left = builder.stream("left", key=str, value=str)
    merged = left.merge(builder.stream("right", key=str, value=str))
    merged.map_values(work, value=str).to("out")


def test_an_interrupted_task_goes_on_with_the_next_record_later() -> None:
    bench = Interrupting(one)
    bench.bench.add("in", ("k", "a", 1), ("k", "stop", 2), ("k", "stop", 3), ("k", "b", 4))
    assert bench.process() == ["a", "stop"]
    assert bench.bench.consumed("in") == 2
    assert bench.process() == ["stop"]
    assert bench.process() == ["b"]


def test_the_order_of_partitions_survives_an_interruption() -> None:
    bench = Interrupting(two)
    bench.bench.add("left", ("k", "a", 1), ("k", "stop", 4), ("k", "e", 5))
    bench.bench.add("right", ("k", "b", 2), ("k", "stop-c", 3), ("k", "f", 6))
    bench.bench.end("left")
    bench.bench.end("right")
    assert [bench.process() for _ in range(3)] == [["a", "b", "stop-c"], ["stop"], ["e", "f"]]


def test_a_record_that_is_skipped_while_the_time_ends_is_the_last_one_too() -> None:
    bench = Interrupting(one, error_handlers=ErrorHandlers(processing=skip))
    bench.bench.add("in", ("k", "a", 1), ("k", "stop-bad", 2), ("k", "b", 3))
    assert bench.process() == ["a"]
    assert bench.bench.consumed("in") == 2
    assert bench.process() == ["b"]


def test_records_without_a_time_end_with_the_interruption() -> None:
    clock = ManualClock(1_000)

    def declare(builder: StreamsBuilder) -> None:
        def extract(key: object, value: object, timestamp: int, partition_time: int) -> int:
            bench.task.interrupt()
            return -1

        stream = builder.stream("in", key=str, value=str, timestamp_extractor=extract)
        stream.to("out")

    bench = TaskBench(declare, clock=clock)
    bench.add("in", ("k", "a", 1), ("k", "b", 2))
    bench.task.process(1_000)
    assert bench.consumed("in") == 1


@pytest.mark.parametrize("interrupts", [False, True])
def test_schedules_fire_as_without_the_interruption(interrupts: bool) -> None:
    notes: list[tuple[str, int]] = []

    class Noting(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext) -> None:
            context.schedule(timedelta(milliseconds=10), "stream_time", self._tick)

        def process(self, record: Record[str, str]) -> None:
            notes.append(("record", record.timestamp))
            if interrupts:
                bench.task.interrupt()

        def _tick(self, timestamp: int) -> None:
            notes.append(("tick", timestamp))

    bench = TaskBench(
        lambda builder: builder.stream("in", key=str, value=str).process(Noting, name="note")
    )
    bench.add("in", *((f"k{n}", "v", n * 4) for n in range(7)))
    for _ in range(7):
        bench.task.process(1_000)
    expected = [0, "t", 4, 8, 12, "t", 16, 20, "t", 24]
    times = [time if kind == "record" else "t" for kind, time in notes]
    assert times == expected


def test_an_interruption_that_comes_too_late_costs_nothing() -> None:
    """The alarm rings on another thread: it may come when the batch is over."""
    bench = Interrupting(one)
    bench.bench.task.interrupt()
    bench.bench.add("in", ("k", "a", 1), ("k", "b", 2))
    assert bench.process() == ["a", "b"]
    bench.bench.task.punctuations.next_stream_time = -1  # half of an interruption
    bench.bench.add("in", ("k", "a", 3), ("k", "b", 4))
    assert bench.process() == ["a", "b"]
    assert bench.bench.task.punctuations.next_stream_time is None


# --- the alarm ------------------------------------------------------------------------------------


def test_a_busy_thread_is_interrupted_by_the_clock_of_the_machine() -> None:
    bench = TaskBench(lambda builder: builder.stream("in", key=str, value=str).to("out"))
    others = set(threading.enumerate())
    clock = SystemClock()
    work_time = WorkTime(clock)
    work_time.begin()
    with work_time.of(bench.task):
        until(lambda: bench.task.punctuations.is_interrupted, "it never rang")
    assert work_time.is_up()
    work_time.close()
    alarms = lambda: [t for t in threading.enumerate() if t.name == "logstate-alarm"]  # noqa: E731
    until(lambda: not set(alarms()) - others)


def test_a_manual_clock_rings_while_it_is_advanced_and_only_what_is_set() -> None:
    clock = ManualClock()
    rung: list[float] = []
    alarm = clock.alarm(lambda: rung.append(clock.monotonic_ms()))
    alarm.set(100)
    clock.advance(99)
    assert rung == []
    clock.advance(1)
    clock.advance(50)
    assert rung == [100, 150]
    alarm.clear()
    clock.advance(50)
    assert rung == [100, 150]


def test_the_alarm_of_a_worker_ends_with_it() -> None:
    cluster = cluster_of({"in": 1, "out": 1})
    rig = WorkerRig(cluster, slow(cluster, lambda _: 1)).start().until_running()
    send(cluster, "a")
    rig.stop()
    assert not clock_of(cluster)._alarms
