"""Workers that are paused and resumed at any moment, between the faults of a schedule.

While a worker is paused, none of its tasks processes anything: looked at around every step.
"""

from __future__ import annotations

import random

from logstate.testing.simulation.slot import Slot
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

_RATE = 0.15


class Pauses(Schedule):
    """A schedule in which somebody pauses and resumes."""

    @classmethod
    def of(cls, seed: int) -> Pauses:
        """The configuration and the faults of a seed."""
        return cls(draw(seed))

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"pauses-{self.swarm.seed}-{turn}")
        for slot in self.slots:
            if slot.worker is not None and rng.random() < _RATE:
                control = slot.worker.control
                control.is_paused = not control.is_paused
                self.counters["pauses"] += control.is_paused
        super()._run_turn(turn)

    def _advance(self, slot: Slot, steps: int, turn: int) -> None:
        for _ in range(steps):
            before = _processed(slot) if _is_paused(slot) else None
            super()._advance(slot, 1, turn)
            if before is not None and _is_paused(slot):
                assert _processed(slot) <= before, f"slot {slot.number} is paused, and works"
                self.counters["compared_paused_steps"] += 1
            if slot.is_idle:
                return

    def _run_without_faults(self, start: int) -> None:
        for slot in self.slots:
            if slot.worker is not None:
                slot.worker.control.is_paused = False
        super()._run_without_faults(start)


def _is_paused(slot: Slot) -> bool:
    return slot.worker is not None and slot.worker.fetch_buffer.is_paused


def _processed(slot: Slot) -> int:
    assert slot.worker is not None
    tasks = slot.worker._tasks.all().values()
    return sum(o.task_or_none.processed.total() for o in tasks if o.task_or_none is not None)
