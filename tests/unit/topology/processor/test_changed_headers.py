"""Headers that a function changes are its own: those that it gets, and those that it gave."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.contracts.records import Record
from logstate.contracts.stores import ValueAndTimestamp
from logstate.task.error_handlers import (
    Action,
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    retry,
)
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder, timestamped_key_value_store

GIVEN = [("given", b"1")]


class Adds(Processor[str, str, str, str]):
    """Adds a header to the list that it gets; fails as often as it is told to."""

    failures = 0

    def process(self, record: Record[str, str]) -> None:
        assert record.headers is not None
        record.headers.append(("added", b"2"))
        if type(self).failures:
            type(self).failures -= 1
            raise OSError("away")
        self.context.forward(record)


def adding(*, failures: int = 0) -> type[Adds]:
    return type("Adding", (Adds,), {"failures": failures})


def headers_of(driver: TopologyTestDriver, topic: str) -> list[Any]:
    return [one.headers for one in driver.outputs if one.topic == topic]


def test_a_record_that_is_tried_again_has_the_headers_that_it_had() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(adding(failures=3), key=str, value=str).to("out")
    handlers = ErrorHandlers(processing=retry(5, backoff=timedelta(milliseconds=1)))
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "v", headers=GIVEN)
        for _ in range(5):
            driver.advance_wall_clock(100)
        assert headers_of(driver, "out") == [[("given", b"1"), ("added", b"2")]]


def test_a_dead_letter_has_the_headers_of_its_record() -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(adding(failures=1), key=str, value=str)
    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "v", headers=GIVEN)
        (headers,) = headers_of(driver, "dead")
    assert [one for one in headers if not one[0].startswith("__streams.")] == GIVEN


def test_a_sibling_does_not_see_what_a_processor_adds() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(adding(), key=str, value=str).to("added")
    stream.process_values(adding(), value=str).to("added-too")
    stream.to("as-it-came")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", "v", headers=GIVEN)
        more = ("added", b"2")
        assert headers_of(driver, "added") == [[*GIVEN, more]]
        assert headers_of(driver, "added-too") == [[*GIVEN, more]]
        assert headers_of(driver, "as-it-came") == [GIVEN]


def test_a_list_that_a_processor_goes_on_with_does_not_change_what_was_forwarded() -> None:
    class Numbers(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.seen: list[tuple[str, bytes | None]] = []

        def process(self, record: Record[str, str]) -> None:
            self.seen.append(("seen", record.value.encode()))
            self.context.forward(record._replace(headers=self.seen))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Numbers, key=str, value=str).to("out")
    with TopologyTestDriver(builder.build(), commit_every=3) as driver:
        driver.pipe_all("in", [("k", "a", 0), ("k", "b", 1), ("k", "c", 2)])
        assert [len(headers) for headers in headers_of(driver, "out")] == [1, 2, 3]


def test_a_list_that_a_processor_goes_on_with_does_not_change_a_row() -> None:
    class Keeps(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            assert record.headers is not None
            row = ValueAndTimestamp(record.value, record.timestamp, record.headers)
            self.context.store("rows").put(record.key, row)
            record.headers.append(("later", b"3"))

    builder = StreamsBuilder()
    rows = timestamped_key_value_store("rows", str, str, headers=True)
    builder.stream("in", key=str, value=str).process(Keeps, stores=rows, name="keeps")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", "v", headers=GIVEN)
        assert driver.store("rows").get("k").headers == GIVEN
        driver.crash(loses_disk=True)
        assert driver.store("rows").get("k").headers == GIVEN


def test_a_chooser_of_topics_does_not_change_what_is_sent() -> None:
    def choose(key: str, value: str, context: Any) -> str:
        context.headers.append(("chosen", b"4"))
        return "out"

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).to(choose)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", "v", headers=GIVEN)
        assert headers_of(driver, "out") == [GIVEN]


def test_a_handler_may_add_to_the_letter_and_not_to_the_record() -> None:
    def answer(record: FailedRecord) -> Decision:
        assert record.headers is not None
        record.headers.append(("attempt", str(record.attempt).encode()))
        return Decision(Action.RETRY if record.attempt < 3 else Action.DEAD_LETTER)

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(int, value=int).to("out")
    handlers = ErrorHandlers(processing=answer, dead_letter_topic="dead")
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "v", headers=GIVEN)
        driver.advance_wall_clock(1)
        driver.advance_wall_clock(1)
        (headers,) = headers_of(driver, "dead")
    own = [one for one in headers if not one[0].startswith("__streams.")]
    assert own == [*GIVEN, ("attempt", b"3")]
