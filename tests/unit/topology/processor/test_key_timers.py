"""Timers per key."""

from __future__ import annotations

import functools
import heapq
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import ProcessingError, TopologyError
from logstate.contracts.records import Record
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KeyTimers,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    timer_store,
)


class Remind(Processor[str, int, str, int]):
    """Sets a timer ``value`` ms after a record; a negative value takes back the one at -value."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.timers: KeyTimers[str] = KeyTimers(context, "timers", self.remind)

    def process(self, record: Record[str, int]) -> None:
        if record.value < 0:
            self.timers.cancel(record.key, -record.value)
        else:
            self.timers.set(record.key, record.timestamp + record.value)

    def remind(self, key: str, at_ms: int) -> None:
        self.context.forward(Record(key, at_ms, at_ms))


def driver_of(supplier: Any = Remind, **settings: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    timers = timer_store("timers", str)
    stream.process(supplier, stores=timers, key=str, value=int, name="remind").to("out")
    return TopologyTestDriver(builder.build(), **settings)


def test_due_timers_run_by_time_and_then_by_key() -> None:
    with driver_of() as driver:
        driver.pipe_all("in", [("b", 10, 0), ("a", 10, 0), ("c", 5, 0), ("d", 90, 1)])
        assert driver.read("out", value=int) == []
        driver.pipe("in", "x", 1_000, timestamp=10)
        assert driver.read("out", value=int) == [("c", 5), ("a", 10), ("b", 10)]


def test_a_key_may_have_several_timers_and_the_same_one_once() -> None:
    with driver_of() as driver:
        driver.pipe_all("in", [("a", 5, 0), ("a", 7, 0), ("a", 5, 0), ("x", 0, 50)])
        assert driver.read("out", value=int) == [("a", 5), ("a", 7), ("x", 50)]


def test_a_timer_that_was_taken_back_does_not_run() -> None:
    with driver_of() as driver:
        driver.pipe_all("in", [("a", 5, 0), ("a", 7, 0), ("a", -5, 0), ("a", -99, 0)])
        driver.pipe("in", "x", 1_000, timestamp=50)
        assert driver.read("out", value=int) == [("a", 7)]


def test_timers_are_logged_by_time_and_key() -> None:
    with driver_of() as driver:
        driver.pipe_all("in", [("a", 5, 0), ("x", 1_000, 50)])
        logged = driver.changelog("app-timers-changelog")
        assert [(r.key, r.value) for r in logged] == [
            ((5).to_bytes(8, "big") + b"a", b""),
            ((1_050).to_bytes(8, "big") + b"x", b""),
            ((5).to_bytes(8, "big") + b"a", None),
        ]


def test_a_callback_may_take_back_and_set_timers() -> None:
    class Chain(Remind):
        def remind(self, key: str, at_ms: int) -> None:
            super().remind(key, at_ms)
            self.timers.cancel("b", at_ms)
            self.timers.set(key, at_ms + 10)

    with driver_of(Chain) as driver:
        driver.pipe_all("in", [("a", 5, 0), ("b", 5, 0), ("x", 1_000, 50)])
        assert driver.read("out", value=int) == [("a", 5)]
        driver.pipe("in", "x", 1_000, timestamp=51)  # what was overdue when it was set
        assert driver.read("out", value=int) == [("a", 15)]


def test_timers_by_the_wall_clock_need_no_records() -> None:
    class Later(Remind):
        def init(self, context: ProcessorContext) -> None:
            self.context = context
            second = timedelta(seconds=1)
            self.timers = KeyTimers(context, "timers", self.remind, kind="wall_clock", every=second)

    with driver_of(Later) as driver:
        driver.pipe("in", "a", 1_500)
        driver.advance_wall_clock(1_000)
        assert driver.read("out", value=int) == []
        driver.crash()
        driver.advance_wall_clock(1_000)
        assert driver.read("out", value=int) == [("a", 1_500)]


def test_a_time_before_the_epoch_is_refused() -> None:
    class Wrong(Remind):
        def process(self, record: Record[str, int]) -> None:
            self.timers.set(record.key, -1)

    with driver_of(Wrong) as driver, pytest.raises(Exception, match="set for -1 ms"):
        driver.pipe("in", "a", 1)


RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 60)), max_size=25
)


@given(records=RECORDS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 24))
def test_every_timer_runs_once_as_soon_as_stream_time_has_reached_it(
    records: list[tuple[str, int, int]], commit_every: int, crash_at: int
) -> None:
    waiting: list[tuple[int, str]] = []
    expected: list[tuple[str, int]] = []
    stream_time = -1
    with driver_of(commit_every=commit_every) as driver:
        for number, (key, delay, time) in enumerate(records):
            driver.pipe("in", key, delay, timestamp=time)
            if (time + delay, key) not in waiting:
                heapq.heappush(waiting, (time + delay, key))
            if time > stream_time:  # looks happen when stream time moves
                stream_time = time
                while waiting and waiting[0][0] <= stream_time:
                    at_ms, due = heapq.heappop(waiting)
                    expected.append((due, at_ms))
            if number == crash_at:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(0)  # commits
        assert driver.read("out", value=int) == expected
        assert len(list(driver.store("timers").all())) == len(waiting)


async def awaited(key: str, at_ms: int) -> None: ...


def yielding(key: str, at_ms: int) -> Any:
    yield key


def hides(key: str, at_ms: int) -> Any:
    return awaited(key, at_ms)


def calling_back(callback: Any) -> type[Remind]:
    class Calls(Remind):
        def init(self, context: ProcessorContext) -> None:
            self.context = context
            self.timers = KeyTimers(context, "timers", callback)

    return Calls


@pytest.mark.parametrize(
    ("callback", "found"),
    [
        (awaited, "coroutine function"),
        (functools.partial(awaited), "coroutine function"),
        (yielding, "generator function"),
        (lambda key: key, "too many positional"),
        (None, "must be a function of"),
    ],
)
def test_a_callback_whose_call_does_nothing_is_refused(callback: Any, found: str) -> None:
    with pytest.raises(TopologyError, match="timer callback") as refused:
        driver_of(calling_back(callback))
    assert found in str(refused.value)
    assert "test_key_timers.py" in str(refused.value)


def test_a_callback_that_hides_a_coroutine_keeps_its_timer() -> None:
    handlers = ErrorHandlers(processing=skip)
    with driver_of(calling_back(hides), error_handlers=handlers) as driver:
        driver.pipe("in", "a", 5, timestamp=0)
        driver.pipe("in", "b", 500, timestamp=10)
        assert driver.task.skipped_total == 1
        assert [timer.key for timer, _ in driver.store("timers").all()] == ["a", "b"]
    with driver_of(calling_back(hides)) as driver:
        driver.pipe("in", "a", 5, timestamp=0)
        with pytest.raises(
            ProcessingError, match=r"the timer callback hides at .* of which nothing"
        ):
            driver.pipe("in", "b", 500, timestamp=10)


@pytest.mark.parametrize("at_ms", [1.5, None, "5", True, 2**63, -1, timedelta(seconds=1)])
def test_a_time_that_no_record_can_have_is_no_timer_s(at_ms: Any) -> None:
    for call in ("set", "cancel"):

        class Sets(Remind):
            def process(self, record: Record[str, int]) -> None:
                getattr(self.timers, call)(record.key, at_ms)  # noqa: B023  called before the next

        with (
            driver_of(Sets) as driver,
            pytest.raises(ProcessingError, match=r"KeyTimers was given|a timer was set for"),
        ):
            driver.pipe("in", "a", 0)


def test_numpys_time_is_a_timer_s() -> None:
    class Sets(Remind):
        def process(self, record: Record[str, int]) -> None:
            self.timers.set(record.key, np.int64(5))

    with driver_of(Sets) as driver:
        driver.pipe_all("in", [("a", 0, 0), ("a", 0, 7)])
        assert driver.read("out", value=int) == [("a", 5)]
