"""The figures of a worker: counters never fall, gauges of what is gone disappear."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from logstate.commit.commit import CommitReport
from logstate.contracts.clock import ManualClock
from logstate.contracts.drops import DropReason
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.task.owned_task import OwnedTask, Stage, StoreTarget
from logstate.topology import StreamsBuilder
from logstate.worker.summary import SummaryIntervals
from logstate.worker.worker_observer import WorkerObserver
from tests.patience import PATIENCE_S
from tests.unit.logstate.task.task_bench import TaskBench

IN = TopicPartition("in", 0)


def counted(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")


class Watched:
    """One task and the observer of its worker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.observer = WorkerObserver(monotonic_ms=self.clock.monotonic_ms)
        self.bench = TaskBench(counted)
        self.owned = self.owning(self.bench)

    def owning(self, bench: TaskBench) -> OwnedTask:
        return OwnedTask(bench.task.task_id, bench.task.partitions, 1, bench.task)

    def refresh(self) -> None:
        self.observer.refresh({self.owned.task_id: self.owned})

    def total(self, name: str, **labels: object) -> float:
        return self.observer.metrics.total(name, **labels)

    def has(self, name: str) -> bool:
        return name in self.observer.metrics.snapshot()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_the_worker_after_a_paused_one_is_not_paused_before_it_says_so(watched: Watched) -> None:
    watched.observer.paused(True)
    watched.observer.replaced()
    assert not watched.observer.is_paused


# --- tasks ----------------------------------------------------------------------------------------


def test_tasks_are_counted_by_stage(watched: Watched) -> None:
    watched.observer.tasks_changed({watched.owned.task_id: watched.owned})
    assert watched.total("tasks", state="assigned") == 1
    watched.owned.move_to(Stage.RESTORING)
    watched.observer.tasks_changed({watched.owned.task_id: watched.owned})
    assert watched.total("tasks", state="assigned") == 0
    assert watched.total("tasks", state="restoring") == 1
    watched.observer.tasks_changed({})
    assert watched.total("tasks") == 0


def test_the_published_map_does_not_change_behind_its_readers(watched: Watched) -> None:
    tasks = {watched.owned.task_id: watched.owned}
    watched.observer.tasks_changed(tasks)
    published = watched.observer.tasks
    tasks.clear()
    watched.observer.tasks_changed(tasks)
    assert list(published) == [watched.owned.task_id]
    assert watched.observer.tasks == {}


