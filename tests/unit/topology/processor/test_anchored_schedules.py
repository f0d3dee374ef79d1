"""Schedules that begin at a given time (KIP-1146), by both clocks, as processors make them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from logstate import ProcessingError, Processor, Record, StreamsBuilder, TopologyTestDriver
from logstate.topology import ValueTransformer
from logstate.topology.plan.plan import Topology

TEN = timedelta(milliseconds=10)


def ticking(kind: str, start: Any, made_in: str = "init") -> Topology:
    class Ticking(Processor[str, str, str, int]):
        """Forwards the time of each call."""

        def init(self, context: Any) -> None:
            self.context = context
            self.schedule = self.nothing
            make = lambda: context.schedule(TEN, kind, self.tick, start=start)  # noqa: E731
            if made_in == "init":
                make()
            else:
                self.schedule = make

        def nothing(self) -> None: ...

        def tick(self, now: int) -> None:
            self.context.forward(Record("tick", now, now))

        def process(self, record: Record[str, str]) -> None:
            self.schedule()
            self.schedule = self.nothing

    builder = StreamsBuilder()
    builder.stream("in", value=str).process(Ticking, key=str, value=int, name="tick").to("out")
    return builder.build()


def calls(driver: TopologyTestDriver) -> list[int]:
    return [now for _, now in driver.read("out", value=int)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (123, [123, 133, 143]),  # waits for its anchor, then keeps the grid
        (0, [110, 120, 130, 140]),
        (5, [105, 115, 125, 135, 145]),  # over: the next point of its grid
        (101, [101, 111, 121, 131, 141]),
    ],
)
def test_a_wall_clock_schedule_lies_on_the_grid_of_its_start(
    start: int, expected: list[int]
) -> None:
    topology = ticking("wall_clock", start)
    with TopologyTestDriver(topology, wall_clock_start_ms=101) as driver:
        driver.advance_wall_clock(0)
        for _ in range(44):
            driver.advance_wall_clock(1)
        assert calls(driver) == expected


@pytest.mark.parametrize(
    ("start", "made_in", "expected"),
    [
        (123, "init", [123, 133, 143]),
        (
            5,
            "init",
            [101, 105, 115, 125, 135, 145],
        ),  # over with the first record: due then
        (123, "process", [123, 133, 143]),
        (5, "process", [105, 115, 125, 135, 145]),
        (101, "process", [101, 111, 121, 131, 141]),
    ],
)
def test_a_stream_time_schedule_lies_on_the_grid_of_its_start(
    start: int, made_in: str, expected: list[int]
) -> None:
    with TopologyTestDriver(ticking("stream_time", start, made_in)) as driver:
        for time in range(101, 146):
            driver.pipe("in", "k", "v", timestamp=time)
        assert calls(driver) == expected


def advance_stream_time(driver: TopologyTestDriver) -> None:
    driver.pipe("in", "k", "v", timestamp=137)


def advance_wall_clock(driver: TopologyTestDriver) -> None:
    driver.pipe("in", "k", "v", timestamp=1)
    driver.advance_wall_clock(137)


@pytest.mark.parametrize(
    ("kind", "advance"), [("stream_time", advance_stream_time), ("wall_clock", advance_wall_clock)]
)
def test_the_grid_survives_a_crash_and_missed_points_are_one_call(
    kind: str, advance: Callable[[TopologyTestDriver], None]
) -> None:
    with TopologyTestDriver(ticking(kind, 25)) as driver:
        advance(driver)
        assert calls(driver) == [137]
        driver.crash()
        for time in (144, 145, 154, 155):
            driver.pipe("in", "k", "v", timestamp=time)
            driver.advance_wall_clock(time - driver.clock.wall_clock_ms())
        assert calls(driver) == [145, 155]


@pytest.mark.parametrize("kind", ["stream_time", "wall_clock"])
@pytest.mark.parametrize(
    ("start", "complaint"),
    [
        (datetime(2025, 1, 1, tzinfo=UTC), r"moment.timestamp\(\) \* 1000"),
        (1.5, "an int, in ms since the epoch"),
        (-1, "not negative"),
    ],
)
def test_a_start_that_is_no_time_is_refused_with_what_to_write(
    kind: str, start: Any, complaint: str
) -> None:
    with pytest.raises(ProcessingError, match=complaint):
        TopologyTestDriver(ticking(kind, start))


class Timed(ValueTransformer[str, str, str]):
    """Counts calls of an anchored schedule."""

    def init(self, context: Any) -> None:
        self.seen: list[int] = []
        context.schedule(TEN, "stream_time", self.seen.append, start=123)

    def transform(self, key: str, value: str | None) -> str | None:
        return value and f"{value} {self.seen}"


def test_a_transformer_may_anchor_one_too() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", value=str, store="rows")
    table.transform_values(Timed, value=str, name="timed").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("k", "a", 122), ("k", "b", 123), ("k", "c", 124)])
        assert driver.read("out", value=str) == [("k", "a []"), ("k", "b []"), ("k", "c [123]")]
