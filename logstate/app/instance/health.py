"""Liveness and readiness of an Application for an orchestrator, with the reasons.

*Live*: a restart would not help. It would help if the worker has ended or a call of a function
hangs. Unavailable brokers do not come back because of a restart.

*Ready*: reads are answered. An instance is ready once all tasks assigned to it can be read here,
and stays ready while the brokers are unavailable, as long as its data is not older than
``max_age``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from logstate.contracts.records import TaskId
from logstate.queries.reader import Freshness
from logstate.task.owned_task import OwnedTask, Stage
from logstate.worker.worker_observer import WorkerObserver

#: a new member may wait this long for revocations; after that it has no partitions
FIRST_ASSIGNMENT_MS = 15_000


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
    freshness: Freshness,
    why_ended: str | None,
    max_age: timedelta | None,
) -> Health:
    """Report whether local reads of all tasks of this instance are answered."""
    if why_ended is not None:
        return Health(False, why_ended)
    outage = "" if observer.outage is None else observer.outage.summary(freshness.now_ms())
    if not observer.is_started:
        return Health(False, f"the application has not started{outage}")
    tasks = observer.tasks
    if not tasks and not observer.is_assigned and _is_new(observer, freshness.now_ms()):
        return Health(False, f"the group has not assigned any partitions to it yet{outage}")
    if not tasks:
        return Health(True, f"it is idle: all tasks belong to other instances{outage}")
    waiting = _waiting(tasks)
    if waiting:
        return Health(False, f"tasks are not ready yet: {waiting}{outage}")
    oldest_ms = max(map(freshness.age_ms, tasks.values()), default=0.0)
    if max_age is not None and oldest_ms > max_age.total_seconds() * 1000:
        limit = f"max_age allows {max_age.total_seconds():g} s"
        return Health(False, f"its data is {oldest_ms / 1000:.1f} s old, {limit}{outage}")
    return Health(True, f"{len(tasks)} tasks can be read{outage}")


def _is_new(observer: WorkerObserver, now_ms: float | None) -> bool:
    """Some brokers do not notify a member that gets no partitions."""
    started = observer.started_ms
    return started is not None and now_ms is not None and now_ms - started < FIRST_ASSIGNMENT_MS


def _waiting(tasks: Mapping[TaskId, OwnedTask]) -> str:
    """Describe tasks without readable rows; a task that has run keeps its committed rows."""
    waiting = [
        f"{task_id} is {owned.stage.value}"
        for task_id, owned in sorted(tasks.items())
        if owned.stage is not Stage.RUNNING and owned.current_ms is None
    ]
    return ", ".join(waiting)
