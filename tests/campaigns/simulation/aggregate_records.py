"""Aggregates as one record: their states survive crashes with the row that has their results."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class AggregateRecords(Schedule):
    """A schedule of the variant ``aggregates``."""

    @classmethod
    def of(cls, seed: int) -> AggregateRecords:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="aggregates"))
