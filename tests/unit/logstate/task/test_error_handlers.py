"""A record that fails is answered by a handler, and what it did is undone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import ConfigError, DeserializationError, ProcessingError
from logstate.contracts.records import Record
from logstate.task.error_handlers import (
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    fail,
    retry,
    skip,
)
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder, key_value_store
from logstate.topology.plan.plan import Topology


class CountsThenFails(Processor[str, str, str, int]):
    """Writes, forwards, schedules, and only then looks at the value."""

    fails: Callable[[str], bool] = staticmethod(lambda value: value == "bad")

    def process(self, record: Record[str, str]) -> None:
        store = self.context.store("counts")
        count = (store.get(record.key) or 0) + 1
        store.put(record.key, count)
        self.context.forward(record._replace(value=count))
        self.context.schedule(timedelta(milliseconds=5), "stream_time", self._tick)
        if self.fails(record.value):
            raise ValueError(f"cannot use {record.value}")

    def _tick(self, timestamp: int) -> None:
        self.context.forward(Record("tick", -1, timestamp))


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.add_store(key_value_store("counts", str, int))
    stream = builder.stream("in", key=str, value=str)
    stream.process(CountsThenFails, stores=("counts",), key=str, value=int).to("out")
    return builder.build()


def run(handlers: ErrorHandlers, values: list[str], topology: Topology | None = None) -> Any:
    with TopologyTestDriver(topology or counting(), error_handlers=handlers) as driver:
        for i, value in enumerate(values):
            driver.pipe("in", "k", value, timestamp=i)
        out = [(k, v) for k, v in driver.read("out", value=int) if k != "tick"]
        dead = driver.read("dead", value=str) if handlers.dead_letter_topic else []
        return out, dict(driver.store("counts").all()), dead, driver.task


def test_by_default_a_failed_record_stops_the_application() -> None:
    with pytest.raises(ProcessingError, match="cannot use bad") as caught:
        run(ErrorHandlers(), ["a", "bad", "c"])

    assert (caught.value.topic, caught.value.offset) == ("in", 1)


def test_a_skipped_record_is_rolled_back_whole() -> None:
    out, counts, _, task = run(ErrorHandlers(processing=skip), ["a", "bad", "c"])

    assert out == [("k", 1), ("k", 2)]
    assert counts == {"k": 2}
    assert task.skipped_total == 1
    assert len(task.punctuations.next_times()) == 2


def test_a_skipped_record_keeps_its_effects_on_request() -> None:
    handlers = ErrorHandlers(processing=skip, on_skip="keep")

    out, counts, _, _ = run(handlers, ["a", "bad", "c"])

    assert out == [("k", 1), ("k", 2), ("k", 3)]
    assert counts == {"k": 3}


def test_a_dead_letter_carries_the_bytes_and_the_story() -> None:
    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    with TopologyTestDriver(counting(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "a", timestamp=1)
        driver.pipe("in", "k", "bad", timestamp=2, headers=[("trace", b"x")])
        (letter,) = [r for r in driver.outputs if r.topic == "dead"]

    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"bad", 2)
    headers = dict(letter.headers or ())
    assert headers["trace"] == b"x"
    assert headers["__streams.errors.exception"] == b"builtins.ValueError"
    assert headers["__streams.errors.message"] == b"cannot use bad"
    assert headers["__streams.errors.topic"] == b"in"
    assert headers["__streams.errors.partition"] == b"0"
    assert headers["__streams.errors.offset"] == b"1"
    assert b"CountsThenFails" not in headers["__streams.errors.message"]
    assert b"test_error_handlers.py" in (headers["__streams.errors.stacktrace"] or b"")


def test_a_dead_letter_without_a_topic_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="dead_letter_topic"):
        run(ErrorHandlers(processing=dead_letter), ["bad"])


def test_bytes_that_do_not_decode_are_skipped_and_counted() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to("out")
    handlers = ErrorHandlers(deserialization=skip)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        for value in [b"\0" * 7 + b"\1", b"short", b"\0" * 7 + b"\2"]:
            driver.pipe_raw("in", b"k", value, 1)

        assert driver.read("out", value=int) == [("k", 1), ("k", 2)]
        assert (driver.skipped_total, driver.dropped_total, driver.dropped) == (1, 1, [])


def test_the_first_of_many_skipped_records_is_told_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to("out")
    with TopologyTestDriver(builder.build(), error_handlers=ErrorHandlers(skip)) as driver:
        for offset in range(3):
            driver.pipe_raw("in", b"k", b"short", offset)
        driver.advance_wall_clock(10_000)
        driver.pipe_raw("in", b"k", b"short", 4)
    first, second = (record.getMessage() for record in caplog.records)
    assert "topic='in', partition=0, offset=0" in first
    assert "is skipped: deserialization failed, error: unpack requires" in first
    assert second.endswith("(3 since the last message)")


def test_a_handler_sees_the_bytes_the_place_and_the_error() -> None:
    seen: list[FailedRecord] = []

    def remember(record: FailedRecord) -> Decision:
        seen.append(record)
        return fail(record)

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to("out")
    handlers = ErrorHandlers(deserialization=remember)
    driver = TopologyTestDriver(builder.build(), error_handlers=handlers)

    with pytest.raises(DeserializationError):
        driver.pipe_raw("in", b"k", b"short", 7)

    (record,) = seen
    assert (record.key, record.value, record.timestamp) == (b"k", b"short", 7)
    assert (record.source.topic, record.source.offset) == ("in", 0)
    assert (record.stage, record.attempt) == ("deserialization", 1)
    driver.close()


def test_retrying_bytes_that_do_not_decode_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).to("out")
    handlers = ErrorHandlers(deserialization=retry(3, backoff=timedelta(seconds=1)))
    driver = TopologyTestDriver(builder.build(), error_handlers=handlers)

    with pytest.raises(ConfigError, match="do not change"):
        driver.pipe_raw("in", b"k", b"short", 7)

    driver.close()


class FailsAtFirst(CountsThenFails):
    failures = 2

    def process(self, record: Record[str, str]) -> None:
        super().process(record)
        if record.value == "flaky" and type(self).failures > 0:
            type(self).failures -= 1
            raise TimeoutError("not yet")


def flaky() -> Topology:
    builder = StreamsBuilder()
    builder.add_store(key_value_store("counts", str, int))
    stream = builder.stream("in", key=str, value=str)
    stream.process(FailsAtFirst, stores=("counts",), key=str, value=int).to("out")
    return builder.build()


def test_a_retried_record_waits_and_is_counted_once() -> None:
    FailsAtFirst.failures = 2
    handlers = ErrorHandlers(processing=retry(5, backoff=timedelta(milliseconds=100)))
    with TopologyTestDriver(flaky(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "flaky", timestamp=1)
        driver.pipe("in", "k", "a", timestamp=2)
        assert driver.read("out", value=int) == []

        driver.advance_wall_clock(100)
        assert driver.read("out", value=int) == []
        driver.advance_wall_clock(200)  # the second wait is twice as long

        counts = [v for k, v in driver.read("out", value=int) if k != "tick"]
        assert counts == [1, 2]
        assert dict(driver.store("counts").all()) == {"k": 2}


def test_after_the_last_attempt_the_next_handler_is_asked() -> None:
    FailsAtFirst.failures = 99
    handler = retry(2, backoff=timedelta(milliseconds=100), then=skip)
    with TopologyTestDriver(flaky(), error_handlers=ErrorHandlers(processing=handler)) as driver:
        driver.pipe("in", "k", "flaky", timestamp=1)
        driver.advance_wall_clock(100)
        driver.pipe("in", "k", "a", timestamp=2)

        assert [v for k, v in driver.read("out", value=int) if k != "tick"] == [1]
        assert driver.task.skipped_total == 1


@given(st.lists(st.sampled_from(["a", "b", "bad"]), max_size=12))
def test_skipping_equals_never_having_read_the_bad_records(values: list[str]) -> None:
    skipped = run(ErrorHandlers(processing=skip), values)
    clean = run(ErrorHandlers(), [value for value in values if value != "bad"])

    assert skipped[:3] == clean[:3]


def test_dead_letters_are_told_with_their_place_and_cause_but_not_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    with TopologyTestDriver(counting(), error_handlers=handlers) as driver:
        driver.pipe_all("in", [("k", "bad", 0), ("k", "bad", 1), ("k", "bad", 2)])
        driver.advance_wall_clock(timedelta(seconds=10))
        driver.pipe("in", "k", "bad", timestamp=3)

    first, second = [r.getMessage() for r in caplog.records if "dead letter" in r.getMessage()]
    assert "topic='in', partition=0, offset=0" in first
    assert "processing failed, ValueError: cannot use bad" in first
    assert "offset=3" in second
    assert "3 since the last message" in second