def test_who_waits_for_a_change_is_woken(watched: Watched) -> None:
    observer = watched.observer
    waiting = threading.Event()

    def wait_for_start() -> bool:
        with observer.changed:
            waiting.set()
            return observer.changed.wait_for(lambda: observer.is_started, PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(wait_for_start)
        assert waiting.wait(PATIENCE_S)
        observer.started()
        assert waiter.result(PATIENCE_S)


# --- records --------------------------------------------------------------------------------------


def test_records_are_counted_by_what_has_come_since_the_last_look(watched: Watched) -> None:
    watched.bench.pipe("in", ("a", "v", 5), ("b", "v", 9))
    for _ in range(3):
        watched.refresh()
    assert watched.total("records_consumed_total", task="0_0", topic="in") == 2
    watched.bench.pipe("in", ("a", "v", 7))
    watched.refresh()
    assert watched.total("records_consumed_total") == 3
    assert watched.total("stream_time_ms", task="0_0") == 9


def test_dropped_and_late_records_are_told_apart(watched: Watched) -> None:
    task = watched.bench.task
    for node, reason in (("a", "null_key"), ("b", "late"), ("b", "late"), ("b", "expired")):
        task.dropper(node, DropReason(reason))()
    for _ in range(2):
        watched.refresh()
    assert watched.total("dropped_records_total", task="0_0") == 4
    assert watched.total("dropped_records_total", node="b", reason="late") == 2
    assert watched.total("dropped_records_total", node="a") == 1
    assert watched.total("late_records_total", task="0_0") == 3


def test_records_that_may_have_missed_partners_of_a_join_are_counted_by_store(
    watched: Watched,
) -> None:
    for store in ("clicks-store", "clicks-store", "views-store"):
        watched.bench.task.join_late(store)
    watched.refresh()
    watched.refresh()
    assert watched.total("late_join_records_total", task="0_0", store="clicks-store") == 2
    assert watched.total("late_join_records_total") == 3
    assert watched.total("dropped_records_total") == 0


def test_skipped_records_and_dead_letters_are_counted(watched: Watched) -> None:
    watched.bench.task.skipped_total = 2
    watched.bench.task.dead_letters_total = 1
    watched.refresh()
    watched.refresh()
    assert watched.total("skipped_records_total") == 2
    assert watched.total("dead_letters_total") == 1


def test_records_are_counted_per_topic_of_the_task() -> None:
    def merged(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.merge(builder.stream("other", key=str, value=str)).to("out")

    bench, observer = TaskBench(merged), WorkerObserver()
    owned = OwnedTask(bench.task.task_id, bench.task.partitions, 1, bench.task)
    bench.add("other", ("a", "v", 7))
    bench.pipe("in", ("a", "v", 5), ("b", "v", 9))
    bench.end("in")
    bench.task.process(10)
    bench.end("other")
    bench.task.process(10)
    observer.refresh({owned.task_id: owned})
    assert observer.metrics.total("records_consumed_total", topic="in") == 2
    assert observer.metrics.total("records_consumed_total", topic="other") == 1


def test_a_task_that_lags_shows_it_though_it_never_was_at_the_end(watched: Watched) -> None:
    watched.bench.task.start_at({IN: 0})
    for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
        watched.owned.move_to(stage)
    tasks = {watched.owned.task_id: watched.owned}
    watched.bench.add("in", ("a", "v", 5), ("b", "v", 9))
    watched.clock.advance(1_000)
    watched.observer.turn(tasks, lambda partitions: dict.fromkeys(partitions, 10))
    assert watched.total("input_lag_records", topic="in") == 10
    watched.bench.task.process(1)
    watched.clock.advance(1_000)
    watched.observer.turn(tasks, lambda partitions: dict.fromkeys(partitions, 12))
    assert watched.total("input_lag_records", topic="in") == 11


def test_a_counter_does_not_fall_when_the_task_is_made_anew(watched: Watched) -> None:
    watched.bench.pipe("in", ("a", "v", 5), ("b", "v", 9))
    watched.refresh()
    fresh = TaskBench(counted)
    watched.owned.task_or_none = fresh.task
    watched.refresh()
    fresh.pipe("in", ("a", "v", 5))
    watched.refresh()
    assert watched.total("records_consumed_total") == 3


def test_a_task_that_goes_leaves_its_counts_and_takes_its_gauges_along(watched: Watched) -> None:
    watched.bench.pipe("in", ("a", "v", 5))
    watched.owned.ends[IN] = 4
    watched.owned.targets = [StoreTarget("counts", TopicPartition("log", 0), 9)]
    watched.refresh()
    assert watched.total("input_lag_records", topic="in", partition=0) == 3
    gauges = ("input_lag_records", "stream_time_ms", "restore_remaining_records")
    assert all(watched.has(name) for name in gauges)
    watched.bench.pipe("in", ("a", "v", 6))
    watched.observer.task_closing(watched.owned)
    assert watched.total("records_consumed_total") == 2
    assert not any(watched.has(name) for name in gauges)


def test_a_task_that_comes_back_counts_from_nothing(watched: Watched) -> None:
    watched.bench.pipe("in", ("a", "v", 5))
    watched.observer.task_closing(watched.owned)
    fresh = TaskBench(counted)
    fresh.pipe("in", ("a", "v", 5), ("a", "v", 6))
    watched.owned = watched.owning(fresh)
    watched.refresh()
    assert watched.total("records_consumed_total") == 3


def test_a_task_that_was_kept_as_a_copy_is_not_counted_again_when_it_comes_back(
    watched: Watched,
) -> None:
    """Once each move away and back counted all its records, drops and dead letters once more."""
    watched.bench.pipe("in", ("a", "v", 5), ("b", "v", 6))
    watched.observer.task_closing(watched.owned)
    watched.owned = watched.owning(watched.bench)
    watched.refresh()
    assert watched.total("records_consumed_total") == 2
    watched.bench.pipe("in", ("a", "v", 7))
    watched.refresh()
    assert watched.total("records_consumed_total") == 3


def to(topic: str) -> ProducedRecord:
    return ProducedRecord(topic, None, b"k", b"v", 1, None)


def test_produced_records_are_counted_per_topic(watched: Watched) -> None:
    watched.observer.produced(watched.owned, [to("out"), to("more"), to("out"), to("out")])
    watched.observer.produced(watched.owned, [to("out"), to("out")])
    assert watched.total("records_produced_total", task="0_0", topic="out") == 5
    assert watched.total("records_produced_total") == 6


def test_the_lag_is_what_lies_between_the_position_and_the_end(watched: Watched) -> None:
    watched.refresh()
    assert not watched.has("input_lag_records")
    watched.owned.ends[IN] = 10
    watched.bench.task.start_at({IN: 4})
    watched.refresh()
    assert watched.total("input_lag_records") == 6
    watched.bench.task.start_at({IN: 12})
    watched.refresh()
    assert watched.total("input_lag_records") == 0


# --- restores -------------------------------------------------------------------------------------


def test_a_restore_shows_what_remains_and_counts_what_was_replayed(watched: Watched) -> None:
    target = StoreTarget("counts", TopicPartition("app-counts-changelog", 0), 100)
    watched.owned.targets = [target]
    watched.bench.task.state.restore("counts", (), 40)
    target.restored_records = 35
    for _ in range(2):
        watched.refresh()
    assert watched.total("restore_remaining_records", task="0_0", store="counts") == 60
    assert watched.total("restore_total", task="0_0", store="counts") == 35
    target.is_done = True
    watched.refresh()
    assert watched.total("restore_remaining_records") == 0


def test_a_second_restore_adds_to_the_first(watched: Watched) -> None:
    changelog = TopicPartition("app-counts-changelog", 0)
    watched.owned.targets = [StoreTarget("counts", changelog, 9, restored_records=5)]
    watched.refresh()
    watched.owned.targets = [StoreTarget("counts", changelog, 9)]
    watched.refresh()
    watched.owned.targets[0].restored_records = 2
    watched.refresh()
    assert watched.total("restore_total") == 7


# --- commits and rebalances -----------------------------------------------------------------------


def test_commits_are_counted_timed_and_their_changelog_records_told_apart(
    watched: Watched,
) -> None:
    watched.observer.committed(CommitReport({("0_0", "a"): 3, ("0_0", "b"): 1}, {}), 40)
    watched.observer.committed(CommitReport({("0_0", "a"): 2}, {}), 60)
    assert watched.total("commit_total") == 2
    assert watched.total("changelog_records_total", task="0_0", store="a") == 5
    (series,) = watched.observer.metrics.snapshot()["commit_latency_seconds"]["series"]
    assert series["count"] == 2
    assert series["sum"] == pytest.approx(0.1)


def test_aborts_rebalances_and_lost_partitions_are_counted(watched: Watched) -> None:
    watched.observer.aborted()
    watched.observer.rebalanced("assigned", 4)
    watched.observer.rebalanced("revoked", 2)
    watched.observer.rebalanced("lost", 2)
    assert watched.total("transactions_aborted_total") == 1
    assert watched.total("rebalance_total") == 3
    assert watched.total("partitions_lost_total") == 2


# --- how often ------------------------------------------------------------------------------------


def test_figures_are_refreshed_a_few_times_a_second_not_every_turn(watched: Watched) -> None:
    tasks = {watched.owned.task_id: watched.owned}
    watched.observer.turn(tasks)
    watched.bench.pipe("in", ("a", "v", 5))
    watched.clock.advance(199)
    watched.observer.turn(tasks)
    assert watched.total("records_consumed_total") == 0
    watched.clock.advance(1)
    watched.observer.turn(tasks)
    assert watched.total("records_consumed_total") == 1


def test_tasks_without_their_task_object_have_no_figures_yet(watched: Watched) -> None:
    watched.owned.task_or_none = None
    watched.refresh()
    assert not watched.has("records_consumed_total")


# --- the summary in the log -----------------------------------------------------------------------


def test_a_summary_is_logged_once_per_interval(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    observer = WorkerObserver(
        monotonic_ms=watched.clock.monotonic_ms,
        summary_intervals=SummaryIntervals(10_000.0, 10_000.0),
    )
    tasks = {watched.owned.task_id: watched.owned}
    for stage in (Stage.RESTORING, Stage.STARTING, Stage.RUNNING):
        watched.owned.move_to(stage)
    observer.turn(tasks)
    for offset in range(35):
        watched.clock.advance(1_000)
        watched.bench.pipe("in", ("k", "v", offset))
        observer.committed(CommitReport({}, {}), 1.0)
        observer.turn(tasks, lambda _: {IN: 40})

    assert [record.getMessage() for record in caplog.records] == [
        f"in the last 10 s: 10 records processed (1.0/s), 10 commits; tasks: 1 running; {behind}"
        " records behind the ends of their inputs"
        for behind in (30, 20, 10)
    ]


def test_without_an_interval_no_summary_is_logged(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(3):
        watched.observer.turn({})
        watched.clock.advance(1_000_000)
    assert not caplog.records
