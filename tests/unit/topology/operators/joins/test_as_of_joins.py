"""Joins of a record with the newest row or record of its key that is not after it."""

from __future__ import annotations

from typing import Any

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder, Topology
from tests.unit.topology.operators.joins.one_match_model import RECORDS, OneMatch, Sided
from tests.unit.topology.operators.joins.test_interval_joins import END, ms, pair, pipe, results
from tests.unit.topology.operators.streams.late_inputs import missed

TOLERANCES = st.sampled_from([0, 4, 10])


def of_streams(*, tolerance: int = 10, grace: int = 0, **options: Any) -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    options = {"tolerance": ms(tolerance), "grace": ms(grace), "name": "pairs", **options}
    left.as_of_join(right, pair, value=str, **options).to("out")
    if "late" in options:
        builder.late(options["late"], key=str, value=str).to("late")
    return builder.build()


def of_table(*, tolerance: int | None = None, history: int = 1_000, **options: Any) -> Topology:
    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=str)
    store = Materialized("rows", history=ms(history))
    table = builder.table("right", key=str, value=str, store=store)
    if tolerance is not None:
        options["tolerance"] = ms(tolerance)
    left.as_of_join(table, pair, value=str, **options).to("out")
    return builder.build()


def of_polars(records: list[Sided], tolerance: int | None) -> list[tuple[str, str, int]]:
    """The join of the whole input, with every left record."""
    sides = []
    for is_left in (True, False):
        own = [one for one in records if one.is_left is is_left and one.value is not None]
        columns = {"key": polars.String, "value": polars.String, "time": polars.Int64}
        rows = [(one.key, one.value, one.time) for one in sorted(own, key=lambda one: one.time)]
        sides.append(polars.DataFrame(rows, schema=columns, orient="row"))
    found = sides[0].join_asof(
        sides[1],
        on="time",
        by="key",
        strategy="backward",
        tolerance=tolerance,
        check_sortedness=False,
    )
    rows = found.select("key", "value", "value_right", "time").rows()
    return sorted((key, pair(left, right), time) for key, left, right, time in rows)


@given(
    records=RECORDS,
    tolerance=TOLERANCES,
    grace=st.sampled_from([0, 1, 7]),
    how=st.sampled_from(["inner", "left"]),
    commit_every=st.integers(1, 4),
    crash_at=st.integers(0, 24),
)
def test_results_of_two_streams_are_those_of_all_records_that_are_not_late(
    records: list[Sided], tolerance: int, grace: int, how: str, commit_every: int, crash_at: int
) -> None:
    records = [*records, END]
    join = OneMatch(before=tolerance, after=0, grace=grace, is_left=how == "left")
    made = of_streams(tolerance=tolerance, grace=grace, how=how, late="late")
    with TopologyTestDriver(made, commit_every=commit_every) as driver:
        pipe(driver, records, crash_at)
        driver.advance_wall_clock(1)
        late = [one for _, one in driver.read("late", value=LateRecord[str, str | None])]
        assert (results(driver), missed(late)) == join.joined(records)


@given(records=RECORDS, tolerance=TOLERANCES)
def test_two_streams_without_late_records_are_joined_as_by_polars(
    records: list[Sided], tolerance: int
) -> None:
    made = of_streams(tolerance=tolerance, grace=20, how="left", late="late")
    with TopologyTestDriver(made) as driver:
        pipe(driver, [*records, END])
        assert driver.read("late", value=LateRecord[str, str | None]) == []
        assert sorted(results(driver)) == of_polars(records, tolerance)


@given(records=RECORDS, tolerance=st.none() | TOLERANCES, crash_at=st.integers(0, 24))
def test_a_table_whose_rows_came_before_is_joined_as_by_polars(
    records: list[Sided], tolerance: int | None, crash_at: int
) -> None:
    rows_first = sorted((one for one in records if one.value), key=lambda one: one.is_left)
    with TopologyTestDriver(of_table(tolerance=tolerance, how="left")) as driver:
        pipe(driver, rows_first, crash_at)
        assert sorted(results(driver)) == of_polars(records, tolerance)


