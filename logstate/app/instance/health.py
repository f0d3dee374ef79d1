"""Liveness and readiness of an Application for an orchestrator, with the reasons.

*Live*: a restart would not help. It would help if the worker has ended or a call of a function
hangs. Unavailable brokers do not come back because of a restart.

*Ready*: send requests to this instance. At a start it becomes ready once all tasks assigned to it
can be read. From then on it stays ready as long as it can answer something: a rebalance that adds
tasks does not take away those that it has, nor its standbys. Requests for the added tasks are
answered by standbys, or wait until their rows are restored. It stays ready while the brokers are
unavailable, and it is not ready from the moment in which it was asked to stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logstate.contracts.records import TaskId
from logstate.task.owned_task import OwnedTask
from logstate.worker.worker_observer import FIRST_ASSIGNMENT_MS, WorkerObserver

STOPPING = "it is stopping"


@dataclass(frozen=True)
class Health:
    """True or False, with the reason for it.

    >>> health = Health(False, "the application has not started")
    >>> bool(health), health.reason
    (False, 'the application has not started')
    """

    is_ok: bool
    reason: str

    def __bool__(self) -> bool:
        return self.is_ok


def liveness(why_not: str | None) -> Health:
    """Report whether the worker runs, or will run."""
    return Health(True, "it runs, or will") if why_not is None else Health(False, why_not)


def readiness(
    observer: WorkerObserver,
    now_ms: float,
    why_not: str | None,
    *,
    standbys: int = 0,
    waits_ms: float = 0.0,
) -> Health:
    """Report whether requests are answered here.

    ``why_not``: the application ends, or has ended; ``standbys``: how many can be read;
    ``waits_ms``: how long requests wait for a task that is restored.
    """
    if why_not is not None:
        return Health(False, why_not)
    outage = "" if observer.outage is None else observer.outage.summary(now_ms)
    if not observer.is_started:
        return Health(False, f"the application has not started{outage}")
    tasks = observer.tasks
    if not tasks and not observer.is_assigned and _is_new(observer, now_ms):
        return Health(False, f"the group has not assigned any partitions to it yet{outage}")
    if not tasks:
        return Health(True, f"it is idle: all tasks belong to other instances{outage}")
    waiting = _tasks_without_rows(tasks)
    readable = len(tasks) - len(waiting)
    if not waiting:
        return Health(True, f"{readable} tasks can be read{outage}")
    others = f"tasks are not ready yet: {', '.join(waiting)}{outage}"
    if not observer.was_ready:
        return Health(False, others)
    if readable or standbys:
        return Health(True, f"{readable} tasks and {standbys} standbys can be read; {others}")
    since_ms = observer.unreadable_since_ms
    if since_ms is not None and now_ms - since_ms < waits_ms:
        return Health(True, f"requests wait; {others}")
    return Health(False, others)


def _is_new(observer: WorkerObserver, now_ms: float) -> bool:
    """Some brokers do not notify a member that gets no partitions."""
    started = observer.started_ms
    return started is not None and now_ms - started < FIRST_ASSIGNMENT_MS


def _tasks_without_rows(tasks: Mapping[TaskId, OwnedTask]) -> list[str]:
    """Describe tasks without readable rows; a task that has run keeps its committed rows."""
    return [
        f"{task_id} is {owned.stage.value}"
        for task_id, owned in sorted(tasks.items())
        if not owned.is_readable
    ]
