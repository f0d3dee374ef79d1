"""The processor without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module

import pytest

from logstate import TopologyTestDriver

app = import_module("examples.05_processor.app")


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(app.topology()) as driver:
        driver.pipe("readings", "boiler", 71.5)
        yield driver


def test_a_sensor_that_is_heard_raises_no_alarm(driver: TopologyTestDriver) -> None:
    driver.advance_wall_clock(timedelta(minutes=4))
    assert driver.read("alarms", value=str) == []


def test_a_silent_sensor_raises_one_alarm(driver: TopologyTestDriver) -> None:
    driver.advance_wall_clock(timedelta(minutes=6))
    driver.advance_wall_clock(timedelta(minutes=6))
    assert driver.read("alarms", value=str) == [("boiler", "silent")]


def test_a_sensor_that_is_heard_again_is_back(driver: TopologyTestDriver) -> None:
    driver.advance_wall_clock(timedelta(minutes=6))
    driver.pipe("readings", "boiler", 70.0)
    driver.pipe("readings", "boiler", 70.1)
    assert driver.read("alarms", value=str) == [("boiler", "silent"), ("boiler", "back")]


def test_a_crash_does_not_start_the_silence_anew(driver: TopologyTestDriver) -> None:
    driver.advance_wall_clock(timedelta(minutes=4))
    driver.crash(loses_disk=True)
    driver.advance_wall_clock(timedelta(minutes=2))
    assert driver.read("alarms", value=str) == [("boiler", "silent")]
