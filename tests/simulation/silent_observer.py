"""An observer that costs nothing: a simulation has no metrics to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstate.worker.worker_observer import WorkerObserver


class SilentObserver(WorkerObserver):
    """Hears everything, keeps the tasks."""

    def __init__(self) -> None:
        self.tasks = {}  # and no metrics: every process of a schedule has an observer

    def tasks_changed(self, tasks: Mapping[Any, Any]) -> None:
        self.tasks = dict(tasks)

    def started(self) -> None: ...
    def committed(self, report: Any, duration_ms: float) -> None: ...
    def aborted(self) -> None: ...
    def produced(self, owned: Any, outputs: Any) -> None: ...
    def rebalanced(self, kind: str, partitions: int) -> None: ...
    def turn(self, *_: Any) -> None: ...
    def refresh(self, *_: Any) -> None: ...
    def task_closing(self, owned: Any) -> None: ...
