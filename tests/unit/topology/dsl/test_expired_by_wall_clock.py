"""The stream of rows that expire by the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate import Processor, StreamsBuilder, TopologyTestDriver
from logstate.contracts.errors import ProcessingError
from logstate.contracts.records import Record
from logstate.task.error_handlers import Decision, ErrorHandlers, FailedRecord, retry, skip
from logstate.topology import (
    Topology,
    counter_store,
    key_value_store,
    map_store,
    set_store,
)
from tests.examples_tried import at_most

TTL_MS = 10
TTL = timedelta(milliseconds=TTL_MS)
#: event times do not matter
EVENT_TIMES = (7, 10**12)
START_MS = 1_000

Rows = list[tuple[str, int, int]]


class Keep(Processor[str, int, str, int]):
    """Puts a value that is not 0, and forwards what it found."""

    def process(self, record: Record[str, int]) -> None:
        store = self.context.store("rows")
        found = store.get(record.key)
        if record.value:
            store.put(record.key, record.value)
        self.context.forward(record.with_value(found or 0))


def values(builder: StreamsBuilder, processor: type[Keep] = Keep) -> None:
    rows = key_value_store("rows", str, int, ttl=TTL, ttl_by="wall_clock", expired="gone")
    kept = builder.stream("in", value=int).process(processor, stores=rows, key=str, value=int)
    kept.to("found")
    builder.expired("gone", key=str, value=int).to("expired")


def elements(builder: StreamsBuilder) -> None:
    rows = map_store("rows", str, str, int, ttl=TTL, ttl_by="wall_clock", expired="gone")

    class KeepElements(Processor[str, int, None, None]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store(rows).put("all", record.key, record.value)

    builder.stream("in", value=int).process(KeepElements, stores=rows)
    gone = builder.expired("gone", key=str, value=tuple[str, int])
    gone.map(lambda _, element: element, key=str, value=int).to("expired")


def built(declare: Callable[[StreamsBuilder], None]) -> Topology:
    builder = StreamsBuilder()
    declare(builder)
    return builder.build()


def driver_of(topology: Topology, **options: Any) -> TopologyTestDriver:
    return TopologyTestDriver(topology, wall_clock_start_ms=START_MS, **options)


def expired(driver: TopologyTestDriver) -> Rows:
    return driver.read_with_timestamps("expired", key=str, value=int)


@pytest.mark.parametrize("event_time", EVENT_TIMES)
@pytest.mark.parametrize("loses_disk", [None, False, True])
@pytest.mark.parametrize("declare", [values, elements])
def test_a_row_is_emitted_while_no_records_come(
    declare: Callable[[StreamsBuilder], None], loses_disk: bool | None, event_time: int
) -> None:
    with driver_of(built(declare)) as driver:
        driver.pipe("in", "b", 1, timestamp=event_time)
        driver.pipe("in", "a", 2, timestamp=event_time)
        driver.advance_wall_clock(TTL_MS - 1)
        assert not expired(driver)
        if loses_disk is not None:
            driver.crash(loses_disk=loses_disk)
        driver.advance_wall_clock(1)
        assert expired(driver) == [("a", 2, START_MS + TTL_MS), ("b", 1, START_MS + TTL_MS)]
        if loses_disk is not None:
            driver.crash(loses_disk=loses_disk)
        driver.advance_wall_clock(100)
        assert not expired(driver)
        assert not list(driver.store("rows").all())


def test_a_row_is_emitted_before_the_record_that_writes_its_key_again() -> None:
    with driver_of(built(values)) as driver:
        driver.pipe("in", "a", 1, timestamp=5)
        driver.clock.jump_wall_clock(START_MS + TTL_MS)  # no turn of an idle task before the record
        driver.pipe("in", "a", 2, timestamp=5)
        assert expired(driver) == [("a", 1, START_MS + TTL_MS)]
        assert driver.read("found", value=int) == [("a", 0), ("a", 0)]
        assert list(driver.store("rows").all()) == [("a", 2)]
        changelog = driver.changelog("app-rows-changelog")
        assert [one.value is None for one in changelog] == [False, True, False]


def test_a_counter_and_a_set_begin_again_after_what_they_had_was_emitted() -> None:
    builder = StreamsBuilder()
    by_wall_clock: Any = {"ttl": TTL, "ttl_by": "wall_clock"}
    visits = counter_store("visits", str, expired="gone-visits", **by_wall_clock)
    pages = set_store("pages", str, int, expired="gone-pages", **by_wall_clock)

    class Visit(Processor[str, int, None, None]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store(visits).add(record.key)
            self.context.store(pages).add(record.key, record.value)

    builder.stream("in", value=int).process(Visit, stores=[visits, pages])
    builder.expired("gone-visits", key=str, value=int).to("visits")
    builder.expired("gone-pages", key=str, value=int).to("pages")
    with driver_of(builder.build()) as driver:
        for at, page in ((0, 1), (4, 2), (14, 3), (99, 4)):
            driver.clock.jump_wall_clock(START_MS + at)
            driver.pipe("in", "ada", page)
        found = driver.read_with_timestamps("visits", value=int)
        assert found == [("ada", 2, START_MS + 14), ("ada", 1, START_MS + 24)]
        found = driver.read_with_timestamps("pages", value=int)
        assert [(page, at - START_MS) for _, page, at in found] == [(1, 10), (2, 14), (3, 24)]


def test_the_clock_of_the_store_stands_still_while_a_record_is_processed() -> None:
    class Slow(Keep):
        def process(self, record: Record[str, int]) -> None:
            super().process(record)
            driver.clock.jump_wall_clock(START_MS + TTL_MS)
            super().process(record.with_value(0))
            super().process(record.with_value(record.value + 1))

    with driver_of(built(lambda builder: values(builder, Slow))) as driver:
        driver.pipe("in", "a", 1)
        assert [value for _, value in driver.read("found", value=int)] == [0, 1, 1]
        assert not expired(driver)
        driver.advance_wall_clock(1)
        assert expired(driver) == [("a", 2, START_MS + TTL_MS)]


def test_a_clock_that_is_set_back_emits_no_row_again_and_none_early() -> None:
    with driver_of(built(values)) as driver:
        driver.pipe("in", "a", 1)
        driver.advance_wall_clock(TTL_MS)
        driver.clock.jump_wall_clock(START_MS)
        driver.crash(loses_disk=True)
        driver.pipe("in", "b", 2)
        driver.advance_wall_clock(TTL_MS)  # where the clock was when the row was written
        assert expired(driver) == [("a", 1, START_MS + TTL_MS)]
        driver.advance_wall_clock(TTL_MS)
        assert expired(driver) == [("b", 2, START_MS + 2 * TTL_MS)]


@pytest.mark.parametrize("needs_record", [False, True])
def test_a_look_with_a_row_that_is_retried_is_undone_and_made_again(needs_record: bool) -> None:
    failed: list[str] = []
    retried = retry(3, backoff=timedelta(milliseconds=5), then=skip)

    def handler(record: FailedRecord) -> Decision:
        failed.append(record.stage)
        return retried(record)

    def fails(value: int) -> int:
        if value == 2 and len(failed) < 2:
            raise RuntimeError(value)
        return value

    builder = StreamsBuilder()
    rows = key_value_store("rows", str, int, ttl=TTL, ttl_by="wall_clock", expired="gone")
    builder.stream("in", value=int).process(Keep, stores=rows)
    stream = builder.expired("gone", key=str, value=int)
    stream.map_values(fails, value=int).to("expired")
    with driver_of(builder.build(), error_handlers=ErrorHandlers(processing=handler)) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 2, 0)])
        driver.clock.jump_wall_clock(START_MS + TTL_MS)
        if needs_record:
            driver.pipe("in", "c", 3)
        for _ in range(6):
            driver.advance_wall_clock(5)
        assert failed == ["punctuation", "punctuation"]
        gone = expired(driver)
        assert gone[:2] == [("a", 1, START_MS + TTL_MS), ("b", 2, START_MS + TTL_MS)]
        assert [key for key, _, _ in gone[2:]] == ["c"] * needs_record


def rows_of_b_answer(answer: Callable[[], Any], handlers: ErrorHandlers) -> TopologyTestDriver:
    """A driver with three rows that a look is about to take; ``answer`` is the result of b's."""
    builder = StreamsBuilder()
    rows = key_value_store("rows", str, int, ttl=TTL, ttl_by="wall_clock", expired="gone")
    builder.stream("in", value=int).process(Keep, stores=rows)
    gone = builder.expired("gone", key=str, value=int)
    gone.map_values(lambda value: answer() if value == 2 else value, value=int).to("expired")
    driver = driver_of(builder.build(), error_handlers=handlers)
    driver.pipe_all("in", [("a", 1, 0), ("b", 2, 0), ("c", 3, 0)])
    driver.advance_wall_clock(TTL_MS - 1)
    return driver


