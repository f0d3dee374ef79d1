"""A sample of the compositions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from logstate.topology import Topology
from tests.campaigns.compositions.case import drawn_case
from tests.campaigns.compositions.operators import OPERATORS


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without warnings of late records and lost disks, which are wanted here."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


BUILT = [seed for seed in range(25) if isinstance(drawn_case(seed).topology, Topology)]


@pytest.mark.parametrize("seed", BUILT)
def test_a_composition_computes_the_same_under_faults(seed: int) -> None:
    found = drawn_case(seed).simulate(4, seed)
    assert found.ok, str(found)


def test_compositions_have_every_operator_and_are_rarely_refused() -> None:
    cases = [drawn_case(seed) for seed in range(300)]
    drawn = Counter(name for case in cases for name in case.operators)

    assert set(drawn) == {operator.__name__ for operator in OPERATORS}
    assert sum(isinstance(case.topology, Topology) for case in cases) > 280


def test_a_seed_draws_the_same_case_each_time() -> None:
    first, second = drawn_case(5), drawn_case(5)
    assert (first.operators, first.inputs) == (second.operators, second.inputs)
