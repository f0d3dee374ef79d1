"""A task that records what it reads, when, and what every operator produces.

A crash or an abort undoes the work of a task, not its records: the commits of the group determine
afterwards which of its attempts counts, because their cuts have its number as a clock.
"""

from __future__ import annotations

import copy
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple, cast

from logstate.changelog.cut import decode_cut
from logstate.contracts.clients import Committed
from logstate.contracts.processing import IdleTime
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.punctuation import PunctuationKind
from logstate.task.task import Task
from logstate.task.task_commit import TaskCommit
from logstate.topology.graph.nodes import Node, ProcessorNode
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.plan import Topology

#: the name of a clock that no operator has: its cut says which attempt was committed
_ATTEMPT = "attempt:"
#: what changes a store
_WRITES = frozenset({"put", "put_all", "put_if_absent", "delete", "remove"})
#: what differs between two objects that are equal otherwise
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class EmittedRecord(NamedTuple):
    """What an operator handed on, or wrote into a store."""

    node: str
    text: str


class TracedStep(NamedTuple):
    """One record that a task read, one call of what the wall clock had due, or one tick."""

    #: None: the calls were those of schedules, or it is a tick
    partition: TopicPartition | None
    offset: int
    #: wall clock at which it was read, or they were called
    time_ms: int
    emitted: list[EmittedRecord]
    #: of a tick: for how long the inputs had been idle
    idle: IdleTime | None = None


class Segment(NamedTuple):
    """What a task did between two commits, the second of which may have failed."""

    steps: list[TracedStep]
    offsets: Mapping[TopicPartition, int]
    #: commits of the group when it was taken out
    commits: int
    #: which one of all, as its cut says
    attempt: int
    #: wall clock when its task was made, from which schedules count
    began_ms: int
    #: wall clock when it was taken out, by which rows with a TTL may expire
    ended_ms: int


@dataclass
class History:
    """Everything that the tasks of one application did, undone or not."""

    count_commits: Callable[[], int] = lambda: 0
    attempts: Iterator[int] = field(default_factory=count)
    segments: dict[TaskId, list[Segment]] = field(default_factory=lambda: defaultdict(list))

    def committed(
        self, task_id: TaskId, commits: Sequence[Mapping[TopicPartition, Committed]]
    ) -> list[Segment]:
        """What counts, in order. Raises AssertionError for a commit that no attempt explains."""
        found: list[Segment] = []
        positions: dict[TopicPartition, int] = {}
        for number, commit in enumerate(commits):
            made = self.segments[task_id]
            ends = {
                tp: one.offset
                for tp, one in commit.items()
                if one.offset is not None and any(tp in segment.offsets for segment in made)
            }
            if ends:
                attempt = _committed_attempt(commit, ends)
                fitting = [
                    one
                    for one in made
                    if one.commits <= number
                    and attempt in (None, one.attempt)
                    and _matches_ends(one, positions, ends)
                ]
                assert fitting, f"task {task_id} has committed {ends}, which it never reached"
                found.append(([s for s in fitting if s.steps] or fitting)[-1])
                positions |= ends
        return found


def _matches_ends(
    segment: Segment, before: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> bool:
    return all(segment.offsets.get(tp) == end for tp, end in ends.items()) and all(
        before.get(step.partition, 0) <= step.offset < ends.get(step.partition, 0)
        for step in segment.steps
        if step.partition is not None
    )


def _committed_attempt(
    commit: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]
) -> int | None:
    """Return the attempt in the cut; None if a large cut is in a separate topic."""
    cuts = (decode_cut(commit[tp].metadata, committed_offset=end).cut for tp, end in ends.items())
    return next((cut.clocks[_ATTEMPT] for cut in cuts if cut and _ATTEMPT in cut.clocks), None)


