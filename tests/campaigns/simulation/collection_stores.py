"""Lists, maps, sets and counters, whose elements are rows of one cut."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class CollectionStores(Schedule):
    """A schedule of the variant ``collections``."""

    @classmethod
    def of(cls, seed: int) -> CollectionStores:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="collections"))
