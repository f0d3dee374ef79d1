"""Start a worker up to its group membership: topics, global tables, fencing, manifest, consumer.

A start that fails, or is stopped early, closes all clients that it has created.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from logstate.commit.commit import Committer
from logstate.commit.transaction import RenewedProducer, Transactions
from logstate.contracts.clients import Admin, Background, Cluster, PlainProducer, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.error_text import text_of
from logstate.contracts.errors import ErrorCollector, RetriableError, TopicError, UpgradeError
from logstate.contracts.processing import ApplicationContext
from logstate.contracts.records import ProducedRecord
from logstate.contracts.worker_config import WorkerConfig
from logstate.metrics.own_metrics import OwnMetrics
from logstate.queries.global_stores import GlobalStores
from logstate.restore.open_transactions import OpenTransactions
from logstate.restore.standbys import Standbys
from logstate.restore.task_rows import TaskRows
from logstate.restore.task_starter import TaskStarter
from logstate.task.error_handlers import ErrorHandlers
from logstate.task.owned_task import DestroyState, OwnedTask
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.internal_topics import check_topics_of_others, prepare
from logstate.topics.manifest import manifest_record
from logstate.topics.manifest_log import ManifestLog, decoded
from logstate.topics.upgrade import accepted, check_no_operation_in_progress
from logstate.topology.plan.plan import Topology
from logstate.worker.assignment import Assignment
from logstate.worker.idle_tasks import IdleTasks
from logstate.worker.limits import StartupTimeout
from logstate.worker.membership import Membership
from logstate.worker.new_topics import NewTopics
from logstate.worker.planned_topics import PlannedTopics
from logstate.worker.worker_observer import WorkerObserver


class SinkPartitionCounts(dict[str, int]):
    """Topic -> partitions; ``counts[topic]`` looks up unknown topics."""

    def __init__(self, known: Mapping[str, int], admin: Admin) -> None:
        super().__init__(known)
        self._admin = admin

    def __missing__(self, topic: str) -> int:
        found = self._admin.describe_topics([topic]).get(topic)
        if found is None:
            raise TopicError(
                f"topic {topic!r}, which the function passed to to() returned, does not exist."
                " Output topics are never created here. Create it, or correct what the function"
                " returns"
            )
        self[topic] = found.partitions
        return found.partitions


_LOGGER = logging.getLogger(__name__)

#: a coordinator that has just restarted needs a while until it answers
_FENCING_ATTEMPTS_MAX = 10


@dataclass
class Clients:
    """Clients in order of creation; those that exist can be closed."""

    admin: Admin | None = None
    manifests: ManifestLog | None = None
    globals: GlobalStores | None = None
    #: for at-least-once outputs
    outputs: PlainProducer | None = None
    consumer: Membership | None = None
    background: Background | None = None

    def leave(self) -> Steps[None]:
        """Leave the group."""
        consumer, self.consumer = self.consumer, None
        yield from _close("close_consumer", consumer)

    def close(self, closing: ErrorCollector) -> Steps[None]:
        """Leave the group and close all clients."""
        if self.manifests is not None:
            yield from closing.steps(self.manifests.close())
        if self.globals is not None:
            yield from closing.steps(self.globals.close())
        yield from closing.steps(self.leave())
        yield from closing.steps(_close("close_plain_producer", self.outputs))
        if self.background is not None:
            closing.call(self.background.close)
        yield from closing.steps(_close("close_admin", self.admin))


def _close(name: str, client: Admin | Membership | PlainProducer | None) -> Steps[None]:
    if client is not None:
        yield Step(name, client.close)


@dataclass(frozen=True)
class StartedWorker:
    """The parts of a worker that exist between its start and its end."""

    plan: BoundPlan
    clients: Clients
    admin: Admin
    globals: GlobalStores
    consumer: Membership
    committer: Committer
    #: runs the broker calls of a commit
    background: Background
    starter: TaskStarter
    rows: TaskRows
    standbys: Standbys
    open_transactions: OpenTransactions
    assignment: Assignment
    topics: PlannedTopics
    idle_tasks: IdleTasks


@dataclass(frozen=True)
class WorkerStart:
    """The parameters of a start. ``is_stopping`` is checked between its longer parts."""

    topology: Topology
    config: WorkerConfig
    cluster: Cluster
    clock: Clock
    transactions: Transactions
    new_task: Callable[[BoundPlan, OwnedTask, GlobalStores], Task]
    destroy_state: DestroyState
    observer: WorkerObserver
    is_stopping: Callable[[], bool]
    #: waits this many seconds, or until a stop is requested
    wait: Callable[[float], None]
    #: for global stores; other tasks have their own
    error_handlers: ErrorHandlers

    def open(self) -> Steps[StartedWorker | None]:
        """Run the start up to the subscription; None if a stop was requested meanwhile.

        Retries while the brokers are unavailable; raises errors that they return.
        """
        patience = StartupTimeout(self.config.start_timeout_ms, self.clock.monotonic_ms())
        while True:
            try:
                return (yield from self._try_start())
            except RetriableError as exc:
                wait_s = patience.wait_s(self.clock.monotonic_ms(), exc, self.observer.refusal)
                _LOGGER.info("the start is retried in %.1f s: %s", wait_s, text_of(exc))
            yield Step("wait_for_brokers", self.wait, (wait_s,))
            if self.is_stopping():
                return None

    def _try_start(self) -> Steps[StartedWorker | None]:
        clients = Clients()
        try:
            started = yield from self._open(clients)
        except Exception as exc:
            yield from clients.close(ErrorCollector(exc))
            raise
        if started is None:
            closing = ErrorCollector()
            yield from clients.close(closing)
            closing.finish()
        return started

    def _open(self, clients: Clients) -> Steps[StartedWorker | None]:
        config, cluster = self.config, self.cluster
        admin: Admin = yield Step("admin", cluster.admin)
        clients.admin = admin
        application_id, dead_letters = config.application_id, config.dead_letter_topic
        bound = yield from check_topics_of_others(
            admin, self.topology, application_id, dead_letter_topic=dead_letters
        )
        if not (yield from self._fence()):
            return None
        # After the fencing: our transaction that a crash left open would hide the manifest.
        clients.manifests = ManifestLog(application_id, cluster, admin, self.clock)
        plan = yield from self._upgraded(bound, admin, clients.manifests)
        if plan is None:
            return None
        metrics = partial(OwnMetrics, self.observer.metrics)
        application_context = ApplicationContext(config.application_config, metrics=metrics)
        clients.globals = globals_ = GlobalStores(
            plan.application_id,
            plan.global_inputs(),
            cluster,
            self.clock,
            application_context,
            self.error_handlers,
        )
        yield from globals_.bootstrap(admin, self.is_stopping)
        if self.is_stopping() or not (yield from self._write_manifest(plan, clients.manifests)):
            return None
        if config.guarantee == "at_least_once":
            make = cluster.plain_producer
            clients.outputs = yield Step("plain_producer", RenewedProducer, (make,))
        clients.consumer = yield from Membership.joined(cluster, application_id, config.instance_id)
        clients.background = cluster.background()
        return self._started(plan, clients, admin, globals_, clients.consumer, clients.background)

    def _fence(self) -> Steps[bool]:
        for _ in range(_FENCING_ATTEMPTS_MAX):
            if (yield from self.transactions.is_ready(quietly=self.observer.is_away)):
                return True
            if self.is_stopping():
                return False
        yield from self.transactions.initialise()
        return True

    def _upgraded(
        self, plan: BoundPlan, admin: Admin, manifests: ManifestLog
    ) -> Steps[BoundPlan | None]:
        """Create the internal topics, unless the topology does not fit the stored manifest."""
        found = yield from manifests.new_manifests(self.is_stopping)
        if found is None:
            return None
        return (
            yield from prepare(
                admin,
                plan,
                replication_factor=self.config.replication_factor,
                overrides=self.config.topic_config,
                stored=decoded(found[-1], plan.application_id) if found else None,
                decisions=self.config.decisions,
            )
        )

    def _write_manifest(self, plan: BoundPlan, manifests: ManifestLog) -> Steps[bool]:
        """Write the manifest, and yield to an incompatible one written just before."""
        own = manifest_record(plan)
        yield from self.transactions.commit_alone([own])
        rivals = yield from manifests.new_manifests(self.is_stopping)
        if rivals is None:
            return False
        yield from self._give_way(plan, own, rivals)
        return True

    def _check_again(self, plan: BoundPlan, manifests: ManifestLog) -> Steps[bool]:
        """As a member, raise UpgradeError if a reset or a move began before the membership.

        Returns False if a stop was requested.
        """
        found = yield from manifests.decided_manifests(self.is_stopping)
        if found is None:
            return False
        for one in found:  # any of them: an instance starting at the same time may overwrite a mark
            check_no_operation_in_progress(plan.application_id, decoded(one, plan.application_id))
        yield from manifests.close()
        return True

    def _give_way(self, plan: BoundPlan, own: ProducedRecord, rivals: list[bytes]) -> Steps[None]:
        """Raise UpgradeError if an instance with an incompatible topology wrote just before this
        one.
        """
        while rivals and rivals[-1] != own.value:
            rivals.pop()  # an instance that wrote after us sees our manifest, and yields itself
        for rival in rivals:
            if rival == own.value:
                continue
            try:
                accepted(plan, decoded(rival, plan.application_id), self.config.decisions)
            except UpgradeError:
                yield from self.transactions.commit_alone([own._replace(value=rival)])
                raise

    def _started(
        self,
        plan: BoundPlan,
        clients: Clients,
        admin: Admin,
        globals_: GlobalStores,
        consumer: Membership,
        background: Background,
    ) -> StartedWorker:
        config, cluster, clock = self.config, self.cluster, self.clock
        assert clients.manifests is not None, "the manifest was written"
        look_again = partial(self._check_again, plan, clients.manifests)
        counts = SinkPartitionCounts(plan.partition_counts, admin)
        plan = replace(plan, partition_counts=counts)
        inputs = {task_id: plan.input_partitions(task_id) for task_id in plan.task_ids()}
        assignment = Assignment(inputs)
        rows = TaskRows(
            plan,
            clock,
            lambda owned: self.new_task(plan, owned, globals_),
            self.destroy_state,
            accepts_loss=config.on_state_loss == "continue",
        )
        return StartedWorker(
            plan,
            clients,
            admin,
            globals_,
            consumer,
            Committer(plan, consumer, self.transactions, clients.outputs),
            background,
            TaskStarter(
                plan,
                config,
                cluster,
                consumer,
                admin,
                clock,
                rows,
                look_again,
                self.observer.lost_records,
            ),
            rows,
            Standbys(plan, config, cluster, admin, clock, rows),
            OpenTransactions(config, cluster, admin, clock),
            assignment,
            PlannedTopics(
                plan,
                counts,
                assignment,
                admin,
                clock,
                NewTopics(self.topology, plan, admin, config.offset_reset),
                config.topics_interval_ms,
            ),
            IdleTasks(plan, admin, background, clock),
        )
