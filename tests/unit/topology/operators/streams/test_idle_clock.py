from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.processing import IdleTime, TimeCell
from logstate.contracts.record_parts import TIMESTAMP_MAX
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
)
from logstate.topology.operators.streams.idle_clock import IdleClock, Waiting

IDLE_MS = 30


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


@dataclass
class Bench:
    """A clock over rows that are due at some times."""

    due: list[int] = field(default_factory=list)
    look_interval_ms: int = 0
    observed: TimeCell = field(default_factory=TimeCell)
    ticked: TimeCell = field(default_factory=TimeCell)
    emitted: list[tuple[int, list[int]]] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        waiting = Waiting(lambda: iter(self.due), self._last_due, self._emit)
        self.clock = IdleClock(self.observed, self.ticked, IDLE_MS, waiting, self.look_interval_ms)

    def _last_due(self, limit: int) -> int | None:
        self.looks += 1
        return max((time for time in self.due if time <= limit), default=None)

    def _emit(self, time: int) -> None:
        self.emitted.append((time, sorted(one for one in self.due if one <= time)))
        self.due = [one for one in self.due if one > time]

    def tick(self, now_ms: float, since_ms: float = 0.0) -> int:
        idle = IdleTime(since_ms, now_ms)
        if self.clock.is_due(idle):
            self.clock.tick(idle)
        return self.observed.time


def test_stream_time_advances_to_the_newest_event_time_plus_the_idle_time() -> None:
    bench = Bench(due=[110, 130, 131])
    bench.observed.time = 100
    assert bench.tick(29.9) == 100
    assert bench.tick(30.4) == 130
    assert bench.emitted == [(130, [110, 130])]


def test_afterwards_it_advances_only_to_what_becomes_due_and_never_faster_than_the_clock() -> None:
    bench = Bench(due=[150, 180])
    bench.observed.time = 100
    assert [bench.tick(now) for now in (30, 49, 50, 79, 81, 10_000)] == [
        130,
        130,
        150,
        150,
        180,
        180,
    ]


def test_it_does_not_advance_before_the_first_record() -> None:
    bench = Bench(due=[0])
    assert bench.tick(1_000) == -1
    assert bench.emitted == []


def test_a_new_idle_period_counts_from_its_own_start_and_the_newest_event_time() -> None:
    bench = Bench()
    bench.observed.time = 100
    assert bench.tick(30) == 130
    bench.observed.time = 140
    assert bench.tick(60, since_ms=40) == 140
    assert bench.tick(70, since_ms=40) == 170


def test_an_older_record_does_not_repeat_the_first_step() -> None:
    bench = Bench()
    bench.observed.time = 100
    assert bench.tick(30) == 130
    bench.due = [135]
    assert bench.tick(99, since_ms=70) == 130
    assert bench.tick(100, since_ms=70) == 135


def test_the_first_step_is_not_repeated_after_a_restart() -> None:
    before = Bench()
    before.observed.time = 100
    before.tick(30)
    after = Bench(observed=TimeCell(130), ticked=TimeCell(130), due=[170])
    assert [after.tick(now, since_ms=5) for now in (36, 44, 45)] == [130, 130, 170]


def test_a_record_of_a_schedule_begins_a_new_wait() -> None:
    bench = Bench()
    bench.observed.time = 100
    assert bench.tick(20) == 100
    bench.observed.time = 120
    assert bench.tick(40) == 120
    assert bench.tick(69) == 120
    assert bench.tick(70) == 150


def test_what_was_closed_by_a_record_but_not_emitted_yet_is_emitted() -> None:
    bench = Bench(due=[90], observed=TimeCell(100), ticked=TimeCell(100))
    assert bench.tick(29) == 100
    assert bench.tick(30) == 100
    assert bench.emitted == [(100, [90])]


def test_the_store_is_searched_at_most_once_per_interval() -> None:
    bench = Bench(look_interval_ms=1_000, observed=TimeCell(100), ticked=TimeCell(100))
    for now in range(30, 2_030, 100):
        bench.tick(now)
    assert bench.looks == 2


def test_stream_time_has_a_largest_value() -> None:
    bench = Bench(observed=TimeCell(TIMESTAMP_MAX - 5))
    assert bench.tick(30) == TIMESTAMP_MAX
    assert bench.tick(10**6) == TIMESTAMP_MAX


