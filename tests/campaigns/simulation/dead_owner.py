"""A worker dies with its transaction open and never comes back: its heirs must not wait for long.

The transaction's time-out is a minute. An heir may end the transaction earlier, but not before it
has been patient, and nobody but the dead worker may be fenced for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from logstate.testing.simulation.slot import Slot
from tests.campaigns.simulation.calm_schedule import CalmSchedule
from tests.campaigns.simulation.flow import VARIANTS
from tests.campaigns.simulation.systematic import scenario

_TRANSACTION_TIMEOUT_MS, _SESSION_TIMEOUT_MS = 60_000, 400
#: from the death to the first fencing, and until every task runs again
_PATIENCE_MS, _RUNNING_MS = 2_000, 5_000
_TURN_MS = 20
#: steps at which it dies: heirs then wait for offsets, or for the end of a changelog
_DIES_AT = ("commit", "group_metadata", "send_offsets")


class WaitedWrongly(AssertionError):
    """An heir was too impatient, too patient, or fenced a worker that lives."""


class DeadOwner(CalmSchedule):
    """Two or three workers for two partitions; one that has tasks dies in a commit."""

    @classmethod
    def of(cls, seed: int) -> DeadOwner:
        """The variants follow from the seed."""
        guarantee: Literal["exactly_once", "at_least_once"]
        guarantee = "exactly_once" if seed % 2 else "at_least_once"
        swarm = replace(
            scenario(guarantee, VARIANTS[seed // 2 % 2]),
            seed=seed,
            workers=3 - seed // len(_DIES_AT) % 2,
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            turn_ms=_TURN_MS,
            arrives_late=True,
        )
        return cls(swarm)

    def _run(self) -> None:
        third = len(self.upstream.waiting) // 3
        for slot in self.slots:
            slot.start()
        for _ in range(2):  # once all tasks have moved, their owners commit for the first time
            self.upstream.write(third)
            while not self._are_all_running(self.slots) or not self._is_done():
                self._turn_of(self.slots)
        self.upstream.write()
        dead = self._dies_committing()
        self._heirs_get_on(dead, [slot for slot in self.slots if slot is not dead])
        self._run_without_faults(0)
        self._finish()

    def _dies_committing(self) -> Slot:
        step = _DIES_AT[self.swarm.seed % len(_DIES_AT)]
        while True:
            for slot in self.slots:
                for _ in range(40):
                    slot.step()
                    assert slot.pending is not None
                    if slot.pending.name == step and slot.has_tasks:
                        slot.crash()
                        return slot
                    if slot.is_idle:
                        break
            self._pass_time(_TURN_MS)

    def _heirs_get_on(self, dead: Slot, heirs: list[Slot]) -> None:
        epochs = self._epochs()
        died_ms = self.clock.wall_clock_ms()
        is_fenced = False
        while not self._are_all_running(heirs):
            self._turn_of(heirs)
            waited_ms = self.clock.wall_clock_ms() - died_ms
            changed = [name for name, epoch in self._epochs().items() if epoch != epochs[name]]
            if changed and not is_fenced:
                is_fenced = True
                if changed != [dead.transactional_id]:
                    raise WaitedWrongly(f"{dead.transactional_id} died; {changed} were fenced")
                if waited_ms < _PATIENCE_MS:
                    raise WaitedWrongly(f"the dead worker was fenced after {waited_ms} ms already")
            if waited_ms > _RUNNING_MS:
                raise WaitedWrongly(f"tasks still wait for a dead worker after {waited_ms} ms")

    def _epochs(self) -> dict[str, int]:
        return {name: state.epoch for name, state in self.cluster.transactions.producers.items()}
