"""Reports of worker processes, and the state of the instance that follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from logstate.app.instance.health import Health
from logstate.app.instance.states import Facts
from logstate.contracts.open_rows import OpenRows
from logstate.worker.task_lag import TaskLag

#: a process without a report for this long hangs; it reports every second
SILENCE_MS = 30_000.0
_RUNNING = "running"


@dataclass(frozen=True)
class TaskReport:
    """One task of a worker."""

    lag: TaskLag
    #: its rows can be read
    is_readable: bool
    #: since the rows included everything in the inputs, when it was reported; infinite: unknown
    age_ms: float
    #: ``topic-partition`` -> the first input offset that the rows do not include yet
    positions: Mapping[str, int] = field(default_factory=dict)
    #: since the worker knew that the task is its own, at the time of the report
    silence_ms: float = 0.0
    #: input records that the rows lack; None: unknown
    rows_lag: int | None = None
    #: the largest timestamp that it has processed; None before its first record
    stream_time_ms: int | None = None
    #: empty input partitions that the buffered records of others wait for
    waits_for: tuple[str, ...] = ()
    #: how long they have waited
    waits_ms: float = 0.0
    #: ``topic-partition`` -> the largest timestamp of its processed records
    partition_times: Mapping[str, int] = field(default_factory=dict)
    #: operator -> its rows that wait for stream time, as of the last look
    open_rows: Mapping[str, OpenRows] = field(default_factory=dict)

    def later(self, ms: float) -> TaskReport:
        """Return the report after a time without another one."""
        return replace(self, age_ms=self.age_ms + ms, silence_ms=self.silence_ms + ms)


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
    *,
    was_ready: bool = False,
) -> Health:
    """Report whether the workers answer; ``waiting``: restarting workers and why they ended.

    All have to, until they did at one time (``was_ready``); then one is enough.
    """
    missing = [text for number in workers if (text := _why_not(number, statuses, waiting))]
    if not missing:
        count = len(tasks_of(statuses))
        return Health(True, f"{count} tasks can be read, of {len(workers)} workers")
    if was_ready and len(missing) < len(workers):
        left = len(workers) - len(missing)
        return Health(True, f"{left} of {len(workers)} workers answer; {missing[0]}")
    return Health(False, missing[0])


def _why_not(
    number: int, statuses: Mapping[int, WorkerStatus], waiting: Mapping[int, str]
) -> str | None:
    if number in waiting:
        return f"worker {number} {waiting[number]}, and is being restarted"
    if number not in statuses:
        return f"worker {number} has not started"
    ready = statuses[number].report.ready
    return None if ready else f"worker {number}: {ready.reason}"


def joint_liveness(statuses: Mapping[int, WorkerStatus], now_ms: float) -> Health:
    """Report whether only a restart of the instance helps. Dead workers are restarted anyway."""
    for number, one in sorted(statuses.items()):
        if not one.report.live:
            return Health(False, f"worker {number}: {one.report.live.reason}")
        silent_ms = now_ms - one.at_ms
        if silent_ms > SILENCE_MS:
            return Health(False, f"worker {number} has not reported for {silent_ms / 1000:.0f} s")
    return Health(True, "its workers run, or will run")
