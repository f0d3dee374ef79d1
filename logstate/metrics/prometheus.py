"""Metrics for Prometheus: a collector over the instruments; needs ``logstate[metrics]``.

Nothing is copied between scrapes: a scrape reads the instruments. Names get the prefix
``logstate_`` and every series the label ``application``, so several applications in one process
share a registry without clashing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

from logstate.metrics.catalogue import Metric
from logstate.metrics.instruments import Metrics

try:
    from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )
    from prometheus_client.registry import Collector
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError(
        "Prometheus metrics need its client: pip install 'logstate[metrics]'."
    ) from error

_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
_collectors: weakref.WeakKeyDictionary[CollectorRegistry, MetricsCollector]


class MetricsCollector(Collector):
    """The collector that a registry calls at each scrape. One per registry, for all applications.

    A name may appear only once in an exposition, so one collector per application is not possible.
    """

    def __init__(self) -> None:
        self._applications: dict[str, Metrics] = {}

    def add(self, application_id: str, metrics: Metrics) -> None:
        """Export these too; replace what the same application exported before."""
        self._applications = {**self._applications, application_id: metrics}

    def remove(self, application_id: str) -> None:
        """Stop exporting an application."""
        self._applications = {k: v for k, v in self._applications.items() if k != application_id}

    def describe(self) -> list[_Family]:
        """Return nothing: otherwise registering would cause a first, empty scrape."""
        return []

    def collect(self) -> Iterator[_Family]:
        applications = self._applications
        known = dict.fromkeys(one for metrics in applications.values() for one in metrics.known)
        for metric in known:
            family = _family(metric)
            for application_id, metrics in applications.items():
                if metric not in metrics.known:
                    continue  # of this name it may have another one
                for values, read in metrics.series(metric):
                    labels = [application_id, *values]
                    if isinstance(family, HistogramMetricFamily):
                        buckets = [(bound, count) for bound, count in read["buckets"]]
                        family.add_metric(labels, buckets, sum_value=read["sum"])
                    else:
                        family.add_metric(labels, read["value"])
            if family.samples:
                yield family


_lock = threading.Lock()
_collectors = weakref.WeakKeyDictionary()


def export_to_prometheus(
    metrics: Metrics, application_id: str, registry: CollectorRegistry = REGISTRY
) -> MetricsCollector:
    """Export these metrics to ``registry`` from its next scrape on.

    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> from logstate.metrics.catalogue import COMMITS
    >>> metrics, registry = Metrics(), CollectorRegistry()
    >>> collector = export_to_prometheus(metrics, "shop", registry)
    >>> metrics.counter(COMMITS, worker="0").add(2)
    >>> print(generate_latest(registry).decode().splitlines()[-1])
    logstate_commit_total{application="shop",worker="0"} 2.0
    """
    with _lock:
        collector = _collectors.get(registry)
        if collector is None:
            collector = MetricsCollector()
            registry.register(collector)
            _collectors[registry] = collector
        collector.add(application_id, metrics)
    return collector


def exposition(metrics: Metrics, application_id: str) -> bytes:
    """Return all metrics of an application in Prometheus's text format."""
    registry = CollectorRegistry()
    export_to_prometheus(metrics, application_id, registry)
    return generate_latest(registry)


def _family(metric: Metric) -> _Family:
    families: dict[str, type[_Family]] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    # The client appends _total to a counter's name itself.
    name = f"logstate_{metric.family}"
    return families[metric.kind](name, metric.meaning, labels=["application", *metric.labels])
