"""What an instance tells others of its metrics: a few sums, in its entry in the directory."""

from __future__ import annotations

from logstate.contracts.clock import Clock
from logstate.directory.entries import InstanceMetrics
from logstate.metrics import catalogue
from logstate.metrics.instruments import Metrics

#: the directory asks ten times a second, and the metrics of many tasks take a while to sum up
_KEPT_MS = 500.0


class MetricsSummary:
    """The sums of now, or of a moment ago. The metrics are one worker's, or those of all merged."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._kept = InstanceMetrics()
        self._kept_ms = float("-inf")

    def now(self) -> InstanceMetrics:
        """What was counted since the start."""
        now = self._clock.monotonic_ms()
        if now - self._kept_ms >= _KEPT_MS:
            self._kept, self._kept_ms = figures_of(self._metrics), now
        return self._kept


def figures_of(metrics: Metrics) -> InstanceMetrics:
    """The sums over all workers and tasks.

    >>> metrics = Metrics()
    >>> at = {"task": "0_1", "node": "counts", "reason": "late"}
    >>> metrics.counter(catalogue.DROPPED_RECORDS, **at).add(2)
    >>> figures_of(metrics).dropped
    2
    """
    took = [read["sum"] for _, read in metrics.series(catalogue.COMMIT_LATENCY)]
    return InstanceMetrics(
        processed=int(metrics.total(catalogue.RECORDS_CONSUMED.name)),
        dropped=int(metrics.total(catalogue.DROPPED_RECORDS.name)),
        dead_lettered=int(metrics.total(catalogue.DEAD_LETTERS.name)),
        commits=int(metrics.total(catalogue.COMMITS.name)),
        commit_seconds=sum(took),
    )
