"""Workers that follow the tasks of others, by lists of members that are late, stale or wrong.

Who is in the group is told to each worker now and then: as it is, as it was, without somebody, or
with somebody who is only about to join. Standbys are promoted by the faults of every schedule, and
die in the middle of what they do. At the end no directory may hold anything that was not committed.
"""

from __future__ import annotations

import random
from dataclasses import replace
from weakref import WeakKeyDictionary

from logstate.restore.standby_assignor import GroupView, Peer, TaskOwner
from logstate.testing.simulation.slot import InjectedEvent, Slot
from logstate.testing.simulation.swarm import Swarm
from logstate.worker.standby_tasks import StandbyTasks
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

_TOLD = 0.3
_DIES = 0.01
#: how often one that died is known to have, and one that lives is taken for dead
_HEARD_OF, _SLANDERED = 0.7, 0.02
_STEPS = ("standby_poll", "standby_assign", "start_offsets", "committed_so_far")


class Standbys(Schedule):
    """A schedule of workers with standbys."""

    compares_directories = True
    #: what a changelog's owner has trimmed away is not there to move a standby's clock
    keeps_expired = True

    @classmethod
    def of(cls, seed: int) -> Standbys:
        """The configuration and the faults of a seed; a third worker, so that heirs differ."""
        return cls(replace(draw(seed), workers=3))

    def __init__(self, swarm: Swarm, *, partitions: int = 2) -> None:
        super().__init__(swarm, partitions=partitions)
        #: the list that was told last
        self._told: tuple[Peer, ...] = ()
        self._promoted: WeakKeyDictionary[StandbyTasks, int] = WeakKeyDictionary()

    def _slot(self, number: int) -> Slot:
        rng = random.Random(f"standbys-{self.swarm.seed}")
        slot = super()._slot(number)
        is_static = rng.random() < 0.5
        slot.configure(
            standby_replicas=rng.choice((1, 1, 2)),
            standby_interval_ms=rng.choice((1, 10, 50)),
            instance_id=f"static-{number}" if is_static else None,
            acceptable_lag=rng.choice((0, 5, None)),
            warm_up_timeout_ms=rng.choice((100, 1_000)),
            peers_timeout_ms=rng.choice((10, 100)),
        )
        return slot

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"standbys-{self.swarm.seed}-{turn}")
        if rng.random() < _TOLD:
            self._tell(rng)
        slot = rng.choice(self.slots)
        if slot.is_running and rng.random() < _DIES:
            slot.ordered.append(InjectedEvent(rng.choice(_STEPS), "crash_at"))
        self._look_on()
        super()._run_turn(turn)

    def _tell(self, rng: random.Random) -> None:
        slot = rng.choice(self.slots)
        if slot.worker is None:
            return
        told = list(self._peers())
        kind = rng.choice(("true", "true", "true", "old", "lacking", "joining"))
        if kind == "old":
            told = list(self._told or told)
        elif kind == "lacking" and told:
            told.remove(rng.choice(told))
        elif kind == "joining":
            told.append(Peer(f"{rng.random()}", None, "newcomer"))
        self._told = tuple(told)
        silent, holders = self._silent(rng), self._holders() if kind in ("true", "old") else None
        slot.worker.control.group_view = GroupView(self._told, holders, self._present(rng), silent)
        self.counters[f"told_{kind}"] += 1

    def _silent(self, rng: random.Random) -> frozenset[str]:
        """Those that are dead, and now and then one that lives."""
        return frozenset(
            slot.transactional_id
            for slot in self.slots
            if rng.random() < (_SLANDERED if slot.is_running else _HEARD_OF)
        )

    def _present(self, rng: random.Random) -> frozenset[str]:
        """Those that live, and now and then one that is dead: its heartbeats are not yet missed."""
        return frozenset(
            slot.transactional_id
            for slot in self.slots
            if rng.random() < (_HEARD_OF if slot.is_running else _SLANDERED)
        )

    def _holders(self) -> tuple[TaskOwner, ...]:
        """What every member has, as it would tell."""
        told = [
            (s.worker.followed.member_id, s.worker._tasks.all()) for s in self.slots if s.worker
        ]
        return tuple(TaskOwner(frozenset({m}), frozenset(map(str, tasks))) for m, tasks in told)

    def _peers(self) -> tuple[Peer, ...]:
        """Members of the group, and static ones that are about to join it."""
        members = self.cluster.group(flow.APPLICATION).members
        slots = {s.consumer.member_id(): s for s in self.slots if s.consumer is not None}
        found = [
            Peer(m.id, m.instance_id, f"slot-{slots[m.id].number}" if m.id in slots else m.id)
            for m in members.values()
        ]
        known = {peer.id for peer in found}
        ids = [(f"static-{s.number}", s) for s in self.slots if s.is_running]
        is_static = any(m.instance_id for m in members.values())
        coming = [Peer("", i, f"slot-{s.number}") for i, s in ids if is_static and i not in known]
        return (*found, *coming)

    def _look_on(self) -> None:
        for slot in self.slots:
            if slot.worker is None:
                continue
            followed, owned = slot.worker.followed, slot.worker._tasks.all()
            assert not followed.tasks.keys() & owned.keys(), f"slot {slot.number} follows its own"
            self.counters["standby_turns"] += len(followed.tasks)
            before = self._promoted.get(followed, 0)
            self.counters["promotions"] += followed.promoted_total - before
            self._promoted[followed] = followed.promoted_total
