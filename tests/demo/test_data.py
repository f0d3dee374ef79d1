"""The flights are read whole: what the files do not say is counted, never filtered away."""

from __future__ import annotations

from collections import Counter

import pytest

from examples.flights import data
from examples.flights.data import Flight


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return data.flights()


def test_every_row_of_every_file_is_read(flights: list[Flight]) -> None:
    assert len(flights) == 336_776
    assert len({plane.tailnum for plane in data.planes()}) == len(data.planes()) == 3_322
    assert len({airline.carrier for airline in data.airlines()}) == len(data.airlines()) == 16
    assert len(data.weather()) == 26_115


def test_missing_cells_are_none_and_their_flights_stay(flights: list[Flight]) -> None:
    known = {plane.tailnum for plane in data.planes()}
    assert sum(flight.tailnum is None for flight in flights) == 2_512
    assert sum(flight.dep_delay is None for flight in flights) == 8_255
    named = [flight.tailnum for flight in flights if flight.tailnum is not None]
    assert sum(tailnum not in known for tailnum in named) == 50_094
    assert "NA" not in known
    assert all(named)


def test_every_airline_of_a_flight_is_known(flights: list[Flight]) -> None:
    assert {flight.carrier for flight in flights} == {each.carrier for each in data.airlines()}


def test_flights_come_in_the_order_of_event_time(flights: list[Flight]) -> None:
    times = [flight.event_time_ms for flight in flights]
    assert times == sorted(times)


def test_event_time_is_the_scheduled_departure_in_utc(flights: list[Flight]) -> None:
    first = flights[0]
    assert (first.carrier, first.flight) == ("UA", 1545)
    # 5:15 in New York on the first of January is 10:15 in UTC.
    assert first.event_time_ms == 1_357_035_300_000


def test_sums_that_other_tools_give(flights: list[Flight]) -> None:
    # wc, awk: independent of the parser
    assert Counter(flight.origin for flight in flights) == {
        "EWR": 120_835,
        "JFK": 111_279,
        "LGA": 104_662,
    }
    assert sum(flight.dep_delay or 0 for flight in flights) == 4_152_200
