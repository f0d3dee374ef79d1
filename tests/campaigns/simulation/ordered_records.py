"""Sorted records: what waits, and what was sent, survives crashes."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class OrderedRecords(Schedule):
    """A schedule of the variant ``ordered``."""

    @classmethod
    def of(cls, seed: int) -> OrderedRecords:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="ordered"))
