"""What a worker has between its start and its end."""

from __future__ import annotations

from dataclasses import dataclass

from logstate.commit.commit import Committer
from logstate.contracts.closing import Closing
from logstate.contracts.seams import Admin, Background, PlainProducer, Step, Steps
from logstate.queries.global_stores import GlobalStores
from logstate.restore.open_transactions import RestoreWait
from logstate.restore.task_starter import TaskStarter
from logstate.topics.bound_plan import BoundPlan
from logstate.worker.assignment import Assignment
from logstate.worker.membership import Membership


@dataclass
class Clients:
    """Clients as they are made, one after the other; whatever there is can be closed."""

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
        if self.consumer is not None:
            yield from closing.steps(_close("close_consumer", self.consumer))
        if self.outputs is not None:
            yield from closing.steps(_close("close_plain_producer", self.outputs))
        if self.background is not None:
            closing.call(self.background.close)
        if self.admin is not None:
            yield from closing.steps(_close("close_admin", self.admin))


@dataclass(frozen=True)
class Session:
    """Clients and helpers of a worker that has started."""

    plan: BoundPlan
    clients: Clients
    admin: Admin
    globals: GlobalStores
    consumer: Membership
    committer: Committer
    #: for the calls of a commit that wait for the brokers
    background: Background
    starter: TaskStarter
    restore_wait: RestoreWait
    assignment: Assignment


def _close(name: str, client: Admin | Membership | PlainProducer) -> Steps[None]:
    yield Step(name, client.close)
