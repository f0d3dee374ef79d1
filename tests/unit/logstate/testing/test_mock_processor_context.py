"""A processor on its own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import StoreError, TopologyError
from logstate.contracts.records import Record, RecordMetadata, TaskId
from logstate.testing import MockProcessorContext, TopologyTestDriver
from logstate.topology import (
    Processor,
    ProcessorContext,
    StreamsBuilder,
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)

SECOND = timedelta(seconds=1)


class Ticking(Processor[str, int, str, int]):
    """Counts, tells the counts each second, and asks for a commit for every tenth value."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.counts = context.store("counts")
        self.schedule = context.schedule(SECOND, "wall_clock", self.tell, start=3)

    def process(self, record: Record[str, int]) -> None:
        self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)
        if record.value % 10 == 0:
            self.context.commit()
            self.schedule.cancel()

    def tell(self, timestamp: int) -> None:
        for key, count in self.counts.all():
            self.context.forward(Record(key, count, timestamp), "counts")


def ticking() -> tuple[Ticking, MockProcessorContext]:
    context = MockProcessorContext(stores=[key_value_store("counts", str, int)])
    processor = Ticking()
    processor.init(context)
    return processor, context


def test_forwarded_records_and_their_child_are_written_down() -> None:
    processor, context = ticking()
    for key in "aba":
        processor.process(Record(key, 1, 0))
    assert context.forwarded == []
    (schedule,) = context.schedules
    schedule.callback(1_000)
    expected = [(Record("a", 2, 1_000), "counts"), (Record("b", 1, 1_000), "counts")]
    assert context.take_forwarded() == expected
    assert context.forwarded == []


def test_schedules_and_commits_are_written_down() -> None:
    processor, context = ticking()
    (schedule,) = context.schedules
    assert (schedule.interval, schedule.kind, schedule.start) == (SECOND, "wall_clock", 3)
    processor.process(Record("a", 5, 0))
    assert (context.commit_requests, schedule.is_cancelled) == (0, False)
    processor.process(Record("a", 10, 0))
    assert (context.commit_requests, schedule.is_cancelled) == (1, True)


def test_clocks_and_the_place_of_the_record_are_what_the_test_says() -> None:
    context = MockProcessorContext(task_id=TaskId(1, 2), application_id="shop", wall_clock_ms=7)
    assert (context.application_id, context.task_id, context.partition) == ("shop", TaskId(1, 2), 2)
    assert (context.current_stream_time_ms(), context.current_system_time_ms()) == (-1, 7)
    assert context.record_metadata() is None
    context.stream_time_ms, context.metadata = 50, RecordMetadata("in", 2, 9)
    assert context.current_stream_time_ms() == 50
    assert context.record_metadata() == ("in", 2, 9)


def test_stores_of_every_kind_are_real() -> None:
    context = MockProcessorContext(
        stores=[
            key_value_store("plain", str, int),
            timestamped_key_value_store("rows", str, int),
            window_store("windows", str, int, size=SECOND, retention=SECOND),
            session_store("sessions", str, int, retention=SECOND),
            versioned_store("versions", str, int, history=SECOND),
        ]
    )
    context.store("windows").put("a", 1, 5_000)
    context.store("windows").put("a", 2, 100)  # expired
    assert list(context.store("windows").fetch_range("a", 0, 9_000)) == [(5_000, 1)]
    context.store("versions").put("a", 1, 10)
    assert context.store("versions").get("a").value == 1
    assert [context.store(name).get("a") for name in ("plain", "rows")] == [None, None]
    assert list(context.store("sessions").find_sessions("a", 0, 9)) == []


def test_a_store_that_was_not_given_is_named() -> None:
    with pytest.raises(StoreError, match="'counts'; the context was made with: none"):
        MockProcessorContext().store("counts")


def test_a_negative_timestamp_is_refused_as_in_a_task() -> None:
    record: Record[Any, Any] = Record("a", 1, -1)
    with pytest.raises(ValueError, match="timestamp -1"):
        MockProcessorContext().forward(record)


def test_it_is_a_processor_context() -> None:
    def takes(context: ProcessorContext) -> str:
        return context.application_id

    assert takes(MockProcessorContext()) == "app"


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (("a", "b", 1), r"forwarded \('a', 'b', 1\) \(tuple\), which is not a Record"),
        ("abcd", "the timestamp 'c', a str"),
        (Record("a", "b", 1.5), "the timestamp 1.5, a float"),
        (Record("a", "b", 1, {"x": "y"}), r"the headers \{'x': 'y'\}, a dict"),
        (Record("a", "b", 1, [("x", "y")]), "the header 'x' with the value 'y', a str"),
    ],
)
def test_what_a_task_could_not_forward_is_refused_here_too(record: Any, told: str) -> None:
    context = MockProcessorContext()
    for child in (None, "counts"):
        with pytest.raises(TypeError, match=told):
            context.forward(record, child)
    assert context.forwarded == []


def test_a_callback_or_a_start_that_a_task_would_refuse_is_refused_here_too() -> None:
    context = MockProcessorContext()
    nothing: Any = lambda: None  # noqa: E731
    with pytest.raises(TopologyError, match=r"scheduled callback .* Accepted: \(timestamp\)"):
        context.schedule(SECOND, "wall_clock", nothing)
    start: Any = 1.5
    with pytest.raises(TypeError, match=r"schedule\(\) got as start= the timestamp 1.5"):
        context.schedule(SECOND, "wall_clock", print, start=start)
    assert context.schedules == []


def test_stores_are_given_by_declarations_of_which_one_may_come_alone() -> None:
    context = MockProcessorContext(stores=timestamped_key_value_store("rows", str, int))
    with pytest.raises(TypeError, match="Store 'rows' was given a row without a timestamp"):
        context.store("rows").put("a", 5)
    for wrong in ("rows", ["rows"], [key_value_store("plain", str, int), "rows"]):
        with pytest.raises(
            TopologyError, match=r"takes declarations, found the name 'rows': .* Give"
        ):
            MockProcessorContext(stores=wrong)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match=r"stores= takes names of stores, or declarations .* 5"):
        MockProcessorContext(stores=[5])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("interval", "kind", "told"),
    [
        (5, "wall_clock", "interval must be a timedelta, found 5"),
        (timedelta(0), "wall_clock", "interval must be at least 1 ms"),
        (SECOND, "wallclock", "kind must be 'stream_time' or 'wall_clock', found 'wallclock'"),
    ],
)
def test_a_schedule_is_refused_alike_by_the_mock_and_by_the_real_context(
    interval: Any, kind: Any, told: str
) -> None:
    class Eager(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.schedule(interval, kind, print)

        def process(self, record: Any) -> None: ...

    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Eager)
    with pytest.raises(TopologyError, match=told):
        TopologyTestDriver(builder.build())
    with pytest.raises(TopologyError, match=told):
        Eager().init(MockProcessorContext())


def test_rows_expire_by_the_stream_time_that_the_test_sets() -> None:
    context = MockProcessorContext(stores=[key_value_store("seen", str, int, ttl=SECOND)])
    seen = context.store("seen")
    seen.put("ada", 1)
    context.stream_time_ms = 999
    assert seen.get("ada") == 1
    context.stream_time_ms = 1_000
    assert seen.get("ada") is None
