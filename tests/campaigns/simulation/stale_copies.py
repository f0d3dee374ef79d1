"""Standbys whose copies fail or are old, and which are promoted at any time.

A standby notes a time with its rows: they have everything that the changelogs had then. A later
restore relies on it, because a changelog keeps deletions for a limited time only. So after every
turn each copy must have all records that were written before its time. Deletions are kept for two
seconds here and cleaners run; workers stop for longer than that; and a write of a copy, or the
reader of a worker's copies, fails now and then.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from logstate.changelog.stored_meta import META_KEY, StoredMeta
from logstate.contracts.errors import BrokerError
from logstate.contracts.records import TaskId
from logstate.task.owned_task import OwnedTask, Stage
from logstate.testing.simulation.slot import InjectedEvent, Slot
from logstate.testing.simulation.swarm import Swarm
from tests.campaigns.simulation.oracles import Wrong
from tests.campaigns.simulation.standbys import Standbys
from tests.campaigns.simulation.swarm import draw

_DELETIONS_MS = 2_000
_WRITE_FAILS, _READER_FAILS, _IS_CLEANED, _STOPS = 0.03, 0.01, 0.05, 0.01
_STOPS_MS = (800, 1_500, 4_000)
_READER_STEPS = ("standby_poll", "standby_assign")


class StaleCopies(Standbys):
    """A schedule of three workers with standbys."""

    @classmethod
    def of(cls, seed: int) -> StaleCopies:
        """The configuration and the faults of a seed; clocks are right, as times are compared."""
        drawn = draw(seed)
        faults = tuple(fault for fault in drawn.faults if fault.kind != "clock_jump")
        return cls(replace(drawn, workers=3, faults=faults))

    def __init__(self, swarm: Swarm, *, partitions: int = 2) -> None:
        super().__init__(swarm, partitions=partitions)
        if swarm.seed % 2 == 0:
            self.cluster.background_takes_effect_at_once = True
            self.cluster.background_looks_max = 5

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"stale-copies-{self.swarm.seed}-{turn}")
        if rng.random() < _IS_CLEANED:
            self._clean()
        slot = rng.choice(self.slots)
        if slot.worker is not None:
            self._fail(slot, rng)
        super()._run_turn(turn)
        for one in self.slots:
            if one.worker is not None:
                for task_id, owned in one.worker.followed.tasks.items():
                    self._check_time(one, task_id, owned)

    def _clean(self) -> None:
        for name, topic in self.cluster.topics.items():
            if name.endswith("-changelog"):
                topic.config["delete.retention.ms"] = str(_DELETIONS_MS)
                self.cluster.clean(name)
        self.counters["clean"] += 1

    def _fail(self, slot: Slot, rng: random.Random) -> None:
        assert slot.worker is not None
        followed = sorted(slot.worker.followed.tasks)
        if followed and rng.random() < _WRITE_FAILS:
            directory = slot.disk.directories.get(rng.choice(followed))
            if directory is not None and directory.is_open:
                slot.refuse_write(directory)
                self.counters["failed_copies"] += 1
        if followed and rng.random() < _READER_FAILS:
            error = BrokerError("injected: the reader of copies fails")
            step = rng.choice(_READER_STEPS)
            slot.ordered.append(InjectedEvent(step, "failed_reader", error=error))
        if rng.random() < _STOPS:
            slot.frozen_until_ms = self.clock.wall_clock_ms() + rng.choice(_STOPS_MS)
            self.counters["stopped_workers"] += 1

    def _check_time(self, slot: Slot, task_id: TaskId, owned: OwnedTask) -> None:
        """Raises Wrong where a copy lacks a record that is older than the time noted with it."""
        if owned.stage is not Stage.STANDBY or owned.current_ms is None:
            return
        state = owned.task.state
        time_ms = state.meta.caught_up_at_ms
        written = self._written_positions(slot, task_id)
        for target in owned.targets:
            is_on_disk = not state.specs[target.store].in_memory
            if is_on_disk and written.get(target.store, 0) < (target.shown or 0):
                raise Wrong(
                    f"slot {slot.number}: the copy of {task_id} shows {target.store} up to"
                    f" {target.shown}, and its directory has it up to {written.get(target.store)}"
                )
            if state.specs[target.store].source_topic is not None:
                continue  # it ends where its owner has committed
            position = state.positions[target.store]
            self.counters["compared_times"] += 1
            for entry in reversed(self.cluster.log(target.changelog).history):
                if entry.offset < position:
                    break
                if entry.written_ms < time_ms:
                    raise Wrong(
                        f"slot {slot.number}: the copy of {task_id} is noted as complete at"
                        f" {time_ms}, is at {position} of {target.changelog}, and offset"
                        f" {entry.offset} was written at {entry.written_ms}"
                    )

    def _written_positions(self, slot: Slot, task_id: TaskId) -> Mapping[str, int]:
        """Store -> the position that the directory of a task has."""
        raw = slot.disk.directories[task_id].rows.get(META_KEY)
        return {} if raw is None else msgspec.msgpack.decode(raw, type=StoredMeta).positions
