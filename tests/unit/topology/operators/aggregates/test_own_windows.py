"""Windows of a user's own class: what windows_for() gives is taken as it is meant, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder, Topology, Windows


class Whole:
    """A whole number of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Given(Windows):
    size_ms, grace_ms = 10, 1_000

    def __init__(self, found: Any, *, varies: bool = False) -> None:
        self.found, self.varies = found, varies

    def windows_for(self, timestamp: int) -> Any:
        return self.found


class Yielding(Given):
    def windows_for(self, timestamp: int) -> Any:
        yield from self.found


def counted(windows: Windows) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=int).group_by_key()
    counts = grouped.windowed_by(windows).count(store="n")
    counts.to_stream(lambda window, n: f"{window.start_ms}-{window.end_ms}", key=str).to("out")
    return builder.build()


@pytest.mark.parametrize(
    "windows",
    [
        Given([(0, 10), (5, 15)]),
        Given(((0, 10), (5, 15))),
        Given([[0, 10], [5, 15]]),
        Given([(Whole(0), Whole(10)), (5, 15)]),
        Yielding([(0, 10), (5, 15)]),
    ],
)
def test_a_record_is_in_each_window_that_is_given(windows: Windows) -> None:
    with TopologyTestDriver(counted(windows)) as driver:
        driver.pipe("in", "ada", 1, timestamp=7)
        assert driver.read("out", value=int) == [("0-10", 1), ("5-15", 1)]


@pytest.mark.parametrize("none", [[], (), Yielding([])])
def test_a_record_may_be_in_no_window(none: Any) -> None:
    windows = none if isinstance(none, Windows) else Given(none)
    with TopologyTestDriver(counted(windows)) as driver:
        driver.pipe("in", "ada", 1, timestamp=7)
        assert driver.read("out", value=int) == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "None, which is not a list of windows"),
        ("", "which is not a list of windows"),
        ({}, "which is not a list of windows"),
        ({(0, 10)}, "which is not a list of windows"),
        ([5], "the window 5, which is not a pair"),
        ([(0, 10, 20)], "which is not a pair"),
        ([(0, 10), (0, 10)], "a window from 0 after one from 0"),
        ([(5, 15), (0, 10)], "a window from 0 after one from 5"),
        ([(-5, 5)], "timestamp -5: event time is not negative"),
        ([(0.0, 10.0)], "the timestamp 0.0, a float"),
        ([(5, 3)], "of -2 ms for"),
    ],
)
def test_what_are_no_windows_is_a_failure_of_the_record(found: Any, told: str) -> None:
    with (
        pytest.raises(ProcessingError, match=told) as caught,
        TopologyTestDriver(counted(Given(found))) as driver,
    ):
        driver.pipe("in", "ada", 1, timestamp=7)
    assert "Given.windows_for(7) returned" in str(caught.value)
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(counted(Given(found)), error_handlers=handlers) as driver:
        driver.pipe("in", "ada", 1, timestamp=7)
        assert driver.read("out", value=int) == []


def test_a_window_that_ends_before_it_starts_is_none_where_they_vary() -> None:
    with (
        pytest.raises(ProcessingError, match="of -2 ms for"),
        TopologyTestDriver(counted(Given([(5, 3)], varies=True))) as driver,
    ):
        driver.pipe("in", "ada", 1, timestamp=7)
