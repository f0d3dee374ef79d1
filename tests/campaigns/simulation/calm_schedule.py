"""Schedules of one story: all slots take turns evenly, and nothing happens but what is told."""

from __future__ import annotations

from logstate.testing.simulation.slot import Slot
from tests.campaigns.simulation.schedule import Schedule


class CalmSchedule(Schedule):
    """What such stories are made of."""

    def _turn_of(self, slots: list[Slot]) -> None:
        while self.cluster.transactions.pending:
            self.cluster.deliver_marker()
        self._pass_time(self.swarm.turn_ms)
        for slot in slots:
            self._advance(slot, 40, 0)

    def _are_all_running(self, slots: list[Slot]) -> bool:
        sub_topologies = len(self.topology.sub_topologies)
        return sum(slot.running_tasks for slot in slots) == sub_topologies * self.partitions
