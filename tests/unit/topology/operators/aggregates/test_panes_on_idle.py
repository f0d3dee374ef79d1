"""Panes that are sent while the inputs are idle."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.pane import Pane
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    early,
)
from logstate.topology.dsl.panes import Early
from tests.unit.topology.operators.aggregates.pane_model import ModelWindow, panes_of

IDLE_MS, SIZE, GRACE = 30, 10, 7


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


IDLE, GRACE_TIME = ms(IDLE_MS), ms(GRACE)
WINDOWS: dict[str, Any] = {
    "tumbling": TumblingWindows(size=ms(SIZE), grace=GRACE_TIME, close_on_idle=IDLE),
    "no grace": TumblingWindows(size=ms(SIZE), close_on_idle=IDLE),
    "long": TumblingWindows(size=ms(100), grace=ms(50), close_on_idle=IDLE),
    "hopping": HoppingWindows(size=ms(SIZE), advance=ms(4), grace=GRACE_TIME, close_on_idle=IDLE),
    "sliding": SlidingWindows(difference=ms(SIZE), grace=GRACE_TIME, close_on_idle=IDLE),
    "sessions": SessionWindows(gap=ms(3), grace=GRACE_TIME, close_on_idle=IDLE),
}
#: windows without the option
WITHOUT = TumblingWindows(size=ms(SIZE), grace=GRACE_TIME)
TRIGGERS = {"none": None, "every": early(every=ms(3)), "records": early(records=2)}
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.integers(0, 150)),
        st.tuples(st.just("wait"), st.sampled_from([1, 10, 29, 30, 31, 60, 200])),
        st.tuples(st.just("crash"), st.integers(0, 1)),
    ),
    max_size=25,
)
Events = list[tuple[str, int]]
Panes = dict[str, list[Pane[int]]]


def counted(builder: StreamsBuilder, windows: Any) -> KTable[Any, int]:
    groups = builder.stream("in", value=int).group_by_key().windowed_by(windows)
    table = groups.count(store=Materialized("n", retention=timedelta(days=1)), late="late")
    late = builder.late("late", key=str, value=int)
    late.map(lambda _, one: (shown(one.window), 1), key=str, value=int).to("late")
    return table


def shown(window: Any) -> str:
    return f"{window.key}@{window.start_ms}-{window.end_ms}"


@cache
def topology(windows: str, trigger: str) -> Topology:
    builder = StreamsBuilder()
    panes = counted(builder, WINDOWS[windows]).to_pane_stream(TRIGGERS[trigger], name="panes")
    panes.select_key(lambda window, _: shown(window), key=str).to("panes")
    return builder.build()


def read(driver: TopologyTestDriver) -> Panes:
    found: Panes = {}
    for key, pane in driver.read("panes", key=str, value=Pane[int]):
        found.setdefault(key, []).append(pane)
    return found


class Model:
    """Tumbling windows by definition: all of them are looked at for everything that happens."""

    def __init__(self, windows: TumblingWindows, trigger: Early | None) -> None:
        self.windows, self.trigger = windows, trigger
        self.now = self.since = 0
        self.time = self.base = self.ticked = -1
        self.found: dict[str, ModelWindow] = {}
        self.late: list[tuple[str, int]] = []

    def record(self, key: str, timestamp: int) -> None:
        self.advance(max(self.time, timestamp))
        start = timestamp // self.windows.size_ms * self.windows.size_ms
        end = start + self.windows.size_ms
        name = f"{key}@{start}-{end}"
        if end + self.windows.grace_ms <= self.time:
            self.late.append((name, 1))
        else:
            self.found.setdefault(name, ModelWindow(end, self.time)).update(self.time, self.trigger)
        self.begin()

    def begin(self) -> None:
        """Begin an idle time."""
        self.since, self.base = self.now, self.time

    def wait(self, by: int) -> None:
        self.now += by
        limit = self.base + self.now - self.since
        if self.time < 0 or self.now - self.since < IDLE_MS:
            return
        if self.time != self.ticked:
            self.ticked = self.base + IDLE_MS
            self.advance(self.ticked)
        while due := [at for one in self.found.values() for at in one.times() if at <= limit]:
            self.ticked = max(due)
            self.advance(self.ticked)

    def advance(self, time: int) -> None:
        self.time = time
        for window in self.found.values():
            window.advance(time)

    def panes(self) -> Panes:
        return panes_of(self.found)


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("name", ["tumbling", "no grace", "long"])
@given(events=EVENTS)
def test_panes_on_idle_inputs_are_those_of_the_model(
    name: str, trigger: str, events: Events
) -> None:
    model = Model(WINDOWS[name], TRIGGERS[trigger])
    with TopologyTestDriver(topology(name, trigger)) as driver:
        for kind, number in events:
            if kind == "wait":
                driver.advance_wall_clock(number)
                model.wait(number)
            elif kind == "crash":
                driver.crash(loses_disk=number == 0)
                model.begin()
            else:
                driver.pipe("in", kind, 1, timestamp=number)
                model.record(kind, number)
        assert driver.read("late", key=str, value=int) == model.late
        assert read(driver) == model.panes()
        assert driver.task.time_cell("observed:n").time == model.time


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("windows", WINDOWS)
@given(events=EVENTS, commit_every=st.integers(1, 4))
def test_every_window_has_one_pane_on_time_and_numbers_have_no_gaps(
    windows: str, trigger: str, events: Events, commit_every: int
) -> None:
    with TopologyTestDriver(topology(windows, trigger), commit_every=commit_every) as driver:
        for kind, number in events:
            if kind == "wait":
                driver.advance_wall_clock(number)
            elif kind == "crash":
                driver.crash(loses_disk=number == 0)
            else:
                driver.pipe("in", kind, 1, timestamp=number)
        driver.advance_wall_clock(200)
        driver.advance_wall_clock(timedelta(days=1))
        found, late = read(driver), driver.read("late", key=str, value=int)
        driver.advance_wall_clock(timedelta(days=1))
        assert read(driver) == {}

    for key, panes in found.items():
        assert [pane.number for pane in panes] == list(range(len(panes))), key
        assert [pane.old for pane in panes] == [None, *(pane.value for pane in panes[:-1])], key
        timings = Counter(pane.timing for pane in panes)
        is_only_late = panes[0].timing == "late"
        has_value = panes[-1].value is not None
        assert timings["on_time"] == int(not is_only_late) or not has_value, key
    if isinstance(WINDOWS[windows], TumblingWindows):
        last = sum(panes[-1].value or 0 for panes in found.values())
        assert last + len(late) == sum(kind in ("a", "b") for kind, _ in events)


def test_all_of_twelve_windows_have_their_pane_on_time_without_a_later_record() -> None:
    with TopologyTestDriver(topology("tumbling", "none")) as driver:
        driver.pipe_all("in", [(f"k{number}", 1, 7) for number in range(12)])
        driver.advance_wall_clock(IDLE_MS - 1)
        assert read(driver) == {}
        driver.advance_wall_clock(1)
        assert len(read(driver)) == 12


def test_a_record_after_the_tick_is_a_late_pane_and_one_after_the_grace_is_dropped() -> None:
    with TopologyTestDriver(topology("long", "none")) as driver:
        driver.pipe("in", "a", 1, timestamp=7)
        driver.advance_wall_clock(timedelta(hours=8))
        driver.pipe("in", "a", 1, timestamp=8)
        driver.pipe("in", "a", 1, timestamp=149)
        driver.pipe("in", "a", 1, timestamp=9)
        driver.pipe("in", "a", 1, timestamp=150)
        driver.pipe("in", "a", 1, timestamp=10)
        assert read(driver)["a@0-100"] == [
            Pane(1, None, "on_time", 0),
            Pane(2, 1, "late", 1),
            Pane(3, 2, "late", 2),
        ]
        assert driver.read("late", key=str, value=int) == [("a@0-100", 1)]


def test_a_record_is_dropped_when_the_row_of_its_panes_was_deleted() -> None:
    with TopologyTestDriver(topology("long", "none")) as driver:
        driver.pipe_all("in", [("a", 1, 95), ("a", 1, 101)])
        driver.advance_wall_clock(99)
        driver.pipe("in", "a", 1, timestamp=50)
        assert read(driver)["a@0-100"] == [Pane(1, None, "on_time", 0)]
        assert driver.read("late", key=str, value=int) == [("a@0-100", 1)]


def test_nothing_is_sent_within_a_day_without_the_option() -> None:
    builder = StreamsBuilder()
    panes = counted(builder, WITHOUT).to_pane_stream(name="panes")
    panes.select_key(lambda window, _: shown(window), key=str).to("panes")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1, timestamp=7)
        driver.advance_wall_clock(timedelta(days=1))
        assert read(driver) == {}


def test_the_option_of_the_builder_applies_to_panes() -> None:
    builder = StreamsBuilder(close_on_idle=IDLE)
    panes = counted(builder, WITHOUT).to_pane_stream(name="panes")
    panes.select_key(lambda window, _: shown(window), key=str).to("panes")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1, timestamp=7)
        driver.advance_wall_clock(IDLE_MS)
        assert read(driver) == {"a@0-10": [Pane(1, None, "on_time", 0)]}


def test_windows_below_wait_until_no_window_above_waits_for_its_pane() -> None:
    builder = StreamsBuilder()
    panes = counted(builder, WINDOWS["long"]).to_pane_stream(name="panes")
    users = panes.filter(lambda pane: pane.timing == "on_time").select_key(
        lambda window, _: window.key, key=str
    )
    below = users.repartition(name="by-user").group_by_key().windowed_by(WINDOWS["no grace"])
    counts = below.count(store="below", emit="close", late="late-below")
    counts.to_stream(lambda window, _: shown(window), key=str).to("out")
    late = builder.late("late-below", key=str, value=Pane[int])
    late.map_values(lambda one: one.by_ms, value=int).to("late-below")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1, timestamp=7)
        for _ in range(100 - 7 + IDLE_MS):
            driver.advance_wall_clock(1)
        assert driver.read("out", value=int) == []
        driver.advance_wall_clock(1)
        assert driver.read("out", value=int) == [("a@0-10", 1)]
        driver.pipe("in", "a", 1, timestamp=8)
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", value=int) == []
        assert driver.read("late-below", value=int) == []
