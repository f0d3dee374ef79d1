"""A range of schedules says what it has hardly tried."""

from __future__ import annotations

from tests.campaigns.simulation.coverage import JUDGED_FROM, Coverage


def covered(schedules: int, *, fires: int, compares: int) -> Coverage:
    coverage = Coverage(["zombie"])
    for number in range(schedules):
        counters = {"compared_clocks": int(number < compares)}
        if number < fires:
            counters["zombie"] = 3
        coverage.add(counters)
    return coverage


def test_a_fault_that_fires_in_less_than_one_in_a_hundred_schedules_is_a_hole() -> None:
    assert covered(1_000, fires=10, compares=1_000).holes() == []
    assert covered(1_000, fires=9, compares=1_000).holes() == [
        "zombie fired in 0.90% of the schedules"
    ]


def test_an_oracle_that_mostly_has_nothing_to_compare_is_a_hole() -> None:
    assert covered(1_000, fires=500, compares=500).holes() == []
    assert covered(1_000, fires=500, compares=499).holes() == [
        "oracle clocks compared something in 50% of the schedules it applies to"
    ]


def test_an_oracle_is_not_blamed_for_schedules_that_it_does_not_apply_to() -> None:
    coverage = covered(1_000, fires=500, compares=1_000)
    coverage.add({"compared_large_cuts": 2})
    assert coverage.holes() == []
    assert ("large_cuts", 1, 1.0) in list(coverage.oracles())


def test_few_schedules_are_not_judged() -> None:
    assert covered(JUDGED_FROM - 1, fires=0, compares=0).holes() == []
