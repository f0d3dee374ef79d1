"""What worker processes tell of themselves, and what follows for the whole instance. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from logstate.app.instance.health import Health
from logstate.app.instance.states import Facts
from logstate.worker.lag import TaskLag

#: a process that says nothing for so long hangs; it reports every second, whatever it does
SILENCE_MS = 30_000.0
_RUNNING = "running"


@dataclass(frozen=True)
class TaskReport:
    """One task of a worker."""

    lag: TaskLag
    #: it has rows that can be read
    is_readable: bool
    #: how old these were when this was told
    age_ms: float
    #: ``topic-partition`` -> the first input offset that the rows do not hold yet
    positions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerReport:
    """What is true of a worker, told when it changes and once a second."""

    facts: Facts
    is_assigned: bool
    transactional_id: str
    ready: Health
    live: Health
    tasks: Mapping[str, TaskReport] = field(default_factory=dict)
    #: sub-topology -> partitions; without those that are not known yet
    task_counts: Mapping[int, int] = field(default_factory=dict)
    #: its member id in the group, and its ``group.instance.id``; None before it is known
    member: tuple[str, str | None] | None = None
    #: tasks of others that it follows -> offsets that it lacks; None: it begins
    standbys: Mapping[str, int | None] = field(default_factory=dict)

    def without_figures(self) -> WorkerReport:
        """What has to be told at once when it changes."""
        still = TaskLag("", None, 0)
        tasks = {
            task: TaskReport(replace(still, stage=told.lag.stage), told.is_readable, 0.0)
            for task, told in self.tasks.items()
        }
        return replace(self, tasks=tasks, standbys=dict.fromkeys(self.standbys))


@dataclass(frozen=True)
class WorkerStatus:
    """A report, and when it came: a monotonic time."""

    at_ms: float
    report: WorkerReport


def owner_of(told: Mapping[int, WorkerStatus], task: str) -> int | None:
    """Which worker to ask for a task: who runs it, else who can answer, else who has it.

    While a task moves, two may tell of it for a moment: the one that told last knows better.
    """

    def rank(number: int) -> tuple[bool, bool, float]:
        one = told[number].report.tasks[task]
        return one.lag.stage == _RUNNING, one.is_readable, told[number].at_ms

    return max((n for n, one in told.items() if task in one.report.tasks), key=rank, default=None)


def copier_of(told: Mapping[int, WorkerStatus], task: str) -> int | None:
    """Which worker has a copy of another instance's task."""
    found = (n for n, one in told.items() if one.report.standbys.get(task) is not None)
    return min(found, default=None)


def tasks_of(told: Mapping[int, WorkerStatus]) -> dict[str, TaskReport]:
    """Every task of the instance, as its owner tells of it."""
    return {task: told[owner].report.tasks[task] for task, owner in owners_of(told).items()}


def owners_of(told: Mapping[int, WorkerStatus]) -> dict[str, int]:
    """Every task of the instance, and the worker that :func:`owner_of` names."""
    tasks = {task for one in told.values() for task in one.report.tasks}
    owners = {task: owner_of(told, task) for task in sorted(tasks)}
    return {task: owner for task, owner in owners.items() if owner is not None}


def standbys_of(told: Mapping[int, WorkerStatus]) -> dict[str, int | None]:
    """Every task that a worker copies, and what the copy lacks that :func:`copier_of` names.

    None where no worker has a copy that can be read yet.
    """
    copied = {task for one in told.values() for task in one.report.standbys}
    copiers = {task: copier_of(told, task) for task in sorted(copied)}
    return {t: None if n is None else told[n].report.standbys[t] for t, n in copiers.items()}


def task_count(told: Iterable[WorkerStatus], sub_topology: int) -> int | None:
    """Partitions of a sub-topology; None before a worker knows."""
    counts = (one.report.task_counts.get(sub_topology) for one in told)
    return next((count for count in counts if count is not None), None)


def age_ms(told: WorkerStatus, task: str, now_ms: float) -> float:
    """How old the rows of a task are now."""
    return told.report.tasks[task].age_ms + now_ms - told.at_ms


def joint_readiness(
    told: Mapping[int, WorkerStatus],
    workers: Sequence[int],
    waiting: Mapping[int, str],
    now_ms: float,
    max_age: timedelta | None,
) -> Health:
    """Whether all workers answer; ``waiting`` are those that start again, with why they ended."""
    for number in workers:
        if number in waiting:
            return Health(False, f"worker {number} {waiting[number]}, and starts again")
        if number not in told:
            return Health(False, f"worker {number} has not started")
        ready = told[number].report.ready
        if not ready:
            return Health(False, f"worker {number}: {ready.reason}")
    ages = (
        age_ms(told[owner], task, now_ms)
        for task, owner in owners_of(told).items()
        if told[owner].report.tasks[task].is_readable
    )
    oldest_ms = max(ages, default=0.0)
    if max_age is not None and oldest_ms > max_age.total_seconds() * 1000:
        limit = f"max_age allows {max_age.total_seconds():g} s"
        return Health(False, f"what it has is {oldest_ms / 1000:.1f} s old, {limit}")
    return Health(True, f"{len(tasks_of(told))} tasks can be read, of {len(workers)} workers")


def joint_liveness(told: Mapping[int, WorkerStatus], now_ms: float) -> Health:
    """Whether only a new start of the instance can help. Workers that died are started anyway."""
    for number, one in sorted(told.items()):
        if not one.report.live:
            return Health(False, f"worker {number}: {one.report.live.reason}")
        silent_ms = now_ms - one.at_ms
        if silent_ms > SILENCE_MS:
            return Health(False, f"worker {number} has said nothing for {silent_ms / 1000:.0f} s")
    return Health(True, "its workers run, or will")
