"""What a worker has between its start and its end."""

from __future__ import annotations

from dataclasses import dataclass

from logstate.assignment import Assignment
from logstate.bound_plan import BoundPlan
from logstate.closing import Closing
from logstate.commit import Committer
from logstate.global_stores import GlobalStores
from logstate.restore_wait import RestoreWait
from logstate.seams import Admin, GroupConsumer, PlainProducer, Step, Steps
from logstate.task_starter import TaskStarter


@dataclass(frozen=True)
class Session:
    """Clients and helpers of a worker that has started."""

    plan: BoundPlan
    admin: Admin
    globals: GlobalStores
    consumer: GroupConsumer
    #: of at-least-once outputs
    outputs: PlainProducer | None
    committer: Committer
    starter: TaskStarter
    restore_wait: RestoreWait
    assignment: Assignment

    def close(self, closing: Closing) -> Steps[None]:
        """Leave the group and let go of every client."""
        yield from closing.steps(self.globals.close())
        yield from closing.steps(_close("close_consumer", self.consumer))
        if self.outputs is not None:
            yield from closing.steps(_close("close_plain_producer", self.outputs))
        yield from closing.steps(_close("close_admin", self.admin))


def _close(name: str, client: Admin | GroupConsumer | PlainProducer) -> Steps[None]:
    yield Step(name, client.close)
