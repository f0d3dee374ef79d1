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
from logstate.contracts.seams import Admin, Cluster, PlainProducer, Step, Steps
from logstate.contracts.worker_config import WorkerConfig
from logstate.queries.global_stores import GlobalStores
from logstate.restore.open_transactions import RestoreWait
from logstate.restore.task_starter import TaskStarter
from logstate.task.owned_task import OwnedTask
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan
from logstate.topics.internal_topics import prepare
from logstate.topics.manifest import manifest_record
from logstate.topology.plan.plan import Topology
from logstate.worker.assignment import Assignment
from logstate.worker.membership import Membership
from logstate.worker.started_worker import Clients, Session

#: a coordinator that has just been restarted needs a while until it answers
_FENCING_ATTEMPTS_MAX = 10


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

    def open(self) -> Steps[Session | None]:
        """Everything up to the subscription; None where it was told to stop meanwhile."""
        clients = Clients()
        try:
            session = yield from self._open(clients)
        except Exception as exc:
            yield from clients.close(Closing(exc))
            raise
        if session is None:
            closing = Closing()
            yield from clients.close(closing)
            closing.finish()
        return session

    def _open(self, clients: Clients) -> Steps[Session | None]:
        config = self.config
        admin: Admin = yield Step("admin", self.cluster.admin)
        clients.admin = admin
        plan = yield from prepare(
            admin,
            self.topology,
            config.application_id,
            replication_factor=config.replication_factor,
            overrides=config.topic_config,
        )
        clients.globals = globals_ = GlobalStores(plan, self.cluster, self.clock)
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
            clients.outputs = outputs = yield Step("plain_producer", self.cluster.plain_producer)
        clients.consumer = consumer = yield from Membership.joined(
            self.cluster, config.application_id, config.instance_id
        )
        clients.background = background = self.cluster.background()
        return Session(
            plan,
            clients,
            admin,
            globals_,
            consumer,
            Committer(plan, consumer, self.transactions, outputs),
            background,
            TaskStarter(
                plan,
                config,
                self.cluster,
                consumer,
                admin,
                self.clock,
                lambda owned: self.new_task(plan, owned, globals_),
                self.destroy_state,
            ),
            RestoreWait(config, self.cluster, admin, self.clock),
            Assignment({task_id: plan.input_partitions(task_id) for task_id in plan.task_ids()}),
        )
