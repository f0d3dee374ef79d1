"""The reference is right: held against figures counted in other ways."""

from __future__ import annotations

import ast
import inspect
from collections import Counter

import pytest

from examples.flights import data, reference
from examples.flights.reference import Reference


@pytest.fixture(scope="module")
def year() -> Reference:
    return reference.compute()


def test_it_shares_nothing_with_what_it_judges() -> None:
    imported = set()
    for node in ast.walk(ast.parse(inspect.getsource(reference))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert not imported & {"logstate", "examples"}


def test_every_flight_counts_once_in_both_tables(year: Reference) -> None:
    assert year.records == 336_776
    for frame in (year.carrier_hours, year.model_totals):
        assert frame["flights"].sum() == 336_776
        assert frame["without_delay"].sum() == 8_255
        assert frame["minutes"].sum() == 4_152_200


def test_flights_without_plane_have_models_of_their_own(year: Reference) -> None:
    flights = dict(year.model_totals.select("model", "flights").iter_rows())
    assert flights["no tail number"] == year.null_tailnums == 2_512
    assert flights["unknown plane"] == year.unmatched_planes == 50_094


def test_the_longest_delay_is_the_one_everybody_knows(year: Reference) -> None:
    # Hawaiian Airlines 51 left JFK 1,301 minutes late on January 9.
    top = year.carrier_hours.sort("longest", descending=True, nulls_last=True).row(0, named=True)
    assert (top["carrier"], top["longest"]) == ("HA", 1_301)


def test_hours_agree_with_a_plain_count(year: Reference) -> None:
    hour_ms = 3_600_000
    counted = Counter(
        (flight.carrier, flight.event_time_ms // hour_ms * hour_ms) for flight in data.flights()
    )
    computed = year.carrier_hours.select("carrier", "start_ms", "flights").iter_rows()
    assert {(carrier, start): flights for carrier, start, flights in computed} == counted


def test_windows_are_one_hour_long_and_start_on_the_hour(year: Reference) -> None:
    frame = year.carrier_hours
    assert ((frame["end_ms"] - frame["start_ms"]) == 3_600_000).all()
    assert (frame["start_ms"] % 3_600_000 == 0).all()


def test_days_limit_the_flights_and_nothing_else(year: Reference) -> None:
    fortnight = reference.compute(days=14)
    assert fortnight.records == 12_067
    assert fortnight.carrier_hours["flights"].sum() == 12_067
    whole = fortnight.carrier_hours.join(
        year.carrier_hours, on=["carrier", "start_ms"], how="inner", suffix="_year"
    )
    assert whole.height == fortnight.carrier_hours.height
    assert (whole["flights"] == whole["flights_year"]).all()
