"""Joins by time: records that wait, stream time of one side and late records survive crashes."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class IntervalJoins(Schedule):
    """A schedule of the variant ``intervals``."""

    @classmethod
    def of(cls, seed: int) -> IntervalJoins:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="intervals"))


class AsOfJoins(Schedule):
    """A schedule of the variant ``as_of``."""

    @classmethod
    def of(cls, seed: int) -> AsOfJoins:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="as_of"))
