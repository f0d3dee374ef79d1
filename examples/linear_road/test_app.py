"""Linear Road without a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from examples.linear_road.app import Alert, Report, Toll, road_of, topology
from examples.linear_road.traffic import traffic
from examples.linear_road.validator import expected
from logstate import TopologyTestDriver

SEED = 2


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), commit_every=50) as made:
        yield made


def pipe(driver: TopologyTestDriver, reports: list[Report]) -> None:
    driver.pipe_all("reports", [(road_of(one), one, one.time * 1_000) for one in reports])


def stops(car: int, start: int, reports: int, position: int = 60_000) -> list[Report]:
    return [
        Report(start + 30 * number, car, 0, 0, 2, 0, position // 5_280, position)
        for number in range(reports)
    ]


def enters(car: int, time: int, segment: int) -> Report:
    return Report(time, car, 30, 0, 1, 0, segment, segment * 5_280)


def test_tolls_alerts_and_balances_are_those_of_the_validator(driver: TopologyTestDriver) -> None:
    reports = traffic(1, SEED)
    wanted = expected(reports)

    half = len(reports) // 2
    pipe(driver, reports[:half])
    driver.crash(loses_disk=True)
    pipe(driver, reports[half:])

    assert Counter(driver.read("tolls", key=int, value=Toll)) == wanted.tolls
    assert Counter(driver.read("alerts", key=int, value=Alert)) == wanted.alerts
    rows = driver.store("balances").all()
    assert {car: (row.value.cents, row.value.tolls) for car, row in rows} == wanted.balances
    assert wanted.alerts
    assert wanted.balances


def test_two_vehicles_that_stop_at_one_place_are_an_accident_from_the_next_minute(
    driver: TopologyTestDriver,
) -> None:
    reports = [*stops(1, 0, 8), *stops(2, 10, 8)]  # detected at 100 s, in the second minute
    reports += [enters(3, 119, 8), enters(4, 120, 8), enters(5, 120, 6), enters(6, 120, 12)]
    pipe(driver, sorted(reports, key=lambda report: report.time))

    assert driver.read("alerts", key=int, value=Alert) == [(4, Alert(120, 11))]


def test_an_accident_is_over_in_the_minute_after_one_of_its_vehicles_moves(
    driver: TopologyTestDriver,
) -> None:
    reports = [*stops(1, 0, 5), *stops(2, 10, 4), enters(1, 185, 11)]
    reports += [enters(3, 239, 10), enters(4, 240, 10)]
    pipe(driver, sorted(reports, key=lambda report: report.time))

    alerts = driver.read("alerts", key=int, value=Alert)
    assert alerts == [(3, Alert(239, 11))]


def test_the_fifty_first_vehicle_makes_the_next_minute_cost_something(
    driver: TopologyTestDriver,
) -> None:
    pipe(driver, [enters(car, car, 10) for car in range(1, 52)])
    pipe(driver, [enters(60, 60, 10), enters(60, 90, 11), enters(61, 60, 9)])

    notices = dict(driver.read("tolls", key=int, value=Toll)[51:])
    assert notices == {60: Toll(90, 11, 0, 0), 61: Toll(60, 9, 0, 0)}
    assert driver.store("balances").get(60).value.cents == 2


def test_a_vehicle_on_the_exit_lane_pays_for_its_last_segment_only(
    driver: TopologyTestDriver,
) -> None:
    pipe(driver, [enters(car, car, 10) for car in range(1, 53)])
    pipe(driver, [enters(70, 60, 10), Report(90, 70, 30, 0, 4, 0, 11, 11 * 5_280)])

    assert driver.read("tolls", key=int, value=Toll)[-1] == (70, Toll(60, 10, 30, 8))
    assert driver.store("balances").get(70).value.cents == 8
