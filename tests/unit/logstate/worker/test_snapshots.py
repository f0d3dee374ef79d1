"""Snapshots across repartitions: whatever happens meanwhile, what comes of them is exact."""

from __future__ import annotations

import pytest

from tests.unit.logstate.worker.snapshot_story import STORES, SnapshotStory

SEEDS = (0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8)))


@pytest.mark.parametrize("seed", SEEDS)
def test_all_sides_of_a_repartition_agree_in_every_snapshot_whoever_dies(seed: int) -> None:
    story = SnapshotStory(seed)

    for _ in range(3):
        totals = story.totals(story.taken())
        assert totals == dict.fromkeys((*STORES, "in"), totals["in"])


def test_the_application_goes_on_behind_a_snapshot() -> None:
    story = SnapshotStory(7, calm=True)

    first = story.totals(story.taken())["in"]
    second = story.totals(story.taken())["in"]

    assert 0 < first < second <= story.sent
