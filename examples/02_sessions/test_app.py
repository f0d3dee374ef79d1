"""The sessions without a broker."""

from __future__ import annotations

from importlib import import_module

import pytest

from logstate import TopologyTestDriver

app = import_module("examples.02_sessions.app")

MINUTE = 60_000


@pytest.fixture
def driver() -> TopologyTestDriver:
    return TopologyTestDriver(app.topology())


def later(driver: TopologyTestDriver, minute: int) -> None:
    """Another visitor's click shows that time has passed."""
    driver.advance_wall_clock(1_000)  # closed windows are looked for once a second
    driver.pipe("clicks", "somebody else", "home", timestamp=minute * MINUTE)


def test_a_visit_is_reported_once_when_it_is_over(driver: TopologyTestDriver) -> None:
    driver.pipe("clicks", "ada", "home", timestamp=0)
    driver.pipe("clicks", "ada", "cart", timestamp=10 * MINUTE)
    assert driver.read("visits", value=app.Visit) == []

    later(driver, 46)
    assert driver.read("visits", value=app.Visit) == [("ada", app.Visit(600, 2, "home", "cart"))]


def test_a_late_click_joins_two_visits(driver: TopologyTestDriver) -> None:
    driver.pipe("clicks", "ada", "home", timestamp=0)
    driver.pipe("clicks", "ada", "cart", timestamp=32 * MINUTE)
    driver.pipe("clicks", "ada", "search", timestamp=29 * MINUTE)

    later(driver, 68)
    assert driver.read("visits", value=app.Visit) == [
        ("ada", app.Visit(1_920, 3, "home", "search"))
    ]


def test_a_visit_is_reported_though_the_next_click_comes_after_a_quiet_night(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("clicks", "ada", "home", timestamp=0)

    later(driver, 10 * 60)
    assert driver.read("visits", value=app.Visit) == [("ada", app.Visit(0, 1, "home", "home"))]


def test_a_click_of_a_closed_visit_is_dropped_and_counted(driver: TopologyTestDriver) -> None:
    later(driver, 100)
    driver.pipe("clicks", "ada", "home", timestamp=0)
    assert driver.dropped_total == 1
