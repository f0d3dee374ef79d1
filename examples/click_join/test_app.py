"""The join of clicks without a broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from examples.click_join.app import Click, Joined, Query, topology
from examples.click_join.logs import joined, logs
from logstate import TopologyTestDriver


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), commit_every=9) as made:
        yield made


def results(driver: TopologyTestDriver) -> list[Joined | None]:
    return [value for _, value in driver.read("joined", value=Joined)]


def test_late_and_repeated_records_are_joined_once_despite_crashes(
    driver: TopologyTestDriver,
) -> None:
    entries = logs(200, seed=4)
    for number, entry in enumerate(entries):
        driver.pipe(entry.topic, entry.key, entry.value, timestamp=entry.time_ms)
        if number % 100 == 99:
            driver.crash(loses_disk=number % 200 == 199)

    assert Counter(results(driver)) == joined(entries)
    assert len(entries) > len(set(entries))


def test_a_click_before_its_query_is_joined_when_the_query_arrives(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("clicks", "q-1", Click("c-1", "ad"), timestamp=1_000)
    assert results(driver) == []

    driver.pipe("queries", "q-1", Query("kafka"), timestamp=900)
    assert results(driver) == [Joined("c-1", "ad", "kafka")]


def test_a_click_more_than_an_hour_after_its_query_is_not_joined(
    driver: TopologyTestDriver,
) -> None:
    driver.pipe("queries", "q-1", Query("kafka"), timestamp=0)
    driver.pipe("clicks", "q-1", Click("c-1", "ad"), timestamp=3_600_001)
    assert results(driver) == []
