"""Interval and as-of joins of two streams whose results come while the inputs are idle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder, Topology
from logstate.topology.graph.idle_order import closing_above
from tests.unit.topology.operators.joins.one_match_model import RECORDS, OneMatch, Sided

IDLE_MS = 30
END = Sided(is_left=False, key="end", value=None, time=1_000)


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def topology(**options: Any) -> Topology:
    builder = StreamsBuilder(close_on_idle=options.pop("default", None))
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    join = left.as_of_join if "tolerance" in options else left.interval_join
    joined = join(right, lambda a, b: f"{a}+{b}", name="j", value=str, late="late", **options)
    joined.to("out")
    builder.late("late", key=str, value=str).map_values(lambda one: one.value, value=str).to("late")
    return builder.build()


def of_model(join: OneMatch) -> Topology:
    return topology(
        within=(ms(join.before), ms(join.after)),
        grace=ms(join.grace),
        match="last" if join.takes_last else "first",
        how="left" if join.is_left else "inner",
        close_on_idle=ms(IDLE_MS),
    )


def pipe(driver: TopologyTestDriver, records: list[Sided]) -> None:
    for is_left, key, value, time in records:
        driver.pipe("left" if is_left else "right", key, value, timestamp=time)


def results(driver: TopologyTestDriver) -> list[tuple[str, str, int]]:
    return driver.read_with_timestamps("out", key=str, value=str)


@given(
    records=RECORDS,
    join=st.builds(
        OneMatch,
        before=st.sampled_from([0, 6, -2]),
        after=st.sampled_from([3, 5, 200]),
        grace=st.sampled_from([0, 1, 7]),
        takes_last=st.booleans(),
        is_left=st.booleans(),
    ),
    pauses=st.lists(st.integers(1, 100), max_size=8),
    crashes=st.booleans(),
)
def test_on_idle_inputs_the_results_are_those_of_a_later_record(
    records: list[Sided], join: OneMatch, pauses: list[int], crashes: bool
) -> None:
    wanted = join.joined([*records, END])
    with TopologyTestDriver(of_model(join)) as driver:
        pipe(driver, records)
        for pause in pauses:
            driver.advance_wall_clock(pause)
            if crashes:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(1_000)
        assert results(driver) == wanted.results
        assert len(driver.read("late", key=str, value=str)) == len(wanted.late)


def test_a_result_comes_although_the_other_side_has_no_record() -> None:
    options = {"how": "left", "close_on_idle": ms(IDLE_MS)}
    with TopologyTestDriver(topology(tolerance=ms(10), grace=ms(5), **options)) as driver:
        driver.pipe("left", "a", "l1", timestamp=100)
        driver.advance_wall_clock(IDLE_MS - 1)
        assert results(driver) == []
        driver.advance_wall_clock(1)
        assert results(driver) == [("a", "l1+None", 100)]


def test_the_newest_record_of_either_side_counts() -> None:
    options = {"how": "left", "close_on_idle": ms(IDLE_MS)}
    with TopologyTestDriver(topology(tolerance=ms(10), **options)) as driver:
        driver.pipe("right", "a", "r1", timestamp=50)
        driver.pipe("left", "a", "l1", timestamp=1_000)
        driver.advance_wall_clock(IDLE_MS)
        assert results(driver) == [("a", "l1+None", 1_000)]


def test_a_right_record_of_a_closed_interval_is_late() -> None:
    options = {"how": "left", "close_on_idle": ms(IDLE_MS)}
    with TopologyTestDriver(topology(tolerance=ms(10), **options)) as driver:
        driver.pipe("left", "a", "l1", timestamp=100)
        driver.advance_wall_clock(IDLE_MS)
        driver.pipe("right", "a", "r1", timestamp=99)
        assert driver.read("late", key=str, value=str) == [("a", "r1")]


def test_the_default_of_the_builder_applies() -> None:
    with TopologyTestDriver(topology(tolerance=ms(10), how="left", default=ms(20))) as driver:
        driver.pipe("left", "a", "l1", timestamp=100)
        driver.advance_wall_clock(20)
        assert results(driver) == [("a", "l1+None", 100)]


def test_all_matches_have_the_option_of_a_left_join() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    options: dict[str, Any] = {"within": (ms(5), ms(5)), "close_on_idle": ms(IDLE_MS)}
    options |= {"name": "j", "value": str}
    left.interval_join(right, lambda a, b: f"{a}+{b}", how="left", **options).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("left", "a", "l1", timestamp=100)
        driver.advance_wall_clock(IDLE_MS)
        assert results(driver) == [("a", "l1+None", 100)]
    with pytest.raises(TopologyError, match="inner join 'k' have close_on_idle"):
        left.interval_join(right, lambda a, b: f"{a}+{b}", **options | {"name": "k"})


def test_an_as_of_join_with_a_table_has_the_option_with_a_grace() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", key=str, value=str, store=Materialized("t", history=ms(10_000)))
    stream = builder.stream("left", key=str, value=str)
    options: dict[str, Any] = {"grace": ms(5), "close_on_idle": ms(IDLE_MS), "value": str}
    stream.as_of_join(table, lambda a, b: f"{a}+{b}", how="left", name="j", **options).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("left", "a", "l1", timestamp=100)
        driver.advance_wall_clock(IDLE_MS)
        assert results(driver) == [("a", "l1+None", 100)]


def test_it_waits_for_what_is_above_either_side() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    batches = left.batch(2, within=ms(5), close_on_idle=ms(5), store="b", name="b")
    named = {"name": "j", "match": "last", "close_on_idle": ms(5), "within": (ms(1), ms(1))}
    options: dict[str, Any] = named
    batches.interval_join(right, lambda a, b: f"{a}+{b}", value=str, **options).to("out")
    (sub,) = builder.build().sub_topologies
    assert closing_above([sub]) == {"b": frozenset(), "j-right-side": frozenset({"b"})}
