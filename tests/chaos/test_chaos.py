"""Twenty faults on a real broker; ``python -m tests.chaos`` does any number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.campaign import Campaign

pytestmark = pytest.mark.broker


def test_twenty_faults_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    campaign = Campaign(20, 7, path=tmp_path)
    try:
        outcome = campaign.run()
    finally:
        campaign.close()

    assert outcome.is_good, "\n".join([*outcome.lines, outcome.summary])
    assert outcome.summary == "20 kills, 0 lost, 0 duplicated"
