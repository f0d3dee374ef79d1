"""A snapshot across repartition topics, as rounds of requests and answers.

How it works. Nothing is written into repartition topics; the barrier in each partition is an
offset. Sub-topologies have levels: those of level 0 read no repartition topic; each other one has a
level above all that write the topics that it reads. In order of the levels:

1. The tasks of a level commit, each at its barriers, and note what they committed. Tasks that write
   repartition topics pause after it.
2. The ends of these topics are read: the barriers of the next level. They count only if every
   transaction below them is decided and each paused task has committed nothing since its note. So
   the records below are exactly those that the noted commits sent.
3. The workers of the next level report that they know their barriers; then the tasks of this level
   continue, while the next level processes up to its barriers.

Why it is exact: no report has to be trusted. A task's note is one commit, atomic as every commit.
Upstream, step 2 is checked against the logs and the committed offsets; downstream, a note counts
only if its committed offsets ARE the barriers. A worker that died, moved, was late or continued too
early makes a round fail, and the attempt is dropped; correctness never depends on a timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from logstate.contracts.errors import ConfigError, LogstateError
from logstate.contracts.records import TaskId, TopicPartition
from logstate.contracts.snapshots import Message, Present, SnapshotNote, SnapshotRequest, SubShape

Shape = Mapping[int, SubShape]


class VoidSnapshotError(LogstateError):
    """This attempt failed; another one may succeed."""


def levels_of(shape: Shape) -> list[list[int]]:
    """Return the sub-topologies in the order in which they cut.

    Raises ConfigError if repartition topics form a cycle.

    >>> levels_of({0: SubShape(1, {}, {"by-city": 1}), 1: SubShape(1, {"by-city": 1}, {})})
    [[0], [1]]
    """
    left, levels = dict(shape), list[list[int]]()
    while left:
        unwritten = {topic for sub in left.values() for topic in sub.writes}
        level = [number for number, sub in left.items() if not unwritten & sub.reads.keys()]
        if not level:
            raise ConfigError(
                f"the repartition topics {sorted(unwritten)} form a cycle, as those of a foreign-"
                "key join do, so tasks cannot be cut in order. Use an ordinary cut:"
                " `logstate cut create`, app.create_cut()"
            )
        levels.append(sorted(level))
        left = {number: sub for number, sub in left.items() if number not in level}
    return levels


@dataclass
class Attempt:
    """The answers received in one attempt, and the requests and errors that follow from them."""

    id: str
    #: the longest time that a task pauses, whatever happens
    hold_ms: int = 800
    shape: dict[int, SubShape] = field(default_factory=dict)
    notes: dict[str, SnapshotNote] = field(default_factory=dict)
    #: repartition topic -> partition -> the barrier
    targets: dict[str, dict[int, int]] = field(default_factory=dict)
    _present: dict[int, set[str]] = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)
    _holding: set[int] = field(default_factory=set)

    def receive_answer(self, message: Message | None) -> None:
        """Receive an answer. A task that cuts again after an abort notes again; the last counts."""
        if isinstance(message, Present) and message.id == self.id:
            self.shape.update(message.shape)
            self._present.setdefault(message.step, set()).update(message.tasks)
        elif isinstance(message, SnapshotNote) and message.id == self.id:
            is_late = TaskId.parse(message.task).sub_topology in self._done
            if not is_late:
                self.notes[message.task] = message

    def tasks(self, subs: Iterable[int]) -> list[str]:
        """Return the tasks of sub-topologies."""
        return [str(TaskId(sub, n)) for sub in subs for n in range(self.shape[sub].tasks)]

    def absent(self, subs: Iterable[int], step: int) -> list[str]:
        """Return tasks that no worker has reported for the request of this step."""
        present = self._present.get(step, set())
        return [task for task in self.tasks(subs) if task not in present]

    def tasks_without_cut(self, subs: Iterable[int]) -> list[str]:
        """Return tasks that have not cut yet."""
        return [task for task in self.tasks(subs) if task not in self.notes]

    def order(self, step: int, level: Sequence[int], *, releases: bool) -> SnapshotRequest:
        """Return the request for a level to cut. Tasks that write a topic without barriers pause.

        Without ``releases`` the tasks of the previous level stay paused: this level does not know
        its barriers yet.
        """
        marks = {s: {t: self.targets[t] for t in self.shape[s].reads} for s in level}
        holding = {s for s in (*self._done, *level) if self.shape[s].writes.keys() - self.targets}
        self._holding = holding if releases else holding | self._holding
        return SnapshotRequest(self.id, step, marks, tuple(sorted(self._holding)), self.hold_ms)

    def finish_level(self, level: Sequence[int]) -> list[TopicPartition]:
        """End a level whose tasks have all cut; return the logs whose ends are barriers now.

        Raises VoidSnapshotError if a task did not cut at its barriers.
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
        """Use ends as barriers if they are valid; False: a transaction is undecided, read again.

        They have to be read in this order. Raises VoidSnapshotError if a task whose records are
        below them has committed something else meanwhile.
        """
        for log, note_of in self.inputs_of_writers(ends).items():
            task, noted = note_of
            if committed.get(log) != noted:
                raise VoidSnapshotError(f"task {task} continued before its ends were known")
        if any(stable[log] < end for log, end in ends.items()):
            return False
        for log, end in ends.items():
            self.targets.setdefault(log.topic, {})[log.partition] = end
        return True

    def inputs_of_writers(
        self, logs: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[str, tuple[int, str]]]:
        """Return input partitions of the tasks that write to logs -> the task, and its note."""
        topics = {log.topic for log in logs}
        writers = [s for s, sub in self.shape.items() if topics & sub.writes.keys()]
        return {
            TopicPartition(topic, TaskId.parse(task).partition): (task, noted)
            for task in self.tasks(writers)
            for topic, noted in self.notes[task].committed.items()
        }
