"""The flights of five days; ``python -m tests.campaigns.late_flights`` takes the whole year."""

from __future__ import annotations

from tests.campaigns.late_flights.__main__ import JOIN, WINDOWS, arrivals, run


def test_each_flight_that_arrives_up_to_six_hours_late_is_accepted_or_late() -> None:
    late = run(arrivals(days=5, seed=1))
    assert late.keys() == {*WINDOWS, JOIN}
    assert min(late.values()) > 0, "no operator met a late flight"
