"""The join without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from logstate import TopologyTestDriver

app = import_module("examples.03_orders_and_customers.app")


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(app.topology()) as driver:
        driver.pipe("customers", "c1", app.Customer("Ada", "NO"))
        yield driver


def test_an_order_gets_its_customer(driver: TopologyTestDriver) -> None:
    driver.pipe("orders", "o1", app.Order("c1", 250))
    assert driver.read("enriched-orders", value=app.Enriched) == [
        ("c1", app.Enriched("Ada", "NO", 250))
    ]


def test_an_order_of_a_stranger_is_kept(driver: TopologyTestDriver) -> None:
    driver.pipe("orders", "o1", app.Order("c9", 250))
    assert driver.read("enriched-orders", value=app.Enriched) == [
        ("c9", app.Enriched("c9", "unknown", 250))
    ]


def test_a_customer_who_moves_changes_future_orders_only(driver: TopologyTestDriver) -> None:
    driver.pipe("orders", "o1", app.Order("c1", 250))
    driver.pipe("customers", "c1", app.Customer("Ada", "IT"))
    assert len(driver.read("enriched-orders", value=app.Enriched)) == 1

    driver.pipe("orders", "o2", app.Order("c1", 100))
    assert driver.read("country-totals", value=int) == [("NO", 250), ("IT", 100)]
