"""What an instance tells of its metrics, with one worker and with several processes."""

from __future__ import annotations

from logstate.app.instance.merged_metrics import MergedMetrics
from logstate.app.instance.merged_metrics import figures_of as measured
from logstate.app.presence import MetricsSummary, figures_of
from logstate.contracts.clock import ManualClock
from logstate.directory.entries import InstanceMetrics
from logstate.metrics import catalogue
from logstate.metrics.instruments import Metrics


def one_worker(processed: int) -> Metrics:
    metrics = Metrics()
    metrics.counter(catalogue.RECORDS_CONSUMED, task="0_0", topic="in").add(processed)
    metrics.counter(catalogue.RECORDS_CONSUMED, task="1_0", topic="between").add(1)
    metrics.counter(catalogue.DROPPED_RECORDS, task="0_0", node="counts", reason="late").add(2)
    metrics.counter(catalogue.DEAD_LETTERS, task="0_0").add(3)
    metrics.counter(catalogue.COMMITS, worker="0").add(4)
    metrics.histogram(catalogue.COMMIT_LATENCY, worker="0").observe(0.25)
    return metrics


def test_figures_are_sums_over_tasks_and_topics() -> None:
    assert figures_of(Metrics()) == InstanceMetrics()
    read = {"between": 1, "in": 10}
    assert figures_of(one_worker(10)) == InstanceMetrics(11, 2, 3, 4, 0.25, read=read)


def test_very_many_topics_are_not_counted_one_by_one() -> None:
    metrics = Metrics()
    for number in range(201):
        metrics.counter(catalogue.RECORDS_PRODUCED, task="0_0", topic=f"t{number}").add(1)
    assert figures_of(metrics).written == {}


def test_figures_of_processes_are_summed_up_and_those_of_a_dead_one_stay() -> None:
    merged = MergedMetrics()
    merged.update(0, measured(one_worker(10)))
    merged.update(1, measured(one_worker(20)))
    assert figures_of(merged) == InstanceMetrics(32, 4, 6, 8, 0.5, read={"between": 2, "in": 30})
    merged.ended(1)
    assert figures_of(merged) == InstanceMetrics(32, 4, 6, 8, 0.5, read={"between": 2, "in": 30})


def test_figures_are_summed_up_now_and_then() -> None:
    clock, metrics = ManualClock(), one_worker(10)
    told = MetricsSummary(metrics, clock)
    assert told.now().dropped == 2
    metrics.counter(catalogue.DROPPED_RECORDS, task="0_0", node="counts", reason="late").add(1)
    assert told.now().dropped == 2
    clock.advance(600)
    assert told.now().dropped == 3
