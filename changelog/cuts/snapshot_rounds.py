"""A snapshot across repartitions, as rounds of orders and answers. Pure.

How it works. Nothing is written into repartition topics; the mark in each of their partitions is an
offset. Sub-topologies have levels: those of level 0 read no repartition topic, the others stand one
above the highest that writes what they read. In order of the levels:

1. The tasks of a level commit, each at its marks, and note what they committed. Those that write
   repartition topics stand still behind it.
2. The ends of these topics are read: the marks of the next level. They count only if every
   transaction below them is decided and each task that stands still has committed nothing since
   its note. So what lies below is what the noted commits sent, all of it and nothing else.
3. The workers of the next level say that they know their marks; then the tasks of this level go on,
   while the next one works up to its marks.

Why it is exact: nobody has to be believed. A task's note is one commit, atomic as every commit.
Upstream, 2 is looked up in the logs and in the committed offsets; downstream, a note counts only if
its committed offsets ARE the marks. A worker that died, moved, was late or went on too early makes
a round fail, and the attempt is given up; no time-out decides about what is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from logstate.contracts.errors import ConfigError, LogstateError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.snapshots import Message, Present, SnapshotNote, SnapshotRequest, SubShape

Shape = Mapping[int, SubShape]


class VoidSnapshotError(LogstateError):
    """This attempt came to nothing; another one may succeed."""


def levels_of(shape: Shape) -> list[list[int]]:
    """The sub-topologies in the order in which they cut.

    Raises ConfigError where repartition topics lead in a circle.

    >>> levels_of({0: SubShape(1, {}, {"by-city": 1}), 1: SubShape(1, {"by-city": 1}, {})})
    [[0], [1]]
    """
    left, levels = dict(shape), list[list[int]]()
    while left:
        unwritten = {topic for sub in left.values() for topic in sub.writes}
        level = [number for number, sub in left.items() if not unwritten & sub.reads.keys()]
        if not level:
            raise ConfigError(
                f"the repartition topics {sorted(unwritten)} lead in a circle, as those of a join "
                "by foreign key do, so there is no order in which tasks could cut; keep an ordinary"
                " cut: `logstate cut create`, app.create_cut()"
            )
        levels.append(sorted(level))
        left = {number: sub for number, sub in left.items() if number not in level}
    return levels


@dataclass
class Attempt:
    """What was heard in one attempt, and what follows from it."""

    id: str
    #: the longest that anybody stands still, whatever happens
    hold_ms: int = 800
    shape: dict[int, SubShape] = field(default_factory=dict)
    notes: dict[str, SnapshotNote] = field(default_factory=dict)
    #: repartition topic -> partition -> the mark
    targets: dict[str, dict[int, int]] = field(default_factory=dict)
    _present: dict[int, set[str]] = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)
    _holding: set[int] = field(default_factory=set)

    def hear(self, message: Message | None) -> None:
        """An answer. A task that cuts again, after an abort, notes again: the last note counts."""
        if isinstance(message, Present) and message.id == self.id:
            self.shape.update(message.shape)
            self._present.setdefault(message.step, set()).update(message.tasks)
        elif isinstance(message, SnapshotNote) and message.id == self.id:
            is_late = TaskId.parse(message.task).sub_topology in self._done
            if not is_late:
                self.notes[message.task] = message

    def tasks(self, subs: Iterable[int]) -> list[str]:
        """Tasks of sub-topologies."""
        return [str(TaskId(sub, n)) for sub in subs for n in range(self.shape[sub].tasks)]

    def absent(self, subs: Iterable[int], step: int) -> list[str]:
        """Tasks of which no worker has said that it has the order of this step."""
        present = self._present.get(step, set())
        return [task for task in self.tasks(subs) if task not in present]

    def unnoted(self, subs: Iterable[int]) -> list[str]:
        """Tasks that have not cut yet."""
        return [task for task in self.tasks(subs) if task not in self.notes]

    def order(self, step: int, level: Sequence[int], *, releases: bool) -> SnapshotRequest:
        """The order by which a level cuts. Who writes a topic without marks stands still.

        Without ``releases`` so do those that did: the level does not know its marks yet.
        """
        marks = {s: {t: self.targets[t] for t in self.shape[s].reads} for s in level}
        holding = {s for s in (*self._done, *level) if self.shape[s].writes.keys() - self.targets}
        self._holding = holding if releases else holding | self._holding
        return SnapshotRequest(self.id, step, marks, tuple(sorted(self._holding)), self.hold_ms)

    def end_level(self, level: Sequence[int]) -> list[TopicPartition]:
        """All of its tasks have cut; returns the logs whose ends are marks now.

        Raises VoidSnapshotError where one did not cut at its marks.
        """
        for task in self.tasks(level):
            note, at = self.notes[task], TaskId.parse(task)
            for topic in self.shape[at.sub_topology].reads:
                found, wanted = note.committed[topic][0], self.targets[topic][at.partition]
                if found != wanted:
                    raise VoidSnapshotError(
                        f"task {task} cut at {topic}-{at.partition} {found}, not at {wanted}"
                    )
        self._done.update(level)
        pending = {t for s, sub in self.shape.items() if s not in self._done for t in sub.writes}
        return [
            TopicPartition(topic, n)
            for sub in self._done
            for topic, partitions in self.shape[sub].writes.items()
            if topic not in pending and topic not in self.targets
            for n in range(partitions)
        ]

    def check_ends(
        self,
        ends: Mapping[TopicPartition, int],
        stable: Mapping[TopicPartition, int],
        committed: Mapping[TopicPartition, tuple[int, str]],
    ) -> bool:
        """Take ends for marks, if they are; False: ask again, a transaction is being decided.

        They have to be asked for in this order. Raises VoidSnapshotError if a task whose records
        are below them has committed something else meanwhile.
        """
        for log, note_of in self.inputs_of_writers(ends).items():
            task, told = note_of
            if committed.get(log) != told:
                raise VoidSnapshotError(f"task {task} went on before its ends were known")
        if any(stable[log] < end for log, end in ends.items()):
            return False
        for log, end in ends.items():
            self.targets.setdefault(log.topic, {})[log.partition] = end
        return True

    def inputs_of_writers(
        self, logs: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[str, tuple[int, str]]]:
        """Input partitions of the tasks that write to logs -> the task, and what it noted."""
        topics = {log.topic for log in logs}
        writers = [s for s, sub in self.shape.items() if topics & sub.writes.keys()]
        return {
            TopicPartition(topic, TaskId.parse(task).partition): (task, told)
            for task in self.tasks(writers)
            for topic, told in self.notes[task].committed.items()
        }
