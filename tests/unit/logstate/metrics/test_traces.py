"""Traces: the results of a record continue its trace, behind repartitions and later, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from logstate.contracts.errors import ConfigError
from logstate.contracts.records import ProducedRecord
from logstate.metrics.opentelemetry import RecordTraces
from logstate.task.error_handlers import ErrorHandlers, dead_letter
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder, Topology, TumblingWindows, until_window_closes

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"
STATE = ("tracestate", b"vendor=1")
OTHER = ("tenant", b"blue")


class Spans:
    """A tracer provider, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def ended(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def ids(self) -> list[str]:
        return [f"{span.context.span_id:016x}" for span in self.ended()]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    made = Spans()
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", made.provider)
    yield made
    made.provider.shutdown()


def topology(declare: Any) -> Topology:
    builder = StreamsBuilder()
    declare(builder.stream("in", key=str, value=str))
    return builder.build()


def by_value(stream: Any) -> None:
    stream.group_by(lambda _, value: value, key=str, name="by-value").count(
        store="n"
    ).to_stream().to("out")


def written(driver: TopologyTestDriver, topic: str) -> list[ProducedRecord]:
    return [record for record in driver.outputs if record.topic == topic]


def parent(headers: Any) -> str:
    """The id of the span that a record's header names."""
    found = [value for name, value in headers if name == "traceparent"]
    assert len(found) == 1
    version, trace_id, span_id, flags = found[0].decode().split("-")
    assert (version, trace_id, flags) == ("00", TRACE, "01")
    return str(span_id)


def test_one_trace_goes_on_behind_a_repartition_topic(spans: Spans) -> None:
    with TopologyTestDriver(topology(by_value), trace_ratio=0.0) as driver:
        headers = [OTHER, ("traceparent", PARENT.encode()), STATE]
        driver.pipe("in", "ada", "home", timestamp=5, headers=headers)
        (out,) = written(driver, "out")
    first, second = spans.ended()
    assert [first.name, second.name] == ["process in", "process app-by-value-repartition"]
    assert {span.context.trace_id for span in spans.ended()} == {int(TRACE, 16)}
    assert first.parent is not None
    assert f"{first.parent.span_id:016x}" == "b7ad6b7169203331"
    assert second.parent is not None
    assert second.parent.span_id == first.context.span_id
    assert parent(out.headers) == spans.ids()[1]
    assert OTHER in out.headers
    assert STATE in out.headers
    found = dict(first.attributes or {})
    assert found["messaging.destination.name"] == "in"
    assert (found["messaging.kafka.offset"], found["logstate.task"]) == (0, "0_0")


@pytest.mark.parametrize("ratio", [None, 0.0, 1.0])
@pytest.mark.parametrize("header", [UNSAMPLED, PARENT, "garbage"])
def test_a_record_that_is_not_sampled_keeps_its_headers(
    ratio: float | None, header: str, spans: Spans
) -> None:
    is_sampled = ratio is not None and (header == PARENT or (header == "garbage" and ratio == 1.0))
    headers = [("traceparent", header.encode()), OTHER]
    with TopologyTestDriver(topology(by_value), trace_ratio=ratio) as driver:
        driver.pipe("in", "ada", "home", timestamp=5, headers=headers)
        (out,) = written(driver, "out")
    assert (list(out.headers) == headers) is not is_sampled
    assert bool(spans.ended()) is is_sampled


def test_the_ratio_decides_about_records_without_a_trace() -> None:
    made, draws = Spans(), iter([0.1, 0.3, 0.2999])
    traces = RecordTraces("app", 0.3, made.provider, draw=lambda: next(draws))

    class Task:
        headers: Any = None
        offset, partition, task_id = 3, 1, "0_1"

    seen: list[Any] = []
    process = traces.traced(Task(), "in", lambda *record: seen.append(record[3]))
    for _ in range(3):
        process("k", "v", 1, None)
    assert [headers is None for headers in seen] == [False, True, False]
    assert len(made.ended()) == 2
    made.provider.shutdown()


def test_results_that_are_suppressed_continue_the_trace_of_the_last_record(spans: Spans) -> None:
    def declare(stream: Any) -> None:
        windows = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(0))
        counts = stream.group_by_key().windowed_by(windows).count(store="n")
        final = counts.suppress(until_window_closes(), name="final")
        final.to_stream(lambda key, _: key.key, key=str).to("out")

    with TopologyTestDriver(topology(declare), trace_ratio=0.0) as driver:
        for timestamp in (1, 2):
            headers = [("traceparent", PARENT.encode())]
            driver.pipe("in", "ada", "home", timestamp=timestamp, headers=headers)
        driver.pipe("in", "ada", "home", timestamp=100)
        (out,) = written(driver, "out")
    assert parent(out.headers) == spans.ids()[1]


def test_a_store_that_emits_on_commit_continues_the_trace_of_the_last_record(spans: Spans) -> None:
    def declare(stream: Any) -> None:
        stream.group_by_key().count(store="n", emit="commit").to_stream().to("out")

    with TopologyTestDriver(topology(declare), trace_ratio=0.0, commit_every=3) as driver:
        for _ in range(3):
            headers = [("traceparent", PARENT.encode())]
            driver.pipe("in", "ada", "home", timestamp=1, headers=headers)
        out = written(driver, "out")
    assert parent(out[-1].headers) == spans.ids()[2]


def test_a_dead_letter_belongs_to_the_trace_and_the_span_has_the_error(spans: Spans) -> None:
    def fail(_: str) -> str:
        raise ValueError("no")

    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    declared = topology(lambda stream: stream.map_values(fail, value=str).to("out"))
    with TopologyTestDriver(declared, trace_ratio=0.0, error_handlers=handlers) as driver:
        driver.pipe("in", "a", "b", timestamp=1, headers=[("traceparent", PARENT.encode())])
        (dead,) = written(driver, "dead")
    (span,) = spans.ended()
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]
    assert parent(dead.headers) == "b7ad6b7169203331", "a dead letter has the record's own headers"


@pytest.mark.parametrize("ratio", [-0.1, 1.1, "1", True, float("nan")])
def test_a_ratio_is_from_0_to_1(ratio: Any) -> None:
    with pytest.raises(ConfigError, match="trace_ratio must be a number from 0 to 1"):
        TopologyTestDriver(topology(by_value), trace_ratio=ratio)
