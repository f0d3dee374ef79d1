"""One task of a small topology: records in, outputs out, commits by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from logstate.changelog.state import TaskState
from logstate.contracts.clock import ManualClock
from logstate.contracts.records import ProducedFields, TaskId, TopicPartition
from logstate.task.task import Task
from logstate.task.task_commit import TaskCommit
from logstate.testing.fake.fetched import StoredRecord
from logstate.topology import StreamsBuilder
from logstate.topology.plan.plan import Topology

APPLICATION = "app"


def topology_of(
    declare: Callable[[StreamsBuilder], object], *, optimization: str = "none"
) -> Topology:
    """The topology that ``declare`` writes into a builder."""
    builder = StreamsBuilder()
    declare(builder)
    return builder.build(optimization=optimization)


class TaskBench:
    """A task over stores in memory; offsets count up per topic unless they are given."""

    def __init__(
        self,
        declare: Callable[[StreamsBuilder], object],
        *,
        sub_topology: int = 0,
        partition: int = 0,
        clock: ManualClock | None = None,
        **options: Any,
    ) -> None:
        self.topology = topology_of(declare)
        self.clock = clock or ManualClock(1_000_000)
        self.partition = partition
        self._next: dict[str, int] = defaultdict(int)
        self._positions: dict[str, int] = defaultdict(int)
        sub = next(s for s in self.topology.sub_topologies if s.id == sub_topology)
        topics = [
            f"{APPLICATION}-{ref.name}" if ref.is_internal else ref.name
            for ref in sub.source_topics
        ]
        self.task = Task(
            TaskId(sub_topology, partition),
            [sub],
            [TopicPartition(topic, partition) for topic in topics],
            application_id=APPLICATION,
            clock=self.clock,
            open_state=lambda task: TaskState(sub.stores, task),
            **options,
        )

    def add(
        self, topic: str, *records: tuple[str | None, str | None, int], at: int | None = None
    ) -> None:
        """Fetch records (key, value, timestamp); ``at`` is the first offset."""
        first = self._next[topic] if at is None else at
        self._next[topic] = first + len(records)
        self.task.add_records(
            TopicPartition(topic, self.partition),
            [
                StoredRecord(
                    topic, self.partition, first + i, _bytes(key), _bytes(value), timestamp
                )
                for i, (key, value, timestamp) in enumerate(records)
            ],
        )

    def end(self, topic: str, position: int | None = None) -> None:
        """The consumer reports the end of the partition."""
        at = self._next[topic] if position is None else position
        self.task.at_end(TopicPartition(topic, self.partition), at)

    def pipe(self, topic: str, *records: tuple[str | None, str | None, int]) -> list[Any]:
        """Fetch and process; returns the values that came out."""
        self.add(topic, *records)
        self.task.process(1_000)
        return self.take()

    def take(self) -> list[Any]:
        """Values of the outputs since the last call."""
        outputs = [_text(r[3]) for r in self.task.outputs]
        self.task.outputs.clear()
        return outputs

    def commit(self) -> TaskCommit:
        """Freeze and commit; changelog positions count the records logged."""
        commit = self.task.freeze()
        for store, writes in commit.changes.writes.items():
            self._positions[store] += len(writes)
        self.task.committed(commit, dict(self._positions))
        return commit

    def abort(self, to: TaskCommit, positions: dict[TopicPartition, int] | None = None) -> None:
        """Discard and go back to a commit, as the stages of a task do."""
        self.task.discard()
        self.task.set_clocks(to.changes.clocks, to.partition_times)
        self.task.start_at(positions or to.offsets)

    def consumed(self, topic: str) -> int | None:
        return self.task.consumed.get(TopicPartition(topic, self.partition))


def values(records: Iterable[ProducedFields]) -> list[str | None]:
    return [_text(record[3]) for record in records]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