# ---------------------------------------------------------------------- windows

WINDOWS: dict[str, Any] = {
    "tumbling": TumblingWindows(size=ms(10), grace=ms(5), close_on_idle=ms(IDLE_MS)),
    "hopping": HoppingWindows(size=ms(10), advance=ms(4), grace=ms(3), close_on_idle=ms(IDLE_MS)),
    "sliding": SlidingWindows(difference=ms(10), grace=ms(3), close_on_idle=ms(IDLE_MS)),
    "session": SessionWindows(gap=ms(10), grace=ms(3), close_on_idle=ms(IDLE_MS)),
    "long": TumblingWindows(size=ms(100), close_on_idle=ms(IDLE_MS)),
}


def topology_of(windows: Any, emit: Any = "close") -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows)
    store = Materialized("n", retention=timedelta(seconds=10))
    counts = groups.count(store=store, emit=emit, late="late")
    counts.to_stream(lambda w, _: f"{w.key} {w.start_ms}", key=str).to("out", value=int)
    late = builder.late("late", key=str, value=str)
    late.map(lambda key, one: (f"{key} {one.window.start_ms}", 1), key=str, value=int).to("late")
    return builder.build()


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_all_of_twelve_windows_close_without_a_later_record(windows: Any) -> None:
    with TopologyTestDriver(topology_of(windows)) as driver:
        driver.pipe_all("in", [(f"k{number}", "v", 7) for number in range(12)])
        driver.advance_wall_clock(IDLE_MS - 1)
        assert driver.read("out", key=str, value=int) == []
        driver.advance_wall_clock(1 if windows is not WINDOWS["long"] else 100)
        found = {key.split()[0] for key, _ in driver.read("out", key=str, value=int)}
        assert len(found) == 12
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", key=str, value=int) == []


def test_none_closes_within_a_day_without_the_option() -> None:
    with TopologyTestDriver(topology_of(TumblingWindows(size=ms(10)))) as driver:
        driver.pipe_all("in", [(f"k{number}", "v", 7) for number in range(12)])
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", key=str, value=int) == []


def test_a_record_that_arrives_after_its_window_has_closed_is_late() -> None:
    with TopologyTestDriver(topology_of(WINDOWS["tumbling"])) as driver:
        driver.pipe("in", "a", "v", timestamp=7)
        driver.advance_wall_clock(IDLE_MS)
        driver.pipe("in", "a", "v", timestamp=8)
        driver.pipe("in", "a", "v", timestamp=22)
        driver.pipe("in", "a", "v", timestamp=31)
        assert driver.read("late", key=str, value=int) == [("a 0", 1), ("a 20", 1)]
        assert driver.read("out", key=str, value=int) == [("a 0", 1)]


def test_without_final_results_the_windows_take_no_more_records() -> None:
    with TopologyTestDriver(topology_of(WINDOWS["tumbling"], emit="update")) as driver:
        driver.pipe("in", "a", "v", timestamp=7)
        driver.advance_wall_clock(IDLE_MS - 1)
        driver.pipe("in", "a", "v", timestamp=7)
        driver.advance_wall_clock(IDLE_MS)
        driver.pipe("in", "a", "v", timestamp=7)
        assert driver.read("out", key=str, value=int) == [("a 0", 1), ("a 0", 2)]
        assert driver.read("late", key=str, value=int) == [("a 0", 1)]


def test_a_pause_does_not_make_the_first_record_after_it_late() -> None:
    with TopologyTestDriver(topology_of(WINDOWS["tumbling"])) as driver:
        driver.pipe("in", "a", "v", timestamp=7)
        driver.advance_wall_clock(timedelta(hours=8))
        driver.pipe("in", "a", "v", timestamp=8 * 3_600_000 - 20)
        assert driver.read("late", key=str, value=int) == []


@pytest.mark.parametrize("idle", [timedelta(0), timedelta(seconds=-1), timedelta(microseconds=1)])
def test_an_idle_time_is_at_least_a_millisecond(idle: timedelta) -> None:
    with pytest.raises(TopologyError, match="close_on_idle of tumbling windows"):
        TumblingWindows(size=ms(10), close_on_idle=idle)


# ---------------------------------------------------------------------- brute force


