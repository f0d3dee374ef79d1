"""Metrics that users define in processors, exported with those of the catalogue.

Each has the labels ``task`` and ``node`` of the processor before its own, so that the values of
several tasks can be distinguished and summed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from logstate.metrics.catalogue import BUCKETS_SECONDS, BY_NAME, Kind, Metric
from logstate.metrics.instruments import Counter, Gauge, Histogram, Metrics, exportable

_NAME = re.compile(r"[a-z][a-z0-9_]*")
#: the library sets the first two, worker processes and exporters the others
_TAKEN_LABELS = frozenset({"task", "node", "worker", "application", "le"})


@dataclass(frozen=True)
class OwnMetrics:
    """The metrics of one processor in one task.

    >>> from logstate.metrics.instruments import Metrics
    >>> metrics = Metrics()
    >>> own = OwnMetrics(metrics, "0_1", "tax")
    >>> own.counter("taxed_total", "Orders with tax.", country="no").add(2)
    >>> metrics.snapshot()["taxed_total"]["series"]
    [{'labels': {'task': '0_1', 'node': 'tax', 'country': 'no'}, 'value': 2}]
    """

    metrics: Metrics
    task: str
    node: str

    def counter(self, name: str, meaning: str, /, *, unit: str = "", **labels: object) -> Counter:
        """Return a sum that only increases; its name ends in ``_total``."""
        if not name.endswith("_total"):
            raise ValueError(
                f"the counter {name!r} needs the ending of counters in Prometheus: rename it to"
                f" {name + '_total'!r}"
            )
        metric = self._defined("counter", name, meaning, unit, labels)
        return self.metrics.counter(metric, **self._all_labels(labels))

    def gauge(self, name: str, meaning: str, /, *, unit: str = "", **labels: object) -> Gauge:
        """Return a value that increases and decreases; it is removed when the task is closed."""
        metric = self._defined("gauge", name, meaning, unit, labels)
        return self.metrics.gauge(metric, **self._all_labels(labels))

    def histogram(
        self,
        name: str,
        meaning: str,
        /,
        *,
        unit: str = "seconds",
        buckets: Iterable[float] = BUCKETS_SECONDS,
        **labels: object,
    ) -> Histogram:
        """Return counts of values by range; ``buckets`` are the ranges' upper bounds."""
        bounds = tuple(buckets)
        if bounds and bounds[-1] == math.inf:  # larger values always have another range
            bounds = bounds[:-1]
        grow = not any(low >= high for low, high in pairwise(bounds))
        if not bounds or not grow or any(map(math.isnan, bounds)):
            raise ValueError(
                f"the buckets of histogram {name!r} are {bounds}: give increasing upper bounds,"
                " such as (10, 100, 1_000)"
            )
        metric = self._defined("histogram", name, meaning, unit, labels, bounds)
        return self.metrics.histogram(metric, **self._all_labels(labels))

    def _all_labels(self, labels: Mapping[str, object]) -> dict[str, object]:
        return {"task": self.task, "node": self.node, **labels}

    def _defined(
        self,
        kind: Kind,
        name: str,
        meaning: str,
        unit: str,
        labels: Iterable[str],
        buckets: tuple[float, ...] = BUCKETS_SECONDS,
    ) -> Metric:
        if not _NAME.fullmatch(name) or name in BY_NAME:
            why = "it belongs to the library" if name in BY_NAME else "it is not a valid name"
            raise ValueError(
                f"a metric cannot be called {name!r}: {why}. Use lower-case letters, digits and _,"
                " and a name of your application"
            )
        texts: tuple[object, ...] = (meaning, unit)
        if not all(isinstance(one, str) for one in texts):
            raise ValueError(
                f"metric {name!r} has the meaning {meaning!r:.100} and the unit {unit!r:.100}:"
                " both must be strings"
            )
        for label in labels:
            if label in _TAKEN_LABELS or not _NAME.fullmatch(label):
                raise ValueError(
                    f"metric {name!r} cannot have the label {label!r}:"
                    f" {', '.join(sorted(_TAKEN_LABELS))} are given by the library, and labels have"
                    " lower-case letters, digits and _. Rename it"
                )
        all_labels = ("task", "node", *sorted(labels))
        meaning, unit = exportable(meaning), exportable(unit)
        return self.metrics.define(Metric(name, kind, unit, all_labels, meaning, buckets))
