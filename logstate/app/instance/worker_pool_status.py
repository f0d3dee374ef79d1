"""The state of the worker processes of an instance, from their last reports.

Thread-safe. Stores are read through the worker that has the partition.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from logstate.app.instance.health import Health, liveness
from logstate.app.instance.merged_metrics import MergedMetrics
from logstate.app.instance.questions import PartitionRead, RowPage, rows_of
from logstate.app.instance.reports import (
    TaskReport,
    WorkerStatus,
    age_ms,
    copier_of,
    joint_liveness,
    joint_readiness,
    owner_of,
    standbys_of,
    task_count,
    tasks_of,
)
from logstate.app.instance.restarts import UncaughtHandler
from logstate.app.instance.routed_store import RoutedStore
from logstate.app.instance.states import Facts, joint
from logstate.app.instance.supervisor import Supervisor
from logstate.app.instance.worker_process import WorkerProcess
from logstate.contracts.clock import Clock
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.records import TaskId
from logstate.queries.queries import Answer
from logstate.restore.restore import RestoreListener
from logstate.topics.placement import placed_by
from logstate.topology.plan.plan import Topology
from logstate.worker.worker_observer import TaskLag

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


class WorkerPoolStatus:
    """State of all worker processes of an instance, and reads through them."""

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
        return tasks_of(self._statuses)

    def task_counts(self) -> dict[int, int | None]:
        """Map sub-topologies to partition counts; None before a worker knows the count."""
        subs = self._instance.topology.sub_topologies
        return {sub.id: self.task_count(sub.id) for sub in subs}

    def readiness(self, max_age: timedelta | None) -> Health:
        """Report whether local reads of all tasks are answered."""
        ended = self.why_ended()
        if ended is not None:
            return Health(False, ended)
        waiting, now = self._supervisor.waiting(), self._clock.monotonic_ms()
        return joint_readiness(self._statuses, self._supervisor.numbers, waiting, now, max_age)

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

    # ------------------------------------------------------------------ reading

    def store(self, name: str, max_age: timedelta | None, *, standbys: bool = False) -> RoutedStore:
        """Return a store that reads from the worker that has the partition."""
        topology = self._instance.topology
        stores = {**topology.stores, **topology.global_stores}
        spec = stores.get(name)
        if spec is None:
            raise StoreUnavailableError(
                f"there is no store {name!r}; the topology has {sorted(stores)}"
            )
        subs = (*topology.sub_topologies, *topology.global_sub_topologies)
        sub = next(sub for sub in subs if spec in sub.stores)
        return RoutedStore(
            spec,
            self._instance.application_id,
            sub.id,
            self,
            max_age,
            standbys=standbys,
            is_placed=sub.is_global or placed_by(topology, sub, spec) is not None,
        )

    def partitions(self, sub_topology: int, *, standbys: bool = False) -> dict[int, bool]:
        """Map partitions owned or copied by a worker here to whether they can be read."""
        if self._is_global(sub_topology):
            return {} if self._any_started() is None else {0: True}
        copied = {t: lag is not None for t, lag in self.standbys().items()} if standbys else {}
        owned = {task: report.is_readable for task, report in tasks_of(self._statuses).items()}
        found = ((TaskId.parse(task), readable) for task, readable in {**copied, **owned}.items())
        here = {t.partition: readable for t, readable in found if t.sub_topology == sub_topology}
        return dict(sorted(here.items()))

    def standby_lag(self, sub_topology: int) -> int:
        """Return the lag of the standbys here, in offsets."""
        lags = {TaskId.parse(task): lag or 0 for task, lag in self.standbys().items()}
        return sum(lag for task, lag in lags.items() if task.sub_topology == sub_topology)

    def task_count(self, sub_topology: int) -> int | None:
        """Return the partition count of a sub-topology; None before it is known."""
        if self._is_global(sub_topology):
            return 1
        return task_count(self._statuses.values(), sub_topology)

    def age(self, task: TaskId) -> timedelta:
        """Return the age of a task's rows."""
        statuses = self._statuses
        owner = owner_of(statuses, str(task))
        if owner is None:
            return timedelta(0)
        ms = age_ms(statuses[owner], str(task), self._clock.monotonic_ms())
        return timedelta(milliseconds=ms)

    def read(self, task: TaskId, question: PartitionRead) -> Any:
        """Read from the worker that owns a task; rows come in parts from that worker."""
        store = question.store
        self.check(store)
        is_global = self._is_global(task.sub_topology)
        owner = self._any_started() if is_global else owner_of(self._statuses, str(task))
        if owner is None and question.standbys:
            owner = copier_of(self._statuses, str(task))
        one = None if owner is None else self._processes.get(owner)
        if one is None:
            raise StoreUnavailableError(
                f"store {store!r}: partition {task.partition} is moving to another worker; try"
                " again"
            )
        found = one.ask(store, question)
        if isinstance(found, Answer) and isinstance(found.value, RowPage):
            return replace(found, value=rows_of(store, found.value, one))
        return rows_of(store, found, one) if isinstance(found, RowPage) else found

    def check(self, store: str) -> None:
        """Raise StoreUnavailableError if the application has ended."""
        ended = self.why_ended()
        if ended is not None:
            raise StoreUnavailableError(
                f"store {store!r} cannot be read: {ended}. Ask another instance, or start this one"
                " again"
            )

    def _is_global(self, sub_topology: int) -> bool:
        return any(sub.id == sub_topology for sub in self._instance.topology.global_sub_topologies)

    def _any_started(self) -> int | None:
        """Return a worker that has read the global tables: any that has started."""
        started = (n for n, one in sorted(self._statuses.items()) if one.report.facts.is_started)
        return next(started, None)
