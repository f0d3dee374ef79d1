"""The figures of several workers as one view."""

from __future__ import annotations

import pytest

from logstate.app.instance.by_value import dumps, loads
from logstate.app.instance.merged_metrics import MergedMetrics, figures_of
from logstate.metrics import catalogue
from logstate.metrics.instruments import Metrics


def worker(commits: int = 0, consumed: int = 0, lag: int | None = None) -> Metrics:
    metrics = Metrics()
    metrics.counter(catalogue.COMMITS, worker="0").add(commits)
    metrics.counter(catalogue.RECORDS_CONSUMED, task="0_0", topic="in").add(consumed)
    metrics.histogram(catalogue.COMMIT_LATENCY, worker="0").observe(0.02)
    metrics.gauge(catalogue.WORKER_ALIVE, worker="0").set(1)
    if lag is not None:
        metrics.gauge(catalogue.INPUT_LAG, topic="in", partition=0).set(lag)
    return metrics


def tell(merged: MergedMetrics, number: int, metrics: Metrics) -> None:
    merged.update(number, loads(dumps(figures_of(metrics))))


@pytest.fixture
def merged() -> MergedMetrics:
    return MergedMetrics()


def test_the_worker_is_a_label(merged: MergedMetrics) -> None:
    tell(merged, 0, worker(commits=3))
    tell(merged, 1, worker(commits=4))
    assert [merged.total("commit_total", worker=n) for n in (0, 1)] == [3, 4]
    assert merged.total("commit_total") == 7
    series = merged.snapshot()["commit_latency_seconds"]["series"]
    assert [(one["labels"], one["count"]) for one in series] == [
        ({"worker": "0"}, 1),
        ({"worker": "1"}, 1),
    ]


def test_what_is_told_again_replaces_what_was_told(merged: MergedMetrics) -> None:
    tell(merged, 0, worker(commits=3))
    tell(merged, 0, worker(commits=5))
    assert merged.total("commit_total") == 5


def test_figures_of_a_task_are_summed_up_over_the_workers_it_was_with(
    merged: MergedMetrics,
) -> None:
    tell(merged, 0, worker(consumed=100, lag=None))
    tell(merged, 1, worker(consumed=20, lag=7))
    assert merged.total("records_consumed_total", task="0_0") == 120
    assert merged.total("input_lag_records") == 7


def test_counts_stay_when_a_process_is_gone_and_go_on_with_its_successor(
    merged: MergedMetrics,
) -> None:
    tell(merged, 1, worker(commits=3, consumed=10, lag=7))
    merged.ended(1)
    assert merged.total("commit_total", worker=1) == 3
    assert merged.total("worker_alive", worker=1) == 0
    assert merged.snapshot().get("input_lag_records") is None, "nobody knows it any more"
    tell(merged, 1, worker(commits=2, consumed=5))
    assert merged.total("commit_total", worker=1) == 5
    assert merged.total("records_consumed_total") == 15
    assert merged.total("worker_alive") == 1
    (latency,) = merged.snapshot()["commit_latency_seconds"]["series"]
    assert latency["count"] == 2
    assert latency["buckets"][-1] == ["+Inf", 2]