@pytest.mark.parametrize(
    "made", [of_table(tolerance=10), of_streams(), of_table(tolerance=10, grace=ms(2), name="j")]
)
def test_a_match_may_be_as_old_as_the_tolerance(made: Topology) -> None:
    with TopologyTestDriver(made) as driver:
        pipe(driver, [Sided(False, "a", "r", 90)])
        pipe(driver, [Sided(True, "a", "l1", 100), Sided(True, "a", "l2", 101)])
        pipe(driver, [Sided(True, "end", "end", 900), END])
        assert results(driver) == [("a", "l1+r", 100)]


def test_a_deleted_row_has_no_match_from_its_deletion_on() -> None:
    with TopologyTestDriver(of_table(how="left")) as driver:
        pipe(driver, [Sided(False, "a", "r", 10), Sided(False, "a", None, 20)])
        pipe(driver, [Sided(True, "a", "l1", 19), Sided(True, "a", "l2", 20)])
        assert results(driver) == [("a", "l1+r", 19), ("a", "l2+None", 20)]


def test_with_a_grace_records_wait_for_rows_that_come_later() -> None:
    with TopologyTestDriver(of_table(tolerance=9, grace=ms(5), name="pairs")) as driver:
        pipe(driver, [Sided(True, "a", "l", 100), Sided(False, "a", "r", 99)])
        assert results(driver) == []
        pipe(driver, [Sided(True, "b", "l", 105)])
        assert results(driver) == [("a", "l+r", 100)]


def test_a_record_that_comes_after_a_heartbeat_is_late() -> None:
    made = of_streams(grace=5, heartbeat=lambda key, value: value == "beat", late="late")
    with TopologyTestDriver(made) as driver:
        pipe(driver, [Sided(False, "a", "beat", 100), Sided(False, "a", "r", 94)])
        pipe(driver, [Sided(True, "a", "l", 94), Sided(True, "a", "m", 95), END])
        late = [one for _, one in driver.read("late", value=LateRecord[str, str | None])]
        assert missed(late) == [("r", 94, 104, 1), ("l", 84, 94, 1)]
        assert results(driver) == []
        assert driver.dropped_total == 0


def test_a_tolerance_of_zero_joins_records_of_one_time() -> None:
    with TopologyTestDriver(of_streams(tolerance=0)) as driver:
        pipe(driver, [Sided(True, "a", "l", 100), Sided(False, "a", "r1", 99)])
        pipe(driver, [Sided(False, "a", "r2", 100), END])
        assert results(driver) == [("a", "l+r2", 100)]


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: of_streams(how="outer"), 'how must be "inner" or "left"'),
        (lambda: of_streams(tolerance=-1), "must be at least 0 ms"),
        (lambda: of_streams(within=(ms(1), ms(1))), "has no option within"),
        (lambda: of_table(heartbeat=bool), "has no option heartbeat"),
        (lambda: of_table(tolerance=-1), "must be at least 0 ms"),
        (lambda: of_table(grace=ms(2_000), name="j"), "longer than the history"),
    ],
)
def test_what_makes_no_sense_is_refused(declare: Any, words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        declare()


def test_what_has_no_history_or_no_end_is_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("left", key=str, value=str)
    with pytest.raises(TopologyError, match="needs a table with a history"):
        stream.as_of_join(builder.table("rows", key=str, value=str, store="rows"), pair)
    others: list[Any] = [stream, builder.global_table("all", key=str, value=str, store="all")]
    for other, words in zip(others, ("needs tolerance=", "found GlobalKTable"), strict=True):
        with pytest.raises(TopologyError, match=words):
            stream.as_of_join(other, pair, name="j")
