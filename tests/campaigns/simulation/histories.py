"""Versioned stores whose versions expire, with segments that are shorter than what is compared.

Prices are as many as orders, and some are deleted. A price may be exactly as old as the history.
"""

from __future__ import annotations

from dataclasses import replace

from logstate.contracts.worker_config import ChangelogWrites
from tests.campaigns.simulation import dataset
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw


class Histories(Schedule):
    """A schedule of the variant ``histories``."""

    compares_directories = True

    @classmethod
    def of(cls, seed: int) -> Histories:
        """The configuration and the faults of a seed; stores that lie on a disk."""
        drawn = draw(seed)
        writes: ChangelogWrites = "update" if seed % 2 else drawn.changelog_writes
        swarm = replace(drawn, variant="histories", in_memory=False, changelog_writes=writes)
        inputs = dataset.inputs(seed % dataset.COUNT, orders=14, prices=14, price_every=2)
        return cls(swarm, inputs=inputs)
