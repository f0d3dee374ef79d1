"""The state of the worker processes of an instance, from their last reports.

Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from logstate.app.instance.health import STOPPING, Health, liveness
from logstate.app.instance.merged_metrics import MergedMetrics
from logstate.app.instance.reports import (
    TaskReport,
    WorkerStatus,
    joint_liveness,
    joint_readiness,
    owners_of,
    standbys_of,
    task_count,
    tasks_of,
)
from logstate.app.instance.restarts import UncaughtHandler
from logstate.app.instance.states import Facts, joint
from logstate.app.instance.supervisor import Supervisor
from logstate.app.instance.worker_process import WorkerProcess
from logstate.app.instance.worker_stores import WorkerStores
from logstate.contracts.clock import Clock
from logstate.restore.restore import RestoreListener
from logstate.topics.placement import places_of
from logstate.topology.plan.plan import Topology
from logstate.worker.summary import SummaryIntervals
from logstate.worker.task_lag import TaskLag

_RUNNING = "running"


@dataclass(frozen=True)
class Instance:
    """Settings that all workers of an instance share."""

    application_id: str
    topology: Topology
    workers: int
    uncaught: UncaughtHandler
    restore_listener: RestoreListener | None
    #: deletes the local state; only while nothing runs
    clean_up: Callable[[], None]
    #: of the summary of all workers in the log; None: there is none
    summary_intervals: SummaryIntervals | None = None


class WorkerPoolStatus:
    """State of all worker processes of an instance, and their stores."""

    def __init__(self, instance: Instance, clock: Clock) -> None:
        self._instance = instance
        self._clock = clock
        self._supervisor = Supervisor(instance.workers)
        self._processes: dict[int, WorkerProcess] = {}
        #: replaced as a whole: readers see one consistent map
        self._statuses: dict[int, WorkerStatus] = {}
        #: static members whose process has ended and whose membership the group keeps
        self._away: dict[int, tuple[str, str | None]] = {}
        self.changed = threading.Condition()
        self.metrics = MergedMetrics()
        self.failure: BaseException | None = None
        self._stopped_by: str | None = None
        self.is_finished = False
        #: all workers answered at one time
        self._was_ready = False

    @cached_property
    def stores(self) -> WorkerStores:
        """The stores of all workers."""
        places = places_of(self._instance.topology, self._instance.application_id)
        return WorkerStores(
            places, lambda: self._statuses, self._processes, self._clock, self.why_ended
        )

    # ------------------------------------------------------------------ observing

    def facts(self) -> Facts:
        """Return the combined facts of the workers."""
        statuses = self._statuses
        found = [
            statuses[number].report.facts if number in statuses else Facts()
            for number in self._supervisor.numbers
        ]
        together = joint(replace(facts, is_stopping=False) for facts in found)
        return replace(together, is_stopping=self._supervisor.is_stopping)

    @property
    def is_started(self) -> bool:
        """Every worker has joined the group."""
        return self.facts().is_started

    @property
    def is_assigned(self) -> bool:
        """All workers have received their assignment."""
        statuses = self._statuses
        return all(
            n in statuses and statuses[n].report.is_assigned for n in self._supervisor.numbers
        )

    @property
    def are_tasks_running(self) -> bool:
        """There are tasks, all of them run, and no worker waits for an assignment."""
        return self.facts().is_settled and set(self.tasks().values()) == {_RUNNING}

    @property
    def count(self) -> int:
        """The wanted number of workers."""
        return self._supervisor.wanted

    @property
    def transactional_ids(self) -> list[str]:
        """Transactional ids of the running workers' producers."""
        return [one.report.transactional_id for _, one in sorted(self._statuses.items())]

    @property
    def group_members(self) -> list[tuple[str, str | None]]:
        """Member id and ``group.instance.id`` of each worker that is or will be a member.

        Includes a static member while its process restarts.
        """
        kept = {n: one for n, one in self._away.items() if n in self._supervisor.numbers}
        reported = {n: one.report.member for n, one in self._statuses.items() if one.report.member}
        return [one for _, one in sorted({**kept, **reported}.items())]

    def standbys(self) -> dict[str, int | None]:
        """Map standbys of other instances' tasks to their lag in offsets."""
        return standbys_of(self._statuses)

    def tasks(self) -> dict[str, str]:
        """Map task ids to stages."""
        return {task: report.lag.stage for task, report in tasks_of(self._statuses).items()}

    def lags(self) -> dict[str, TaskLag]:
        """Map task ids to lags."""
        return {task: report.lag for task, report in tasks_of(self._statuses).items()}

    def task_reports(self) -> dict[str, TaskReport]:
        """Map task ids to the reports of their workers."""
        statuses, now = self._statuses, self._clock.monotonic_ms()
        return {
            task: statuses[owner].report.tasks[task].later(now - statuses[owner].at_ms)
            for task, owner in owners_of(statuses).items()
        }

    def task_counts(self) -> dict[int, int | None]:
        """Map sub-topologies to partition counts; None before a worker knows the count."""
        subs = self._instance.topology.sub_topologies
        return {sub.id: task_count(self._statuses.values(), sub.id) for sub in subs}

    def readiness(self) -> Health:
        """Report whether requests are answered here."""
        ended = self.why_ended()
        if ended is not None or self._supervisor.is_stopping:
            return Health(False, ended or STOPPING)
        waiting, numbers = self._supervisor.waiting(), self._supervisor.numbers
        found = joint_readiness(self._statuses, numbers, waiting, was_ready=self._was_ready)
        self._was_ready = self._was_ready or bool(found)
        return found

    def liveness(self) -> Health:
        """Report whether only a restart helps."""
        ended = self.why_ended()
        return (
            liveness(ended) if ended else joint_liveness(self._statuses, self._clock.monotonic_ms())
        )

    def why_ended(self) -> str | None:
        """Return why the application has ended; None while it runs."""
        if not self.is_finished:
            return None
        why = "it was stopped" if self._stopped_by is None else f"it failed: {self._stopped_by}"
        return f"application {self._instance.application_id!r} has ended, because {why}"
