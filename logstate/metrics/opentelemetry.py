"""Metrics for OpenTelemetry: observable instruments; needs ``logstate[otel]``, the API only.

The instruments are read when the reader of the application's own SDK collects. OpenTelemetry has
no observable histogram, so a histogram appears as two counters, ``.count`` and ``.sum``. Names
are ``logstate.`` and the catalogue's name; every point carries ``application``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from logstate.metrics.catalogue import Metric
from logstate.metrics.instruments import Metrics

try:
    from opentelemetry.metrics import (
        CallbackOptions,
        Meter,
        MeterProvider,
        Observation,
        get_meter_provider,
    )
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("OpenTelemetry metrics need its API: pip install 'logstate[otel]'.") from (
        error
    )

_Callback = Callable[[CallbackOptions], Iterable[Observation]]

# UCUM, the unit language of OpenTelemetry: braces for counted things.
_UNITS = {"seconds": "s", "milliseconds": "ms", "bytes": "By", "records per second": "{record}/s"}


def export_to_opentelemetry(
    metrics: Metrics, application_id: str, meter_provider: MeterProvider | None = None
) -> None:
    """Make one observable instrument per metric; the global meter provider unless one is given."""
    provider = get_meter_provider() if meter_provider is None else meter_provider
    meter = provider.get_meter("logstate")

    def export(metric: Metric) -> None:
        name = f"logstate.{metric.name.removesuffix('_total')}"
        if metric.kind == "gauge":
            meter.create_observable_gauge(
                name,
                [_reading(metrics, metric, application_id, "value")],
                unit=_unit(metric),
                description=metric.meaning,
            )
        elif metric.kind == "counter":
            callback = _reading(metrics, metric, application_id, "value")
            _counter(meter, name, callback, _unit(metric), metric)
        else:
            count = _reading(metrics, metric, application_id, "count")
            total = _reading(metrics, metric, application_id, "sum")
            _counter(meter, f"{name}.count", count, "1", metric)
            _counter(meter, f"{name}.sum", total, _unit(metric), metric)

    metrics.listen(export)


def _counter(meter: Meter, name: str, callback: _Callback, unit: str, metric: Metric) -> None:
    meter.create_observable_counter(name, [callback], unit=unit, description=metric.meaning)


def _reading(metrics: Metrics, metric: Metric, application_id: str, part: str) -> _Callback:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        for values, read in metrics.series(metric):
            labels = dict(zip(metric.labels, values, strict=True))
            yield Observation(read[part], {"application": application_id, **labels})

    return observe


def _unit(metric: Metric) -> str:
    return _UNITS.get(metric.unit, "{" + metric.unit.rstrip("s") + "}")
