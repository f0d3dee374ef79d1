"""Operators that close on idle behind others that do, in the test driver."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    JoinWindows,
    KeyTimers,
    KStream,
    Processor,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    timer_store,
)

#: larger than all event times
SPAN_MS = 100


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def windows(size: int, idle: int, grace: int = 0) -> TumblingWindows:
    return TumblingWindows(size=ms(size), grace=ms(grace), close_on_idle=ms(idle))


def finals(stream: KStream[str, str], closing: TumblingWindows, name: str) -> Any:
    groups = stream.group_by_key().windowed_by(closing)
    return groups.count(store=name, name=name, emit="close", late=f"late-{name}").to_stream()


def chain(first: list[tuple[int, int]], idle: int, *, is_one_task: bool) -> Topology:
    """Two batches, or two window counts, and the windows of their results.

    ``first`` are sizes and idle times.
    """
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    parts = []
    for number, (size, own_idle) in enumerate(first):
        if is_one_task:
            batches = stream.batch(
                1_000, within=ms(size), close_on_idle=ms(own_idle), store=f"b{number}"
            )
            parts.append(batches.map_values(str, value=str))
        else:
            of_windows = finals(stream, windows(size, own_idle, grace=SPAN_MS), f"n{number}")
            keyed = of_windows.map(lambda w, _: (w.key, "1"), key=str, value=str)
            parts.append(keyed.repartition(name=f"r{number}"))
    merged = parts[0].merge(parts[1])
    below = finals(merged, windows(10, idle, grace=SPAN_MS), "below")
    below.map(lambda w, count: (f"{w.key}@{w.start_ms}", str(count)), key=str, value=str).to("out")
    late = builder.late("late-below", key=str, value=str)
    late.map_values(lambda one: one.value, value=str).to("late")
    return builder.build()


def counts_of(times: list[tuple[str, int]], size: int) -> Counter[str]:
    """Brute force: a result per key and window, with the time of its newest record."""
    newest: dict[tuple[str, int], int] = {}
    for key, time in times:
        window = key, time // size
        newest[window] = max(time, newest.get(window, 0))
    return Counter(f"{key}@{time // 10 * 10}" for (key, _), time in newest.items())


def batches_of(times: list[tuple[str, int]], within: int) -> Counter[str]:
    """Brute force: the records in their order; a batch ends ``within`` after it began."""
    found: Counter[str] = Counter()
    ends: dict[str, int] = {}
    newest: dict[str, int] = {}
    stream_time = -1
    for key, time in times:
        stream_time = max(stream_time, time)
        for one in [one for one, end in ends.items() if end <= stream_time]:
            found[f"{one}@{newest.pop(one) // 10 * 10}"] += 1
            del ends[one]
        ends.setdefault(key, stream_time + within)
        newest[key] = max(time, newest.get(key, 0))
    found.update(f"{one}@{time // 10 * 10}" for one, time in newest.items())
    return found


SIZES = st.sampled_from([10, 30, 70, 400, 1_000])
IDLE = st.sampled_from([1, 20, 150, 700])


@given(
    times=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, SPAN_MS - 1)), min_size=1),
    first=st.lists(st.tuples(SIZES, IDLE), min_size=2, max_size=2),
    idle=IDLE,
    pauses=st.lists(st.integers(1, 500), max_size=12),
    is_one_task=st.booleans(),
    crashes=st.booleans(),
)
def test_each_result_above_is_in_a_window_below_and_none_is_late(
    times: list[tuple[str, int]],
    first: list[tuple[int, int]],
    idle: int,
    pauses: list[int],
    is_one_task: bool,
    crashes: bool,
) -> None:
    model = batches_of if is_one_task else counts_of
    wanted = sum((model(times, size) for size, _ in first), Counter[str]())
    with TopologyTestDriver(chain(first, idle, is_one_task=is_one_task)) as driver:
        driver.pipe_all("in", [(key, "x", time) for key, time in times])
        for pause in pauses:
            driver.advance_wall_clock(pause)
            if crashes:
                driver.crash()
        for _ in range(8):
            driver.advance_wall_clock(5_000)
        assert driver.read("late", key=str, value=str) == []
        found = driver.read("out", key=str, value=str)
        assert sorted(found) == sorted((key, str(number)) for key, number in wanted.items())


def test_the_idle_time_begins_when_the_last_result_above_has_left() -> None:
    with TopologyTestDriver(chain([(200, 10), (400, 10)], 150, is_one_task=True)) as driver:
        driver.pipe("in", "a", "x", timestamp=0)
        for _ in range(400 + 149):
            driver.advance_wall_clock(1)
        assert driver.read("out", key=str, value=str) == []
        driver.advance_wall_clock(1)
        assert driver.read("out", key=str, value=str) == [("a@0", "2")]


def test_a_record_above_begins_the_wait_below_again() -> None:
    with TopologyTestDriver(chain([(50, 10), (60, 10)], 150, is_one_task=True)) as driver:
        driver.pipe("in", "a", "x", timestamp=0)
        driver.advance_wall_clock(60)
        driver.advance_wall_clock(149)
        driver.pipe("in", "b", "x", timestamp=0)
        driver.advance_wall_clock(150)
        assert driver.read("out", key=str, value=str) == []
        driver.advance_wall_clock(150)
        assert driver.read("out", key=str, value=str) == [("a@0", "2"), ("b@0", "2")]


def test_timers_above_are_waited_for() -> None:
    class Remind(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            self.context = context
            self.timers = KeyTimers[str](context, "timers", self.remind)

        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)
            self.timers.set(record.key, record.timestamp + 500)

        def remind(self, key: str, at_ms: int) -> None:
            self.context.forward(Record(key, "again", at_ms - 500))

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    options: dict[str, Any] = {"stores": timer_store("timers", str), "close_on_idle": ms(20)}
    reminded = stream.process(Remind, **options, key=str, value=str, name="remind")
    below = finals(reminded.repartition(name="r"), windows(10, 20), "below")
    below.map(lambda w, count: (w.key, str(count)), key=str, value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=0)
        for _ in range(50):
            driver.advance_wall_clock(10)
        assert driver.read("out", key=str, value=str) == []
        driver.advance_wall_clock(20)
        assert driver.read("out", key=str, value=str) == [("a", "2")]


def test_records_without_a_partner_above_are_waited_for() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("in", "right"))
    of_join = JoinWindows.symmetric(ms(500), close_on_idle=ms(20))
    joined = left.left_join(right, lambda a, b: f"{a}{b}", windows=of_join, name="j", value=str)
    below = finals(joined.merge(left), windows(10, 20), "below")
    below.map(lambda w, count: (w.key, str(count)), key=str, value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x", timestamp=0)
        for _ in range(52):
            driver.advance_wall_clock(10)
        assert driver.read("out", key=str, value=str) == []
        driver.advance_wall_clock(20)
        assert driver.read("out", key=str, value=str) == [("a", "2")]
