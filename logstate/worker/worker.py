"""The worker: one consumer, one transactional producer, its tasks, one loop.

Theory. `run` is a generator that yields every contact with the outside as a Step (see
:mod:`logstate.contracts.seams`), so the same loop runs on Kafka, where each step is executed at
once, and in a simulator, which may stop it for ever between any two. One turn of the loop:

    poll -> take over fetched records -> start and restore assigned tasks -> process what may be
    processed -> send outputs -> commit when it is time

A change of the assignment is handled inside the poll that brings it: what is revoked is committed
first, what is lost is discarded. Any failure of a transaction discards everything uncommitted,
sends every task through its stages again and replays: there is one path for all of them.

Invariants:
1. records are processed only for tasks in stage RUNNING;
2. a partition is fetched only while its task runs (otherwise it is paused);
3. after `run` ended, whatever way, no transaction of this worker is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from logstate.commit.maintenance import Maintenance
from logstate.commit.transaction import Transactions
from logstate.contracts.clock import Clock
from logstate.contracts.closing import Closing
from logstate.contracts.errors import (
    AbortableError,
    FencedError,
    LogstateError,
    LostMemberError,
    RefusedError,
    RetriableError,
    StoreCorruptedError,
)
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.seams import Cluster, Rebalance, Step, Steps
from logstate.contracts.worker_config import WorkerConfig
from logstate.queries.global_stores import GlobalStores
from logstate.restore.restore import RestoreListener, Restorer
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.task.task_table import TaskTable
from logstate.topics.bound_plan import BoundPlan
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.plan import Topology
from logstate.worker.commits import Commits
from logstate.worker.limits import AbortLimit, pause_or_resume
from logstate.worker.poison_record import PoisonRecordSearch
from logstate.worker.worker_observer import WorkerObserver
from logstate.worker.worker_start import StartedWorker, WorkerStart

_LOGGER = logging.getLogger(__name__)

#: the wait for restored records while nothing else runs
_RESTORE_POLL_S = 0.05
#: records processed between two looks at clock and broker
_PROCESS_RECORDS = 2_000
#: a task that has processed so many of them does not keep up
_BACKLOG_RECORDS = 500


class _PartitionsLost(FencedError):
    """Not a fault of a transaction, however often it happens."""


#: after these the records of the open transaction are processed again
_REPLAYED = (AbortableError, FencedError, RetriableError, RefusedError, StoreCorruptedError)


class Worker:
    """See the module. ``new_task`` makes a task with its stores; ``drive`` runs callbacks."""

    def __init__(
        self,
        topology: Topology,
        config: WorkerConfig,
        cluster: Cluster,
        clock: Clock,
        *,
        new_task: Callable[[BoundPlan, OwnedTask, GlobalStores], Task],
        destroy_state: Callable[[OwnedTask], None],
        drive: Callable[[Steps[None]], None],
        observer: WorkerObserver | None = None,
        restore_listener: RestoreListener | None = None,
    ) -> None:
        self._config = config
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
            lambda: self._is_stopping,
        )
        self._restorer = Restorer(config, cluster, restore_listener)
        self._tasks = TaskTable()
        self._failure: LogstateError | None = None
        self._abort_limit = AbortLimit(config.aborts_max, config.aborts_window_ms)
        self._rejoin_limit = AbortLimit(
            config.rejoins_max, config.aborts_window_ms, what="memberships"
        )
        self._poison_search = PoisonRecordSearch(is_on=config.passes_over_refused)
        self._maintenance = Maintenance(config, clock, self._observer.applied)
        self._begun_commits: Commits | None = None
        self._had_work = False
        #: the last turn processed all there was, and that was little
        self._keeps_up = True
        self._is_stopping = False

    def stop(self) -> None:
        """Ask the loop to end after its current turn; safe from any thread."""
        self._is_stopping = True

    def task_count(self, sub_topology: SubTopology) -> int | None:
        """Partitions of a sub-topology; None before the start."""
        return None if self._started is None else self._started.plan.task_count(sub_topology)

    @property
    def global_stores(self) -> GlobalStores | None:
        """The global stores; None before the start and after the end."""
        return None if self._started is None else self._started.globals

    # ------------------------------------------------------------------ the loop

    def run(self) -> Steps[None]:
        """Start, run until stopped, commit, close. Raises what nothing can be done about."""
        failure: BaseException | None = None
        try:
            yield from self._start()
            while not self._is_stopping:
                try:
                    yield from self._turn()
                except _REPLAYED as exc:
                    yield from self._recover(exc)
            if self._begun_commits is not None:
                yield from self._commit_last()
        except BaseException as exc:
            failure = exc
            raise
        finally:
            self._observer.ended()
            yield from self._close(Closing(failure))

    def _start(self) -> Steps[None]:
        self._started = started = yield from self._starting.open()
        if started is None:
            return
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
        yield from self._poll()
        if not (yield from self._transactions.is_ready()):
            return  # the brokers do not answer; being polled keeps the membership
        if len(self._tasks.running()) < len(self._tasks):
            yield from self._start_tasks()
        live = self._live
        yield from live.globals.poll()
        yield from self._process()
        if not self._had_work:
            self._maintenance.encode_ahead(self._tasks.running())
        yield from self._commits.go_on(keeps_up=self._keeps_up)
        self._observer.turn(self._tasks.all(), live.consumer.known_ends)

    # ------------------------------------------------------------------ fetching

    def _poll(self) -> Steps[None]:
        timeout_s = (
            0.0 if self._had_work or not self._restorer.is_idle else self._commits.idle_timeout_s()
        )
        consumer = self._live.consumer
        polled = yield Step("poll", consumer.poll, (self._config.poll_records_max, timeout_s))
        for rebalance in polled.rebalances:
            yield from self._answer(rebalance)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        for partition, records in polled.records.items():
            owned = self._tasks.running_owner(partition)
            if owned is not None:
                owned.task.add_records(partition, records)
        for partition, position in polled.ends:
            owned = self._tasks.running_owner(partition)
            if owned is not None:
                owned.task.at_end(partition, position)
                owned.ends[partition] = position
        if polled.out_of_range:
            raise AbortableError(
                f"the positions of {[str(tp) for tp in polled.out_of_range]} are outside their logs"
            )
        running = self._tasks.running()
        if polled.records or any(owned.paused for owned in running):
            yield from pause_or_resume(consumer, running, self._config.buffered_records_max)

    # ------------------------------------------------------------------ assignment

    def _rebalanced(self, rebalance: Rebalance) -> None:
        """Called by a real consumer inside poll; errors surface at the end of that poll."""
        try:
            self._drive(self._answer(rebalance))
        except LogstateError as exc:
            self._failure = exc

    def _answer(self, rebalance: Rebalance) -> Steps[None]:
        _LOGGER.info("partitions %s: %s", rebalance.kind, [str(tp) for tp in rebalance.partitions])
        self._observer.rebalanced(rebalance.kind, len(rebalance.partitions))
        if rebalance.kind == "assigned":
            self._assigned(rebalance.partitions)
            return
        is_lost = rebalance.kind == "lost"
        closing = Closing()  # whatever fails on the way, the partitions are given up
        if not is_lost and rebalance.partitions:
            try:
                yield from self._commits.commit_all()
            except _REPLAYED as exc:
                yield from closing.steps(self._recover(exc))
        stopped = self._live.assignment.lose(rebalance.partitions)
        self._tasks.disown(rebalance.partitions)
        if is_lost and len(self._tasks):
            # Others may own these partitions already: nothing of this transaction may commit.
            yield from closing.steps(self._recover(_PartitionsLost("the partitions were lost")))
        for task_id in stopped:
            closing.call(partial(self._close_task, task_id, applies=not is_lost))
        self._observer.tasks_changed(self._tasks.all())
        closing.finish()

    def _assigned(self, partitions: Iterable[TopicPartition]) -> None:
        assignment = self._live.assignment
        complete = assignment.gain(partitions)
        self._live.committer.joined()
        for task_id in complete:
            self._tasks.add(OwnedTask(task_id, assignment.inputs(task_id), assignment.epoch))
        self._observer.tasks_changed(self._tasks.all())

    def _close_task(self, task_id: TaskId, *, applies: bool) -> None:
        owned = self._tasks.remove(task_id)
        if owned is None:
            return
        self._restorer.remove(owned)
        owned.move_to(Stage.CLOSED)
        if owned.task_or_none is not None:
            self._observer.task_closing(owned)
            try:
                if applies:
                    owned.task_or_none.state.discard()
                    owned.task_or_none.state.apply()
            finally:
                owned.task_or_none.close()

    # ------------------------------------------------------------------ starting tasks

    def _start_tasks(self) -> Steps[None]:
        yield from self._commits.finish()
        starter = self._live.starter
        assigned = self._tasks.in_stage(Stage.ASSIGNED)
        if assigned:
            beside = self._tasks.running()
            for owned in (yield from starter.prepare(assigned, beside=beside)):
                self._restorer.add(owned)
        yield from self._restorer.poll(0.0 if self._had_work else _RESTORE_POLL_S)
        for owned in self._tasks.in_stage(Stage.RESTORING):
            if all(target.is_done for target in owned.targets):
                starter.restored(owned)
        starting = self._tasks.in_stage(Stage.STARTING)
        new = [owned for owned in starting if owned.is_new]
        if new:
            # "Nothing was committed" is decided once: the start is committed before any record.
            # With everything else of the worker: the open transaction may hold its outputs.
            yield from self._commits.commit([*self._tasks.running(), *new])
            for owned in new:
                owned.is_new = False
        for owned in starting:
            yield from starter.start(owned)
        yield from self._live.open_transactions.look(self._tasks.all().values())
        self._observer.tasks_changed(self._tasks.all())

    # ------------------------------------------------------------------ processing

    def _process(self) -> Steps[None]:
        self._had_work, self._keeps_up = False, True
        began_ms = self._clock.monotonic_ms()
        for owned in self._tasks.running():
            if self._poison_search.is_searching(owned):
                yield from self._process_alone(owned)
                continue
            task = owned.task
            processed = task.process(_PROCESS_RECORDS)
            self._keeps_up &= processed < _BACKLOG_RECORDS
            fired = task.punctuate("wall_clock")
            if processed or fired:
                self._had_work = True
            if task.outputs:
                outputs = task.outputs.copy()
                task.outputs.clear()
                self._observer.produced(owned, outputs)
                yield from self._live.committer.outlet.send(outputs)
        if self._had_work:
            self._observer.processed(self._clock.monotonic_ms() - began_ms)

    def _process_alone(self, owned: OwnedTask) -> Steps[None]:
        """One of these records is refused by the brokers: which, is found by commits of parts."""
        yield from self._commits.commit_all()
        if self._poison_search.process_part(owned):
            self._had_work = True
            yield from self._commits.commit_all()
            self._poison_search.part_committed()

    def _commit_last(self) -> Steps[None]:
        """The commit before the end; where it fails, its records are processed again."""
        try:
            yield from self._commits.commit_all()
        except _REPLAYED as exc:
            _LOGGER.warning("the last commit failed; its records will be processed again: %s", exc)

    # ------------------------------------------------------------------ failure and end

    def _recover(self, cause: LogstateError) -> Steps[None]:
        """Discard what is not committed, fence, and send every task through its stages again."""
        now = self._clock.monotonic_ms()
        if isinstance(cause, RefusedError):
            self._poison_search.transaction_refused(cause, self._tasks.running())
        elif isinstance(cause, LostMemberError):
            self._rejoin_limit.note(now, cause)
        elif not isinstance(cause, _PartitionsLost):
            self._abort_limit.note(now, cause)
        _LOGGER.warning("the transaction is aborted and its records are replayed: %s", cause)
        self._observer.aborted()
        yield from self._commits.abandon()
        try:
            yield from self._transactions.abandon()
        except RetriableError as exc:
            _LOGGER.warning("a new producer is tried again later, nothing runs till then: %s", exc)
        for owned in self._tasks.all().values():
            if owned.stage is Stage.ASSIGNED:
                continue
            self._restorer.remove(owned)
            if owned.task_or_none is not None:
                owned.task_or_none.discard()
            if isinstance(cause, StoreCorruptedError):
                self._live.starter.rebuild(owned, cause)
            still_owned = [tp for tp in owned.partitions if tp in self._live.assignment.owned]
            if not isinstance(cause, LostMemberError):
                yield Step("pause", self._live.consumer.pause, (still_owned,))
            owned.move_to(Stage.ASSIGNED)
        if isinstance(cause, LostMemberError):
            yield from self._rejoin()

    def _rejoin(self) -> Steps[None]:
        """Give up all that the unusable member owned, and join as another."""
        lost = tuple(self._live.assignment.owned)
        self._tasks.disown(lost)
        for task_id in self._live.assignment.lose(lost):
            self._close_task(task_id, applies=False)
        self._observer.tasks_changed(self._tasks.all())
        yield from self._live.consumer.renew()

    def _close(self, closing: Closing) -> Steps[None]:
        if self._begun_commits is not None:
            yield from closing.steps(self._begun_commits.abandon())
        for task_id in list(self._tasks.all()):
            closing.call(partial(self._close_task, task_id, applies=True))
        self._observer.tasks_changed({})
        yield from closing.steps(self._transactions.close())
        yield from closing.steps(self._restorer.close())
        if self._started is not None:
            yield from closing.steps(self._started.starter.close())
            yield from self._started.clients.close(closing)
            self._started = None
        closing.finish()
