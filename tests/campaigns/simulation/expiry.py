"""Stores with a TTL, whose rows expire by the stream time of their task."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class Expiry(Schedule):
    """A schedule of the variant ``expiry``."""

    @classmethod
    def of(cls, seed: int) -> Expiry:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="expiry"))


class IndexedExpiry(Schedule):
    """A schedule of the variant ``indexed_expiry``: stores that also have secondary indexes."""

    @classmethod
    def of(cls, seed: int) -> IndexedExpiry:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="indexed_expiry"))
