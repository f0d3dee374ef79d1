"""An application is moved to more partitions between two runs, by attempts that are killed.

It runs under the faults of any schedule until everything is processed. Its inputs get more
partitions, and the state is moved: attempts die before any of their calls, or lose the answer to
one; in between some give up, and instances try to start, which the mark of an unfinished move must
refuse. Then the application runs on, again under faults, with the same local directories.

What it has sent and what its stores hold must be, key by key, what one task computes from the same
records without a move. In some schedules not everything was processed: then the move must be
refused, and nothing may have changed.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec

from logstate.admin.reshard import Resharding, without_move
from logstate.admin.stopped_application import StoppedApplication
from logstate.changelog.cut import MANIFEST_KEY
from logstate.changelog.rows.writes import LoggedFields
from logstate.contracts.errors import (
    AbortableError,
    BrokerError,
    LogstateError,
    MembersLiveError,
    RetriableError,
    UpgradeError,
)
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import cuts_topic
from logstate.testing.fake.client import ProcessKilled
from logstate.testing.fake.faults import Fault as CallFault
from logstate.testing.fake.faults import Faults
from logstate.testing.simulation.clock import take_apart
from logstate.testing.simulation.stored_rows import comparable, rows_of
from logstate.testing.simulation.swarm import Swarm
from logstate.testing.simulation.upstream import Input, Upstream
from logstate.topics.manifest_changes import Manifest
from logstate.topology import Topology
from tests.campaigns.simulation import flow, moved_flow
from tests.campaigns.simulation.fake_logs import FakeLogReader, FakeLogs
from tests.campaigns.simulation.indexed_orders import digit_of
from tests.campaigns.simulation.mortal_process import MortalProcess
from tests.campaigns.simulation.oracles import Wrong, same
from tests.campaigns.simulation.reference import new_task
from tests.campaigns.simulation.schedule import Schedule
from tests.campaigns.simulation.swarm import draw

#: partitions before and after
_COUNTS = ((1, 2), (2, 3), (2, 4), (3, 4), (1, 3))
_CUTS = TopicPartition(cuts_topic(flow.APPLICATION), 0)
_SINCE = "resharding_since"
#: a move makes so many calls, and so many commits for each partition
_ATTEMPTS_MAX, _CALLS_MAX, _COMMITS_MAX = 5, 300, 10
_DIES, _GIVES_UP, _STARTS, _IS_UNREAD = 0.8, 0.2, 0.3, 0.15
_LOSES_ANSWER, _REPEATS_END, _ARRIVES, _ARRIVES_LATE = 0.25, 0.5, 0.3, 0.05
#: calls of an attempt whose answer is lost
_LOST_ANSWERS = (
    ("commit", AbortableError),
    ("commit", RetriableError),
    ("flush", AbortableError),
    ("send_offsets", AbortableError),
    ("create_topics", BrokerError),
    ("delete_topics", BrokerError),
    ("init_transactions", RetriableError),
)
_TRIES_MAX = 50


class Reshards(Schedule):
    """A schedule of two runs with a move between them."""

    @classmethod
    def of(cls, seed: int) -> Reshards:
        """The configuration and the faults of a seed."""
        return cls(replace(draw(seed), variant="resharded"))

    def __init__(self, swarm: Swarm) -> None:
        rng = random.Random(f"reshards-{swarm.seed}")
        self._chance = rng
        self._before, self._after = rng.choice(_COUNTS)
        self._number = swarm.seed % moved_flow.DATA_SETS
        data = moved_flow.data_set(self._number, self._after)
        super().__init__(
            swarm, partitions=self._before, inputs=list(_placed(data.before, self._before))
        )
        self.judge = self._judge
        self._then = list(_placed(data.after, self._after))
        self._is_refused = False
        #: records were moved that a task may find late
        self._is_late = False
        self._told: list[str] = []
        self._attempts = 0
        self._turns = 0

    def _topology(self) -> Topology:
        return moved_flow.topology(in_memory=self.swarm.in_memory)

    def _prepare(self) -> None:
        for topic in set(moved_flow.OUTPUTS) - set(flow.OUTPUTS):
            self.cluster.create_topic(topic, 1)

    # ------------------------------------------------------------------ two runs

    def _run(self) -> None:
        faults = self._faults
        half = self._chance.randint(0, len(faults))
        self._faults = faults[:half]
        is_unread = self._chance.random() < _IS_UNREAD
        self._go_on(is_unread=is_unread)
        self._stop()
        for topic in (flow.ORDERS, flow.PRICES):
            self.cluster.add_partitions(topic, self._after)
        self._is_late = not self._is_done()
        if not self._is_moved(may_be_refused=is_unread):
            return
        self._faults = faults[half:]
        self._due = self._turns + (self._faults[0].wait if self._faults else 0)
        self.partitions, self.inputs = self._after, self.inputs + self._then
        self._inputs_of_tasks = self._read_partitions()
        self.upstream = Upstream(
            self.cluster,
            self._then,
            self._random,
            is_transactional=self.swarm.inputs_are_transactional,
        )
        self._go_on()
        self._finish()

    def _go_on(self, *, is_unread: bool = False) -> None:
        """Run under the faults that are due, and until everything is processed."""
        if not self.swarm.arrives_late:
            self.upstream.write()
        for slot in self.slots:
            slot.start()
        last = self._turns + self._chance.randint(1, 20)
        while self._faults or self._turns < max(last, self._due):
            self._run_turn(self._turns)
            self._turns += max(1, self._naps)
        if is_unread:
            self.upstream.write()
        else:
            self._run_without_faults(self._turns)

    def _stop(self) -> None:
        """Each worker stops cleanly, or dies somewhere."""
        for slot in self.slots:
            for _ in range(self._chance.randint(0, 30)):
                if slot.is_running:
                    slot.step()
            if slot.worker is not None and self._chance.random() < 0.5:
                slot.worker.stop()
                for _ in range(1_000):
                    if slot.is_running:
                        slot.step()
            if slot.is_running:
                slot.crash()

    def _read_partitions(self) -> list[TopicPartition]:
        """With repartition topics as the manifest calls them."""
        topics = {} if not self.cluster.topics.get(_CUTS.topic) else self._manifest()["topics"]
        named = {entry.get("usual_name", name): name for name, entry in topics.items()}
        return [
            tp._replace(topic=named.get(tp.topic, tp.topic)) for tp in super()._read_partitions()
        ]

    # ------------------------------------------------------------------ the move

    def _is_moved(self, *, may_be_refused: bool) -> bool:
        """Attempts until one comes to its end; False where the move was refused for good."""
        rng, faults, self.cluster.faults = self._chance, self.cluster.faults, Faults()
        stored = self._manifest()
        for _ in range(rng.randint(0, _ATTEMPTS_MAX)):
            calls = rng.randint(1, _CALLS_MAX) if rng.random() < _DIES else None
            act = self._given_up if rng.random() < _GIVES_UP else self._moved
            fault = self._fault()
            is_repeated = fault is not None and fault.is_repeated
            self._attempt(act, None if is_repeated else calls, fault)
            if rng.random() < _STARTS:
                self._start_one()
        outcome = ""
        for _ in range(_TRIES_MAX):
            outcome = self._attempt(self._moved, None, None)
            if outcome in ("done", "refused"):
                break
        self._everything_arrives()
        self.cluster.faults = faults
        if outcome == "refused":
            self._check_refusal(stored, may_be_refused=may_be_refused)
        elif outcome != "done":
            raise Wrong(f"the move is not done after {_TRIES_MAX} attempts: {outcome}")
        else:
            self._check_topics()
        return outcome == "done"

    def _fault(self) -> CallFault | None:
        rng = self._chance
        if rng.random() < _LOSES_ANSWER:
            call, error = rng.choice(_LOST_ANSWERS)
            return CallFault(call, error(f"injected: {call}"), is_carried_out=rng.random() < 0.5)
        if rng.random() < _REPEATS_END:
            return CallFault("commit", is_repeated=True)
        return None

    def _attempt(
        self,
        act: Callable[[StoppedApplication], None],
        calls: int | None,
        fault: CallFault | None,
    ) -> str:
        """One process that dies before a call, or not; how it ended."""
        self._attempts += 1
        name = f"move-{self._attempts}"
        process = MortalProcess(self.cluster, name, calls, self._something_happens)
        logs = FakeLogs(FakeLogReader(self.cluster, process, self._sleep))
        skipped = 0
        if fault is not None and fault.call == "commit":
            skipped = self._chance.randrange(self._before * _COMMITS_MAX)
        for _ in range(skipped):
            self.cluster.faults.add(CallFault("commit"))  # those before it go well
        if fault is not None:
            self.cluster.faults.add(fault)
        try:
            with StoppedApplication(
                self.application_id, process, logs, clock=self.clock, sleep=self._sleep
            ) as application:
                act(application)
            outcome = "done"
        except ProcessKilled:
            outcome = "killed"
        except MembersLiveError:
            self._pass_time(self.swarm.session_timeout_ms + 1)
            outcome = "not_alone"
        except UpgradeError:
            outcome = "refused"
        except LogstateError:
            if fault is None or fault in self.cluster.faults.waiting:
                raise  # nothing has gone wrong that the attempt could not do without
            outcome = "failed"
        self.cluster.faults.waiting.clear()
        self.counters[f"moves_{outcome}"] += 1
        self.trace = zlib.crc32(outcome.encode(), self.trace)
        return outcome

    def _moved(self, application: StoppedApplication) -> None:
        told = self._told.append
        Resharding(application, self.topology, "earliest", 1, {}, told).run(self._after)

    def _given_up(self, application: StoppedApplication) -> None:
        self.counters["given_up"] += bool(without_move(application))

    def _something_happens(self, process: MortalProcess) -> None:
        """Before a call of an attempt: a marker arrives, or a request that was sent twice."""
        rng, transactions = self._chance, self.cluster.transactions
        if transactions.pending and rng.random() < _ARRIVES:
            self.cluster.deliver_marker(rng.randrange(len(transactions.pending)))
        if not transactions.late or rng.random() > _ARRIVES_LATE:
            return
        if transactions.producers[transactions.late[0].owner].open is not None:
            self.cluster.deliver_late_end()
            self.counters["late_ends_of_moves"] += 1
            if rng.random() < _DIES:
                process.calls = rng.randint(0, 4)

    def _sleep(self, seconds: float) -> None:
        self._everything_arrives()
        self._pass_time(round(seconds * 1_000))

    def _start_one(self) -> None:
        """An instance starts between two attempts, and must be refused until the move is done."""
        slot = self._chance.choice(self.slots)
        self._everything_arrives()
        self._pass_time(self.swarm.transaction_timeout_ms + 1)
        stored = self._manifest()
        is_moved = _SINCE not in stored and _partitions_of(stored) == {self._after}
        slot.start()
        try:
            for _ in range(self._chance.randint(200, 300)):
                slot.step()
                self._sleep(0.001)
        except UpgradeError:
            if is_moved:
                raise
            self.counters["starts_refused"] += 1
        else:
            if not is_moved:
                raise Wrong(f"an instance has started while its state is moved: {stored}")
            self.counters["starts_after_move"] += 1
        slot.crash()

    def _check_refusal(self, before: Manifest, *, may_be_refused: bool) -> None:
        if not may_be_refused:
            raise Wrong(f"the move was refused although everything was processed: {self._told}")
        if self._is_done():
            raise Wrong("the move was refused although everything was processed in time")
        same("manifest after a refusal", self._manifest(), before)
        left = [t for t in self.cluster.topics if t.startswith(f"{self.application_id}-g")]
        same("topics of a move that was refused", left, [])
        self._is_refused = True

    def _check_topics(self) -> None:
        """All stores have the new count, and nothing is left of the attempts."""
        stored = self._manifest()
        if _SINCE in stored:
            raise Wrong(f"the mark is left after the move: {stored}")
        same("partitions of stores", _partitions_of(stored), {self._after})
        logs = {entry["changelog_topic"] for entry in stored["stores"].values()}
        topics = logs | set(stored["topics"])
        own = [t for t in self.cluster.topics if t.startswith(f"{self.application_id}-")]
        same("topics of the application", sorted(own), sorted({*topics, _CUTS.topic}))
        counts = {len(self.cluster.topic(topic).logs) for topic in topics}
        same("partitions of its topics", counts, {self._after})

    def _manifest(self) -> Manifest:
        values = {r.key(): r.value() for r in self.cluster.log(_CUTS).committed()}
        found: Manifest = msgspec.json.decode(values[MANIFEST_KEY] or b"")
        return found

    # ------------------------------------------------------------------ what came of it

    def _judge(self) -> None:
        if self._is_refused:
            return
        wanted = moved_flow.unmoved(self._number, self._after)
        rows = self._rows()
        for store in moved_flow.NEVER_LATE if self._is_late else moved_flow.COMPARED:
            self.counters[f"compared_rows_of_{store}"] += len(rows[store])
            same(
                f"rows of {store!r}",
                comparable(self._specs[store], rows[store]),
                comparable(self._specs[store], wanted.rows[store]),
            )
        if self._is_late:
            return
        closed, all_closed = rows[moved_flow.LEAVES_BEHIND], wanted.rows[moved_flow.LEAVES_BEHIND]
        same("rows that stay behind", closed, {k: v for k, v in all_closed.items() if k in closed})
        for topic in moved_flow.OUTPUTS:
            found = Counter(
                (r.key(), r.value(), r.timestamp()[1]) for r in self.cluster.records(topic)
            )
            self.counters[f"compared_outputs_{topic}"] += found.total()
            if self.swarm.guarantee == "exactly_once":
                same(f"outputs of {topic}", dict(found), dict(wanted.outputs[topic]))
            else:
                same(f"outputs of {topic}", {*found}, {*wanted.outputs[topic]})

    @property
    def _specs(self) -> dict[str, StoreSpec]:
        return {spec.name: spec for one in self.topology.sub_topologies for spec in one.stores}

    def _rows(self) -> dict[str, dict[bytes, bytes]]:
        """Store -> the rows of all its tasks, as a restore would find them."""
        entries = self._manifest()["stores"]
        found: dict[str, dict[bytes, bytes]] = {}
        for sub_topology in self.topology.sub_topologies:
            for partition in range(self._after):
                task_id = TaskId(sub_topology.id, partition)
                task = new_task(sub_topology, task_id, self._after, computes=False)
                for spec in sub_topology.stores:
                    where = TopicPartition(entries[spec.name]["changelog_topic"], partition)
                    records = self.cluster.log(where).committed()
                    writes: list[LoggedFields] = [
                        (r.key() or b"", r.value(), max(r.timestamp()[1], 0), r.headers())
                        for r in records
                    ]
                    task.state.restore(spec.name, writes, 0)
                    if spec.indexes:
                        _check_index(f"{spec.name!r} in {task_id}", task.state.stores[spec.name])
                for store, rows in rows_of(task.state).items():
                    twice = rows.keys() & found.setdefault(store, {}).keys()
                    if twice and store in moved_flow.COMPARED:
                        raise Wrong(f"rows of {store!r} are in two partitions: {sorted(twice)}")
                    found[store] |= rows
                task.close()
                take_apart(task)
        return found


def _check_index(where: str, store: Any) -> None:
    """An index finds the rows that a scan finds, by their values."""
    rows = [(key, row.value) for key, row in store.all()]
    found = [(key, row.value) for key, row in store.by_range(moved_flow.INDEX)]
    wanted = [one for one in rows if digit_of(one[1]) is not None]
    wanted.sort(key=lambda one: (digit_of(one[1]), one[0].encode()))
    same(f"index of {where}", found, wanted)


def _partitions_of(stored: Manifest) -> set[int]:
    return {entry["partitions"] for entry in stored["stores"].values()}


def _placed(records: Iterable[tuple[str, str, str, int]], partitions: int) -> Iterable[Input]:
    for topic, key, value, time_ms in records:
        place = moved_flow.place(key, partitions)
        yield Input(topic, place, key.encode(), value.encode(), time_ms)
