"""The tasks of an Application, with their state in its state directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from logstate.changelog.directory import StateDirectory
from logstate.changelog.state import TaskState
from logstate.changelog.task_state import open_task_state
from logstate.contracts.clock import Clock
from logstate.contracts.processing import ApplicationContext, Traces
from logstate.contracts.worker_config import WorkerConfig
from logstate.metrics.instruments import Metrics
from logstate.metrics.own_metrics import OwnMetrics
from logstate.queries.global_stores import GlobalStores
from logstate.task.drops import DropLines
from logstate.task.error_handlers import ErrorHandlers
from logstate.task.owned_task import OwnedTask
from logstate.task.task import Task
from logstate.topics.bound_plan import BoundPlan


@dataclass(frozen=True)
class LocalTasks:
    """Creates tasks for a worker, and moves their state away if it is unusable."""

    directory: StateDirectory
    config: WorkerConfig
    clock: Clock
    error_handlers: ErrorHandlers
    metrics: Metrics
    #: makes the spans of records; None: without traces
    traces: Traces | None = None
    drop_lines: DropLines = field(default_factory=DropLines)

    def new_task(self, plan: BoundPlan, owned: OwnedTask, globals_: GlobalStores) -> Task:
        """Create a task with open stores; it is compiled when they are restored."""
        sub_topology = plan.sub_topology(owned.task_id)
        path, lock = self.directory.use_task(owned.task_id)

        def open_state(task: Task) -> TaskState:
            state = open_task_state(
                sub_topology.stores,
                task,
                state_dir=path,
                rocksdb=self.config.rocksdb,
                logs_every_write=self.config.changelog_writes == "update",
            )
            state.lock = lock
            return state

        try:
            task = Task(
                owned.task_id,
                [sub_topology],
                owned.partitions,
                application_id=self.config.application_id,
                clock=self.clock,
                open_state=open_state,
                global_stores=globals_.stores,
                partition_counts=plan.partition_counts,
                moved_topics=plan.moved_topics,
                error_handlers=self.error_handlers,
                initialises=False,
                application_context=ApplicationContext(
                    self.config.application_config,
                    self.directory.files_path,
                    partial(OwnMetrics, self.metrics),
                ),
                emit_intervals=self.config.emit_intervals,
                max_idle_ms=self.config.max_task_idle_ms,
            )
            task.drops.lines, task.traces = self.drop_lines, self.traces
            return task
        except BaseException:
            lock.release()
            raise

    def destroy_state(self, owned: OwnedTask) -> Path:
        """Move the task's directory away; return its new path."""
        return self.directory.quarantine_task(owned.task_id)
