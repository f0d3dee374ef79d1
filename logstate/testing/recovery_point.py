"""The last commit, from which a crashed test driver recovers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from logstate.changelog.rows.writes import LoggedWrite
from logstate.contracts.drops import DropReason
from logstate.contracts.errors import RefusedError
from logstate.contracts.records import ProducedRecord, TopicPartition
from logstate.contracts.topic_names import changelog_topic
from logstate.restore.restore import readable
from logstate.task.handler_outcomes import where
from logstate.task.queues import PartitionQueue
from logstate.task.task import Task
from logstate.task.task_commit import TaskCommit
from logstate.testing.driver_log import DriverLog, LogMark
from logstate.topology.plan.plan import Topology


def decide_alone(task: Task, refused: RefusedError, count: int) -> None:
    """Let the handler decide on a refused commit with a single record; ``count`` is the number.

    Returns if a replay will help, raises otherwise.
    """
    if count == 0 or task.fetched is None:
        raise refused
    if count == 1:
        task.guard.refusals.of_record(where(task.fetched), refused, {})


@dataclass(frozen=True)
class RecoveryPoint:
    """A commit, and the records that were piped since."""

    log: LogMark
    clocks: dict[str, int]
    partition_times: dict[TopicPartition, int]
    consumed: dict[TopicPartition, int]
    dropped: Mapping[tuple[str, DropReason | None], int]
    #: records that were fetched at the commit but not processed (they wait in internal topics)
    queues: dict[TopicPartition, PartitionQueue]
    order: tuple[list[TopicPartition], list[TopicPartition]]
    inputs: list[ProducedRecord] = field(default_factory=list)

    @classmethod
    def of(cls, task: Task, log: DriverLog, commit: TaskCommit | None = None) -> Self:
        """Return the point right after a commit; without one, the start."""
        return cls(
            log.mark(),
            dict(commit.changes.clocks) if commit is not None else {},
            dict(task.partition_times),
            dict(task.consumed),
            task.drops.counts(),
            {tp: queue.copy() for tp, queue in task.queues.items()},
            task.order.snapshot(),
        )

    def restore(self, task: Task, topology: Topology, log: DriverLog) -> None:
        """Bring a new task to this point: stores by replay, clocks, queues, counters."""
        for name, spec in topology.stores.items():
            if spec.is_logged:
                start = task.state.positions.get(name, 0)
                records = self._logged_writes(name, spec.source_topic, task, log)
                tail = records[start:]
                if spec.source_topic is not None:
                    tail = readable(spec, tail)
                task.state.restore(name, tail, len(records))
        task.set_clocks(self.clocks, self.partition_times)
        task.initialise()
        task.consumed.update(self.consumed)
        task.drops.go_back_to(self.dropped)
        task.queues.update({tp: queue.copy() for tp, queue in self.queues.items()})
        task.order.restore(self.order)

    def go_back(self, task: Task, topology: Topology, log: DriverLog) -> None:
        """Bring a task that processed more records since then back to this point."""
        log.rollback(self.log)
        task.discard()
        task.consumed.clear()
        self.restore(task, topology, log)

    def _logged_writes(
        self, store: str, source_topic: str | None, task: Task, log: DriverLog
    ) -> list[LoggedWrite]:
        if source_topic is None:
            topic = changelog_topic(task.application_id, store)
            records = log.changelogs.get(topic, [])
        else:
            end = self.consumed.get(TopicPartition(source_topic, 0), 0)
            records = log.inputs[source_topic][:end]
        # A source topic may hold records without a key; readable() filters them.
        rows: Iterable[Any] = records
        return [LoggedWrite(r.key, r.value, r.timestamp, r.headers) for r in rows]
