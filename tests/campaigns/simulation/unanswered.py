"""Questions and readings that fail once, at any moment, and positions that are nowhere.

Brokers that restart or are slow leave a question unanswered while all else goes on: where a log
begins, what was committed, which topics there are. A broker that has just become the leader may
say of a position that it is outside of a log that holds it. Neither may cost more than a retry.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from logstate.contracts.errors import RetriableError
from logstate.testing.fake.consumers import FakeGroupConsumer, FakeLogConsumer
from logstate.testing.fake.faults import Fault as CallFault
from logstate.testing.simulation.slot import Slot
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

#: of the admin client, and of those that read logs
_CALLS = (
    *("start_offsets", "end_offsets") * 3,
    *("log_poll", "log_assign", "log_position") * 2,
    *("committed_so_far", "describe_topics", "delete_records"),
)
_RATE, _NOWHERE_RATE = 0.25, 0.05
#: so far beyond its end no log of a schedule reaches
_FAR = 1_000_000


class Unanswered(Schedule):
    """A schedule in which questions are not answered, with cuts of both sizes."""

    @classmethod
    def of(cls, seed: int) -> Unanswered:
        """The configuration and the faults of a seed."""
        drawn = draw(seed)
        return cls(replace(drawn, variant="cuts") if seed % 2 else drawn)

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"unanswered-{self.swarm.seed}-{turn}")
        faults = self.cluster.faults
        if rng.random() < _RATE:
            call = rng.choice(_CALLS)
            if not any(fault.call == call for fault in faults.waiting):
                faults.add(CallFault(call, RetriableError(f"injected: {call}")))
        if rng.random() < _NOWHERE_RATE:
            self._lose_a_position(rng)
        before = len(faults.waiting)
        super()._run_turn(turn)
        self.counters["unanswered"] += max(0, before - len(faults.waiting))

    def _run_without_faults(self, start: int) -> None:
        self.cluster.faults.waiting = [f for f in self.cluster.faults.waiting if f.is_repeated]
        super()._run_without_faults(start)

    def _lose_a_position(self, rng: random.Random) -> None:
        found = [
            (consumer._fetcher, partition)
            for slot in self.slots
            for consumer in _consumers(slot)
            for partition in consumer._fetcher.partitions
            if consumer._fetcher.position(partition) is not None
        ]
        if found:
            fetcher, partition = rng.choice(found)
            fetcher.seek(partition, _FAR)
            self.counters["positions_nowhere"] += 1


def _consumers(slot: Slot) -> Iterator[FakeGroupConsumer | FakeLogConsumer]:
    """Those of a worker that read now."""
    worker = slot.worker
    if worker is None:
        return
    started = worker._started
    readers = [worker._restorer._consumer, slot.consumer]
    if started is not None:
        readers += [started.globals._consumer, started.standbys._follower._consumer]
    for reader in readers:
        if isinstance(reader, FakeGroupConsumer | FakeLogConsumer):
            yield reader
