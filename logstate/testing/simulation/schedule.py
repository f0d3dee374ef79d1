"""One schedule: chaos as drawn, then quiet until everything is processed, then a clean end.

Everything random comes from the seed; nothing depends on the machine, on hash seeds or on time.
"""

from __future__ import annotations

import random
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    FencedError,
    LogstateError,
    RetriableError,
)
from logstate.contracts.records import TopicPartition
from logstate.contracts.topic_names import topic_name
from logstate.contracts.worker_config import WorkerConfig
from logstate.testing.fake.cluster import FakeCluster
from logstate.testing.fake.faults import Fault
from logstate.testing.simulation.slot import InjectedEvent, Slot
from logstate.testing.simulation.swarm import ScheduledFault, Swarm
from logstate.testing.simulation.upstream import Input, Upstream
from logstate.topology.plan.plan import Topology

#: wall clock at the start: far from 0, which the client would replace
START_MS = 1_000_000_000
#: turns of the quiet phase after which a schedule counts as stuck
QUIET_TURNS_MAX = 3_000
#: how long an ordered fault is waited for (less where all wait), and how long for a sufferer
_PATIENCE_TURNS, _PATIENCE_NAPS = 25, 8
_NOBODY_TURNS = 200
_ERRORS: dict[str, type[LogstateError]] = {
    "abortable": AbortableError,
    "fenced": FencedError,
    "retriable": RetriableError,
    "broker": BrokerError,
}


#: names of steps are few
_encoded = cache(str.encode)


class Stuck(AssertionError):
    """The application does not come to an end although nothing goes wrong any more."""


