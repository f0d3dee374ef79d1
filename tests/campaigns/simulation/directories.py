"""Instances that find each other by a directory which is late, stands still, or names one address
for two of them; and questions, put to any of them all the while.

Whoever answers has to be right: the count of a key is that of the input up to the position in the
answer, and nobody else may have committed more than that before the question was put. At the end
everybody agrees who has what, claims rest, and every key is answered from everywhere.

Copies, warm-ups and promotions are those of :mod:`tests.campaigns.simulation.standbys`. Who is
expelled from the group at once, though it is there, cannot know it; so no schedule of this kind
does that.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from logstate.changelog.cut import decode_cut
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.partitioner import partition_of
from logstate.contracts.records import TopicPartition
from logstate.http.remote_store import RemoteAnswer
from logstate.restore.standby_assignor import Peer
from logstate.testing.simulation.slot import Slot
from logstate.testing.simulation.swarm import Swarm
from logstate.topology import StreamsBuilder, Topology
from tests.campaigns.simulation import flow
from tests.campaigns.simulation.instances import DirectoryLog, SimulatedInstance, World, value_of
from tests.campaigns.simulation.standbys import Standbys
from tests.campaigns.simulation.swarm import draw

_STORE, _PARTITIONS = "counts", 4
_WORKERS = (2, 1, 1)
_ASKED, _MACHINE_DIES = 0.7, 0.01
#: of schedules in which workers hang: how long, and so many times as often as anything is drawn
_HANGS_MS, _TIMES = 1_500, 3
#: how often one address is claimed by two, for the whole schedule
_SHARED = 0.4
#: rounds of heartbeats at the end: after so many everybody has heard everything
_ROUNDS = 8
#: so often, at most, until nobody moves any more
_SETTLES_MAX = 30


class WrongAnswer(AssertionError):
    """An answer that was right for no committed state, or for one that was over."""


class NoAgreement(AssertionError):
    """The directory does not come to rest, or a key is not answered although nothing happens."""


@cache
def topology(*, in_memory: bool) -> Topology:
    """Orders, counted by key."""
    builder = StreamsBuilder(in_memory_stores=in_memory)
    orders = builder.stream(flow.ORDERS, key=str, value=str)
    counts = orders.group_by_key().count(store=_STORE)
    counts.to_stream().to("enriched", key=str, value=int)
    return builder.build()


class Directories(Standbys):
    """A schedule of two or three instances, one of which has two workers."""

    #: how likely an instance hears and tells in a turn, and how often somebody may be asked
    listens, tells, questions = 0.7, 0.7, 1

    @classmethod
    def of(cls, seed: int) -> Directories:
        """The configuration and the faults of a seed."""
        drawn = draw(seed)
        faults = tuple(fault for fault in drawn.faults if fault.kind != "expel")
        workers = sum(_WORKERS) - seed % 2
        return cls(replace(drawn, workers=workers, variant="counts", faults=faults))

    def __init__(self, swarm: Swarm) -> None:
        super().__init__(swarm, partitions=_PARTITIONS)
        rng = random.Random(f"directories-{swarm.seed}")
        self.judge = lambda: None  # at the end of the run, while there is somebody to ask
        self._world = World(
            self.topology,
            self.application_id,
            self.partitions,
            DirectoryLog(),
            self.clock.monotonic_ms,
            heartbeat_ms=max(1, swarm.session_timeout_ms // 10),
            max_age_ms=swarm.session_timeout_ms // 2,
            at=self._at,
        )
        is_shared = rng.random() < _SHARED
        self.instances: list[SimulatedInstance] = []
        slots = list(self.slots)
        while slots:
            number = len(self.instances)
            size = _WORKERS[number]
            address = f"http://host-{min(number, 1) if is_shared else number}:8080"
            self.instances.append(SimulatedInstance(number, slots[:size], address, self._world))
            slots = slots[size:]
        self._chooses = random.Random(f"chooses-{swarm.seed}")
        self._keys = sorted(
            {i.key.decode() for i in self.inputs if i.key and i.topic == flow.ORDERS}
        )

    def _topology(self) -> Topology:
        return topology(in_memory=self.swarm.in_memory)

    def _slot(self, number: int) -> Slot:
        slot = super()._slot(number)
        slot.is_looked_at = True
        return slot

    # ------------------------------------------------------------------ what goes on

    def _run_turn(self, turn: int) -> None:
        rng = random.Random(f"directories-{self.swarm.seed}-{turn}")
        if rng.random() < _MACHINE_DIES:
            self._machine_dies(rng.choice(self.instances), turn)
        super()._run_turn(turn)
        for one in self.instances:
            one.check()
            if one.is_alive and rng.random() < self.listens:
                one.listen(rng.choice((1, 3, 100)))
            if one.is_alive and rng.random() < self.tells:
                one.tell()
        for _ in range(self.questions):
            if rng.random() < _ASKED:
                self._ask(rng)

    def _machine_dies(self, instance: SimulatedInstance, turn: int) -> None:
        for slot in instance.slots:
            if slot.is_running:
                slot.crash()
                slot.starts_at_turn = turn + 1 + self._random.randrange(self.swarm.restart_turns)
        self.counters["machines_that_died"] += 1

    def _peers(self) -> tuple[Peer, ...]:
        """The same as without instances, but who dies together is one."""
        owner = {slot.number: one.id for one in self.instances for slot in one.slots}
        return tuple(
            replace(peer, instance=owner[int(peer.instance.removeprefix("slot-"))])
            if peer.instance.startswith("slot-")
            else peer
            for peer in super()._peers()
        )

    def _at(self, address: str) -> SimulatedInstance | None:
        """Whoever the network finds there."""
        found = [one for one in self.instances if one.address == address and one.is_alive]
        return self._chooses.choice(found) if found else None

    # ------------------------------------------------------------------ questions

    def _ask(self, rng: random.Random) -> None:
        alive = [one for one in self.instances if one.is_alive]
        if not alive:
            return
        asked, key = rng.choice(alive), rng.choice(self._keys)
        try:
            answer = asked.ask(_STORE, key)
        except StoreUnavailableError:
            self.counters["answers_refused"] += 1
            return
        self._judge_answer(key, answer)
        self.counters["compared_answers"] += 1
        self.counters["answers_from_elsewhere"] += answer.host != asked.address

    def _judge_answer(self, key: str, answer: RemoteAnswer) -> None:
        partition = partition_of(key.encode(), self.partitions)
        where = TopicPartition(flow.ORDERS, partition)
        position = answer.positions.get(str(where), 0)
        wanted = self._count(key.encode(), where, position)
        if value_of(answer) != wanted:
            raise WrongAnswer(f"{key} at {position}: {value_of(answer)}, and it was {wanted}")
        committed = self.cluster.group(self.application_id).offsets.committed.get(where)
        if committed is None or (committed.offset or 0) <= position:
            return
        cut = decode_cut(committed.metadata, committed_offset=committed.offset or 0).cut
        writer = None if cut is None or cut.writer is None else cut.writer.transactional_id
        by = [one for one in self.instances if one.address == answer.host and one.is_alive]
        theirs = {s.transactional_id for one in by if (s := one.slot_of(partition)) is not None}
        if writer not in theirs:
            raise WrongAnswer(
                f"{key} at {position} of {where}, by {answer.host}: {writer} has committed"
                f" {committed.offset} since"
            )

    def _count(self, key: bytes, where: TopicPartition, position: int) -> int:
        found = 0
        log = self.cluster.log_or_none(where)
        for entry in [] if log is None else log.history:
            record, transaction = entry.record, entry.transaction
            is_committed = transaction is None or transaction.is_committed
            if record is not None and is_committed and record.key() == key:
                found += (record.offset() or 0) < position
        return found

    # ------------------------------------------------------------------ the end

    def _finish(self) -> None:
        """Everybody hears of everybody; then all of them know the same, and answer everything."""
        claims: list[dict[str, int]] = []
        for _ in range(_SETTLES_MAX):
            before, claims = claims, self._claims_after_a_while()
            if self._is_settled() and claims == before:
                break
        else:
            raise NoAgreement(f"claims do not rest: {before}, then {claims}")
        self._agree()
        for asked in self.instances:
            for key in self._keys:
                self._ask_at_the_end(asked, key)
        super()._finish()

    def _is_settled(self) -> bool:
        """The group has no members but those that are there, and all tasks run."""
        consumers = [slot.consumer for slot in self.slots if slot.consumer is not None]
        members = self.cluster.group(self.application_id).members
        running = sum(slot.running_tasks for slot in self.slots)
        return running == self.partitions and members.keys() == {c.member_id() for c in consumers}

    def _round(self) -> None:
        self._everything_arrives()
        self._pass_time(self._world.heartbeat_ms)
        for slot in self.slots:
            self._advance(slot, 40, 0)
        for one in self.instances:
            one.check()
            one.listen(10_000)
            one.tell()
        for one in self.instances:
            one.listen(10_000)

    def _claims_after_a_while(self) -> list[dict[str, int]]:
        for _ in range(_ROUNDS):
            self._round()
        now = self.clock.monotonic_ms()
        return [one.claims() for one in self.instances[0].known.present(now)]

    def _agree(self) -> None:
        now = self.clock.monotonic_ms()
        lists = [[entry.instance for entry in one.known.live(now)] for one in self.instances]
        if any(each != lists[0] for each in lists):
            raise NoAgreement(f"they know different instances: {lists}")
        present = self.instances[0].known.present(now)
        last = {}
        for entry in sorted(present, key=lambda entry: entry.claim):
            last[entry.address] = entry.instance
        if sorted(last.values()) != lists[0]:
            raise NoAgreement(f"{lists[0]} have an address, and {last} claimed one last")

    def _ask_at_the_end(self, asked: SimulatedInstance, key: str) -> None:
        partition = partition_of(key.encode(), self.partitions)
        owner = next(one for one in self.instances if one.slot_of(partition) is not None)
        try:
            answer = asked.ask(_STORE, key)
        except StoreUnavailableError as exc:
            shares = sum(one.address == owner.address for one in self.instances) > 1
            if not shares:
                raise NoAgreement(f"{key} is not answered at the end: {exc}") from exc
            self.counters["answers_lost_to_an_address"] += 1
            return
        self._judge_answer(key, answer)
        where = TopicPartition(flow.ORDERS, partition)
        wanted = self._count(key.encode(), where, 1 << 62)
        if value_of(answer) != wanted:
            raise WrongAnswer(f"{key} at the end: {value_of(answer)} of {wanted}")
        self.counters["compared_last_answers"] += 1


class SlowDirectories(Directories):
    """The same, where workers hang instead of dying, instances seldom hear of each other, and all
    of them are asked all the time: who has lost a partition does not know it, nor does who asks.
    """

    listens, tells, questions = 0.1, 0.3, 6

    @classmethod
    def of(cls, seed: int) -> SlowDirectories:
        """The configuration and the faults of a seed."""
        drawn = super().of(seed).swarm
        hanging = {"kind": "zombie", "step": "", "disk": "", "amount": _HANGS_MS}
        faults = tuple(replace(fault, **hanging) for fault in drawn.faults * _TIMES)
        return cls(replace(drawn, faults=faults))
