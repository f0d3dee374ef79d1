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
from logstate.metrics.opentelemetry import RecordContributors, RecordTraces
from logstate.task.error_handlers import ErrorHandlers, dead_letter
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder, Topology, TumblingWindows, until_window_closes
from logstate.topology.operators.aggregates.emit_on_commit import BufferedUpdates

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


def on_commit(stream: Any) -> None:
    stream.group_by_key().count(store="n", emit="commit").to_stream().to("out")


def suppressed(stream: Any) -> None:
    windows = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(0))
    counts = stream.group_by_key().windowed_by(windows).count(store="n")
    final = counts.suppress(until_window_closes(), name="final")
    final.to_stream(lambda key, _: key.key, key=str).to("out")


def header(number: int, *, flags: str = "01") -> list[tuple[str, bytes]]:
    """The header of a trace of its own."""
    return [("traceparent", f"00-{number:032x}-{number:016x}-{flags}".encode())]


def emitted(declare: Any, headers: list[Any]) -> tuple[ProducedRecord, str]:
    """The result of records of one key with these headers, and the id of its span."""
    count = len(headers)
    with TopologyTestDriver(topology(declare), trace_ratio=0.0, commit_every=count) as driver:
        for each in headers:
            driver.pipe("in", "ada", "home", timestamp=1, headers=each)
        if declare is suppressed:
            driver.pipe("in", "bob", "home", timestamp=100)
        result = written(driver, "out")[0]
    ((name, value),) = result.headers if result.headers else [("traceparent", b"--")]
    return result, value.decode().split("-")[2] if name == "traceparent" and value else ""


async def in_capitals(value: str) -> str:
    return value.upper()


def test_the_result_of_an_asynchronous_call_continues_the_trace_of_its_record(
    spans: Spans,
) -> None:
    def called(stream: Any) -> None:
        stream.map_values_async(in_capitals, value=str).to("out")

    with TopologyTestDriver(topology(called), trace_ratio=0.0, commit_every=2) as driver:
        for number in (1, 2):
            driver.pipe("in", "ada", "home", timestamp=1, headers=header(number))
        results = written(driver, "out")
    assert [dict(one.headers or ())["traceparent"] for one in results] == [
        f"00-{number:032x}-{span_id}-01".encode()
        for number, span_id in zip((1, 2), spans.ids(), strict=True)
    ]


LATER = pytest.mark.parametrize("declare", [on_commit, suppressed])


@LATER
def test_a_result_of_several_records_links_all_of_them(declare: Any, spans: Spans) -> None:
    _, span_id = emitted(declare, [header(1), header(2), None, header(3, flags="00"), header(4)])
    *processed, emission = spans.ended()
    assert emission.name == ("emit n" if declare is on_commit else "emit final")
    assert span_id == f"{emission.context.span_id:016x}"
    first, second, last = processed
    assert emission.parent is not None
    assert emission.parent.span_id == last.context.span_id
    linked = [link.context.span_id for link in emission.links]
    assert linked == [first.context.span_id, second.context.span_id]
    assert [link.context.trace_id for link in emission.links] == [1, 2]
    attributes = dict(emission.attributes or {})
    assert (attributes["logstate.contributing_records"], attributes["logstate.task"]) == (3, "0_0")


@LATER
def test_a_result_continues_the_trace_of_a_record_before_the_last_one(
    declare: Any, spans: Spans
) -> None:
    result, _ = emitted(declare, [header(1), None, None])
    sampled, emission = spans.ended()
    assert emission.parent is not None
    assert emission.parent.span_id == sampled.context.span_id
    assert not emission.links
    assert [name for name, _ in result.headers] == ["traceparent"]


@LATER
def test_a_result_of_one_record_has_no_span_of_its_own(declare: Any, spans: Spans) -> None:
    _, span_id = emitted(declare, [header(1)])
    assert spans.ids() == [span_id]


@LATER
def test_a_result_of_records_that_are_not_sampled_has_no_trace(declare: Any, spans: Spans) -> None:
    result, _ = emitted(declare, [None, header(1, flags="00"), None])
    assert not result.headers
    assert not spans.ended()


@LATER
def test_at_most_32_records_are_linked(declare: Any, spans: Spans) -> None:
    emitted(declare, [header(number) for number in range(1, 41)])
    *_, emission = spans.ended()
    assert [link.context.trace_id for link in emission.links] == list(range(8, 40))
    assert emission.context.trace_id == 40
    assert dict(emission.attributes or {})["logstate.contributing_records"] == 40


def test_the_records_of_a_result_are_forgotten_when_it_was_emitted(spans: Spans) -> None:
    with TopologyTestDriver(topology(on_commit), trace_ratio=0.0, commit_every=2) as driver:
        for number in range(1, 5):
            driver.pipe("in", "ada", "home", timestamp=1, headers=header(number))
    emissions = [span for span in spans.ended() if span.name == "emit n"]
    assert [[link.context.trace_id for link in span.links] for span in emissions] == [[1], [3]]


def test_the_number_of_keys_whose_records_wait_is_bounded() -> None:
    made = Spans()
    waiting = RecordContributors(made.provider.get_tracer("t"), "emit n", {})
    waiting.KEYS_MAX = 2
    for key in ("a", "b", "a", "c"):
        waiting.add(key, header(ord(key)))
    assert waiting.emitted("b", None) is None, "the key that waited longest was dropped"
    assert waiting.emitted("a", None) is not None
    waiting.clear()
    assert waiting.emitted("c", None) is None
    made.provider.shutdown()


def test_operators_contain_no_code_for_traces_that_are_off() -> None:
    with TopologyTestDriver(topology(on_commit)) as driver:
        assert driver.task.traces is None
        (held,) = driver.task.commit_buffered
        assert type(held) is BufferedUpdates


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


def test_a_dead_letter_of_a_record_that_began_its_trace_here_names_its_span(spans: Spans) -> None:
    def fail(_: str) -> str:
        raise ValueError("no")

    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    declared = topology(lambda stream: stream.map_values(fail, value=str).to("out"))
    with TopologyTestDriver(declared, trace_ratio=1.0, error_handlers=handlers) as driver:
        for headers in ([OTHER], None, [("traceparent", b"garbage")]):
            driver.pipe("in", "a", "b", timestamp=1, headers=headers)
        letters = written(driver, "dead")
    for span, letter in zip(spans.ended(), letters, strict=True):
        (named,) = (value for name, value in letter.headers if name == "traceparent")
        assert named is not None
        ids = named.decode().split("-")[1:3]
        assert ids == [f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"]
    assert OTHER in letters[0].headers


def test_a_dead_letter_of_a_record_that_is_not_sampled_has_its_own_headers(spans: Spans) -> None:
    def fail(value: str) -> str:
        if value == "bad":
            raise ValueError("no")
        return value

    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    declared = topology(lambda stream: stream.map_values(fail, value=str).to("out"))
    headers = [("traceparent", UNSAMPLED.encode())]
    with TopologyTestDriver(declared, trace_ratio=1.0, error_handlers=handlers) as driver:
        driver.pipe("in", "a", "good", timestamp=1)
        driver.pipe("in", "a", "bad", timestamp=1, headers=headers)
        (dead,) = written(driver, "dead")
    assert len(spans.ended()) == 1
    assert headers[0] in dead.headers


@pytest.mark.parametrize("ratio", [-0.1, 1.1, "1", True, float("nan")])
def test_a_ratio_is_from_0_to_1(ratio: Any) -> None:
    with pytest.raises(ConfigError, match="trace_ratio must be a number from 0 to 1"):
        TopologyTestDriver(topology(by_value), trace_ratio=ratio)