@dataclass
class Model:
    """Aligned windows by definition: all of them are looked at for everything that happens."""

    windows: Any
    now = since = 0
    time = base = ticked = -1

    def __post_init__(self) -> None:
        self.counts: dict[tuple[int, str], int] = {}
        self.sent: set[tuple[int, str]] = set()
        self.out: list[tuple[str, int]] = []
        self.late: list[tuple[str, int]] = []

    def closes(self, start: int) -> int:
        return start + self.windows.size_ms + self.windows.grace_ms

    def record(self, key: str, timestamp: int) -> None:
        self.time = max(self.time, timestamp)
        for start, _ in self.windows.windows_for(timestamp):
            if self.closes(start) <= self.time:
                self.late.append((f"{key} {start}", 1))
            else:
                self.counts[start, key] = self.counts.get((start, key), 0) + 1
        self.emit()
        self.since, self.base = self.now, self.time

    def crash(self) -> None:
        self.since, self.base = self.now, self.time

    def wait(self, by: int) -> None:
        self.now += by
        waited = self.now - self.since
        if self.time < 0 or waited < IDLE_MS:
            return
        if self.time != self.ticked:
            self.time = self.ticked = self.base + IDLE_MS
            self.emit()
        due = [self.closes(start) for start, key in self.counts if (start, key) not in self.sent]
        for time in sorted(due):
            if time <= self.base + waited:
                self.time = self.ticked = max(self.time, time)
        self.emit()

    def emit(self) -> None:
        for start, key in sorted(self.counts):
            if self.closes(start) <= self.time and (start, key) not in self.sent:
                self.sent.add((start, key))
                self.out.append((f"{key} {start}", self.counts[start, key]))


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from("ab"), st.integers(0, 150)),
        st.tuples(st.just("wait"), st.sampled_from([1, 10, 29, 30, 31, 60, 200])),
        st.just(("crash",)),
    ),
    max_size=25,
)


@pytest.mark.parametrize("name", ["tumbling", "hopping", "long"])
@given(events=EVENTS)
def test_aligned_windows_close_as_by_definition(name: str, events: list[Any]) -> None:
    model = Model(WINDOWS[name])
    with TopologyTestDriver(topology_of(WINDOWS[name])) as driver:
        for kind, *given_ in events:
            if kind == "record":
                driver.pipe("in", given_[0], "v", timestamp=given_[1])
                model.record(*given_)
            elif kind == "wait":
                driver.advance_wall_clock(given_[0])
                model.wait(*given_)
            else:
                driver.crash(loses_disk=True)
                model.crash()
        assert driver.read("out", key=str, value=int) == model.out
        assert driver.read("late", key=str, value=int) == model.late
        assert driver.task.time_cell("observed:n").time == model.time


def longest_wait(events: list[Any]) -> int:
    """Return the longest time without a record."""
    longest = waited = 0
    for kind, *given_ in events:
        if kind == "record":
            waited = 0
        elif kind == "wait":
            waited += given_[0]
            longest = max(longest, waited)
    return longest


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@given(events=EVENTS)
def test_nothing_stays_open_and_what_a_crash_undoes_is_made_again(
    windows: Any, events: list[Any]
) -> None:
    found = []
    for crashes in (False, True):
        with TopologyTestDriver(topology_of(windows), commit_every=3) as driver:
            for kind, *given_ in events:
                if kind == "record":
                    driver.pipe("in", given_[0], "v", timestamp=given_[1])
                elif kind == "wait":
                    driver.advance_wall_clock(given_[0])
                    if crashes:
                        driver.crash(loses_disk=True)
            driver.advance_wall_clock(1_000)
            driver.advance_wall_clock(1_000)
            if crashes:
                driver.crash()
            out, late = (driver.read(topic, key=str, value=int) for topic in ("out", "late"))
            names = [name for name, _ in out]
            if not isinstance(windows, SessionWindows):
                assert len(names) == len(set(names))
            if isinstance(windows, TumblingWindows):
                records = sum(kind == "record" for kind, *_ in events)
                assert sum(n for _, n in out) + len(late) == records
            found.append((sorted(out), sorted(late)))
            driver.advance_wall_clock(timedelta(days=1))
            assert driver.read("out", key=str, value=int) == []
    if longest_wait(events) < IDLE_MS:  # else a crash begins the idle time again
        assert found[0] == found[1]
