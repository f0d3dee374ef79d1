"""Distinct records: a record that an abort undoes was not seen, one before a crash was."""

from __future__ import annotations

from dataclasses import replace

from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class DistinctRecords(Schedule):
    """A schedule of the variant ``distinct``."""

    @classmethod
    def of(cls, seed: int) -> DistinctRecords:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="distinct"))
