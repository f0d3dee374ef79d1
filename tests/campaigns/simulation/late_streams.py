"""Late records as streams: each is committed with its input record, once per missed window."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class LateStreams(Schedule):
    """A schedule of the variant ``late``."""

    @classmethod
    def of(cls, seed: int) -> LateStreams:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="late"))
