"""One view of the metrics of several worker processes, with the worker as a label.

What carries no worker (figures of tasks, stores, topics) is summed up over the workers a task has
been with, so that it does not go down when the task moves. What a process that is gone has counted
stays; its gauges go with it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from logstate.metrics import catalogue
from logstate.metrics.catalogue import BY_NAME, Metric
from logstate.metrics.instruments import LabelValues, Metrics

#: name (or the metric itself, where it is not of the catalogue), label values, what was measured:
#: as it travels
Figures: TypeAlias = "list[tuple[str | Metric, LabelValues, dict[str, Any]]]"
_Series: TypeAlias = "dict[tuple[str, LabelValues], dict[str, Any]]"


def figures_of(metrics: Metrics) -> Figures:
    """Everything that was measured."""
    return [
        (one.name if one.name in BY_NAME else one, values, read)
        for one in metrics.known
        for values, read in metrics.series(one)
    ]


class MergedMetrics(Metrics):
    """See the module.

    >>> merged, one = MergedMetrics(), Metrics()
    >>> one.counter(catalogue.COMMITS, worker="0").add(3)
    >>> merged.told(2, figures_of(one))
    >>> merged.total("commit_total", worker="2")
    3
    """

    def __init__(self) -> None:
        super().__init__()
        self._workers: dict[int, _Series] = {}
        #: of processes that are gone
        self._past: _Series = {}
        self._merging = threading.Lock()

    def told(self, worker: int, figures: Figures) -> None:
        """What a worker has measured since its process began."""
        series = {
            (name, _with_worker(name, values, worker)): read
            for one, values, read in figures
            if (name := self._name_of(one)) is not None
        }
        with self._merging:
            self._workers[worker] = series

    def _name_of(self, one: str | Metric) -> str | None:
        """None where another process has another metric of that name, which came first."""
        if isinstance(one, str):
            return one
        with suppress(ValueError):
            return self.define(one).name
        return None

    def ended(self, worker: int) -> None:
        """The process of a worker is gone."""
        with self._merging:
            for key, read in self._workers.pop(worker, {}).items():
                if self.named(key[0]).kind != "gauge":
                    self._past[key] = _sum(self._past.get(key), read)
            alive = (catalogue.WORKER_ALIVE.name, (str(worker),))
            self._workers[worker] = {alive: {"value": 0}}

    def series(self, metric: Metric) -> list[tuple[LabelValues, dict[str, Any]]]:
        """The label values of one metric with what was measured, of all workers together."""
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
