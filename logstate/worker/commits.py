"""The commits of a worker: when they begin, the one under way, what follows each.

Two kinds. When it is time, a commit begins and goes on turn by turn, while records are processed.
Where something depends on its end (partitions are revoked, tasks start, the worker stops) it is
waited for, and then everything else is committed in one go; it is waited for as well where records
wait to be processed, more than a turn takes.

Invariant: one commit at a time.
"""

from __future__ import annotations

from logstate.commit.commit_under_way import CommitUnderWay
from logstate.commit.maintenance import Housekeeping
from logstate.commit.transaction import Transactions
from logstate.contracts.clock import Clock
from logstate.contracts.seams import Steps
from logstate.contracts.worker_config import WorkerConfig
from logstate.task.owned_task import OwnedTask
from logstate.task.task_table import TaskTable
from logstate.worker.commit_timer import CommitTimer
from logstate.worker.started_worker import Session
from logstate.worker.worker_observer import WorkerObserver

#: outputs kept in memory for a commit under way, before it is waited for
_HELD_RECORDS_MAX = 20_000
#: the longest wait for records while a commit is under way
_UNDER_WAY_POLL_S = 0.001


class Commits:
    """See the module."""

    def __init__(
        self,
        config: WorkerConfig,
        clock: Clock,
        transactions: Transactions,
        tasks: TaskTable,
        observer: WorkerObserver,
    ) -> None:
        self._clock = clock
        self._tasks = tasks
        self._observer = observer
        self._timer = CommitTimer(config, clock, transactions, tasks)
        self._housekeeping = Housekeeping(config, clock)
        self._session: Session | None = None
        self._under_way: CommitUnderWay | None = None
        self._began_ms = 0.0

    def open(self, session: Session) -> None:
        """The worker has started."""
        self._session = session
        self._timer.start()

    def idle_timeout_s(self) -> float:
        """How long a poll may wait for records."""
        return _UNDER_WAY_POLL_S if self._under_way is not None else self._timer.idle_timeout_s()

    def idle(self) -> None:
        """There is nothing else to do: make the next commit shorter."""
        self._housekeeping.encode_ahead(self._tasks.running())

    def go_on(self, *, keeps_up: bool) -> Steps[None]:
        """Begin a commit when it is time, or go on with the one under way.

        Who does not keep up waits for it: outputs that are held back for long cost more than the
        wait, and nobody is late for a commit alone.
        """
        if self._under_way is None:
            running = self._tasks.running()
            if not running or not self._timer.is_due():
                return
            self._begin(running)
        has_room = self._live.committer.held_total < _HELD_RECORDS_MAX
        yield from self._advance(waits=not (keeps_up and has_room))
        if self._under_way is None:
            live = self._live
            yield from self._housekeeping.purge(
                live.admin, live.plan, self._tasks.running(), self._clock.monotonic_ms()
            )

    def finish(self) -> Steps[None]:
        """Wait for the commit under way."""
        if self._under_way is not None:
            yield from self._advance(waits=True)

    def commit_all(self) -> Steps[None]:
        """Wait until everything that running tasks have done is committed."""
        yield from self.finish()
        running = self._tasks.running()
        if running and self._timer.has_reason():
            yield from self.commit(running)

    def commit(self, tasks: list[OwnedTask]) -> Steps[None]:
        """Commit these tasks, and wait for it."""
        yield from self.finish()
        self._begin(tasks)
        yield from self._advance(waits=True)

    def abandon(self) -> Steps[None]:
        """Everything uncommitted is about to be discarded: give the commit under way up."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            yield from under_way.abandon()
        if self._session is not None:
            self._session.committer.discard()
        self._timer.start()

    def _begin(self, tasks: list[OwnedTask]) -> None:
        self._began_ms = self._clock.monotonic_ms()
        live = self._live
        steps = live.committer.commit(tasks, self._tasks.epochs)
        self._under_way = CommitUnderWay(steps, live.background)

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
        now = self._clock.monotonic_ms()
        self._observer.committed(report, now - self._began_ms)
        self._timer.start()
        self._housekeeping.apply_if_due(self._tasks.running(), now)

    @property
    def _live(self) -> Session:
        assert self._session is not None, "the worker has not started"
        return self._session
