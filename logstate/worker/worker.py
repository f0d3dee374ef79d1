"""The worker: one consumer, one transactional producer, its tasks, one loop.

`run` is a generator that yields every external call as a Step (see
:mod:`logstate.contracts.clients`). So the same loop runs on Kafka, where each step is executed at
once, and in a simulator, which may stop it forever between any two steps. One turn of the loop:

    poll -> pass on fetched records -> start and restore assigned tasks -> process records
    -> send outputs -> commit when it is due

A change of the assignment is handled inside the poll that returns it: revoked tasks are committed
first, lost ones are discarded. Any failure of a transaction discards everything uncommitted, moves
every task through its stages again and replays: there is one path for all failures.

Invariants:
1. records are processed only for tasks in stage RUNNING;
2. a partition is fetched only while its task runs (otherwise it is paused);
3. after `run` has ended, for whatever reason, no transaction of this worker is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from logstate.commit.maintenance import Maintenance
from logstate.commit.transaction import Transactions
from logstate.contracts.clients import Cluster, Rebalance, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import (
    REPLAYED,
    ErrorCollector,
    ForeignGroupError,
    LogstateError,
    LostMemberError,
    RetriableError,
    StoreCorruptedError,
)
from logstate.contracts.records import TaskId, TopicPartition, by_topic
from logstate.contracts.worker_config import WorkerConfig
from logstate.queries.global_stores import GlobalStores
from logstate.restore.restore import RestoreListener, Restorer
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.owned_task import DestroyState, OwnedTask, Stage
from logstate.task.task import Task
from logstate.task.task_table import TaskTable
from logstate.topics.bound_plan import BoundPlan
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.plan import Topology
from logstate.worker.assignment import WorkerControl
from logstate.worker.buffer_limit import BufferLimit
from logstate.worker.commits import Commits
from logstate.worker.fetch_buffer import FetchBuffer
from logstate.worker.limits import FailureLimits, PartitionsLost, replay_level, replay_line
from logstate.worker.poison_record import PoisonRecordSearch
from logstate.worker.processing import Processing
from logstate.worker.protocol_conflict import ProtocolConflict
from logstate.worker.slow_calls import SlowCalls
from logstate.worker.standby_tasks import StandbyTasks
from logstate.worker.worker_observer import WorkerObserver
from logstate.worker.worker_start import StartedWorker, WorkerStart

_LOGGER = logging.getLogger(__name__)

#: the wait for restored records while nothing else runs, and while tasks run without records
_RESTORE_POLL_S, _BUSY_POLL_S = 0.05, 0.005


class Worker:
    """Runs the loop. ``new_task`` creates a task with its stores; ``drive`` runs callbacks;
    ``check_state`` raises if the local state of running tasks is gone; ``error_handlers`` are those
    of global stores; ``control`` is that of the previous worker.
    """

    def __init__(
        self,
        topology: Topology,
        config: WorkerConfig,
        cluster: Cluster,
        clock: Clock,
        *,
        new_task: Callable[[BoundPlan, OwnedTask, GlobalStores], Task],
        destroy_state: DestroyState,
        drive: Callable[[Steps[None]], None],
        observer: WorkerObserver | None = None,
        restore_listener: RestoreListener | None = None,
        wait: Callable[[float], None] = lambda _: None,
        error_handlers: ErrorHandlers = FAIL_ALWAYS,
        control: WorkerControl | None = None,
        check_state: Callable[[Iterable[TaskId]], None] = lambda _: None,
    ) -> None:
        self.control = control or WorkerControl()
        self._config = config
        #: how long the group waits for a poll
        self.max_poll_interval_ms = config.max_poll_interval_ms
        self._clock = clock
        self._drive = drive
        self._observer = observer or WorkerObserver()
        self._started: StartedWorker | None = None
        self._transactions = Transactions(cluster, config.transactional_id)
        self._starting = WorkerStart(
            topology,
            config,
            cluster,
            clock,
            self._transactions,
            new_task,
            destroy_state,
            self._observer,
            lambda: self.is_stopping,
            wait,
            error_handlers,
        )
        self._restorer = Restorer(config, cluster, restore_listener, clock.monotonic_ms)
        self.followed = StandbyTasks(config, clock, wait, self.control)
        self._tasks = TaskTable()
        self._failure: LogstateError | None = None
        self._limits = FailureLimits(config)
        self._protocol_conflict = ProtocolConflict(config.application_id, wait)
        self._poison_search = PoisonRecordSearch()
        limit = BufferLimit(config.buffered_records_per_partition, config.buffered_bytes)
        self.fetch_buffer = FetchBuffer(self._tasks, self._observer, clock, limit, self.control)
        self.processing = Processing(
            self._tasks,
            self._poison_search,
            SlowCalls.of(config, topology.operator_labels),
            self._observer,
            clock,
        )
        self._maintenance = Maintenance(config, clock, self._observer.applied, check_state)
        self._begun_commits: Commits | None = None
        self.is_stopping = False
        #: revoked tasks will be closed anyway
        self._is_closing = False

    def stop(self, *, leaves_group: bool = False) -> None:
        """Make the loop end after its current turn; safe from any thread."""
        started = self._started  # read once: the worker sets it to None at its end
        if leaves_group and started is not None:
            started.consumer.leaves_group = True
        self.is_stopping = True

    def stay(self, is_still: Callable[[], bool]) -> None:
        """From another thread, remain a member while ``is_still`` returns True."""
        if (started := self._started) is not None:
            started.consumer.stay(is_still)

    def task_count(self, sub_topology: SubTopology) -> int | None:
        """Return the partition count of a sub-topology; None before the start."""
        started = self._started
        return None if started is None else started.plan.task_count(sub_topology)

    @property
    def global_stores(self) -> GlobalStores | None:
        """The global stores; None before the start and after the end."""
        started = self._started
        return None if started is None else started.globals

    # ------------------------------------------------------------------ the loop

    def run(self) -> Steps[None]:
        """Start, run until stopped, commit, close. Raises errors that cannot be handled."""
        failure: BaseException | None = None
        try:
            yield from self._start()
            while not self.is_stopping:
                try:
                    yield from self._turn()
                except REPLAYED as exc:
                    yield from self._recover(exc)
            self._observer.stopping()
            if self._begun_commits is not None:
                yield from self._begun_commits.commit_last()
        except BaseException as exc:
            failure = exc
            raise
        finally:
            self._observer.ended()
            yield from self._close(ErrorCollector(failure))

    def _start(self) -> Steps[None]:
        self._started = started = yield from self._starting.open()
        if started is None:
            return
        self._observer.global_tasks = started.globals.tasks
        self.followed.begin(started.plan, started.standbys, started.consumer.member_id)
        yield from self.followed.warm_up(self._starting.is_stopping)
        subscription = started.plan.subscription
        yield Step("subscribe", started.consumer.subscribe, (subscription, self._rebalanced))
        self._begun_commits = Commits(
            self._config,
            self._clock,
            started,
            self._transactions,
            self._tasks,
            self._observer,
            self._maintenance,
        )
        self._observer.started()

    @property
    def _live(self) -> StartedWorker:
        assert self._started is not None, "the worker has not started"
        return self._started

    @property
    def _commits(self) -> Commits:
        assert self._begun_commits is not None, "the worker has not started"
        return self._begun_commits

    def _turn(self) -> Steps[None]:
        self.fetch_buffer.turn()
        yield from self._poll()
        live, tasks, observer = self._live, self._tasks, self._observer
        self._maintenance.check_state(tasks.running())
        if tasks.lapsed and not observer.is_away:
            self._close_lapsed()
        if not (yield from self._transactions.is_ready(quietly=observer.is_away)):
            return  # the brokers do not answer; polling keeps the membership
        if self._limits.must_wait(self._clock.monotonic_ms()):
            return
        if len(tasks.running()) < len(tasks) or self._restorer.must_wait:
            yield from self._start_tasks()
        every, processing, commits = tasks.all(), self.processing, self._commits
        yield from live.open_transactions.check(every, self.control.group_view)
        yield from live.topics.check(is_away=observer.is_away)
        yield from live.globals.poll()
        if self.fetch_buffer.is_paused:
            processing.rest()
        else:
            yield from processing.turn(commits)
        yield from live.idle_tasks.turn(tasks, self._poison_search, observer)
        standbys, is_idle = self.followed.tasks.values(), not processing.had_work
        self._maintenance.turn(tasks.running(), standbys, is_idle=is_idle)
        if not observer.is_away:
            yield from self.followed.turn(every, is_busy=processing.had_work)
            yield from self.followed.ask(live.consumer, every)
        was_slow_recently = processing.slow_calls.was_slow_recently(self._clock.monotonic_ms())
        yield from commits.go_on(keeps_up=processing.keeps_up, was_slow_recently=was_slow_recently)
        observer.turn(every, live.consumer.known_ends)

    # ------------------------------------------------------------------ fetching

    def _poll(self) -> Steps[None]:
        has_more = self.processing.had_work or not self._restorer.is_idle or self.followed.has_more
        timeout_s = 0.0 if has_more else self._commits.idle_timeout_s()
        consumer = self._live.consumer
        polled = yield Step("poll", consumer.poll, (self._config.poll_records_max, timeout_s))
        for rebalance in polled.rebalances:
            yield from self._answer(rebalance)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        yield from self.fetch_buffer.take(polled, consumer)

    # ------------------------------------------------------------------ assignment

    def _rebalanced(self, rebalance: Rebalance) -> None:
        """Called by the consumer inside poll; errors are raised at the end of that poll."""
        try:
            self._drive(self._answer(rebalance))
        except LogstateError as exc:
            self._failure = exc

    def _answer(self, rebalance: Rebalance) -> Steps[None]:
        self._observer.rebalanced(rebalance.kind, len(rebalance.partitions))
        self.followed.rebalanced()
        if self._is_closing:  # everything was committed, and the tasks will be closed anyway
            return
        named = by_topic(rebalance.partitions)
        if named or not len(self._tasks):  # else nothing changed
            _LOGGER.info("partitions %s: %s", rebalance.kind, named or "none")
        if rebalance.kind == "assigned":
            self._assigned(rebalance.partitions)
            return
        is_lost = rebalance.kind == "lost"
        closing = ErrorCollector()  # the partitions are released even if something fails
        if not is_lost and rebalance.partitions:
            try:
                yield from self._commits.commit_all()
            except REPLAYED as exc:
                yield from closing.steps(self._recover(exc))
        stopped = self._live.assignment.lose(rebalance.partitions)
        self._tasks.revoke(rebalance.partitions)
        if is_lost and len(self._tasks):
            # Other members may own these partitions already: this transaction must not commit.
            yield from closing.steps(self._recover(PartitionsLost("the partitions were lost")))
        for task_id in stopped:
            closing.call(partial(self._lose if is_lost else self._close_task, task_id))
        self._observer.tasks_changed(self._tasks.readable())
        closing.finish()

    def _assigned(self, partitions: Iterable[TopicPartition]) -> None:
        assignment = self._live.assignment
        # Even if something fails, the table must have every assigned task.
        closing = ErrorCollector()
        closing.call(self._close_lapsed)
        complete = assignment.gain(partitions)
        self._live.committer.joined()
        for task_id in complete:
            if task_id not in self._tasks.all():
                owned = OwnedTask(task_id, assignment.inputs(task_id), assignment.epoch)
                self._tasks.add(owned)
                closing.call(partial(self.followed.hand_over, owned))
        self._observer.tasks_changed(self._tasks.readable())
        closing.finish()

    def _lose(self, task_id: TaskId) -> None:
        """Handle a lost task. While the brokers are unavailable no member can get it: keep it
        readable.
        """
        owned = self._tasks.all().get(task_id)
        if owned is None or owned.current_ms is None or not self._observer.is_away:
            self._close_task(task_id, applies=False)
        else:
            self._restorer.remove(owned)
            self._tasks.keep_for_reads(task_id)

    def _close_lapsed(self) -> None:
        closing = ErrorCollector()
        for task_id in list(self._tasks.lapsed):
            closing.call(partial(self._close_task, task_id, applies=False))
            self._observer.tasks_changed(self._tasks.readable())
        closing.finish()

    def _close_task(self, task_id: TaskId, *, applies: bool = True, is_last: bool = False) -> None:
        owned = self._tasks.remove(task_id)
        if owned is None:
            return
        self._restorer.remove(owned)
        owned.move_to(Stage.CLOSED)
        if owned.task_or_none is not None:
            self._observer.task_closing(owned)
            if applies and not is_last and self.followed.keep(task_id, owned.task_or_none):
                return
            self._live.rows.end(owned, applies=applies)

    # ------------------------------------------------------------------ starting tasks

    def _start_tasks(self) -> Steps[None]:
        yield from self._commits.finish()
        starter = self._live.starter
        assigned, running = self._tasks.in_stage(Stage.ASSIGNED), self._tasks.running()
        for owned in (yield from starter.prepare(assigned, running=running)) if assigned else ():
            self._restorer.add(owned)
        wait_s = 0.0 if self.processing.had_work else _BUSY_POLL_S if running else _RESTORE_POLL_S
        yield from self._restorer.poll(wait_s, self._live.admin, busy=bool(running))
        for owned in self._tasks.in_stage(Stage.RESTORING):
            if all(target.is_done for target in owned.targets):
                starter.restored(owned)
                if running:
                    break  # one per turn: running tasks wait while it is written
        starting = self._tasks.in_stage(Stage.STARTING)
        new = [owned for owned in starting if owned.is_new]
        if new:
            # "Nothing was committed" is decided once: the start is committed before any record.
            # All tasks are committed, because the open transaction may contain their outputs.
            yield from self._commits.commit([*self._tasks.running(), *new])
            for owned in new:
                owned.is_new = False
        for owned in starting:
            yield from starter.start(owned, self._tasks.heard_ms)
        if self.fetch_buffer.is_paused:
            yield from self.fetch_buffer.pause_or_resume(self._live.consumer)
        self._observer.tasks_changed(self._tasks.readable())

    # ------------------------------------------------------------------ failure and end

    def _recover(self, cause: LogstateError) -> Steps[None]:
        """Discard uncommitted work, fence, and move every task through its stages again."""
        now = self._clock.monotonic_ms()
        if isinstance(cause, ForeignGroupError) and not len(self._tasks):
            yield from self._protocol_conflict.wait(now, cause)
            yield from self._rejoin()
            return
        blame = self.processing.slow_calls.blame(now)
        self._poison_search.transaction_failed(cause, self._tasks.running())
        trouble = self._observer.trouble(now)
        self._limits.note(now, cause, trouble, blame, self._commits.total)
        _LOGGER.log(replay_level(cause, trouble), "%s", replay_line(cause, blame))
        self._observer.aborted()
        yield from self._commits.abandon()
        try:
            yield from self._transactions.abandon()
        except RetriableError as exc:
            _LOGGER.debug("tasks wait for a new producer: %s", text_of(exc))
        for owned in self._tasks.all().values():
            if owned.stage is Stage.ASSIGNED:
                continue
            self._restorer.remove(owned)
            if owned.task_or_none is not None:
                owned.task_or_none.discard()
            if isinstance(cause, StoreCorruptedError):
                self._live.rows.rebuild(owned, cause)
            still_owned = [tp for tp in owned.partitions if tp in self._live.assignment.owned]
            if not isinstance(cause, LostMemberError):
                yield Step("pause", self._live.consumer.pause, (still_owned,))
            owned.move_to(Stage.ASSIGNED)
        if isinstance(cause, LostMemberError):
            yield from self._rejoin()

    def _rejoin(self) -> Steps[None]:
        """Release all partitions of the unusable member, and join as a new member."""
        lost = tuple(self._live.assignment.owned)
        self._tasks.revoke(lost)
        for task_id in self._live.assignment.lose(lost):
            self._lose(task_id)
        self._observer.tasks_changed(self._tasks.readable())
        yield from self._live.consumer.renew()

    def _close(self, closing: ErrorCollector) -> Steps[None]:
        if self._begun_commits is not None:
            yield from closing.steps(self._begun_commits.abandon())
        self._observer.tasks_changed({})
        if self._transactions.is_open:  # it would delay consumers and the next owners
            yield from closing.steps(self._transactions.close())
        # Before the stores are closed, which takes a while: the next owners wait for the group.
        self._is_closing = True
        if self._started is not None:
            yield from closing.steps(self._started.clients.leave())
        closing.call(self._close_lapsed)
        for task_id in list(self._tasks.all()):
            closing.call(partial(self._close_task, task_id, is_last=True))
        closing.call(self.processing.close)
        yield from closing.steps(self._transactions.close())
        yield from closing.steps(self._restorer.close())
        yield from closing.steps(self.followed.close())
        if self._started is not None:
            yield from closing.steps(self._started.starter.close())
            yield from self._started.clients.close(closing)
            self._started = None
        closing.finish()
