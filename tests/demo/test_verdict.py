"""A verdict names each figure that is not as it must be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from examples.flights import comparison, faults, reference
from examples.flights.verdict import Verdict

RIGHT = Verdict(
    records=10,
    kills=1,
    open_transaction_at_kill=True,
    aborted_records_on_log=3,
    restored_records=7,
    outputs_expected=20,
    outputs_lost=0,
    outputs_duplicated=0,
    null_tailnums=2,
    unmatched_planes=4,
    dropped=0,
    stores_equal_reference=True,
    spark_equals_reference=True,
    parquet_view_equals_reference=True,
    seed=1,
    seconds=20.0,
)


def failures(verdict: Verdict) -> list[str]:
    return verdict.failures(records=10, null_tailnums=2, unmatched_planes=4)


def test_a_run_in_which_everything_is_right_has_no_failures() -> None:
    assert failures(RIGHT) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("records", 9),
        ("kills", 0),
        ("open_transaction_at_kill", False),
        ("aborted_records_on_log", 0),
        ("restored_records", 0),
        ("outputs_expected", 19),
        ("outputs_lost", 1),
        ("outputs_duplicated", 1),
        ("null_tailnums", 1),
        ("unmatched_planes", 5),
        ("dropped", 1),
        ("stores_equal_reference", False),
        ("spark_equals_reference", False),
        ("parquet_view_equals_reference", False),
    ],
)
def test_one_wrong_figure_is_named_alone(field: str, value: Any) -> None:
    wrong = msgspec.structs.replace(RIGHT, **{field: value})
    assert failures(wrong) == [field]


def test_the_planted_wrong_minute_is_a_difference_of_one_row() -> None:
    right = reference.compute(days=1)
    wrong = faults.wrong_by_a_minute(right)
    tables = [
        comparison.reference_table(one.model_totals, ("model",), "model") for one in (right, wrong)
    ]
    assert len(comparison.differences(*tables)) == 1
    assert right.carrier_hours.equals(wrong.carrier_hours)
