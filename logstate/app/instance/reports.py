"""Reports of worker processes, and the state of the instance that follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from logstate.app.instance.health import Health
from logstate.app.instance.states import Facts
from logstate.worker.worker_observer import TaskLag

#: a process without a report for this long hangs; it reports every second
SILENCE_MS = 30_000.0
_RUNNING = "running"


@dataclass(frozen=True)
class TaskReport:
    """One task of a worker."""

    lag: TaskLag
    #: its rows can be read
    is_readable: bool
    #: age of the rows at the time of the report
    age_ms: float
    #: ``topic-partition`` -> the first input offset that the rows do not include yet
    positions: Mapping[str, int] = field(default_factory=dict)
    #: the largest timestamp that it has processed; None before its first record
    stream_time_ms: int | None = None
    #: empty input partitions that the buffered records of others wait for
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerReport:
    """The state of a worker, sent when it changes and once a second."""

    facts: Facts
    is_assigned: bool
    transactional_id: str
    ready: Health
    live: Health
    tasks: Mapping[str, TaskReport] = field(default_factory=dict)
    #: sub-topology -> partitions; without sub-topologies whose count is unknown yet
    task_counts: Mapping[int, int] = field(default_factory=dict)
    #: its member id in the group, and its ``group.instance.id``; None before they are known
    member: tuple[str, str | None] | None = None
    #: standbys of other instances' tasks -> lag in offsets; None: not read yet
    standbys: Mapping[str, int | None] = field(default_factory=dict)

    def without_figures(self) -> WorkerReport:
        """Return the part of the report whose changes are sent at once."""
        still = TaskLag("", None, 0)
        tasks = {
            task: TaskReport(replace(still, stage=one.lag.stage), one.is_readable, 0.0)
            for task, one in self.tasks.items()
        }
        return replace(self, tasks=tasks, standbys=dict.fromkeys(self.standbys))


@dataclass(frozen=True)
class WorkerStatus:
    """A report and the monotonic time of its arrival."""

    at_ms: float
    report: WorkerReport


def owner_of(statuses: Mapping[int, WorkerStatus], task: str) -> int | None:
    """Return the worker to ask for a task: one that runs it, else can answer, else owns it.

    While a task moves, two workers may report it for a moment: the later report wins.
    """

    def rank(number: int) -> tuple[bool, bool, float]:
        one = statuses[number].report.tasks[task]
        return one.lag.stage == _RUNNING, one.is_readable, statuses[number].at_ms

    return max(
        (n for n, one in statuses.items() if task in one.report.tasks), key=rank, default=None
    )


def copier_of(statuses: Mapping[int, WorkerStatus], task: str) -> int | None:
    """Return the worker that has a standby of another instance's task."""
    found = (n for n, one in statuses.items() if one.report.standbys.get(task) is not None)
    return min(found, default=None)


def tasks_of(statuses: Mapping[int, WorkerStatus]) -> dict[str, TaskReport]:
    """Return all tasks of the instance as reported by their owners."""
    return {task: statuses[owner].report.tasks[task] for task, owner in owners_of(statuses).items()}


def owners_of(statuses: Mapping[int, WorkerStatus]) -> dict[str, int]:
    """Map all tasks of the instance to the workers that :func:`owner_of` returns."""
    tasks = {task for one in statuses.values() for task in one.report.tasks}
    owners = {task: owner_of(statuses, task) for task in sorted(tasks)}
    return {task: owner for task, owner in owners.items() if owner is not None}


def standbys_of(statuses: Mapping[int, WorkerStatus]) -> dict[str, int | None]:
    """Map each task with a standby here to the lag of the standby that :func:`copier_of` returns.

    None if no worker has a standby that can be read yet.
    """
    copied = {task for one in statuses.values() for task in one.report.standbys}
    copiers = {task: copier_of(statuses, task) for task in sorted(copied)}
    return {t: None if n is None else statuses[n].report.standbys[t] for t, n in copiers.items()}


def task_count(statuses: Iterable[WorkerStatus], sub_topology: int) -> int | None:
    """Return the partition count of a sub-topology; None before a worker knows it."""
    counts = (one.report.task_counts.get(sub_topology) for one in statuses)
    return next((count for count in counts if count is not None), None)


def age_ms(status: WorkerStatus, task: str, now_ms: float) -> float:
    """Return the current age of a task's rows."""
    return status.report.tasks[task].age_ms + now_ms - status.at_ms


def joint_readiness(
    statuses: Mapping[int, WorkerStatus],
    workers: Sequence[int],
    waiting: Mapping[int, str],
    now_ms: float,
    max_age: timedelta | None,
) -> Health:
    """Report whether all workers answer; ``waiting``: restarting workers and why they ended."""
    for number in workers:
        if number in waiting:
            return Health(False, f"worker {number} {waiting[number]}, and is being restarted")
        if number not in statuses:
            return Health(False, f"worker {number} has not started")
        ready = statuses[number].report.ready
        if not ready:
            return Health(False, f"worker {number}: {ready.reason}")
    ages = (
        age_ms(statuses[owner], task, now_ms)
        for task, owner in owners_of(statuses).items()
        if statuses[owner].report.tasks[task].is_readable
    )
    oldest_ms = max(ages, default=0.0)
    if max_age is not None and oldest_ms > max_age.total_seconds() * 1000:
        limit = f"max_age allows {max_age.total_seconds():g} s"
        return Health(False, f"its data is {oldest_ms / 1000:.1f} s old, {limit}")
    return Health(True, f"{len(tasks_of(statuses))} tasks can be read, of {len(workers)} workers")


def joint_liveness(statuses: Mapping[int, WorkerStatus], now_ms: float) -> Health:
    """Report whether only a restart of the instance helps. Dead workers are restarted anyway."""
    for number, one in sorted(statuses.items()):
        if not one.report.live:
            return Health(False, f"worker {number}: {one.report.live.reason}")
        silent_ms = now_ms - one.at_ms
        if silent_ms > SILENCE_MS:
            return Health(False, f"worker {number} has not reported for {silent_ms / 1000:.0f} s")
    return Health(True, "its workers run, or will run")