@pytest.mark.parametrize("on_skip", ["rollback", "keep"])
def test_a_row_whose_result_is_refused_is_skipped_and_the_others_are_emitted(on_skip: Any) -> None:
    handlers = ErrorHandlers(production=skip, on_skip=on_skip)
    with rows_of_b_answer(lambda: "no integer", handlers) as driver:
        driver.advance_wall_clock(1)
        assert [key for key, _, _ in expired(driver)] == ["a", "c"]
        assert not list(driver.store("rows").all())


def test_a_row_that_a_function_fails_for_is_retried_with_the_others_and_then_skipped() -> None:
    attempts = list[int]()

    def answer() -> int:
        raise RuntimeError("never")

    def give_up(failed: FailedRecord) -> Decision:
        attempts.append(failed.attempt)
        return skip(failed)

    handlers = ErrorHandlers(processing=retry(2, backoff=timedelta(seconds=1), then=give_up))
    with rows_of_b_answer(answer, handlers) as driver:
        driver.advance_wall_clock(1)
        assert expired(driver) == []
        driver.advance_wall_clock(2_000)
        assert [key for key, _, _ in expired(driver)] == ["a", "c"]
        assert attempts == [2]
        assert not list(driver.store("rows").all())


def test_a_function_that_fails_stops_the_task_and_the_look_comes_again_after_a_restart() -> None:
    failures = [RuntimeError("not now")]

    def answer() -> int:
        if failures:
            raise failures[0]
        return 2

    with rows_of_b_answer(answer, ErrorHandlers()) as driver:
        with pytest.raises(ProcessingError, match="'expired-rows-by-wall-clock'"):
            driver.advance_wall_clock(1)
        failures.clear()
        driver.crash(loses_disk=True)
        driver.advance_wall_clock(1)
        assert [key for key, _, _ in expired(driver)] == ["a", "b", "c"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(-3, 8),
        st.sampled_from(["none", "idle", "crash", "lost disk"]),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=at_most(60))
@given(steps=STEPS)
@pytest.mark.parametrize("declare", [values, elements])
def test_each_row_that_expires_is_emitted_once_whatever_the_clock_and_crashes_do(
    declare: Callable[[StreamsBuilder], None], steps: Sequence[tuple[str, int, str]]
) -> None:
    clock, now = START_MS, -1
    rows, wanted = dict[str, tuple[int, int]](), list[tuple[str, int, int]]()

    def look() -> None:
        gone = sorted((at, key, row) for key, (row, at) in rows.items() if at + TTL_MS <= now)
        wanted.extend((key, row, at + TTL_MS) for at, key, row in gone)
        for _, key, _ in gone:
            del rows[key]

    with driver_of(built(declare)) as driver:
        for number, (key, advance, what) in enumerate(steps, 1):
            clock += advance
            driver.clock.jump_wall_clock(clock)
            now = max(now, clock)
            look()
            rows[key] = (number, now)
            driver.pipe("in", key, number)
            if what in ("crash", "lost disk"):
                driver.crash(loses_disk=what == "lost disk")
            if what == "idle":
                driver.advance_wall_clock(4)
                clock += 4
                now = max(now, clock)
                look()
        assert expired(driver) == wanted
