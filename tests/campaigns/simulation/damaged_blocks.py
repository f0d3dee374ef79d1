"""Disks with damaged blocks: what is read or written there fails, at any moment, until it is gone.

Standbys are followed and promoted meanwhile, so that damage is met by tasks that run, restore, are
taken over or let go of. It costs a replay, and nothing else: every task that the group gives to a
worker is processed by it, and the rows are those that were committed.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.campaigns.simulation.standbys import Standbys
from tests.campaigns.simulation.swarm import draw

_IS_DAMAGED = 0.004
#: a worker gives up after so many replays within ten minutes, and a schedule is shorter than that
_PER_SLOT_MAX = 4


class DamagedBlocks(Standbys):
    """A schedule of workers with standbys whose disks fail."""

    @classmethod
    def of(cls, seed: int) -> DamagedBlocks:
        """The configuration and the faults of a seed; a third worker, so that heirs differ."""
        return cls(replace(draw(seed), workers=3))

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"damage-{self.swarm.seed}-{turn}")
        for slot in self.slots:
            found = sorted(slot.disk.directories.items())
            if not found or slot.disk.damaged >= _PER_SLOT_MAX or rng.random() > _IS_DAMAGED:
                continue
            rng.choice(found)[1].is_damaged = True
            slot.disk.damaged += 1
            self.counters["damaged"] += 1
        super()._run_turn(turn)
