"""Counters, gauges and histograms that cost nothing per record.

An instrument is bound to its labels once, when a task or worker is made, and then updated once per
batch: ``counter.add(n)``, ``gauge.set(x)``, ``histogram.observe(seconds)``. ``snapshot()`` may be
called from any thread at any time; it is what ``app.metrics()`` returns and what the exporters for
Prometheus and OpenTelemetry read.

Invariants:

- the only metrics are those of the catalogue and those that were defined in addition, with exactly
  the listed labels;
- a counter never decreases while the process lives, not even when its task moves away;
- measured values are ints or floats, whatever type was given: values are summed and serialized;
- gauges of closed tasks disappear (``forget``).
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeVar, cast

from logstate.metrics.catalogue import BUCKETS_SECONDS, BY_NAME, CATALOGUE, Kind, Metric

LabelValues = tuple[str, ...]

#: exporters write 64 bits or floats
_INT_MAX = 2**63 - 1


def exportable(text: str) -> str:
    """Return the text with lone surrogates as escapes: they would break every export."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _number(given: Any) -> float:
    """Return a plain number: numbers of other libraries and Decimals cannot be added to floats."""
    if type(given) is float or (type(given) is int and abs(given) <= _INT_MAX):
        return given
    if isinstance(given, Integral):
        whole = int(given)
        if abs(whole) <= _INT_MAX:
            return whole
        try:
            return float(whole)
        except OverflowError:
            raise ValueError(
                f"a metric takes numbers up to 1.8e308, and was given one of"
                f" {whole.bit_length()} bits"
            ) from None
    if isinstance(given, Real | Decimal):
        return float(given)
    raise TypeError(
        f"a metric takes a number, and was given {given!r:.100} ({type(given).__name__}): a"
        " function returned None or a text instead of a number"
    )


