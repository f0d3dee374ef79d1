"""The accounts without a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples.accounts.app import BANK, Transfer, topology
from examples.accounts.transfers import balances, transfers
from logstate import TopologyTestDriver


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), commit_every=7) as made:
        yield made


def accounts(driver: TopologyTestDriver) -> dict[str, int]:
    return {name: row.value.cents for name, row in driver.store("accounts").all()}


def test_a_transfer_is_a_debit_and_a_credit(driver: TopologyTestDriver) -> None:
    driver.pipe("transfers", "t-1", Transfer(BANK, "ada", 500))
    driver.pipe("transfers", "t-2", Transfer("ada", "bob", 200))

    assert accounts(driver) == {BANK: -500, "ada": 300, "bob": 200}


def test_a_transfer_to_the_same_account_changes_nothing(driver: TopologyTestDriver) -> None:
    driver.pipe("transfers", "t-1", Transfer("ada", "ada", 200))

    assert accounts(driver) == {"ada": 0}


def test_the_sum_is_zero_after_every_transfer_and_every_crash(driver: TopologyTestDriver) -> None:
    made = transfers(120, seed=3)
    for number, transfer in enumerate(made):
        driver.pipe("transfers", f"t-{number}", transfer, timestamp=number)
        assert sum(accounts(driver).values()) == 0
        if number % 25 == 24:
            driver.crash(loses_disk=number % 50 == 49)
            assert sum(accounts(driver).values()) == 0

    assert accounts(driver) == balances(made)
