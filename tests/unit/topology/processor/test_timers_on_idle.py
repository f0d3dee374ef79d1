"""Timers that run while the inputs are idle."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KeyTimers,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    Topology,
    timer_store,
)

IDLE_MS, WAIT_MS = 30, 100


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


class Remind(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        self.context = context
        self.timers = KeyTimers[str](context, "timers", self.remind)

    def process(self, record: Record[str, str]) -> None:
        self.timers.set(record.value, record.timestamp + WAIT_MS)

    def remind(self, value: str, at_ms: int) -> None:
        now = self.context.current_stream_time_ms()
        self.context.forward(Record(value, f"{value} {at_ms} {now}", at_ms))
        if value.startswith("twice"):
            self.timers.set(value.removeprefix("twice"), at_ms + WAIT_MS)


def topology(idle_ms: int | None = IDLE_MS) -> Topology:
    builder = StreamsBuilder()
    orders = builder.stream("in", key=str, value=str)
    stores = timer_store("timers", str)
    reminded = orders.process(
        Remind,
        stores=stores,
        key=str,
        value=str,
        name="remind",
        close_on_idle=None if idle_ms is None else ms(idle_ms),
    )
    reminded.to("out")
    return builder.build()


def test_a_timer_runs_when_the_inputs_have_been_idle_until_its_time() -> None:
    with TopologyTestDriver(topology()) as driver:
        driver.pipe("in", "a", "x", timestamp=1_000)
        driver.advance_wall_clock(WAIT_MS - 1)
        assert driver.read("out", value=str) == []
        driver.advance_wall_clock(1)
        # Stream time of the task stays that of its records.
        assert driver.read("out", value=str) == [("x", "x 1100 1000")]
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", value=str) == []


def test_a_timer_that_a_timer_sets_runs_in_its_turn() -> None:
    with TopologyTestDriver(topology()) as driver:
        driver.pipe("in", "a", "twicex", timestamp=0)
        driver.advance_wall_clock(WAIT_MS)
        assert [key for key, _ in driver.read("out", value=str)] == ["twicex"]
        driver.advance_wall_clock(WAIT_MS)
        assert [key for key, _ in driver.read("out", value=str)] == ["x"]


def test_timers_wait_without_the_option() -> None:
    with TopologyTestDriver(topology(None)) as driver:
        driver.pipe("in", "a", "x", timestamp=0)
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", value=str) == []


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("in"), st.integers(0, 400)),
        st.tuples(st.just("wait"), st.sampled_from([1, 29, 30, 99, 100, 250])),
    ),
    max_size=20,
)


@given(events=EVENTS, crashes=st.booleans())
def test_each_timer_runs_once(events: list[tuple[str, int]], crashes: bool) -> None:
    wanted = []
    with TopologyTestDriver(topology()) as driver:
        for number, (kind, time) in enumerate(events):
            if kind == "in":
                driver.pipe("in", "a", f"v{number}", timestamp=time)
                wanted.append((f"v{number}", time + WAIT_MS))
                continue
            driver.advance_wall_clock(time)
            if crashes:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(10_000)
        found = driver.read_with_timestamps("out", value=str)
    assert sorted((key, at) for key, _, at in found) == sorted(wanted)


def test_the_idle_time_is_at_least_a_millisecond() -> None:
    with pytest.raises(TopologyError, match="close_on_idle of 'remind'"):
        topology(0)
