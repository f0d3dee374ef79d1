"""The clocks of one process: the world's time, its own wall-clock error, and slow user code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.clock import Alarm, ManualClock
from logstate.task.task import Task
from logstate.testing.fake.cluster import FakeCluster
from logstate.worker.worker import Worker
from logstate.worker.worker_observer import WorkerObserver


def take_apart(task: Task) -> None:
    """Cut the cycles of a dead task; it is of no use any more, not even for an error message."""
    for store in task.state.stores.values():
        vars(store).clear()
    for rows in task.state._rows.values():
        rows._mirrors.clear()
    vars(task.state).clear()
    vars(task.guard).clear()
    vars(task).clear()


def take_worker_apart(worker: Worker) -> None:
    """The same for a worker whose steps are dropped: nothing of it runs again."""
    if worker._begun_commits is not None:
        vars(worker._begun_commits).clear()
    vars(worker).clear()


def take_cluster_apart(cluster: FakeCluster) -> None:
    """The same for a cluster that was examined."""
    cluster.groups.clear()
    vars(cluster).clear()


class SilentObserver(WorkerObserver):
    """Hears everything, keeps the tasks."""

    def tasks_changed(self, tasks: Mapping[Any, Any]) -> None:
        self.tasks = dict(tasks)

    def started(self) -> None: ...
    def ended(self) -> None: ...
    def stopping(self) -> None: ...
    def paused(self, is_paused: bool) -> None: ...
    def processed(self, duration_ms: float) -> None: ...
    def applied(self, duration_ms: float) -> None: ...
    def committed(self, report: Any, duration_ms: float) -> None: ...
    def aborted(self) -> None: ...
    def produced(self, owned: Any, outputs: Any) -> None: ...
    def rebalanced(self, kind: str, partitions: int) -> None: ...
    def turn(self, *_: Any) -> None: ...
    def refresh(self, *_: Any) -> None: ...
    def task_closing(self, owned: Any) -> None: ...


class SimulatedProcessClock:
    """Time passes for everybody; only the wall clock's error is the process's own."""

    def __init__(self, world: ManualClock) -> None:
        self._world = world
        #: how far this process's wall clock is off
        self.error_ms = 0
        #: what the next look at the wall clock takes; user code looks at it in every record
        self.slow_ms = 0
        self.monotonic_ms = world.monotonic_ms

    def wall_clock_ms(self) -> int:
        if self.slow_ms:
            slow_ms, self.slow_ms = self.slow_ms, 0
            self._world.advance(slow_ms)
        return self._world.wall_clock_ms() + self.error_ms

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        return self._world.alarm(ring)
