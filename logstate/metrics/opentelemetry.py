"""Metrics and traces for OpenTelemetry; needs ``logstate[otel]``, the API only.

The metrics are observable instruments.

The instruments are read when the reader of the application's own SDK collects. OpenTelemetry has
no observable histogram, so a histogram appears as two counters, ``.count`` and ``.sum``. Names
are ``logstate.`` and the catalogue's name; every point carries ``application``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from logstate.contracts.records import Headers, RecordMetadata
from logstate.metrics.catalogue import Metric
from logstate.metrics.instruments import Metrics

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import (
        CallbackOptions,
        Meter,
        MeterProvider,
        Observation,
        get_meter_provider,
    )
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise ImportError("OpenTelemetry needs its API: pip install 'logstate[otel]'.") from (error)

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


# ---------------------------------------------------------------------------------- traces

_TRACE, _STATE = "traceparent", "tracestate"
_PROPAGATOR = TraceContextTextMapPropagator()


class ProcessingTask(Protocol):
    """The part of a task that tracing uses."""

    headers: Headers
    offset: int
    partition: int
    began_trace: tuple[RecordMetadata, Headers] | None

    @property
    def task_id(self) -> object: ...


class RecordTraces:
    """Makes a span of each sampled record, from the record's headers to those of its results.

    A record with a ``traceparent`` header (W3C Trace Context) is sampled if its trace is; of the
    others, ``ratio`` begin a trace. The header of a sampled record is replaced by that of its span
    before the operators see the record: whatever they keep or write with its headers, at once or
    later, continues the trace. All other records are unchanged.
    """

    def __init__(
        self,
        application_id: str,
        ratio: float,
        tracer_provider: trace.TracerProvider | None = None,
        *,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """``draw`` returns a number from 0 to 1, which is compared with the ratio."""
        self._ratio = ratio
        self._draw = draw
        self._no_parent = Context()
        self._tracer = trace.get_tracer("logstate", tracer_provider=tracer_provider)
        self._fixed = {"messaging.system": "kafka", "messaging.consumer.group.name": application_id}

    def traced(self, task: ProcessingTask, topic: str, process: Any) -> Any:
        """Return the function that processes the records of a topic, with spans."""
        fixed = {
            **self._fixed,
            "messaging.operation.type": "process",
            "messaging.destination.name": topic,
            "logstate.task": str(task.task_id),
        }
        name, tracer, parent_of = f"process {topic}", self._tracer, self._parent_of
        no_parent = self._no_parent

        def process_traced(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            parent = parent_of(headers)
            if parent is None:
                process(key, value, timestamp, headers)
                return
            attributes: dict[str, str | int] = {
                **fixed,
                "messaging.destination.partition.id": str(task.partition),
                "messaging.kafka.offset": task.offset,
            }
            span = tracer.start_span(name, parent, trace.SpanKind.CONSUMER, attributes)
            with trace.use_span(span, end_on_exit=True):
                own = task.headers = _headers_of(span, headers)
                if parent is no_parent:
                    at = RecordMetadata(topic, task.partition, task.offset)
                    task.began_trace = at, _headers_of(span, None)
                process(key, value, timestamp, own)

        return process_traced

    def _parent_of(self, headers: Headers) -> Context | None:
        """Return the context of a span; None if the record is not sampled."""
        carrier = _carrier_of(headers)
        if _TRACE in carrier:
            context = _PROPAGATOR.extract(carrier, Context())
            parent = trace.get_current_span(context).get_span_context()
            if parent.is_valid:
                return context if parent.trace_flags.sampled else None
        return self._no_parent if self._draw() < self._ratio else None

    def contributors(self, task: ProcessingTask, operator: str) -> RecordContributors:
        """Return the records that contribute to the results of an operator of a task."""
        fixed = {"logstate.task": str(task.task_id), "logstate.operator": operator}
        return RecordContributors(self._tracer, f"emit {operator}", fixed)


class RecordContributors:
    """The sampled records whose results wait in an operator until it emits them.

    The result has the headers of its last record. If other records have contributed, a span is made
    when the result is emitted: it continues the trace of the last sampled record, and links the
    others. The key of the result identifies them. Only in memory: after a restart, or beyond
    ``KEYS_MAX`` keys, a result continues the trace of its last record only.
    """

    #: of one span; the newest ones are kept
    LINKS_MAX = 32
    KEYS_MAX = 10_000

    def __init__(self, tracer: trace.Tracer, name: str, fixed: dict[str, str]) -> None:
        self._tracer = tracer
        self._name = name
        self._fixed = fixed
        #: key -> the number of records, and the spans of the last ones
        self._records: dict[Hashable, tuple[int, tuple[trace.SpanContext, ...]]] = {}

    def add(self, key: Hashable, headers: Headers) -> None:
        """Note the record with these headers if it is sampled and was not the last one noted."""
        span = _span_of(headers)
        if span is None:
            return
        count, spans = self._records.pop(key, (0, ()))
        if not spans or spans[-1].span_id != span.span_id:
            count, spans = count + 1, (*spans, span)[-self.LINKS_MAX - 1 :]
        self._records[key] = count, spans
        if len(self._records) > self.KEYS_MAX:
            del self._records[next(iter(self._records))]

    def emitted(self, key: Hashable, headers: Headers) -> Headers:
        """Return the headers of the result of a key, and forget its records."""
        count, spans = self._records.pop(key, (0, ()))
        if not spans:
            return headers
        *others, last = spans
        own = _span_of(headers)
        if not others and own is not None and own.span_id == last.span_id:
            return headers
        span = self._tracer.start_span(
            self._name,
            trace.set_span_in_context(trace.NonRecordingSpan(last), Context()),
            attributes={**self._fixed, "logstate.contributing_records": count},
            links=[trace.Link(one) for one in others],
        )
        span.end()
        return _headers_of(span, headers)

    def clear(self) -> None:
        """Forget all records."""
        self._records.clear()


def _span_of(headers: Headers) -> trace.SpanContext | None:
    """Return the span that the headers name, if its trace is sampled."""
    carrier = _carrier_of(headers)
    if _TRACE not in carrier:
        return None
    found = trace.get_current_span(_PROPAGATOR.extract(carrier, Context())).get_span_context()
    return found if found.is_valid and found.trace_flags.sampled else None


def _carrier_of(headers: Headers) -> dict[str, str]:
    return {
        name: value.decode("latin-1")
        for name, value in headers or ()
        if name in (_TRACE, _STATE) and value is not None
    }


def _headers_of(span: trace.Span, headers: Headers) -> Headers:
    """Return the headers with the span as the parent; unchanged if nothing records it."""
    context = span.get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return headers
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    others = [(name, value) for name, value in headers or () if name not in (_TRACE, _STATE)]
    return [*others, *((name, text.encode()) for name, text in carrier.items())]