class TracedTask(Task):
    """See the module. Calls of schedules by the wall clock, and ticks, are noted as records are."""

    def __init__(self, history: History, *arguments: Any, **settings: Any) -> None:
        self.history = history
        self.steps: list[TracedStep] = []
        #: emitted by timers before the record that makes them due
        self._before: list[EmittedRecord] = []
        self._runs_timers = False
        self.began_ms = 0
        super().__init__(*arguments, **settings)

    def initialise(self) -> None:
        if self._sources:
            return
        self.began_ms = self.wall_clock_ms()
        super().initialise()
        self._sources = {
            topic: replace(source, process=self._with_notes(source.process))
            for topic, source in self._sources.items()
        }

    def punctuate(self, kind: PunctuationKind, *, only: str | None = None) -> int:
        if kind == "stream_time":
            return super().punctuate(kind, only=only)
        if kind == "timers":
            self._before, self._runs_timers = [], True
            try:
                return super().punctuate(kind, only=only)
            finally:
                self._runs_timers = False
        self.steps.append(TracedStep(None, -1, self.wall_clock_ms(), []))
        called = super().punctuate(kind, only=only)
        if not called:
            self.steps.pop()
        return called

    def tick(self, idle: IdleTime) -> None:
        self.steps.append(TracedStep(None, -1, self.wall_clock_ms(), [], idle))
        super().tick(idle)

    def freeze(self) -> TaskCommit:
        ended_ms = self.wall_clock_ms()
        commit = super().freeze()
        attempt, commits = next(self.history.attempts), self.history.count_commits()
        segment = Segment(self.steps, commit.offsets, commits, attempt, self.began_ms, ended_ms)
        self.history.segments[self.task_id].append(segment)
        self.steps = []
        clocks = {**commit.changes.clocks, _ATTEMPT: attempt}
        return replace(commit, changes=replace(commit.changes, clocks=clocks))

    def discard(self) -> None:
        self.steps = []
        super().discard()

    def emits(self, node: str, arguments: tuple[Any, ...], what: str = "") -> None:
        """An operator hands something on; what no record causes belongs to the last one."""
        if self.steps or self._runs_timers:
            text = ", ".join(_ADDRESS.sub("", repr(one)) for one in arguments)
            emitted = self._before if self._runs_timers else self.steps[-1].emitted
            emitted.append(EmittedRecord(node, f"{what}({text})"))

    def _with_notes(self, process: Any) -> Any:
        def noted(*record: Any) -> None:
            where = TopicPartition(cast("str", self.topic), self.partition)
            step = TracedStep(where, self.offset, self.wall_clock_ms(), self._before)
            self._before = []
            if self.steps and self.steps[-1][:2] == step[:2]:
                self.steps.pop()  # it is tried again
            self.steps.append(step)
            process(*record)

        return noted


def traced(topology: Topology) -> Topology:
    """Return the same topology with operators that report their results to :class:`TracedTask`."""
    subs = tuple(
        replace(sub, nodes=tuple(_traced_node(node) for node in sub.nodes))
        for sub in topology.sub_topologies
    )
    return replace(topology, sub_topologies=subs)


def sub_topology_of(topology: Topology, task_id: TaskId) -> SubTopology:
    """Return the sub-topology that a task runs."""
    return next(sub for sub in topology.sub_topologies if sub.id == task_id.sub_topology)


def _traced_node(node: Node) -> Node:
    if not isinstance(node, ProcessorNode):
        return node
    spy = copy.copy(node)

    is_the_users = hasattr(node, "connections")

    def compile_(task: Any, forward: Any, children: Mapping[str, Any]) -> Any:
        traced_children = {
            name: _with_recording(task, node.name, child) for name, child in children.items()
        }
        asked = _TaskOfNode(task, node.name) if is_the_users else task
        return node.compile(asked, _with_recording(task, node.name, forward), traced_children)

    vars(spy)["compile"] = compile_
    return spy


class _TaskOfNode:
    """The task as a user's operator sees it: its writes to stores are recorded."""

    def __init__(self, task: TracedTask, node: str) -> None:
        vars(self).update(_task=task, _node=node)

    def store(self, name: str) -> Any:
        return _NotedStore(self._task, self._node, name)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_task"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._task, name, value)


class _NotedStore:
    """A store that records its writes; all other methods are those of the store."""

    def __init__(self, task: TracedTask, node: str, name: str) -> None:
        self._task, self._node, self._name = task, node, name
        self._store = task.store(name)

    def __getattr__(self, name: str) -> Any:
        found = getattr(vars(self)["_store"], name)
        if name not in _WRITES:
            return found

        def noted(*arguments: Any, **named: Any) -> Any:
            given = tuple(list(one) if isinstance(one, Iterator) else one for one in arguments)
            self._task.emits(self._node, (*given, *named.values()), f"{self._name}.{name}")
            return found(*given, **named)

        return noted


def _with_recording(task: TracedTask, node: str, forward: Any) -> Any:
    def record_and_forward(*record: Any) -> None:
        task.emits(node, record[:-1])
        forward(*record)

    return record_and_forward