class Counter:
    """A sum that only increases."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self.value: float = 0
        self._lock = threading.Lock()

    def add(self, amount: float = 1) -> None:
        """Add to the sum. Call it once per batch, not per record.

        Raises ValueError for a negative amount and NaN, TypeError for a value that is not a number.
        """
        if type(amount) is not int or amount > _INT_MAX:
            amount = _number(amount)
        if not amount >= 0:
            raise ValueError(
                f"a counter only increases, and {amount} was to be added: use a gauge for values"
                " that decrease too, or a second counter"
            )
        with self._lock:
            self.value += amount

    def read(self) -> dict[str, Any]:
        return {"value": self.value}


class Gauge:
    """A value that increases and decreases: set by its owner, or read at each snapshot."""

    __slots__ = ("_ask", "_value")

    def __init__(self) -> None:
        self._value: float = 0
        self._ask: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        """Set the value. Raise TypeError for a value that is not a number."""
        self._value = _number(value)

    def ask(self, read: Callable[[], float]) -> None:
        """Call ``read`` at each snapshot, from the thread that takes it.

        It must be quick and must not block; if it raises, the last value is shown.
        """
        self._ask = read

    @property
    def value(self) -> float:
        """The current value."""
        if self._ask is not None:
            try:
                self._value = _number(self._ask())
            except Exception:  # noqa: BLE001  a figure must never be what stops a service
                return self._value
        return self._value

    def read(self) -> dict[str, Any]:
        return {"value": self.value}


class Histogram:
    """Counts values, mostly durations, by range."""

    __slots__ = ("_bounds", "_counts", "_lock", "_sum")

    def __init__(self, bounds: Sequence[float] = BUCKETS_SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, figure: float) -> None:
        """Count one value. Raise TypeError for a value that is not a number."""
        if type(figure) is not float:
            figure = _number(figure)
        at = bisect.bisect_left(self._bounds, figure)
        with self._lock:
            self._counts[at] += 1
            self._sum += figure

    def read(self) -> dict[str, Any]:
        with self._lock:
            counts, total = list(self._counts), self._sum
        cumulative = list(itertools.accumulate(counts))
        bounds = [*map(str, self._bounds), "+Inf"]
        return {
            "count": cumulative[-1],
            "sum": total,
            "buckets": [list(pair) for pair in zip(bounds, cumulative, strict=True)],
        }


Instrument = Counter | Gauge | Histogram
_I = TypeVar("_I", bound=Instrument)
_CLASSES: dict[Kind, type[Instrument]] = {
    "counter": Counter,
    "gauge": Gauge,
    "histogram": Histogram,
}


class Metrics:
    """All instruments of one application instance.

    >>> from logstate.metrics.catalogue import RECORDS_CONSUMED
    >>> metrics = Metrics()
    >>> consumed = metrics.counter(RECORDS_CONSUMED, task="0_1", topic="clicks")
    >>> consumed.add(500)
    >>> metrics.snapshot()["records_consumed_total"]["series"]
    [{'labels': {'task': '0_1', 'topic': 'clicks'}, 'value': 500}]
    >>> metrics.total("records_consumed_total", topic="clicks")
    500
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[str, dict[LabelValues, Instrument]] = {m.name: {} for m in CATALOGUE}
        #: metrics in addition to the catalogue, by name
        self._defined: dict[str, Metric] = {}
        self._listeners: list[Callable[[Metric], None]] = []

    @property
    def known(self) -> tuple[Metric, ...]:
        """The metrics of the catalogue, and those that were defined so far."""
        return (*CATALOGUE, *self._defined.values())

    def define(self, metric: Metric) -> Metric:
        """Define a metric in addition to the catalogue; return the existing one if it is known.

        Raises ValueError if another metric has the name, or an exported name that is derived from
        it.
        """
        with self._lock:
            known = self._defined.get(metric.name)
            if known is None:
                self._check_names(metric)
                known = metric
                self._series[metric.name] = {}
                # Replaced, not changed: another thread may be iterating over it.
                self._defined = {**self._defined, metric.name: metric}
                for listener in self._listeners:
                    listener(metric)
        if known != metric:
            raise ValueError(
                f"metric {metric.name!r} is a {known.kind} with the labels"
                f" {', '.join(known.labels)}, but it was requested as a {metric.kind} with"
                f" {', '.join(metric.labels)}; or unit, meaning or buckets differ. A name has one"
                " meaning: use the same arguments everywhere, or another name"
            )
        return known

    def _check_names(self, metric: Metric) -> None:
        for other in self.known:
            shared = metric.series_names & other.series_names
            if shared:
                raise ValueError(
                    f"the {metric.kind} {metric.name!r} and the {other.kind} {other.name!r} would"
                    f" both be exported as {', '.join(sorted(shared))!r}. A histogram is exported"
                    " with the endings _bucket, _count and _sum, a counter with and without"
                    " _total. Rename one of them"
                )

    def named(self, name: str) -> Metric:
        """Return the metric of a name. Raise KeyError for an unknown one."""
        return BY_NAME.get(name) or self._defined[name]

    def listen(self, listener: Callable[[Metric], None]) -> None:
        """Call the listener with every known metric, and with each new one."""
        with self._lock:
            self._listeners.append(listener)
            for metric in self.known:
                listener(metric)

    def counter(self, metric: Metric, **labels: object) -> Counter:
        """Return the counter with these labels; the same object for the same labels."""
        return self._instrument(metric, Counter, labels)

    def gauge(self, metric: Metric, **labels: object) -> Gauge:
        """Return the gauge with these labels; the same object for the same labels."""
        return self._instrument(metric, Gauge, labels)

    def histogram(self, metric: Metric, **labels: object) -> Histogram:
        """Return the histogram with these labels; the same object for the same labels."""
        return self._instrument(metric, Histogram, labels)

    def declare(self, metric: Metric, **labels: object) -> None:
        """Create the instrument with these labels, which is zero until it is used."""
        self._instrument(metric, _CLASSES[metric.kind], labels)

    def forget(self, **labels: object) -> None:
        """Drop the gauges that have all these labels, for example of a task that moved away.

        Counters and histograms stay: sums over the whole instance must not decrease.
        """
        for metric in self.known:
            if metric.kind == "gauge" and labels.keys() <= set(metric.labels):
                with self._lock:
                    series = self._series[metric.name]
                    for values in [v for v in series if _matches(metric.labels, v, labels)]:
                        del series[values]

    def series(self, metric: Metric) -> list[tuple[LabelValues, dict[str, Any]]]:
        """Return the label values of one metric, in the catalogue's order, with its values."""
        with self._lock:
            instruments = sorted(
                self._series.get(metric.name, {}).items(), key=lambda item: item[0]
            )
        # Outside the lock, because a gauge may call its owner, who may be creating an instrument.
        return [(values, instrument.read()) for values, instrument in instruments]

    def snapshot(self, *, with_empty: bool = False) -> dict[str, Any]:
        """Return all values so far, as data for JSON.

        Metrics without a series are left out, or have an empty list with ``with_empty``.

        Per metric name: ``kind``, ``unit``, ``meaning`` and ``series``, a list with ``labels`` and
        ``value``, or ``count``, ``sum`` and cumulative ``buckets`` for a histogram.
        """
        found = {}
        for metric in self.known:
            series = [
                {"labels": dict(zip(metric.labels, values, strict=True)), **read}
                for values, read in self.series(metric)
            ]
            if series or with_empty:
                found[metric.name] = {
                    "kind": metric.kind,
                    "unit": metric.unit,
                    "meaning": metric.meaning,
                    "series": series,
                }
        return found

    def total(self, name: str, **labels: object) -> float:
        """Return the sum over all series of a counter or gauge with these labels; 0 for none."""
        metric = self.named(name)
        matching: list[float] = [
            read["value"]
            for values, read in self.series(metric)
            if _matches(metric.labels, values, labels)
        ]
        return sum(matching)

    def _instrument(self, metric: Metric, cls: type[_I], labels: Mapping[str, object]) -> _I:
        if _CLASSES[metric.kind] is not cls or labels.keys() != set(metric.labels):
            raise TypeError(
                f"{metric.name} is a {metric.kind} with the labels {', '.join(metric.labels)}; "
                f"found a {cls.__name__.lower()} with {', '.join(labels) or 'none'}."
            )
        values = tuple(exportable(str(labels[name])) for name in metric.labels)
        with self._lock:
            return cast(_I, self._series[metric.name].setdefault(values, _new_instrument(metric)))


def _new_instrument(metric: Metric) -> Instrument:
    return Histogram(metric.buckets) if metric.kind == "histogram" else _CLASSES[metric.kind]()


def _matches(names: Sequence[str], values: LabelValues, wanted: dict[str, object]) -> bool:
    labels = dict(zip(names, values, strict=True))
    return all(labels.get(name) == str(value) for name, value in wanted.items())
