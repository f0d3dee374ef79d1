"""The commits of a worker: when they begin, the one in flight, and what follows each.

There are two kinds. When the interval is over, or a task requests it, a commit begins and continues
turn by turn while records are processed. If something depends on its end (partitions are revoked,
tasks start, the worker stops, too many records or outputs are waiting), the worker waits for it.

Invariant: one commit at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from logstate.commit.in_flight_commit import InFlightCommit
from logstate.commit.maintenance import Maintenance
from logstate.commit.transaction import Transactions
from logstate.contracts.clients import Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import REPLAYED
from logstate.contracts.snapshots import SubShape
from logstate.contracts.worker_config import WorkerConfig
from logstate.task.owned_task import OwnedTask
from logstate.task.task_table import TaskTable
from logstate.topics.bound_plan import BoundPlan
from logstate.worker.worker_observer import WorkerObserver
from logstate.worker.worker_start import StartedWorker


def shape_of(plan: BoundPlan) -> dict[int, SubShape]:
    """Return sub-topology -> the internal topics that it reads and writes."""

    def counted(topics: Iterable[str]) -> dict[str, int]:
        return {t: plan.partition_counts[t] for t in topics if t in plan.repartition_topics}

    return {
        sub.id: SubShape(
            plan.task_count(sub),
            counted(plan.source_topics(sub)),
            counted(plan.resolved(ref.name, ref.is_internal) for ref in sub.sink_topics),
        )
        for sub in plan.topology.sub_topologies
    }


_LOGGER = logging.getLogger(__name__)

#: the longest wait for records while nothing is due, and while a commit is in flight
_IDLE_POLL_S = 0.1
_UNDER_WAY_POLL_S = 0.001
#: outputs that a commit in flight defers in memory before the worker waits for it
_DEFERRED_RECORDS_MAX = 20_000


@dataclass
class Commits:
    """Begins commits, continues the one in flight, and handles its result."""

    config: WorkerConfig
    clock: Clock
    live: StartedWorker
    transactions: Transactions
    tasks: TaskTable
    observer: WorkerObserver
    maintenance: Maintenance
    #: number of successful commits
    total: int = field(default=0, init=False)
    _under_way: InFlightCommit | None = field(default=None, init=False)
    _began_ms: float = field(default=0.0, init=False)
    #: the interval begins with a start, an abort and a commit, or the end of an awaited commit
    _interval_began_ms: float = field(init=False)

    def __post_init__(self) -> None:
        self._begin_interval()
        self.tasks.barriers.shape = shape_of(self.live.plan)

    # ------------------------------------------------------------------ when

    def idle_timeout_s(self) -> float:
        """Return how long a poll may wait for records."""
        if self._under_way is not None or self.tasks.barriers.is_alert:
            return _UNDER_WAY_POLL_S
        if self.maintenance.is_building:
            return 0.0
        if not self._has_uncommitted():
            return _IDLE_POLL_S
        left_ms = self.config.commit_interval_ms - self._interval_ms()
        return min(_IDLE_POLL_S, max(0.0, left_ms / 1000))

    def _is_due(self) -> bool:
        running = self.tasks.running()
        if self.tasks.barriers.wants_commit(running):
            return True
        is_time = self._interval_ms() >= self.config.commit_interval_ms
        if not is_time and not any(owned.task.wants_commit for owned in running):
            return False
        return self._has_reason()

    def _has_reason(self) -> bool:
        """Return True if there is something to commit; an idle worker commits from time to time."""
        idle_ms = self.config.idle_commit_interval_ms
        return self._has_uncommitted() or self._interval_ms() >= idle_ms

    def _has_uncommitted(self) -> bool:
        if self.transactions.is_open:
            return True
        for owned in self.tasks.running():
            task = owned.task
            if task.has_uncommitted_input or task.outputs:
                return True
        return False

    def _interval_ms(self) -> float:
        return self.clock.monotonic_ms() - self._interval_began_ms

    def _begin_interval(self, overlap_ms: float = 0.0) -> None:
        """Start the interval; the time that a commit overlapped with processing counts towards it.

        At most half an interval counts: otherwise slow brokers would get commits without a pause.
        """
        counts_ms = min(overlap_ms, self.config.commit_interval_ms / 2)
        self._interval_began_ms = self.clock.monotonic_ms() - counts_ms

    # ------------------------------------------------------------------ committing

    def go_on(self, *, keeps_up: bool, was_slow_recently: bool = False) -> Steps[None]:
        """Begin a commit if it is due, or continue the one in flight.

        The worker waits for it if records arrive faster than they are processed (``keeps_up`` is
        False), because deferring outputs for long costs more than the wait. A careful worker
        commits all that there is and waits too: the next function call may take longer than the
        transaction timeout.
        """
        if self._under_way is None:
            running = self.tasks.running()
            if not running or not (
                self._is_due() or (was_slow_recently and self._has_uncommitted())
            ):
                return
            self._begin(running)
        has_room = self.live.committer.output_buffer.deferred_total < _DEFERRED_RECORDS_MAX
        yield from self._advance(waits=was_slow_recently or not (keeps_up and has_room))
        if self._under_way is None:
            admin, plan = self.live.admin, self.live.plan
            now = self.clock.monotonic_ms()
            yield from self.maintenance.purge(admin, plan, self.tasks.running(), now)

    def finish(self) -> Steps[None]:
        """Wait for the commit in flight."""
        if self._under_way is not None:
            yield from self._advance(waits=True)

    def commit_all(self) -> Steps[None]:
        """Commit everything that running tasks have done, and wait for it."""
        yield from self.finish()
        running = self.tasks.running()
        if running and self._has_reason():
            yield from self.commit(running)

    def commit_last(self) -> Steps[None]:
        """Commit before the end; if this fails, the records are processed again."""
        try:
            yield from self.commit_all()
        except REPLAYED as exc:
            _LOGGER.warning(
                "the last commit failed; its records will be processed again: %s", text_of(exc)
            )

    def commit(self, tasks: list[OwnedTask]) -> Steps[None]:
        """Commit these tasks, and wait for it."""
        yield from self.finish()
        self._begin(tasks)
        yield from self._advance(waits=True)

    def abandon(self) -> Steps[None]:
        """Abandon the commit in flight, because everything uncommitted will be discarded."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            yield from under_way.abandon()
        self.live.committer.output_buffer.discard()
        self._begin_interval()

    def _begin(self, tasks: list[OwnedTask]) -> None:
        self._began_ms = self.clock.monotonic_ms()
        self.tasks.barriers.begin(tasks, self._began_ms)
        steps = self.live.committer.commit(tasks, self.tasks.epochs)
        self._under_way = InFlightCommit(steps, self.live.background)

    def _advance(self, *, waits: bool) -> Steps[None]:
        under_way = self._under_way
        assert under_way is not None
        try:
            report = yield from under_way.advance(waits=waits)
        except Exception:
            self._under_way = None
            raise
        if report is None:
            return
        self._under_way = None
        self.total += 1
        now = self.clock.monotonic_ms()
        self.tasks.barriers.committed(report.offsets, report.metadata, report.cut_records)
        self.observer.committed(report, now - self._began_ms)
        self._begin_interval(overlap_ms=0.0 if waits else now - self._began_ms)
        running = self.tasks.running()
        for owned in running:
            owned.current_ms = max(owned.current_ms or 0.0, self._began_ms)
        self.maintenance.apply_if_due(running, now)
