"""Records of joins that leave while the inputs are idle."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import JoinWindows, Materialized, StreamsBuilder, Topology

IDLE_MS = 30
BEFORE_MS, AFTER_MS, GRACE_MS = 5, 10, 7
WAIT = "wait"


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def stream_join(kind: Literal["left", "outer"], *, grace_ms: int = GRACE_MS) -> Topology:
    builder = StreamsBuilder(outer_join_emit_interval=ms(0))
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("l", "r"))
    windows = JoinWindows(
        before=ms(BEFORE_MS), after=ms(AFTER_MS), grace=ms(grace_ms), close_on_idle=ms(IDLE_MS)
    )
    join = left.left_join if kind == "left" else left.outer_join
    joined = join(right, lambda one, other: f"{one} {other}", windows=windows, name="j")
    joined.to("out", value=str)
    return builder.build()


def grace_join(*, is_left: bool = True) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=str, store=Materialized("t", history=ms(10_000)))
    stream = builder.stream("s", key=str, value=str)
    joined = (stream.left_join if is_left else stream.join)(
        table,
        lambda value, row: f"{value} {row}",
        grace=ms(GRACE_MS),
        close_on_idle=ms(IDLE_MS),
        late="late",
        name="j",
    )
    joined.to("out", value=str)
    late = builder.late("late", key=str, value=str)
    late.map_values(lambda one: one.value, value=str).to("late")
    return builder.build()


def test_unmatched_records_leave_once_the_inputs_are_idle() -> None:
    with TopologyTestDriver(stream_join("outer")) as driver:
        driver.pipe("l", "a", "l1", timestamp=100)
        driver.pipe("r", "b", "r1", timestamp=103)
        driver.advance_wall_clock(IDLE_MS - 1)
        assert driver.read("out", value=str) == []
        driver.advance_wall_clock(1)
        out = driver.read_with_timestamps("out", value=str)
        assert out == [("a", "l1 None", 100), ("b", "None r1", 103)]
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", value=str) == []


def test_a_record_whose_wait_is_longer_than_the_idle_time_leaves_when_that_is_over() -> None:
    with TopologyTestDriver(stream_join("left", grace_ms=1_000)) as driver:
        driver.pipe("l", "a", "l1", timestamp=100)
        driver.advance_wall_clock(AFTER_MS + 1_000)
        assert driver.read("out", value=str) == []
        driver.advance_wall_clock(1)
        assert driver.read("out", value=str) == [("a", "l1 None")]


def test_a_partner_that_arrives_after_the_tick_is_joined_as_one_after_a_later_record() -> None:
    with TopologyTestDriver(stream_join("left")) as driver:
        driver.pipe("l", "a", "l1", timestamp=100)
        driver.advance_wall_clock(IDLE_MS)
        driver.pipe("r", "a", "r1", timestamp=105)
        assert driver.read("out", value=str) == [("a", "l1 None"), ("a", "l1 r1")]


def test_a_matched_record_does_not_leave() -> None:
    with TopologyTestDriver(stream_join("outer")) as driver:
        driver.pipe("l", "a", "l1", timestamp=100)
        driver.pipe("r", "a", "r1", timestamp=105)
        driver.advance_wall_clock(timedelta(days=1))
        assert driver.read("out", value=str) == [("a", "l1 r1")]


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["l", "r"]), st.sampled_from("ab"), st.integers(0, 80)),
        st.tuples(st.just(WAIT), st.just(""), st.sampled_from([1, 29, 30, 60, 200])),
    ),
    max_size=25,
)


@pytest.mark.parametrize("kind", ["left", "outer"])
@given(events=EVENTS, crashes=st.booleans())
def test_each_pair_is_joined_once_and_each_record_without_a_partner_leaves_once(
    kind: Literal["left", "outer"], events: list[tuple[str, str, int]], crashes: bool
) -> None:
    # The grace is longer than all times, so that no store expires a partner.
    with TopologyTestDriver(stream_join(kind, grace_ms=100)) as driver:
        sent: list[tuple[str, str, int, str]] = []
        for number, (topic, key, time) in enumerate(events):
            if topic == WAIT:
                driver.advance_wall_clock(time)
                if crashes:
                    driver.crash(loses_disk=True)
                continue
            sent.append((topic, key, time, f"{topic}{number}"))
            driver.pipe(topic, key, sent[-1][3], timestamp=time)
        driver.advance_wall_clock(10_000)
        found = Counter(value for _, value in driver.read("out", value=str))
    pairs = Counter(
        f"{one} {other}"
        for side, key, time, one in sent
        for other_side, other_key, other_time, other in sent
        if (side, other_side, key) == ("l", "r", other_key)
        and time - BEFORE_MS <= other_time <= time + AFTER_MS
    )
    assert {pair: n for pair, n in found.items() if "None" not in pair} == pairs
    joined = {value for pair in pairs for value in pair.split()}
    emitted = ("l",) if kind == "left" else ("l", "r")
    alone = {pair: n for pair, n in found.items() if "None" in pair}
    assert set(alone.values()) <= {1}
    for side, _, _, value in sent:
        if value not in joined and side in emitted:
            assert alone[f"{value} None" if side == "l" else f"None {value}"] == 1


def test_records_that_wait_for_a_table_leave_once_the_inputs_are_idle() -> None:
    with TopologyTestDriver(grace_join()) as driver:
        driver.pipe("s", "a", "s1", timestamp=100)
        driver.pipe("t", "a", "t1", timestamp=99)
        driver.pipe("t", "a", "t2", timestamp=101)
        driver.advance_wall_clock(IDLE_MS - 1)
        assert driver.read("out", value=str) == []
        driver.advance_wall_clock(1)
        assert driver.read_with_timestamps("out", value=str) == [("a", "s1 t1", 100)]
        driver.pipe("s", "a", "s2", timestamp=100)
        assert driver.read("late", value=str) == [("a", "s2")]


TABLE_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("s"), st.sampled_from("ab"), st.integers(0, 80)),
        st.tuples(st.just(WAIT), st.just(""), st.sampled_from([1, 29, 30, 60, 200])),
    ),
    max_size=20,
)


@given(
    rows=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 80)), max_size=6),
    events=TABLE_EVENTS,
    crashes=st.booleans(),
)
def test_each_record_meets_the_row_of_its_time_or_is_late(
    rows: list[tuple[str, int]], events: list[tuple[str, str, int]], crashes: bool
) -> None:
    newest: dict[tuple[str, int], str] = {}
    with TopologyTestDriver(grace_join()) as driver:
        for number, (key, time) in enumerate(rows):
            newest[key, time] = f"t{number}"
            driver.pipe("t", key, f"t{number}", timestamp=time)
        wanted: Counter[str] = Counter()
        for number, (topic, key, time) in enumerate(events):
            if topic == WAIT:
                driver.advance_wall_clock(time)
                if crashes:
                    driver.crash(loses_disk=True)
                continue
            driver.pipe(topic, key, f"s{number}", timestamp=time)
            before = [at for name, at in newest if name == key and at <= time]
            wanted[f"s{number} {newest[key, max(before)] if before else None}"] += 1
        driver.advance_wall_clock(10_000)
        found = Counter(value for _, value in driver.read("out", value=str))
        late = [value for _, value in driver.read("late", value=str)]
    for value in late:
        wanted -= Counter(one for one in wanted if one.split()[0] == value)
    assert found == wanted


def test_the_description_shows_the_option() -> None:
    assert stream_join("outer").describe().count("closes on idle: 30 ms") == 1
    assert "closes on idle: 30 ms" in grace_join().describe()


def test_an_inner_join_refuses_the_option() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("l", "r"))
    windows = JoinWindows(close_on_idle=ms(1))
    with pytest.raises(TopologyError, match="inner join 'j' have close_on_idle"):
        left.join(right, lambda one, other: one, windows=windows, name="j")


def test_a_join_without_a_grace_refuses_the_option() -> None:
    builder = StreamsBuilder()
    table: Any = builder.table("t", key=str, value=str, store="t")
    stream = builder.stream("s", key=str, value=str)
    with pytest.raises(TopologyError, match="close_on_idle=, but without grace="):
        stream.join(table, lambda one, other: one, close_on_idle=ms(1), name="j")


@pytest.mark.parametrize("idle", [timedelta(0), timedelta(microseconds=1)])
def test_the_idle_time_is_at_least_a_millisecond(idle: timedelta) -> None:
    with pytest.raises(TopologyError, match="close_on_idle of join windows"):
        JoinWindows.symmetric(ms(1), close_on_idle=idle)
