"""A replay takes longer than tombstones are kept: what was deleted meanwhile must stay deleted.

The worker comes back with rows that were committed long before the end of the log. Somewhere in the
middle of reading what they miss, more time goes by than the changelog promises to keep deletions
for, and the cleaner makes use of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from logstate.task.owned_task import Stage
from logstate.testing.simulation.schedule import QUIET_TURNS_MAX, Stuck
from logstate.testing.simulation.slot import Slot
from tests.campaigns.simulation.calm_schedule import CalmSchedule
from tests.campaigns.simulation.systematic import scenario

#: a whole replay has a minute in any case, so it is none of those that took too long
_TOMBSTONE_LIFETIME_MS = 50_000
_LONG_MS = 20 * _TOMBSTONE_LIFETIME_MS
_TURN_MS, _LOST_WRITES = 20, 3
#: inputs of a commit, and those that show whether the stores are right
_AT_ONCE, _AFTERWARDS = 4, 6


class SlowReplay(CalmSchedule):
    """One worker with two partitions; a power cut takes the last of what it wrote.

    Of the variant that deletes: a final result leaves its buffer, a match the orders without one.
    """

    @classmethod
    def of(cls, seed: int) -> SlowReplay:
        """The guarantee follows from the seed."""
        guarantee: Literal["exactly_once", "at_least_once"]
        guarantee = "exactly_once" if seed % 2 else "at_least_once"
        swarm = replace(
            scenario(guarantee, "streams"),
            seed=seed,
            workers=1,
            transaction_timeout_ms=_LONG_MS,
            session_timeout_ms=_LONG_MS,
            turn_ms=_TURN_MS,
            fetch_records_max=1,
            arrives_late=True,
        )
        return cls(swarm)

    def _run(self) -> None:
        (slot,) = self.slots
        slot.start()
        while len(self.upstream.waiting) > _AFTERWARDS:
            self.upstream.write(_AT_ONCE)
            self._turns_of(slot)
        for name, topic in self.cluster.topics.items():
            if name.endswith("-changelog"):
                topic.config["delete.retention.ms"] = str(_TOMBSTONE_LIFETIME_MS)
        self._finish()  # it leaves the group: a dead member would be waited for
        slot.disk.lose_tail(_LOST_WRITES)
        slot.start()
        self._replays_slowly(slot)
        self.upstream.write()
        self._turns_of(slot)
        self._finish()

    def _replays_slowly(self, slot: Slot) -> None:
        """Let it read a little, then let time go by and the cleaner come."""
        reads = 1 + self.swarm.seed // 4 % 4
        while not slot.running_tasks:
            if slot.pending is not None and slot.pending.name == "restore_poll":
                reads -= 1
            if reads < 0:
                break
            slot.step()
            if slot.is_idle:
                while self.cluster.transactions.pending:  # of the manifest that is read first
                    self.cluster.deliver_marker()
                self._pass_time(_TURN_MS)
        self._pass_time(_TOMBSTONE_LIFETIME_MS + 1)
        for owned in slot.tasks_in(Stage.RESTORING):
            for target in owned.targets:
                if target.since_ms is not None and not target.is_whole:
                    self.cluster.log(target.changelog).compact(
                        self.clock.wall_clock_ms(), tombstone_lifetime_ms=_TOMBSTONE_LIFETIME_MS
                    )
                    self.counters["slow_replays"] += 1

    def _turns_of(self, slot: Slot) -> None:
        """Let it run until it has processed what there is."""
        for _ in range(QUIET_TURNS_MAX):
            self._turn_of([slot])
            if self._are_all_running([slot]) and self._is_done():
                return
        raise Stuck(f"not done after {QUIET_TURNS_MAX} turns: {self._progress()}")
