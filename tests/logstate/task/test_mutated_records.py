"""Mutated records stop nothing and change no good output (tests/mutation_campaign has the rest)."""

from __future__ import annotations

import pytest

from tests.mutation_campaign.run import Tally, run_portion


@pytest.mark.slow
def test_twenty_thousand_mutated_records_are_sorted_into_good_and_dead() -> None:
    tally = Tally()

    run_portion(seed=7, records=20_001, tally=tally)

    assert tally.differences == []
    assert tally.records == 20_001
    assert tally.good > 5_000  # both kinds are there in numbers
    assert tally.bad > 5_000
