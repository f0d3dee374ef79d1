"""Stores with secondary indexes, by which a processor finds rows."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class Indexes(Schedule):
    """A schedule of the variant ``indexes``."""

    @classmethod
    def of(cls, seed: int) -> Indexes:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="indexes"))
