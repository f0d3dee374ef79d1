"""Timestamp extractors that use the time of the partition, which a restart must not forget."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class PartitionTimes(Schedule):
    """A schedule whose records have the time of their partition, every third of them."""

    @classmethod
    def of(cls, seed: int) -> PartitionTimes:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="times"))
