"""What is known of the workers of an instance that are processes: what each told last.

From any thread. Stores are read by asking the worker that has the partition.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from logstate.app.instance.health import Health, liveness
from logstate.app.instance.merged_metrics import MergedMetrics
from logstate.app.instance.questions import Part, Read, rows_of
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
from logstate.worker.lag import TaskLag

_RUNNING = "running"


@dataclass(frozen=True)
class Instance:
    """What the workers of an instance have in common."""

    application_id: str
    topology: Topology
    workers: int
    uncaught: UncaughtHandler
    restore_listener: RestoreListener | None
    #: of the local state, which nobody uses while nothing runs
    clean_up: Callable[[], None]


class WorkerPoolStatus:
    """See the module."""

    def __init__(self, instance: Instance, clock: Clock) -> None:
        self._instance = instance
        self._clock = clock
        self._supervisor = Supervisor(instance.workers)
        self._processes: dict[int, WorkerProcess] = {}
        #: replaced as a whole: readers see one consistent map
        self._told: dict[int, WorkerStatus] = {}
        #: static members whose process has ended, and of which the group keeps the place
        self._away: dict[int, tuple[str, str | None]] = {}
        self.changed = threading.Condition()
        self.metrics = MergedMetrics()
        self.failure: BaseException | None = None
        self._stopped_by: str | None = None
        self.is_finished = False

    # ------------------------------------------------------------------ looking inside

    def facts(self) -> Facts:
        """What is true of the workers together."""
        told = self._told
        found = [
            told[number].report.facts if number in told else Facts()
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
        """The group has told every worker which tasks are its own."""
        told = self._told
        return all(n in told and told[n].report.is_assigned for n in self._supervisor.numbers)

    @property
    def are_tasks_running(self) -> bool:
        """There are tasks, each of them runs, and no worker waits for its own."""
        return self.facts().is_settled and set(self.tasks().values()) == {_RUNNING}

    @property
    def count(self) -> int:
        """How many workers there are to be."""
        return self._supervisor.wanted

    @property
    def transactional_ids(self) -> list[str]:
        """Of the producers of the workers that run."""
        return [one.report.transactional_id for _, one in sorted(self._told.items())]

    @property
    def group_members(self) -> list[tuple[str, str | None]]:
        """Member id and ``group.instance.id`` of each worker that is one, or is about to be; of a
        static one also while its process starts again.
        """
        kept = {n: one for n, one in self._away.items() if n in self._supervisor.numbers}
        told = {n: one.report.member for n, one in self._told.items() if one.report.member}
        return [one for _, one in sorted({**kept, **told}.items())]

    def standbys(self) -> dict[str, int | None]:
        """Tasks of other instances that are followed -> offsets that they lack here."""
        return standbys_of(self._told)

    def tasks(self) -> dict[str, str]:
        """Task id -> stage."""
        return {task: told.lag.stage for task, told in tasks_of(self._told).items()}

    def lags(self) -> dict[str, TaskLag]:
        """Task id -> how far it is behind."""
        return {task: told.lag for task, told in tasks_of(self._told).items()}

    def task_reports(self) -> dict[str, TaskReport]:
        """Task id -> what its worker tells of it."""
        return tasks_of(self._told)

    def task_counts(self) -> dict[int, int | None]:
        """Sub-topology -> its partitions; None before a worker knows."""
        subs = self._instance.topology.sub_topologies
        return {sub.id: self.task_count(sub.id) for sub in subs}

    def readiness(self, max_age: timedelta | None) -> Health:
        """Whether local reads of all tasks are answered."""
        ended = self.why_ended()
        if ended is not None:
            return Health(False, ended)
        waiting, now = self._supervisor.waiting(), self._clock.monotonic_ms()
        return joint_readiness(self._told, self._supervisor.numbers, waiting, now, max_age)

    def liveness(self) -> Health:
        """Whether only a new start can help."""
        ended = self.why_ended()
        return liveness(ended) if ended else joint_liveness(self._told, self._clock.monotonic_ms())

    def why_ended(self) -> str | None:
        """Why nothing runs any more; None while it does."""
        if not self.is_finished:
            return None
        why = "it was stopped" if self._stopped_by is None else f"it failed: {self._stopped_by}"
        return f"application {self._instance.application_id!r} has ended, because {why}"

    # ------------------------------------------------------------------ reading

    def store(self, name: str, max_age: timedelta | None, *, standbys: bool = False) -> RoutedStore:
        """A store, read from whichever worker has the partition."""
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
        """Partition -> whether it can be read; of those that a worker here owns, or copies."""
        if self._is_global(sub_topology):
            return {} if self._any_started() is None else {0: True}
        copied = {t: lag is not None for t, lag in self.standbys().items()} if standbys else {}
        owned = {task: told.is_readable for task, told in tasks_of(self._told).items()}
        found = ((TaskId.parse(task), readable) for task, readable in {**copied, **owned}.items())
        here = {t.partition: readable for t, readable in found if t.sub_topology == sub_topology}
        return dict(sorted(here.items()))

    def standby_lag(self, sub_topology: int) -> int:
        """Offsets that copies here lack."""
        lags = {TaskId.parse(task): lag or 0 for task, lag in self.standbys().items()}
        return sum(lag for task, lag in lags.items() if task.sub_topology == sub_topology)

    def task_count(self, sub_topology: int) -> int | None:
        """Partitions of a sub-topology; None before it is known."""
        if self._is_global(sub_topology):
            return 1
        return task_count(self._told.values(), sub_topology)

    def age(self, task: TaskId) -> timedelta:
        """How old the rows of a task are."""
        told = self._told
        owner = owner_of(told, str(task))
        if owner is None:
            return timedelta(0)
        ms = age_ms(told[owner], str(task), self._clock.monotonic_ms())
        return timedelta(milliseconds=ms)

    def read(self, task: TaskId, question: Read) -> Any:
        """What is read by the worker that owns a task; what is gone through, from it alone."""
        store = question.store
        self.check(store)
        is_global = self._is_global(task.sub_topology)
        owner = self._any_started() if is_global else owner_of(self._told, str(task))
        if owner is None and question.standbys:
            owner = copier_of(self._told, str(task))
        one = None if owner is None else self._processes.get(owner)
        if one is None:
            raise StoreUnavailableError(
                f"store {store!r}: partition {task.partition} is on its way to another worker; try"
                " again"
            )
        found = one.ask(store, question)
        if isinstance(found, Answer) and isinstance(found.value, Part):
            return replace(found, value=rows_of(store, found.value, one))
        return rows_of(store, found, one) if isinstance(found, Part) else found

    def check(self, store: str) -> None:
        """Raises StoreUnavailableError once nothing runs any more."""
        ended = self.why_ended()
        if ended is not None:
            raise StoreUnavailableError(
                f"store {store!r} cannot be read: {ended}. Ask another instance, or start this one"
                " again"
            )

    def _is_global(self, sub_topology: int) -> bool:
        return any(sub.id == sub_topology for sub in self._instance.topology.global_sub_topologies)

    def _any_started(self) -> int | None:
        """A worker that has read the global tables: every one that has started."""
        started = (n for n, one in sorted(self._told.items()) if one.report.facts.is_started)
        return next(started, None)
