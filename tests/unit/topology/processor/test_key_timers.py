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
from logstate.topology import (
    KeyTimers,
    ProcessorContext,
)
from tests.unit.topology.processor.timed_processors import Remind, Sees, calls, driver_of


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
            ((5).to_bytes(8, "big") + b"a", None),
            ((1_050).to_bytes(8, "big") + b"x", b""),
        ]


def test_a_callback_may_take_back_and_set_timers() -> None:
    class Chain(Remind):
        def remind(self, key: str, at_ms: int) -> None:
            super().remind(key, at_ms)
            self.timers.cancel("b", at_ms)
            self.timers.set(key, at_ms + 10)

    with driver_of(Chain) as driver:
        driver.pipe_all("in", [("a", 5, 0), ("b", 5, 0), ("b", 20, 0), ("x", 1_000, 30)])
        assert driver.read("out", value=int) == [
            ("a", 5),
            ("a", 15),
            ("b", 20),
            ("a", 25),
            ("b", 30),
        ]
        assert [timer for timer, _ in driver.store("timers").all()] == [
            *((35, "a"), (40, "b"), (1_030, "x"))
        ]


def test_due_timers_run_before_the_record_that_makes_them_due() -> None:
    with driver_of(Sees) as driver:
        driver.pipe_all("in", [("a", 5, 1), ("b", 9, 2), ("c", 50, 9)])
        assert calls(driver) == [
            *("a@1", "tick@1", "b@2", "!a@5/9", "!b@9/9", "c@9"),
        ]
        driver.pipe("in", "d", 99, timestamp=20)  # a schedule still runs after the record
        assert calls(driver) == ["d@20", "tick@20"]


def test_timers_of_all_keys_run_before_a_record_of_any_key() -> None:
    with driver_of(Sees) as driver:
        driver.pipe_all("in", [("b", 5, 0), ("a", 5, 0), ("c", 4, 0), ("a", 99, 5)])
        assert calls(driver) == ["b@0", "tick@0", "a@0", "c@0", "!c@4/5", "!a@5/5", "!b@5/5", "a@5"]


def test_a_late_record_runs_no_timer() -> None:
    with driver_of(Sees) as driver:
        driver.pipe_all("in", [("a", 30, 20), ("late", 3, 2), ("late", 30, 20)])
        assert calls(driver) == ["a@20", "tick@20", "late@2", "late@20"]
        driver.pipe("in", "b", 99, timestamp=21)
        assert calls(driver) == ["!late@3/21", "b@21"]


def test_a_timer_for_the_time_of_its_record_runs_after_it() -> None:
    with driver_of(Sees) as driver:
        driver.pipe_all("in", [("a", 20, 20), ("b", 7, 30)])
        assert calls(driver) == ["a@20", "tick@20", "!a@20/20", "b@30", "tick@30", "!b@7/30"]


def test_a_timer_that_sets_itself_again_waits_for_the_next_look() -> None:
    class Again(Sees):
        def due(self, key: str, at_ms: int) -> None:
            super().due(key, at_ms)
            self.timers.set(key, at_ms)
            self.timers.set(key, at_ms - 1)

    with driver_of(Again) as driver:
        driver.pipe_all("in", [("a", 5, 0), ("x", 99, 9)])
        assert calls(driver) == ["a@0", "tick@0", "!a@5/9", "x@9"]
        driver.pipe("in", "x", 99, timestamp=10)
        assert calls(driver) == ["!a@4/10", "!a@5/10", "x@10", "tick@10"]


def test_more_timers_than_are_read_ahead_run_in_order() -> None:
    with driver_of(Sees) as driver:
        count = 250
        driver.pipe_all("in", [(f"k{n % 7}", 1 + n * 37 % count, 0) for n in range(count)])
        driver.take_outputs()
        driver.pipe("in", "x", 10_000, timestamp=count)
        ran = [int(call.split("@")[1].split("/")[0]) for call in calls(driver) if call[0] == "!"]
        assert ran == list(range(1, count + 1))


def test_looks_that_are_rarer_than_records_happen_before_the_first_record_after_their_time() -> (
    None
):
    class Rarely(Sees):
        every = timedelta(milliseconds=10)

    with driver_of(Rarely) as driver:
        driver.pipe_all("in", [("a", 5, 1), ("b", 99, 9), ("c", 99, 11), ("d", 99, 12)])
        assert calls(driver) == ["a@1", "tick@1", "b@9", "!a@5/11", "c@11", "tick@11", "d@12"]


def test_timers_by_the_wall_clock_are_not_asked_before_records() -> None:
    class Later(Sees):
        kind = "wall_clock"

    with driver_of(Later) as driver:
        driver.pipe_all("in", [("a", 0, 1), ("b", 9, 20)])
        assert calls(driver) == ["a@1", "tick@1", "b@20", "tick@20"]
        driver.advance_wall_clock(1)
        assert [call.split("/")[0] for call in calls(driver)] == ["!a@0"]


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


def taken(waiting: list[tuple[int, str]], until: int) -> list[tuple[str, int]]:
    """The timers that are due, in order, which are removed."""
    due = []
    while waiting and waiting[0][0] <= until:
        at_ms, key = heapq.heappop(waiting)
        due.append((key, at_ms))
    return due


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
            is_late, stream_time = time <= stream_time, max(time, stream_time)
            if not is_late:
                expected += taken(waiting, stream_time)
            if (time + delay, key) not in waiting:
                heapq.heappush(waiting, (time + delay, key))
            if not is_late:  # a timer for the time of its record
                expected += taken(waiting, stream_time)
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


def test_a_callback_that_hides_a_coroutine_fails_for_its_timer() -> None:
    handlers = ErrorHandlers(processing=skip)
    with driver_of(calling_back(hides), error_handlers=handlers) as driver:
        driver.pipe("in", "a", 5, timestamp=0)
        driver.pipe("in", "b", 500, timestamp=10)
        assert driver.task.skipped_total == 1
        assert [timer.key for timer, _ in driver.store("timers").all()] == ["b"]
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
            self.timers.set(record.key, np.int64(record.value))

    with driver_of(Sets) as driver:
        driver.pipe_all("in", [("a", 5, 0), ("a", 99, 7)])
        assert driver.read("out", value=int) == [("a", 5)]
