"""Transactions that fail while their worker lives, and what can happen to it on the way back.

Drawn schedules come by there too rarely: an abort takes an answer that got lost, and what goes
wrong with the abort has to be ordered together with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice

from logstate.contracts.errors import AbortableError
from logstate.testing.simulation.slot import InjectedEvent, Slot
from logstate.testing.simulation.swarm import ScheduledFault, Swarm
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

#: steps before a transaction's end at which the answer is lost, so that it is aborted
_FAILS_AT = ("send_offsets", "produce", "flush", "commit")
#: (fault, step) on the way back
_THEN = (
    *(("crash_at", step) for step in ("abort", "pause", "init_transactions", "close_producer")),
    *(("lost_reply", step) for step in ("abort", "init_transactions")),
)
#: where a worker stands still instead
_STANDS_AT = ("flush", "commit", "produce", "send_offsets", "start")
#: what this kind is there for
FAULTS = (
    *(f"{kind}_{step}" for kind, step in _THEN),
    *(f"zombie_{step}" for step in _STANDS_AT),
    *(f"lost_reply_{step}" for step in _FAILS_AT),
    *("crash_at_flush_plain", "crash_at_produce_plain", "crash_at_delete_records"),
)
_AT_LEAST_ONCE = ("flush_plain", "produce_plain", "delete_records")


class FailedEnds(Schedule):
    """A schedule whose faults besides crashes are all around the end of a transaction."""

    @classmethod
    def of(cls, seed: int) -> FailedEnds:
        """The configuration of a seed; every other one with at-least-once outputs."""
        drawn = draw(seed)
        guarantee = "at_least_once" if seed % 2 else "exactly_once"
        swarm = replace(drawn, guarantee=guarantee, faults=tuple(_faults(drawn)))
        return cls(replace(swarm, purge_interval_ms=10))

    def __init__(self, swarm: Swarm) -> None:
        super().__init__(swarm)
        self._then = islice(cycle(_THEN), swarm.seed % len(_THEN), None)

    def _inflict_on(self, slot: Slot, fault: ScheduledFault, turn: int) -> None:
        super()._inflict_on(slot, fault, turn)
        if fault.kind == "lost_reply":
            kind, step = next(self._then)
            error = AbortableError(f"injected: {step}") if kind == "lost_reply" else None
            slot.ordered.append(
                InjectedEvent(step, kind, error=error, is_carried_out=turn % 2 == 0)
            )


def _faults(swarm: Swarm) -> Iterator[ScheduledFault]:
    for number, fault in enumerate(swarm.faults, swarm.seed):
        if fault.kind == "crash_at" and number % 3 == 0:
            yield replace(fault, step=_AT_LEAST_ONCE[number % 9 // 3])
        elif fault.kind.startswith("crash") and number % 2:
            yield fault
        elif number % 3:
            step = _FAILS_AT[number % len(_FAILS_AT)]
            yield replace(fault, kind="lost_reply", step=step, error="abortable", disk="")
        else:
            step = _STANDS_AT[number % len(_STANDS_AT)]
            yield replace(fault, kind="zombie", step=step, amount=1_500, disk="")
