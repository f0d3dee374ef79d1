"""Timers per key, which run before the record that makes them due, in one cut with it."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class Timers(Schedule):
    """A schedule of the variant ``timers``."""

    @classmethod
    def of(cls, seed: int) -> Timers:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="timers"))
