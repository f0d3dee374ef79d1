"""Merge the metrics of several worker processes, with the worker as a label.

Metrics without a worker label (of tasks, stores, topics) are summed over the workers that have had
the task, so a counter does not decrease when the task moves. Counters of a process that has ended
are kept; its gauges are dropped.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from logstate.metrics import catalogue
from logstate.metrics.catalogue import BY_NAME, Metric
from logstate.metrics.instruments import LabelValues, Metrics

#: metric name (or the metric itself if it is not in the catalogue), label values, values; the
#: form in which metrics are sent
Figures: TypeAlias = "list[tuple[str | Metric, LabelValues, dict[str, Any]]]"
_Series: TypeAlias = "dict[tuple[str, LabelValues], dict[str, Any]]"


def figures_of(metrics: Metrics) -> Figures:
    """Return all measured values."""
    return [
        (one.name if one.name in BY_NAME else one, values, read)
        for one in metrics.known
        for values, read in metrics.series(one)
    ]


class MergedMetrics(Metrics):
    """Metrics of all workers of an instance.

    >>> merged, one = MergedMetrics(), Metrics()
    >>> one.counter(catalogue.COMMITS, worker="0").add(3)
    >>> merged.update(2, figures_of(one))
    >>> merged.total("commit_total", worker="2")
    3
    """

    def __init__(self) -> None:
        super().__init__()
        self._workers: dict[int, _Series] = {}
        #: values of processes that have ended
        self._past: _Series = {}
        self._merging = threading.Lock()

    def update(self, worker: int, figures: Figures) -> None:
        """Replace the values of a worker by what it has measured since its process began."""
        series = {
            (name, _with_worker(name, values, worker)): read
            for one, values, read in figures
            if (name := self._name_of(one)) is not None
        }
        with self._merging:
            self._workers[worker] = series

    def _name_of(self, one: str | Metric) -> str | None:
        """Return None if another process defined a different metric of that name before."""
        if isinstance(one, str):
            return one
        with suppress(ValueError):
            return self.define(one).name
        return None

    def ended(self, worker: int) -> None:
        """Keep the counters of a worker whose process has ended, and drop its gauges."""
        with self._merging:
            for key, read in self._workers.pop(worker, {}).items():
                if self.named(key[0]).kind != "gauge":
                    self._past[key] = _sum(self._past.get(key), read)
            alive = (catalogue.WORKER_ALIVE.name, (str(worker),))
            self._workers[worker] = {alive: {"value": 0}}

    def series(self, metric: Metric) -> list[tuple[LabelValues, dict[str, Any]]]:
        """Return the label values of one metric with the values of all workers together."""
        found: dict[LabelValues, dict[str, Any]] = {}
        with self._merging:
            for series in (self._past, *self._workers.values()):
                for (name, values), read in series.items():
                    if name == metric.name:
                        is_sum = metric.kind != "gauge"
                        found[values] = _sum(found.get(values), read) if is_sum else read
        return sorted(found.items())


def _with_worker(name: str, values: Sequence[str], worker: int) -> LabelValues:
    if name not in BY_NAME:
        return tuple(values)
    labels = BY_NAME[name].labels
    pairs = zip(labels, values, strict=True)
    return tuple(str(worker) if label == "worker" else value for label, value in pairs)


def _sum(before: dict[str, Any] | None, read: dict[str, Any]) -> dict[str, Any]:
    if before is None:
        return read
    if "value" in read:
        return {"value": before["value"] + read["value"]}
    buckets = zip(before["buckets"], read["buckets"], strict=True)
    return {
        "count": before["count"] + read["count"],
        "sum": before["sum"] + read["sum"],
        "buckets": [[bound, one + other] for (bound, one), (_, other) in buckets],
    }
