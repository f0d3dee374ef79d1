"""The tasks of a test driver: one for all sub-topologies, and one for each global store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from logstate.changelog.state import TaskState
from logstate.changelog.task_state import open_task_state
from logstate.contracts.clock import Clock
from logstate.contracts.errors import StoreUnavailableError
from logstate.contracts.processing import NO_APPLICATION, ApplicationContext, EmitIntervals, Traces
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.stores import ARGUMENTS, StoreSpec, check_arguments, no_such_read
from logstate.contracts.topic_names import topic_name
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.task import Task
from logstate.testing.driver_log import DriverLog
from logstate.testing.fake.fetched import StoredRecord
from logstate.topics.bound_plan import check_sources
from logstate.topics.internal_topics import outputs_of
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.operators.streams.timed_store import as_written_by_users
from logstate.topology.plan.plan import Topology

#: emit final results at once: tests need not advance the wall clock
_AT_ONCE = EmitIntervals(default_ms=0)


@dataclass(frozen=True)
class DriverTasks:
    """Creates the tasks, now and after a crash."""

    topology: Topology
    application_id: str
    clock: Clock
    state_dir: Path | None
    logs_every_write: bool
    error_handlers: ErrorHandlers = FAIL_ALWAYS
    emit_intervals: EmitIntervals = _AT_ONCE
    #: of output topics, as given by the test
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    application_context: ApplicationContext = NO_APPLICATION
    traces: Traces | None = None

    def __post_init__(self) -> None:
        check_sources(self.topology, self.application_id)
        outputs_of(self.topology, self.application_id)

    def new_task(self, global_tasks: Sequence[Task], *, initialises: bool) -> Task:
        """Create the task of all sub-topologies that are not global."""
        sub_topologies = self.topology.sub_topologies
        topics = [ref for sub in sub_topologies for ref in sub.source_topics]
        names = [topic_name(self.application_id, r.name, is_internal=r.is_internal) for r in topics]

        def open_state(task: Task) -> TaskState:
            return open_task_state(
                list(self.topology.stores.values()),
                task,
                state_dir=self.state_dir,
                logs_every_write=self.logs_every_write,
                publishes_views=False,
            )

        task = Task(
            TaskId(0, 0),
            sub_topologies,
            list(dict.fromkeys(TopicPartition(name, 0) for name in names)),
            application_id=self.application_id,
            clock=self.clock,
            open_state=open_state,
            global_stores={n: s for task in global_tasks for n, s in task.state.stores.items()},
            partition_counts={**self._declared_counts(), **self.partition_counts},
            max_idle_ms=None,
            error_handlers=self.error_handlers,
            initialises=False,
            application_context=self.application_context,
            emit_intervals=self.emit_intervals,
        )
        task.traces = self.traces
        if initialises:
            task.initialise()
        return task

    def _declared_counts(self) -> dict[str, int]:
        """Return the partition counts of repartition topics that the topology declares."""
        return {
            topic_name(self.application_id, ref.name, is_internal=ref.is_internal): count
            for ref, count in ((one.topic, one.partitions) for one in self.topology.internal_topics)
            if count is not None
        }

    def new_globals(self, log: DriverLog) -> list[Task]:
        """Create the tasks of the global stores, and let them read the records piped so far."""
        tasks = [self._new_global(sub) for sub in self.topology.global_sub_topologies]
        for task in tasks:
            for topic in task.source_topics:
                for offset, one in enumerate(log.inputs.get(topic, ())):
                    stored = StoredRecord(
                        topic, 0, offset, one.key, one.value, one.timestamp, one.headers
                    )
                    task.add_records(TopicPartition(topic, 0), [stored])
                    follow(task)
        return tasks

    def _new_global(self, sub_topology: SubTopology) -> Task:
        return Task(
            TaskId(sub_topology.id, 0),
            [sub_topology],
            [TopicPartition(ref.name, 0) for ref in sub_topology.source_topics],
            application_id=self.application_id,
            clock=self.clock,
            open_state=lambda task: TaskState(sub_topology.stores, task, publishes_views=False),
            max_idle_ms=None,
            application_context=replace(self.application_context, files=None),
            error_handlers=self.error_handlers,
            sends=False,
        )


def follow(task: Task) -> None:
    """Let the task of a global store process all records that are due."""
    while task.process(1):
        pass
    task.committed(task.freeze(), {})
    task.state.apply()


class DriverStore:
    """Has all methods of the store; any other raises StoreError with the existing ones.

    It reads like queries, and writes like processors.
    """

    def __init__(self, store: Any, spec: StoreSpec) -> None:
        self._store = store
        self._written = as_written_by_users(store, spec.name)
        self._queried = getattr(store, "queried", self._written)
        self._spec = spec
        self._encode_key = spec.key.serializer(f"{spec.name}-changelog", True)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and not hasattr(self._store, name):
            raise no_such_read(self._spec, self._store, name)
        read_by = self._queried if hasattr(self._queried, name) else self._written
        found = getattr(read_by, name)
        if name not in ARGUMENTS:
            return found

        def read(*arguments: Any, **options: Any) -> Any:
            check_arguments(self._spec, self._encode_key, name, arguments, options)
            return found(*arguments, **options)

        return read


def driver_store(topology: Topology, task: Task, name: str) -> DriverStore:
    """Return the store of that name; raise StoreUnavailableError if there is none."""
    specs = {**topology.stores, **topology.global_stores}
    if name not in specs:
        raise StoreUnavailableError(f"there is no store {name!r}; the topology has {sorted(specs)}")
    return DriverStore(task.store(name), specs[name])
