"""Cuts that no metadata of an offset can hold, and that lie in a topic of their own."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class LargeCuts(Schedule):
    """A schedule whose first tasks have many clocks with long names."""

    @classmethod
    def of(cls, seed: int) -> LargeCuts:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="cuts"))
