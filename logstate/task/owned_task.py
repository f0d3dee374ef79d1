"""A task of this worker, from assignment to running: its stage and the data that the stage needs.

::

    ASSIGNED --committed offsets read--> RESTORING --positions reached--> STARTING --> RUNNING
        ^                                                                                |
        +----------------------------- discarded after an abort -------------------------+

Every assignment, and every abort, goes through the same stages: a store that is already at its
target costs one request to the broker. No record of a task is processed before RUNNING.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from logstate.changelog.cut import OffsetMetadata
from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.barrier import Barrier
from logstate.task.idle_inputs import IdleInputs
from logstate.task.input_ends import InputEnds
from logstate.task.task import Task


class Stage(Enum):
    """The stage of a task."""

    ASSIGNED = "assigned"
    #: owned by another member; its changelogs are followed here in case it is assigned here
    STANDBY = "standby"
    RESTORING = "restoring"
    STARTING = "starting"
    RUNNING = "running"
    CLOSED = "closed"


SUCCESSORS: dict[Stage, frozenset[Stage]] = {
    Stage.ASSIGNED: frozenset({Stage.RESTORING, Stage.STANDBY, Stage.CLOSED}),
    Stage.STANDBY: frozenset({Stage.ASSIGNED, Stage.CLOSED}),
    Stage.RESTORING: frozenset({Stage.STARTING, Stage.ASSIGNED, Stage.CLOSED}),
    Stage.STARTING: frozenset({Stage.RUNNING, Stage.ASSIGNED, Stage.CLOSED}),
    Stage.RUNNING: frozenset({Stage.ASSIGNED, Stage.CLOSED}),
    Stage.CLOSED: frozenset(),
}


class IllegalTransition(LogstateError):
    """A task was moved to a stage that it cannot reach: a bug in the library."""


@dataclass
class StoreTarget:
    """The changelog position that a store must reach before its task may run."""

    store: str
    changelog: TopicPartition
    target: int
    is_done: bool = False
    restored_records: int = 0
    #: wall clock when the rows were last at the end of the changelog; None: nothing to replay
    since_ms: int | None = None
    #: the changelog is read from its start
    is_whole: bool = False
    #: for a standby: position of the rows that queries see; None: they see none
    shown: int | None = None


@dataclass
class OwnedTask:
    """One task with all data that its stage needs."""

    task_id: TaskId
    partitions: tuple[TopicPartition, ...]
    #: the assignment that it belongs to; results of an older epoch are invalid
    epoch: int
    task_or_none: Task | None = None
    stage: Stage = Stage.ASSIGNED
    history: list[Stage] = field(default_factory=list)
    #: where to start reading, determined from the committed offsets
    start_positions: dict[TopicPartition, int] = field(default_factory=dict)
    metadata: dict[TopicPartition, OffsetMetadata] = field(default_factory=dict)
    #: True if the group had committed nothing: the resolved start is committed first
    is_new: bool = False
    #: True after its first commit: the cuts topic shows which inputs it has read
    is_recorded: bool = False
    targets: list[StoreTarget] = field(default_factory=list)
    restored_records: int = 0
    #: ends of the input partitions as last reported by the consumer, for the lag
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    paused: set[TopicPartition] = field(default_factory=set)
    #: those that were paused at the last look at the inputs
    was_paused: frozenset[TopicPartition] = frozenset()
    #: monotonic: when its committed rows were last known to be the newest; None before it ran
    current_ms: float | None = None
    #: monotonic: when its committed rows last included everything that its inputs contained; None:
    #: not since it came here
    caught_up_ms: float | None = None
    input_ends: InputEnds = field(default_factory=InputEnds)
    idle: IdleInputs = field(default_factory=IdleInputs)
    #: barrier of a snapshot in progress; and whether the task is held after its cut
    barrier: Barrier | None = None
    is_held: bool = False
    #: called after every change of the stage
    on_move: Callable[[], None] = lambda: None

    def move_to(self, stage: Stage) -> None:
        """Change the stage; raise IllegalTransition with the previous stages."""
        if stage not in SUCCESSORS[self.stage]:
            story = " -> ".join(s.name for s in (*self.history, self.stage))
            raise IllegalTransition(
                f"task {self.task_id} cannot go to {stage.name}; its history is {story}"
            )
        self.history = [*self.history[-20:], self.stage]
        self.stage = stage
        self.barrier, self.is_held = None, False
        self.input_ends, self.idle = InputEnds(), IdleInputs()
        self.on_move()

    @property
    def is_readable(self) -> bool:
        """Whether committed rows can be read: also while a task restarts after it ran.

        A task that has restored its rows and has not run cannot be read: their age is unknown.
        """
        return self.current_ms is not None or self.stage is Stage.RUNNING

    def look_at_inputs(self, before_ms: float) -> None:
        """Note how current the rows of a running task are. ``before_ms``: time of the last look."""
        positions = {tp: self.rows_position(tp) for tp in self.partitions}
        # The first response after a pause may still be on its way.
        silent, self.was_paused = self.paused | self.was_paused, frozenset(self.paused)
        at_end = {tp: tp not in silent and self.task.is_at_end(tp) for tp in self.partitions}
        ends = {tp: self.ends[tp] for tp in self.partitions if tp in self.ends}
        found = self.input_ends.check(before_ms, ends, positions, at_end)
        if found is not None:
            self.caught_up_ms = max(found, self.caught_up_ms or 0.0)

    def quiet_positions(self) -> dict[TopicPartition, int] | None:
        """Return the positions of a running task that has nothing to do; else None."""
        is_waiting = self.paused or self.is_held or self.barrier is not None
        return None if is_waiting else self.task.positions_at_ends()

    def rows_position(self, partition: TopicPartition) -> int:
        """Return the first offset of an input that the committed rows do not include."""
        task = self.task
        if task.has_moved:
            return task.state.view.inputs.get(partition, 0)
        return task.position(partition)

    @property
    def shown_lag(self) -> int | None:
        """For a standby: offsets between the rows that queries see and the last known ends."""
        if self.stage is not Stage.STANDBY:
            return None
        return sum(max(0, target.target - (target.shown or 0)) for target in self.targets)

    def buffered(self, partition: TopicPartition) -> int:
        """Return the number of records of an input partition that were fetched but not
        processed.
        """
        kept = 0 if self.barrier is None else self.barrier.kept(partition)
        return self.task.buffered(partition) + kept

    @property
    def task(self) -> Task:
        """The task; only in stages that have one."""
        assert self.task_or_none is not None, (self.task_id, self.stage)
        return self.task_or_none


#: moves the rows of a task away; returns their new path, or None if they are not kept
DestroyState: TypeAlias = Callable[[OwnedTask], Path | None]
