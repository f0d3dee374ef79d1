"""The foreign-key join without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from logstate import TopologyTestDriver

app = import_module("examples.04_foreign_keys.app")


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(app.topology()) as driver:
        driver.pipe("offers", "1", app.Offer("tea", 10))
        driver.pipe("offers", "2", app.Offer("tea", 50))
        driver.pipe("products", "tea", app.Product("Green tea", 500))
        yield driver


def offers(driver: TopologyTestDriver) -> dict[str, object]:
    return dict(driver.read("current-offers", value=app.CurrentOffer))


def test_a_product_reaches_every_offer_that_names_it(driver: TopologyTestDriver) -> None:
    assert offers(driver) == {
        "1": app.CurrentOffer("Green tea", 450),
        "2": app.CurrentOffer("Green tea", 250),
    }


def test_a_new_price_updates_all_its_offers(driver: TopologyTestDriver) -> None:
    offers(driver)
    driver.pipe("products", "tea", app.Product("Green tea", 1_000))
    assert offers(driver) == {
        "1": app.CurrentOffer("Green tea", 900),
        "2": app.CurrentOffer("Green tea", 500),
    }


def test_an_offer_that_changes_its_product_follows_the_new_one(driver: TopologyTestDriver) -> None:
    driver.pipe("products", "rum", app.Product("Rum", 2_000))
    offers(driver)
    driver.pipe("offers", "1", app.Offer("rum", 10))
    driver.pipe("products", "tea", app.Product("Green tea", 100))
    assert offers(driver) == {
        "1": app.CurrentOffer("Rum", 1_800),
        "2": app.CurrentOffer("Green tea", 50),
    }


def test_a_product_that_is_gone_takes_its_offers_along(driver: TopologyTestDriver) -> None:
    offers(driver)
    driver.pipe("products", "tea", None)
    assert offers(driver) == {"1": None, "2": None}
