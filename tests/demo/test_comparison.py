"""Tables that differ in anything are not equal, and the difference is told."""

from __future__ import annotations

import pytest

from examples.flights import chart, comparison

ROW = {"name": "A", "flights": 2, "without_delay": 1, "minutes": 5, "squares": 25, "longest": 5}
TABLE = {("A",): ("A", 2, 1, 5, 25, 5)}


def test_rows_become_tables_whatever_they_were_read_from() -> None:
    assert comparison.model_totals([("A", ROW)]) == TABLE
    hours = comparison.carrier_hours([("AA", 0, 3_600_000, ROW)])
    assert hours == {("AA", 0, 3_600_000): TABLE["A",]}


def test_equal_tables_have_no_differences() -> None:
    assert comparison.differences(TABLE, dict(TABLE)) == []


@pytest.mark.parametrize(
    "found",
    [
        {},
        {**TABLE, ("B",): ("B", 1, 0, 0, 0, 0)},
        {("A",): ("A", 2, 1, 6, 25, 5)},
        {("A",): ("A", 2, 1, 5, 25, None)},
    ],
)
def test_a_missing_a_foreign_and_a_wrong_row_are_told(found: comparison.Table) -> None:
    assert len(comparison.differences(TABLE, found)) == 1


def test_only_the_first_differences_are_told() -> None:
    many = {(n,): ("A", n, 0, 0, 0, 0) for n in range(20)}
    told = comparison.differences(many, {})
    assert len(told) == 6
    assert told[-1] == "and 15 more"


def test_a_row_that_two_instances_hold_is_an_error() -> None:
    with pytest.raises(ValueError, match="two instances"):
        comparison.model_totals([("A", ROW), ("A", ROW)])


def test_summaries_add_up_the_hours_of_an_airline() -> None:
    (summary,) = chart.summaries(
        {("AA", 0, 1): ("American", 2, 1, 5, 25, 5), ("AA", 1, 2): ("American", 3, 0, 1, 5, 2)}
    )
    assert summary.flights == 5
    assert summary.without_delay == 1
    assert summary.mean == 6 / 4
    assert summary.deviation**2 == pytest.approx(30 / 4 - (6 / 4) ** 2)
    assert summary.longest == 5
