"""A place where a worker runs: its disk stays, its processes come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from traceback import clear_frames
from typing import Any

from logstate.changelog.state import TaskState
from logstate.contracts.clients import GroupConsumer, Polled, Step
from logstate.contracts.clock import ManualClock
from logstate.contracts.errors import LogstateError, StoreCorruptedError, TopicsChangedError
from logstate.contracts.records import TaskId
from logstate.contracts.worker_config import WorkerConfig
from logstate.queries.global_stores import GlobalStores
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.testing.fake.client import ProcessKilled
from logstate.testing.fake.cluster import FakeCluster
from logstate.testing.fake.process import FakeProcess
from logstate.testing.simulation.clock import (
    SilentObserver,
    SimulatedProcessClock,
    take_apart,
    take_worker_apart,
)
from logstate.testing.simulation.disk import Directory, Disk
from logstate.testing.simulation.swarm import ScheduledFault
from logstate.topics.bound_plan import BoundPlan
from logstate.topology.plan.plan import Topology
from logstate.worker.worker import Worker

#: steps of a commit after which the outcome on the log is open or decided
_COMMITTING = frozenset({"flush", "flush_plain", "group_metadata", "send_offsets", "commit"})
#: steps whose results show the progress of a worker
_WATCHED = frozenset(
    {"poll", "manifest_poll", "group_consumer", "begin", "commit", "abort", "init_transactions"}
)
_REPLACING = frozenset({"abort", "close_producer", "new_producer", "init_transactions"})


class InjectedEvent:
    """Something ordered for the next step of a name."""

    def __init__(
        self,
        step: str,
        kind: str,
        *,
        is_carried_out: bool = False,
        error: LogstateError | None = None,
        frozen_ms: int = 0,
        is_of_handover: bool = False,
    ) -> None:
        self.step = step
        #: of the fault, for the counter of what fired
        self.kind = kind
        self.is_carried_out = is_carried_out
        #: None: the process dies there, unless it is only frozen
        self.error = error
        self.frozen_ms = frozen_ms
        #: only while partitions are being revoked
        self.is_of_handover = is_of_handover

    @classmethod
    def of(
        cls, fault: ScheduledFault, error: LogstateError | None = None, *, frozen_ms: int = 0
    ) -> InjectedEvent:
        """What a fault orders for its step."""
        return cls(
            fault.step,
            fault.kind,
            is_carried_out=fault.is_carried_out,
            error=error,
            frozen_ms=frozen_ms,
            is_of_handover=fault.is_of_handover,
        )


class Slot:
    """Runs one worker step by step, kills it, starts the next."""

    def __init__(
        self,
        number: int,
        cluster: FakeCluster,
        topology: Topology,
        config: WorkerConfig,
        world: ManualClock,
        counters: Counter[str],
    ) -> None:
        self.number = number
        self.disk = Disk()
        self._world = world
        self.clock = SimulatedProcessClock(world)
        self.worker: Worker | None = None
        #: a process lives here
        self.is_running = False
        self.pending: Step | None = None
        self.ordered: list[InjectedEvent] = []
        #: the last call was a poll that brought nothing, of records or of the manifest
        self.is_idle = False
        #: what a crash does to the disk
        self.crash_damage = ""
        #: not scheduled before this time
        self.frozen_until_ms = 0
        #: turn of the scheduler at which a stopped slot starts again
        self.starts_at_turn = 0
        self.starts = 0
        #: the error an ordered fault raised, which may end the worker
        self._injected = False
        self._cluster = cluster
        self._topology = topology
        self._config = config
        self._handlers = FAIL_ALWAYS
        self._counters = counters
        #: the member of the group, once there is one
        self.consumer: GroupConsumer | None = None
        self._observer = SilentObserver()
        self._is_open = False
        self._is_handing_over = False
        self.transactional_id = config.transactional_id
        #: its stores are read from outside: tasks publish views
        self.is_looked_at = False
        #: what makes its tasks
        self.task_class: Callable[..., Task] = Task
        self._process: FakeProcess | None = None
        self._steps: Any = None
        #: every task of the process
        self._made: list[Task] = []

    @property
    def has_tasks(self) -> bool:
        """A process lives here and owns something."""
        return self.worker is not None and bool(self._observer.tasks)

    @property
    def running_tasks(self) -> int:
        """Tasks that process records here."""
        return len(self.tasks_in(Stage.RUNNING))

    @property
    def owned_tasks(self) -> Mapping[TaskId, OwnedTask]:
        """What the worker says it has."""
        return self._observer.tasks

    def tasks_in(self, stage: Stage) -> list[OwnedTask]:
        """Tasks of this process that are so far."""
        return [owned for owned in self._observer.tasks.values() if owned.stage is stage]

    def handle_errors(self, handlers: ErrorHandlers) -> None:
        """From the next start on, answer failed records like this."""
        self._handlers = handlers

    def configure(self, **settings: Any) -> None:
        """From the next start on, other settings of the worker."""
        self._config = replace(self._config, **settings)

    def is_idle_until_later(self, now_ms: int) -> bool:
        """Nothing will happen here until time passes, or something comes from elsewhere."""
        if self.pending is None or self.frozen_until_ms > now_ms:
            return True
        if self.pending.name == "wait_for_peers":
            return True
        return self.is_idle and self.pending.name in ("poll", "manifest_position")

    @property
    def waits_to_crash(self) -> bool:
        """A crash is ordered for a step, or a write, that has not come yet."""
        return self.disk.kills is not None or any(
            order.error is None and not order.frozen_ms for order in self.ordered
        )

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """A new process."""
        self.starts += 1
        self._process = self._cluster.process(f"slot-{self.number}.{self.starts}")
        self._injected = False
        self._observer = SilentObserver()
        self._is_open = False
        self.is_running = True
        self.worker = Worker(
            self._topology,
            self._config,
            self._process,
            self.clock,
            new_task=self._new_task,
            destroy_state=lambda owned: self.disk.quarantine(owned.task_id),
            drive=_no_callbacks,
            observer=self._observer,
            error_handlers=self._handlers,
        )
        self._steps = self.worker.run()
        self.pending = next(self._steps)

    def step(self) -> str:
        """Make the pending call and run to the next one; returns the name of the call."""
        step = self.pending
        assert step is not None
        error: Exception | None = None
        result = None
        order = self._take_injected_event(step.name) if self.ordered else None
        if order is not None and order.frozen_ms:
            self.frozen_until_ms = self._world.wall_clock_ms() + order.frozen_ms
            return f"frozen before {step.name}"
        if order is not None and order.error is None and not order.is_carried_out:
            self.crash()
            return step.name
        try:
            if order is None or order.is_carried_out:
                result = step.call(*step.arguments)
        except Exception as exc:  # noqa: BLE001  the worker decides what an error means
            error = exc
        self.is_idle = False
        if step.name in _WATCHED:
            self._watch(step.name, result)
        if order is not None:
            if order.error is None:
                self.crash()
                return step.name
            if step.name == "poll" and result is not None and result.rebalances:
                # A client answers these by callbacks inside the call: no error takes them away.
                self.ordered.append(order)
            else:
                self._counters["replies_lost"] += 1
                self._injected = True
                error = error or order.error
        self._resume(result, error)
        error = None  # it knows this frame
        return step.name

    def _watch(self, name: str, result: Any) -> None:
        if name in ("poll", "manifest_poll"):
            self.is_idle = result is not None and _is_empty(result)
            rebalances = () if result is None else result.rebalances
            self._is_handing_over = bool(rebalances) and any(
                rebalance.kind == "revoked" for rebalance in rebalances
            )
        elif name == "group_consumer":
            self.consumer = result
        elif name == "begin":
            self._is_open = True
        elif name in ("commit", "abort", "init_transactions"):
            self._is_open = False

    def _resume(self, result: Any, error: Exception | None) -> None:
        try:
            steps = self._steps
            self.pending = steps.send(result) if error is None else steps.throw(error)
        except StopIteration:
            self._ended("stops")
            return
        except ProcessKilled as exc:
            clear_frames(exc.__traceback__)
        except LogstateError as exc:
            if not self._injected and not isinstance(exc, TopicsChangedError):
                raise
            # A fault of the brokers that the worker does not survive, or topics that are not those
            # any more which it began with: somebody starts it again.
            self._ended("exits")
            return
        assert self._process is not None
        if self._process.is_killed:  # by its disk, in the middle of a write
            self._counters["crashes_in_disk_write"] += 1
            self.crash()

    def _ended(self, kind: str) -> None:
        assert self._process is not None
        self._counters[kind] += 1
        self._process.kill()
        self.disk.release()
        self._forget()

    def crash(self) -> None:
        """Kill the process where it stands."""
        self._count_crash()
        self.remove()

    def refuse_write(self, directory: Directory) -> None:
        """The next write of a directory fails; a worker whose own task it is may end."""
        directory.refuses_write = True
        self._injected = True

    def remove(self) -> None:
        """Kill the process; remove the rest of a failed schedule."""
        assert self._process is not None
        self._process.kill()
        # Unwinding runs its `finally` blocks, but every call of theirs fails: nothing happens.
        try:
            while True:
                self._steps.throw(ProcessKilled(self._process.name))
        except (ProcessKilled, StopIteration) as exc:
            clear_frames(exc.__traceback__)  # the loop keeps what ended it, which knows the loop
        self.disk.release()
        if self.crash_damage == "tail":
            self.disk.lose_tail(2)
        elif self.crash_damage == "everything":
            self.disk.lose_everything()
        if self.crash_damage:
            self._counters[f"crashes_with_{self.crash_damage}_of_disk_lost"] += 1
        self._forget()

    def _forget(self) -> None:
        for task in self._made:
            if task.skipped_total:
                self._counters["skipped"] += task.skipped_total
            take_apart(task)
        self._made = []
        worker, self.worker = self.worker, None
        self.is_running = False
        self.pending = None
        self.consumer = None
        self._steps = None
        if worker is not None:
            take_worker_apart(worker)
        self.ordered = []
        self.crash_damage = ""
        self.frozen_until_ms = 0
        self.clock.slow_ms = 0
        self.disk.kills = None

    # ------------------------------------------------------------------ looking on

    def _count_crash(self) -> None:
        self._counters["crashes"] += 1
        step, tasks = self.pending, self._observer.tasks
        assert step is not None
        kinds = []
        if self._is_open:
            kinds.append("transaction_open")
        if step.name in _COMMITTING and tasks:
            kinds.append("committing")
        if step.name in _REPLACING:
            kinds.append("replacing_producer")
        stages = {owned.stage for owned in tasks.values()}
        if Stage.RESTORING in stages:
            kinds.append("restoring")
        if not stages:
            kinds.append("without_tasks")
        elif not kinds:
            kinds.append("otherwise")
        for kind in kinds:
            self._counters[f"crashes_{kind}"] += 1

    def _take_injected_event(self, name: str) -> InjectedEvent | None:
        for i, order in enumerate(self.ordered):
            if order.step == name and self._is_handing_over >= order.is_of_handover:
                self._counters[f"{order.kind}_{name}"] += 1
                return self.ordered.pop(i)
        return None

    # ------------------------------------------------------------------ tasks

    def _new_task(self, plan: BoundPlan, owned: OwnedTask, globals_: GlobalStores) -> Task:
        sub_topology = plan.sub_topology(owned.task_id)
        process = self._process
        assert process is not None

        def open_state(task: Task) -> TaskState:
            backend = self.disk.open(owned.task_id, process)
            try:
                return TaskState(
                    sub_topology.stores,
                    task,
                    backend=backend,
                    logs_every_write=self._config.changelog_writes == "update",
                    publishes_views=self.is_looked_at,
                )
            except StoreCorruptedError:
                backend.close()
                raise

        task = self.task_class(
            owned.task_id,
            [sub_topology],
            owned.partitions,
            application_id=plan.application_id,
            clock=self.clock,
            open_state=open_state,
            global_stores=globals_.stores,
            partition_counts=plan.partition_counts,
            moved_topics=plan.moved_topics,
            error_handlers=self._handlers,
            initialises=False,
        )
        self._made.append(task)
        return task


def _is_empty(polled: Polled) -> bool:
    return not (polled.records or polled.rebalances or polled.ends or polled.out_of_range)


def _no_callbacks(_: object) -> None:
    raise AssertionError("a fake cluster reports rebalances in Polled.rebalances")
