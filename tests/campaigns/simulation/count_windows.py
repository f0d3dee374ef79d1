"""Count windows: open windows and their timers survive crashes."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class CountWindows(Schedule):
    """A schedule of the variant ``counts``."""

    @classmethod
    def of(cls, seed: int) -> CountWindows:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="counts"))
