"""A worker on a fake cluster, driven step by step on a manual clock; nothing waits, no threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from logstate.changelog.backend.memory import MemoryBackend
from logstate.changelog.state import TaskState
from logstate.contracts.clients import Step, Steps, run_steps
from logstate.contracts.clock import ManualClock
from logstate.contracts.records import TaskId
from logstate.contracts.worker_config import WorkerConfig
from logstate.queries.global_stores import GlobalStores
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.testing import FakeCluster
from logstate.topics.bound_plan import BoundPlan
from logstate.topology import StreamsBuilder
from logstate.worker.worker import Worker
from logstate.worker.worker_observer import WorkerObserver
from tests.unit.logstate.task.task_bench import APPLICATION, topology_of

TURNS_MAX = 300


class KeptRows(MemoryBackend):
    """Rows that survive their task, as on a disk."""

    def close(self) -> None:
        """Nothing is lost."""


class Disk(dict[TaskId, KeptRows]):
    """The local state of one instance."""

    def __init__(self) -> None:
        super().__init__()
        self.destroyed: list[TaskId] = []

    def open(self, task_id: TaskId) -> KeptRows:
        return self.setdefault(task_id, KeptRows())

    def destroy(self, task_id: TaskId) -> None:
        self.destroyed.append(task_id)
        self.pop(task_id, None)


def copy_of(disk: Disk) -> Disk:
    """What a copy of the directory holds that is made now."""
    copy = Disk()
    for task, rows in disk.items():
        copy[task] = KeptRows()
        copy[task].write(dict(rows.scan(b"", b"\xff")))
    return copy


class WorkerRig:
    """One worker. ``steps`` has the names of what it did, in order."""

    def __init__(
        self,
        cluster: FakeCluster,
        declare: Callable[[StreamsBuilder], object],
        *,
        name: str = "one",
        disk: Disk | None = None,
        listener: Callable[[Any], None] | None = None,
        error_handlers: ErrorHandlers = FAIL_ALWAYS,
        optimization: str = "none",
        application_id: str = APPLICATION,
        **config: Any,
    ) -> None:
        assert isinstance(cluster.clock, ManualClock)
        self.cluster = cluster
        self.clock = cluster.clock
        self.disk = disk if disk is not None else Disk()
        self.error_handlers = error_handlers
        self.process = cluster.process(name)
        self.observer = WorkerObserver(monotonic_ms=self.clock.monotonic_ms)
        self.config = WorkerConfig(application_id, f"{application_id}-{name}", **config)
        self.worker = Worker(
            topology_of(declare, optimization=optimization),
            self.config,
            self.process,
            self.clock,
            new_task=self._new_task,
            destroy_state=lambda owned: self.disk.destroy(owned.task_id),
            drive=run_steps,
            observer=self.observer,
            restore_listener=listener,
            error_handlers=error_handlers,
        )
        self.steps: list[str] = []
        #: called with each step before it is made; may raise in its place
        self.before: Callable[[Step], None] = lambda step: None
        self.is_finished = False
        self._machine: Generator[Step, Any, None] = self.worker.run()
        self._next: Step | None = None

    # ------------------------------------------------------------------ driving

    def start(self) -> WorkerRig:
        """Up to the first poll."""
        self.drive_to("poll")
        return self

    def turn(self, count: int = 1) -> None:
        """Whole turns of the loop, from one poll to the next."""
        for _ in range(count):
            self.drive_to("poll")

    def until(self, is_true: Callable[[], object]) -> None:
        """Turns until something is true."""
        for _ in range(TURNS_MAX):
            if is_true():
                return
            self.turn()
        raise AssertionError(f"not within {TURNS_MAX} turns; tasks: {self.stages}")

    def until_running(self, *tasks: str) -> WorkerRig:
        """Turns until exactly these tasks run (without names: until every task does)."""
        self.until(
            lambda: (
                self.stages
                and (not tasks or sorted(tasks) == sorted(self.stages))
                and all(stage is Stage.RUNNING for stage in self.stages.values())
            )
        )
        return self

    def commit(self) -> None:
        """Process what there is, and commit when the interval is over."""
        self.turn()
        self.clock.advance(self.config.commit_interval_ms)
        self.turn()

    def stop(self) -> None:
        """Ask it to end, and let it."""
        self.worker.stop()
        self.finish()

    def finish(self) -> None:
        """On to the end, which it must be heading for."""
        for _ in range(TURNS_MAX):
            self.drive_to("poll")
            if self.is_finished:
                return
        raise AssertionError("the worker goes on")

    def kill(self) -> None:
        """SIGKILL between two steps. The machine is kept: closing it would be a clean end."""
        self.process.kill()
        _killed.append(self._machine)

    def drive_to(self, name: str) -> None:
        """Make the step that waits and all that follow, until one of this name waits."""
        is_first = True
        while not self.is_finished:
            step = self._next
            if step is not None and step.name == name and not is_first:
                return
            is_first = False
            self._make(step)

    def step(self, count: int) -> None:
        """So many steps, whatever they are."""
        for _ in range(count):
            if not self.is_finished:
                self._make(self._next)

    def _make(self, step: Step | None) -> None:
        try:
            if step is None:
                self._next = next(self._machine)
                return
            self.steps.append(step.name)
            try:
                self.before(step)
                result = step.call(*step.arguments)
            except Exception as exc:  # noqa: BLE001  the machine decides what it means
                self._next = self._machine.throw(exc)
            else:
                self._next = self._machine.send(result)
        except StopIteration:
            self.is_finished = True
        except BaseException:
            self.is_finished = True
            raise

    # ------------------------------------------------------------------ looking

    @property
    def tasks(self) -> Mapping[str, OwnedTask]:
        return {str(task_id): owned for task_id, owned in self.observer.tasks.items()}

    @property
    def stages(self) -> dict[str, Stage]:
        return {name: owned.stage for name, owned in self.tasks.items()}

    def store(self, task: str, name: str) -> Any:
        """A store of a task, uncommitted rows included."""
        return self.tasks[task].task.state.stores[name]

    def total(self, metric: str, **labels: object) -> float:
        return self.observer.metrics.total(metric, **labels)

    def _new_task(self, plan: BoundPlan, owned: OwnedTask, globals_: GlobalStores) -> Task:
        sub_topology = plan.sub_topology(owned.task_id)
        return Task(
            owned.task_id,
            [sub_topology],
            owned.partitions,
            application_id=self.config.application_id,
            clock=self.clock,
            open_state=lambda task: TaskState(
                sub_topology.stores, task, backend=self.disk.open(owned.task_id)
            ),
            global_stores=globals_.stores,
            partition_counts=plan.partition_counts,
            error_handlers=self.error_handlers,
            initialises=False,
        )


_killed: list[Steps[None]] = []


def cluster_of(topics: Mapping[str, int] | None = None, **options: Any) -> FakeCluster:
    """A cluster on a manual clock."""
    return FakeCluster(topics or {"in": 2, "out": 1}, clock=ManualClock(1_000_000), **options)


def outputs(cluster: FakeCluster, topic: str = "out") -> list[tuple[str | None, str | None]]:
    """Committed (key, value) pairs as text."""
    return [(_text(r.key()), _text(r.value())) for r in cluster.records(topic)]


def send(cluster: FakeCluster, *keys: str, topic: str = "in", partition: int | None = None) -> None:
    """One record per key, with the key as value, a millisecond apart."""
    for key in keys:
        time = 1 + sum(log.end for log in cluster.topic(topic).logs)
        cluster.produce(topic, key.encode(), key.encode(), timestamp=time, partition=partition)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
