"""Find the tasks of a worker whose inputs are idle, and make their ticks.

Only for tasks with operators that have ``close_on_idle``; without them a turn looks at nothing.
The brokers are asked when something is due, on the thread that makes the calls of commits, so
neither records nor polls wait for the answer. Without an answer there is no tick.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from logstate.changelog.cut import decode_cut
from logstate.contracts.clients import Admin, Background, Committed, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import RetriableError
from logstate.contracts.records import TopicPartition
from logstate.restore.async_request import AsyncRequest
from logstate.task.idle_ticks import is_open_in
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task_table import TaskTable
from logstate.topics.bound_plan import BoundPlan
from logstate.topology.graph.idle_order import awaited_clocks
from logstate.topology.graph.sub_topology import SubTopology, feeding
from logstate.worker.poison_record import PoisonRecordSearch
from logstate.worker.worker_observer import WorkerObserver

_LOGGER = logging.getLogger(__name__)

#: after a request without an answer
_ASK_AGAIN_MS = 1_000.0

#: of each asked partition the end, and of those above what is committed
Answer: TypeAlias = "tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, Committed]]"


class IdleTasks:
    """The idle tasks of one worker, since its start."""

    def __init__(self, plan: BoundPlan, admin: Admin, background: Background, clock: Clock) -> None:
        self._plan = plan
        self._admin = admin
        self._clock = clock
        self._request = AsyncRequest(lambda: background)
        self._asked: list[OwnedTask] = []
        self._asked_ms = 0.0
        self._not_before_ms = 0.0
        subs = plan.topology.sub_topologies
        idle = [sub for sub in subs if sub.closes_on_idle]
        #: sub-topologies that others wait for before they close something
        self._above = frozenset(one.id for sub in idle for one in feeding(sub, subs))
        #: sub-topology that closes on idle -> the partitions that those above it read
        self._inputs_above = {sub.id: self._inputs_of(feeding(sub, subs)) for sub in idle}
        #: ... -> partition that one above it reads, the clocks of its cut that say what is open
        self._open_clocks = {sub.id: self._clocks_above(sub) for sub in idle}

    def turn(
        self, tasks: TaskTable, search: PoisonRecordSearch, observer: WorkerObserver
    ) -> Steps[None]:
        """Look at the running tasks, and tick those that the brokers confirm to be idle.

        None while the worker is paused, a task is restored or the brokers are unavailable.
        """
        if not self._inputs_above:
            return
        now, running = self._clock.monotonic_ms(), tasks.running()
        is_hindered = observer.is_paused or observer.is_away or len(running) < len(tasks)
        for owned in running:
            number, positions = owned.task_id.sub_topology, owned.quiet_positions()
            if number in self._above and positions is not None:
                owned.task.commit_positions(positions)
            if number in self._inputs_above:
                is_busy = is_hindered or search.is_searching(owned)
                owned.idle.check(now, None if is_busy else positions)
        if not self._request.is_under_way:
            self._asked = [owned for owned in running if self._is_to_be_asked(owned, now)]
            if not self._asked or now < self._not_before_ms:
                return
            self._asked_ms = now
        try:
            answer: Answer | None = yield from self._request.advance(self._ends, waits=False)
        except RetriableError as exc:
            _LOGGER.info("the ends of idle inputs are not known: %s", text_of(exc))
            self._not_before_ms = now + _ASK_AGAIN_MS
            return
        if answer is not None:
            for owned in self._asked:
                if owned.stage is Stage.RUNNING:
                    self._tick(owned, answer)

    def _is_to_be_asked(self, owned: OwnedTask, now: float) -> bool:
        above = self._inputs_above.get(owned.task_id.sub_topology)
        time = None if above is None else owned.idle.time(now)
        if time is None or owned.task.awaits_commit:
            return False
        if above and not owned.idle.knows_ends_above:
            return owned.idle.may_ask_above(now)
        return owned.task.idle_ticks.is_due(time)

    def _ends(self) -> Steps[Answer]:
        """Ask the brokers, for the committed offsets first."""
        own = [tp for owned in self._asked for tp in owned.partitions]
        above = frozenset[TopicPartition]().union(
            *(self._inputs_above[owned.task_id.sub_topology] for owned in self._asked)
        )
        committed: Mapping[TopicPartition, Committed] = {}
        admin, group = self._admin, self._plan.application_id
        if above:
            committed = yield Step(
                "committed_so_far", admin.committed_so_far, (group, sorted(above))
            )
        every = sorted({*own, *above})
        ends = yield Step("end_offsets", admin.end_offsets, (every,))
        return ends, committed

    def _tick(self, owned: OwnedTask, answer: Answer) -> None:
        ends, committed = answer
        number = owned.task_id.sub_topology
        above, clocks = self._inputs_above[number], self._open_clocks[number]
        offsets = {tp: committed[tp].offset for tp in above}
        is_open = any(_is_open(committed[tp], names) for tp, names in clocks.items())
        idle = owned.idle.confirmed(self._asked_ms, ends, offsets, above, is_open_above=is_open)
        if idle is not None and not owned.task.awaits_commit and owned.task.idle_ticks.is_due(idle):
            owned.task.tick(idle)

    def _inputs_of(self, subs: Iterable[SubTopology]) -> frozenset[TopicPartition]:
        plan = self._plan
        topics = {topic for sub in subs for topic in plan.source_topics(sub)}
        counts = plan.partition_counts
        return frozenset(TopicPartition(t, p) for t in topics for p in range(counts[t]))

    def _clocks_above(self, sub: SubTopology) -> dict[TopicPartition, tuple[str, ...]]:
        subs = self._plan.topology.sub_topologies
        clocks = awaited_clocks(sub, subs)
        above = [one for one in subs if one.id in clocks]
        return {tp: clocks[one.id] for one in above for tp in self._inputs_of([one])}


def _is_open(committed: Committed, clocks: tuple[str, ...]) -> bool:
    """Return whether something is open by a cut, or may be: it is unknown."""
    if committed.offset is None:
        return True
    cut = decode_cut(committed.metadata, committed_offset=committed.offset).cut
    return cut is None or is_open_in(cut.clocks, clocks)
