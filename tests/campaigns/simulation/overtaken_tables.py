"""Global tables whose log is cut off above the place where they are read.

The rows are written again and again, so what the log holds is the same table at any time; whoever
was overtaken begins again and finds it.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.campaigns.simulation import flow
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

_RATE = 0.05


class OvertakenTables(Schedule):
    """A schedule of the variant that has a global table."""

    @classmethod
    def of(cls, seed: int) -> OvertakenTables:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="sources"))

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"overtaken-{self.swarm.seed}-{turn}")
        if rng.random() < _RATE:
            log = self.cluster.topic(flow.NAMES).logs[0]
            flow.write_names(self.cluster)
            kept = log.end
            flow.write_names(self.cluster)
            log.delete_before(kept)
            self.counters["tables_cut_off"] += 1
        super()._run_turn(turn)