class Schedule(ABC):
    """Runs a swarm configuration; examine ``cluster``, ``slots`` and ``counters`` afterwards.

    Args:
        topics: topic -> partitions, of all that exist before the application starts.
        partitions: of each topic that the application reads.
    """

    #: what runs the workers
    slot_class: type[Slot] = Slot

    def __init__(
        self,
        swarm: Swarm,
        *,
        application_id: str,
        topics: Mapping[str, int],
        partitions: int,
        inputs: Sequence[Input],
    ) -> None:
        self.swarm = swarm
        self.application_id = application_id
        self.partitions = partitions
        self.counters: Counter[str] = Counter()
        self.trace = 0
        self.clock = ManualClock(START_MS)
        self.inputs = list(inputs)
        self._random = random.Random(f"schedule-{swarm.seed}")
        self.cluster = FakeCluster(
            topics,
            clock=self.clock,
            group_protocol=swarm.group_protocol,
            transaction_timeout_ms=swarm.transaction_timeout_ms,
            session_timeout_ms=swarm.session_timeout_ms,
            delays_markers=swarm.delays_markers,
            buffers_sends=swarm.buffers_sends,
            fetch_records_max=swarm.fetch_records_max,
            splits_assignments=swarm.splits_assignments,
            background_looks_max=swarm.background_looks_max,
            seed=swarm.seed,
        )
        self.topology = self._topology()
        self._prepare()
        self.slots = [self._slot(number) for number in range(swarm.workers)]
        self._inputs_of_tasks = self._read_partitions()
        self.upstream = Upstream(
            self.cluster,
            self.inputs,
            self._random,
            is_transactional=swarm.inputs_are_transactional,
        )
        self._faults = list(swarm.faults)
        #: consecutive turns in which no worker had anything to do
        self._naps = 0
        #: turn at which the next fault is due
        self._due = self._faults[0].wait if self._faults else 0
        self.log: list[str] | None = None

    @abstractmethod
    def _topology(self) -> Topology:
        """What the workers run."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write what has to be there before anything starts."""

    def _read_partitions(self) -> list[TopicPartition]:
        """Everything that the application has to come to the end of."""
        return [
            TopicPartition(
                topic_name(self.application_id, ref.name, is_internal=ref.is_internal), partition
            )
            for sub_topology in self.topology.sub_topologies
            for ref in sub_topology.source_topics
            for partition in range(self.partitions)
        ]

    def _slot(self, number: int) -> Slot:
        swarm = self.swarm
        config = WorkerConfig(
            application_id=self.application_id,
            transactional_id=f"{self.application_id}-{number}",
            guarantee=swarm.guarantee,
            changelog_writes=swarm.changelog_writes,
            commit_interval_ms=swarm.commit_interval_ms,
            checkpoint_interval_ms=swarm.checkpoint_interval_ms,
            checkpoint_rows_max=swarm.checkpoint_rows_max,
            restore_rows_max=swarm.checkpoint_rows_max,
            purge_interval_ms=swarm.purge_interval_ms,
            aborts_max=1_000,
        )
        return self.slot_class(
            number, self.cluster, self.topology, config, self.clock, self.counters
        )

    # ------------------------------------------------------------------ the phases

    def run(self) -> None:
        """All three phases. Raises what the engine raises, or Stuck."""
        try:
            self._run()
        finally:
            for slot in self.slots:
                if slot.is_running:
                    slot.remove()
            for fault in self.cluster.faults.waiting:  # for a call that did not come
                self.counters[f"repeated_end_{fault.call}"] -= 1

    def _run(self) -> None:
        if not self.swarm.arrives_late:
            self.upstream.write()
        for slot in self.slots:
            slot.start()
        turn = 0
        while self._faults or (self._is_expected() and turn < self._due + _PATIENCE_TURNS):
            self._run_turn(turn)
            # Idle turns would prove nothing, so a nap counts for more.
            turn += max(1, self._naps)
        self._run_without_faults(turn)
        self._finish()

    def _run_turn(self, turn: int) -> None:
        swarm, rng = self.swarm, self._random
        stirs = self._inject_next_fault(turn)
        for slot in self.slots:
            if not slot.is_running and turn >= slot.starts_at_turn:
                slot.start()
                stirs = True
        if self.upstream.waiting and rng.random() < 0.5:
            self.upstream.write(rng.randint(1, 2))
            stirs = True
        if rng.random() < swarm.arrival_rate:
            stirs |= self._something_arrives()
        now_ms = self.clock.wall_clock_ms()
        awake = [slot for slot in self.slots if not slot.is_idle_until_later(now_ms)]
        if stirs or awake:
            self._naps = 0
            self._pass_time(swarm.turn_ms)
            self._advance(rng.choice(awake or self.slots), rng.randint(1, swarm.burst), turn)
            return
        # Everybody waits for the clock: longer and longer steps, short enough for heartbeats.
        self._naps += 1
        self._pass_time(min(swarm.turn_ms << self._naps, swarm.session_timeout_ms // 2))
        for slot in rng.sample(self.slots, len(self.slots)):
            self._advance(slot, rng.randint(1, swarm.burst), turn)

    def _advance(self, slot: Slot, steps: int, turn: int) -> None:
        crc32, encoded = zlib.crc32, _encoded
        number, now_ms = slot.number, self.clock.wall_clock_ms
        for _ in range(steps):
            if not slot.is_running or (slot.frozen_until_ms and slot.frozen_until_ms > now_ms()):
                return
            name = slot.step()
            self.trace = crc32(encoded(name), self.trace + number)
            if self.log is not None:
                self.log.append(f"turn {turn:4d}  slot {slot.number}  {name}")
            if slot.pending is None:  # it ended
                slot.starts_at_turn = turn + 1 + self._random.randrange(self.swarm.restart_turns)
            if slot.is_idle:
                return

    def _run_without_faults(self, start: int) -> None:
        """Nothing goes wrong any more: it must come to an end."""
        self.upstream.write()
        self.cluster.background_looks_max = 0
        for turn in range(QUIET_TURNS_MAX):
            for slot in self.slots:
                slot.ordered = []
                slot.disk.kills = None
                slot.frozen_until_ms = 0
                if not slot.is_running:
                    slot.start()
            self._everything_arrives()
            self._pass_time(40)
            for slot in self.slots:
                self._advance(slot, 40, start + turn)
            if self._is_done():
                self.counters["quiet_turns"] += turn
                return
        raise Stuck(f"not done after {QUIET_TURNS_MAX} quiet turns: {self._progress()}")

    def _everything_arrives(self) -> None:
        while self.cluster.transactions.pending:
            self.cluster.deliver_marker()
        while self.cluster.transactions.late:
            self.cluster.deliver_late_end()
        for producer in list(self.cluster.sending):
            self.cluster.arrive(producer, 1_000)

    def _finish(self) -> None:
        """Stop all workers cleanly: processed records are committed and applied."""
        for slot in self.slots:
            if slot.worker is not None:
                slot.worker.stop()
            for _ in range(1_000):
                if not slot.is_running:
                    break
                slot.step()
            else:
                raise Stuck(f"slot {slot.number} does not stop")
        while self.cluster.transactions.pending:
            self.cluster.deliver_marker()

    # ------------------------------------------------------------------ progress

    def _is_done(self) -> bool:
        return all(left == 0 for left in self._progress().values())

    def _progress(self) -> dict[TopicPartition, int]:
        """Committed records that the group has not consumed yet."""
        committed = self.cluster.group(self.application_id).offsets.committed
        left = {}
        for tp in self._inputs_of_tasks:
            log = self.cluster.log_or_none(tp)
            if log is None:
                left[tp] = 1
                continue
            offset = committed[tp].offset if tp in committed else 0
            last = log.last_committed_offset()
            left[tp] = max(0, last + 1 - (offset or 0))
        return left

    # ------------------------------------------------------------------ the world

    def _pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.cluster.tick()

    def _something_arrives(self) -> bool:
        rng = self._random
        transactions = self.cluster.transactions
        if not (transactions.pending or transactions.late or self.cluster.sending):
            return False
        if transactions.pending:
            self.cluster.deliver_marker(rng.randrange(len(transactions.pending)))
        self._late_end_arrives()
        if self.cluster.sending:
            producers = list(self.cluster.sending)
            self.cluster.arrive(rng.choice(producers), rng.randint(1, 4))
        return True

    def _late_end_arrives(self) -> None:
        """Maybe now; preferably while it can end a transaction, whose process may then die."""
        rng, transactions = self._random, self.cluster.transactions
        if not transactions.late:
            return
        index = rng.randrange(len(transactions.late))
        owner = transactions.late[index].owner
        is_open = transactions.producers[owner].open is not None
        if rng.random() < (0.3 if is_open else 0.9):
            return
        self.cluster.deliver_late_end(index)
        self.counters["late_ends"] += 1
        slot = next(slot for slot in self.slots if slot.transactional_id == owner)
        if is_open and slot.is_running and rng.random() < 0.5:
            slot.ordered.append(InjectedEvent("commit", "crash_at"))

    # ------------------------------------------------------------------ faults

    def _inject_next_fault(self, turn: int) -> bool:
        """Inflict the next fault when it is time; the one before must be over, within reason."""
        if not self._faults or turn < self._due:
            return False
        is_late = turn > self._due + _PATIENCE_TURNS or self._naps > _PATIENCE_NAPS
        if self._is_expected():
            if not is_late:
                return False
            self._crash_overdue(turn)
        is_inflicted = self._inject(self._faults[0], turn)
        if is_inflicted or turn > self._due + _NOBODY_TURNS:
            self._faults.pop(0)
            self._due = turn + (self._faults[0].wait if self._faults else 0)
        return is_inflicted

    def _crash_overdue(self, turn: int) -> None:
        """The step that a crash waits for does not come: crash at another one."""
        for slot in self.slots:
            if slot.is_running and slot.waits_to_crash:
                slot.crash()
                slot.starts_at_turn = turn + 1

    def _is_expected(self) -> bool:
        """Something that was ordered has not happened yet; the next fault waits for it."""
        return any(slot.ordered or slot.disk.kills for slot in self.slots)

    def _inject(self, fault: ScheduledFault, turn: int) -> bool:
        """Inject the fault, or return False if no worker is running that it could affect."""
        if fault.kind in ("clean", "rebalance", "time_out"):
            self._inflict_on_cluster(fault)
            return True
        preferred = self.slots[fault.slot]
        for slot in (preferred, *self.slots):
            if slot.has_tasks:
                self._inflict_on(slot, fault, turn)
                return True
        return False

    def _inflict_on(self, slot: Slot, fault: ScheduledFault, turn: int) -> None:
        self.counters[fault.kind] += 1
        if fault.kind.startswith("crash"):
            slot.crash_damage = fault.disk
        match fault.kind:
            case "crash":
                slot.crash()
                slot.starts_at_turn = turn + self._random.randrange(self.swarm.restart_turns)
            case "crash_at":
                slot.ordered.append(InjectedEvent.of(fault))
            case "crash_in_write":
                slot.disk.kills = "after" if fault.is_carried_out else "before"
            case "zombie" if fault.step:
                slot.ordered.append(InjectedEvent.of(fault, frozen_ms=fault.amount))
            case "zombie":
                slot.frozen_until_ms = self.clock.wall_clock_ms() + fault.amount
            case "expel":
                self._expel_member(slot)
            case "restart":
                assert slot.worker is not None
                slot.worker.stop()
            case "lost_reply" | "exit":
                error = _ERRORS[fault.error](f"injected: {fault.step}")
                slot.ordered.append(InjectedEvent.of(fault, error))
            case "repeated_end":
                self.counters[f"repeated_end_{fault.step}"] += 1
                raised = _ERRORS[fault.error](f"injected: {fault.step}") if fault.error else None
                self.cluster.faults.add(Fault(fault.step, raised, is_repeated=True))
            case "slow":
                slot.clock.slow_ms = fault.amount
            case "clock_jump":
                slot.clock.error_ms = (fault.amount - 300) * 1_000

    def _inflict_on_cluster(self, fault: ScheduledFault) -> None:
        self.counters[fault.kind] += 1
        if fault.kind == "time_out":
            self._pass_time(self.swarm.transaction_timeout_ms + 1)
        elif fault.kind == "rebalance":
            for group in self.cluster.groups.values():
                group.rebalance()
        else:
            for name in list(self.cluster.topics):
                if name.endswith("-changelog"):
                    self.cluster.clean(name)

    def _expel_member(self, slot: Slot) -> None:
        """The group's coordinator did not hear of the member in time."""
        if slot.consumer is not None:
            self.cluster.group(self.application_id).leave(slot.consumer.member_id())
