"""Functions that take longer than a transaction may: what they cost is made good, every time."""

from __future__ import annotations

from dataclasses import replace

from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.swarm import ScheduledFault
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

_TRANSACTION_TIMEOUT_MS = 400
_TAKES_MS = (300, 700, 2_000)


class SlowFunctions(Schedule):
    """A schedule in which crashes stay, and everything else that goes wrong is a slow function."""

    @classmethod
    def of(cls, seed: int) -> SlowFunctions:
        """The configuration of a seed, and as many faults."""
        drawn = draw(seed)
        faults = tuple(
            fault if fault.kind.startswith("crash") and i % 2 else _slow(fault, i)
            for i, fault in enumerate(drawn.faults)
        )
        return cls(replace(drawn, faults=faults, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS))

    def _slot(self, number: int) -> Slot:
        slot = super()._slot(number)
        slot.configure(transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS)
        return slot


def _slow(fault: ScheduledFault, number: int) -> ScheduledFault:
    return replace(fault, kind="slow", step="", amount=_TAKES_MS[number % len(_TAKES_MS)])
