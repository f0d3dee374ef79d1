"""From nothing to a member of the group: topics, global tables, fencing, manifest, consumer.

A start that fails, or that is stopped half way, lets go of every client it has made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from logstate.commit.commit import Committer
from logstate.commit.transaction import Transactions
from logstate.contracts.clock import Clock
from logstate.contracts.closing import Closing
from logstate.contracts.seams import Admin, Background, Cluster, PlainProducer, Step, Steps
from logstate.contracts.worker_config import WorkerConfig
from logstate.queries.global_stores import GlobalStores
from logstate.restore.open_transactions import OpenTransactions
from logstate.restore.task_starter import TaskStarter
from logstate.task.owned_task import OwnedTask
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.internal_topics import prepare
from logstate.topics.manifest import manifest_record
from logstate.topology.plan.plan import Topology
from logstate.worker.assignment import Assignment
from logstate.worker.membership import Membership

#: a coordinator that has just been restarted needs a while until it answers
_FENCING_ATTEMPTS_MAX = 10


@dataclass
class Clients:
    """Clients as they are made, one after the other; those that exist can be closed."""

    admin: Admin | None = None
    globals: GlobalStores | None = None
    #: of at-least-once outputs
    outputs: PlainProducer | None = None
    consumer: Membership | None = None
    background: Background | None = None

    def close(self, closing: Closing) -> Steps[None]:
        """Leave the group and let go of every client."""
        if self.globals is not None:
            yield from closing.steps(self.globals.close())
        yield from closing.steps(_close("close_consumer", self.consumer))
        yield from closing.steps(_close("close_plain_producer", self.outputs))
        if self.background is not None:
            closing.call(self.background.close)
        yield from closing.steps(_close("close_admin", self.admin))


def _close(name: str, client: Admin | Membership | PlainProducer | None) -> Steps[None]:
    if client is not None:
        yield Step(name, client.close)


@dataclass(frozen=True)
class StartedWorker:
    """What a worker has between its start and its end."""

    plan: BoundPlan
    clients: Clients
    admin: Admin
    globals: GlobalStores
    consumer: Membership
    committer: Committer
    #: for the calls of a commit that wait for the brokers
    background: Background
    starter: TaskStarter
    open_transactions: OpenTransactions
    assignment: Assignment


@dataclass(frozen=True)
class WorkerStart:
    """What a start needs. ``is_stopping`` is looked at between its longer parts."""

    topology: Topology
    config: WorkerConfig
    cluster: Cluster
    clock: Clock
    transactions: Transactions
    new_task: Callable[[BoundPlan, OwnedTask, GlobalStores], Task]
    destroy_state: Callable[[OwnedTask], None]
    is_stopping: Callable[[], bool]

    def open(self) -> Steps[StartedWorker | None]:
        """Everything up to the subscription; None where it was told to stop meanwhile."""
        clients = Clients()
        try:
            started = yield from self._open(clients)
        except Exception as exc:
            yield from clients.close(Closing(exc))
            raise
        if started is None:
            closing = Closing()
            yield from clients.close(closing)
            closing.finish()
        return started

    def _open(self, clients: Clients) -> Steps[StartedWorker | None]:
        config, cluster = self.config, self.cluster
        admin: Admin = yield Step("admin", cluster.admin)
        clients.admin = admin
        plan = yield from prepare(
            admin,
            self.topology,
            config.application_id,
            replication_factor=config.replication_factor,
            overrides=config.topic_config,
            dead_letter_topic=config.dead_letter_topic,
        )
        clients.globals = globals_ = GlobalStores(plan, cluster, self.clock)
        yield from globals_.bootstrap(admin, self.is_stopping)
        if self.is_stopping():
            return None
        for _ in range(_FENCING_ATTEMPTS_MAX):
            if (yield from self.transactions.is_ready()):
                break
            if self.is_stopping():
                return None
        else:
            yield from self.transactions.initialise()
        yield from self.transactions.commit_alone([manifest_record(plan)])
        outputs: PlainProducer | None = None
        if config.guarantee == "at_least_once":
            clients.outputs = outputs = yield Step("plain_producer", cluster.plain_producer)
        clients.consumer = consumer = yield from Membership.joined(
            cluster, config.application_id, config.instance_id
        )
        clients.background = background = cluster.background()
        starter = TaskStarter(
            plan,
            config,
            cluster,
            consumer,
            admin,
            self.clock,
            lambda owned: self.new_task(plan, owned, globals_),
            self.destroy_state,
        )
        return StartedWorker(
            plan,
            clients,
            admin,
            globals_,
            consumer,
            Committer(plan, consumer, self.transactions, outputs),
            background,
            starter,
            OpenTransactions(config, cluster, admin, self.clock),
            Assignment({task_id: plan.input_partitions(task_id) for task_id in plan.task_ids()}),
        )
