"""The synopses without a broker: exact where they promise it, else within their bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from examples.synopses.app import (
    DELTA,
    EPSILON,
    LAST,
    SAMPLE,
    SMALLEST,
    Synopsis,
    frequency,
    topology,
)
from examples.synopses.visitors import visitors
from logstate import TopologyTestDriver

REQUESTS, SEED = 1_500, 8


def requests() -> list[str]:
    return visitors(REQUESTS, SEED)


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(topology(), commit_every=300) as made:
        for number, visitor in enumerate(requests()):
            made.pipe("requests", "shop", visitor, timestamp=number)
            if number == REQUESTS // 2:
                made.crash(loses_disk=True)
        yield made


@pytest.fixture(scope="module")
def known(driver: TopologyTestDriver) -> Synopsis:
    row: Synopsis = driver.store("synopses").get("shop").value
    return row


def test_no_frequency_is_too_low_and_few_are_too_high(known: Synopsis) -> None:
    exact = Counter(requests())
    errors = [frequency(known.counters, one) - n for one, n in exact.items()]

    assert min(errors) >= 0
    assert sum(error > EPSILON * REQUESTS for error in errors) <= DELTA * len(errors)


def test_the_number_of_visitors_is_within_three_standard_errors(known: Synopsis) -> None:
    exact = len(set(requests()))

    assert exact > SMALLEST
    assert abs(known.visitors - exact) <= 3 * exact / (SMALLEST - 2) ** 0.5


def test_the_number_of_few_visitors_is_exact() -> None:
    assert Synopsis.aggregate(["a", "b", "a"]).visitors == 2.0


def test_a_sample_is_of_different_visitors_and_drawn_evenly(known: Synopsis) -> None:
    everyone = set(requests())

    assert len(known.sample) == len(set(known.sample)) == SAMPLE
    assert set(known.sample) <= everyone
    low = sum(int(one[2:]) < 300 for one in known.sample) / SAMPLE
    share = sum(int(one[2:]) < 300 for one in everyone) / len(everyone)
    assert abs(low - share) <= 3 * (share * (1 - share) / SAMPLE) ** 0.5


def test_the_window_has_the_last_twenty_requests(driver: TopologyTestDriver) -> None:
    assert list(driver.store(LAST).values("shop")) == requests()[-20:]


def test_the_rows_do_not_grow_with_the_number_of_requests(driver: TopologyTestDriver) -> None:
    sizes = [len(one.value or b"") for one in driver.changelog("app-synopses-changelog")]

    assert max(sizes) < 16_000
    assert sizes[-1] < 1.1 * sizes[len(sizes) // 2]
