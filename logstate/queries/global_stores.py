"""Global tables and stores: every instance reads ALL partitions of their topics.

They are caches without a changelog: read completely before the first task runs, then followed. They
are in memory and read again at each start, through their processor, so a processor that transforms
its input stores the same rows after a restart (KAFKA-7663).

If a log loses unread records, by retention or by truncation, the worker stops: which rows they
deleted is unknown, so the next worker reads the table again.

Global stores are not synchronized in time with the streams that look them up, as in Kafka Streams.

The error handlers decide on failures, as everywhere; a dead letter is not possible here, because
every instance reads every record, and again at each start.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from logstate.changelog.state import TaskState
from logstate.contracts.clients import Admin, Cluster, LogConsumer, Polled, Step, Steps
from logstate.contracts.clock import Clock
from logstate.contracts.errors import TopicsChangedError
from logstate.contracts.processing import NO_APPLICATION, ApplicationContext
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.task import Task
from logstate.task.work_time import WorkTime
from logstate.topology.graph.sub_topology import SubTopology

_LOGGER = logging.getLogger(__name__)

_BATCH = 10_000
#: batches that may wait to be merged while views are published
_UNAPPLIED_MAX = 64


class GlobalStores:
    """The global stores of one worker and the consumer that follows their topics."""

    def __init__(
        self,
        application_id: str,
        inputs: Iterable[tuple[SubTopology, Sequence[TopicPartition]]],
        cluster: Cluster,
        clock: Clock,
        application_context: ApplicationContext = NO_APPLICATION,
        error_handlers: ErrorHandlers = FAIL_ALWAYS,
    ) -> None:
        self._cluster = cluster
        self._consumer: LogConsumer | None = None
        self._admin: Admin | None = None
        self._tasks: dict[TopicPartition, Task] = {}
        self._work_time = WorkTime(clock)
        #: tasks with records that need more time, or a retry
        self._behind: list[Task] = []
        #: partitions whose position is outside their log: the client reports it once, and does not
        #: read them until they are assigned again
        self._overtaken: set[TopicPartition] = set()
        #: the first offset that is read of each partition
        self._began_at: dict[TopicPartition, int] = {}
        self.stores: dict[str, Any] = {}
        #: whether queries need views to be published; and whether they are
        self._is_queried = False
        self._are_published = threading.Event()
        self._has_ended = False
        for sub_topology, partitions in inputs:
            task = Task(
                TaskId(sub_topology.id, 0),
                [sub_topology],
                partitions,
                application_id=application_id,
                clock=clock,
                open_state=lambda task, specs=sub_topology.stores: TaskState(  # type: ignore[misc]
                    specs, task, publishes_views=False
                ),
                max_idle_ms=None,
                application_context=application_context,
                error_handlers=error_handlers,
                sends=False,
            )
            self.stores.update(task.state.stores)
            self._tasks.update(dict.fromkeys(partitions, task))

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The task of each global store."""
        return tuple(dict.fromkeys(self._tasks.values()))

    def bootstrap(
        self, admin: Admin, is_stopping: Callable[[], bool] = lambda: False
    ) -> Steps[None]:
        """Read all committed records before any task runs.

        Records of open transactions are left for ``poll``, as in Kafka Streams: they may stay open
        for an unknown time. ``is_stopping`` ends it early.

        Raises TopicsChangedError, like ``poll``, if a log has lost unread records.
        """
        if not self._tasks:
            return
        self._admin = admin
        partitions = list(self._tasks)
        starts = yield Step("start_offsets", admin.start_offsets, (partitions,))
        ends = yield Step("end_offsets", admin.end_offsets, (partitions,))
        self._consumer = yield Step("new_log_consumer", self._cluster.log_consumer)
        for partition, start in starts.items():
            self._start_task(partition, start)
        yield Step("global_assign", self._consumer.assign, (starts,))
        self._work_time.begin(
            until_ms=float("inf")
        )  # no task runs, and no membership depends on it
        waiting = {tp for tp in partitions if starts[tp] < ends[tp]}
        while (waiting or self._behind) and not is_stopping():
            ended = yield from self._read(0.1)
            waiting.difference_update(ended)
            for partition in list(waiting):
                position = yield Step("global_position", self._consumer.position, (partition,))
                if position is not None and position >= ends[partition]:
                    waiting.discard(partition)

    def poll(self) -> Steps[None]:
        """Process new records, as many as there is time for in one turn."""
        if self._consumer is not None:
            self._work_time.begin()
            if self._behind:
                self._process(self._behind)
            else:
                yield from self._read(0.0)
        if self._is_queried and not self._are_published.is_set():
            for task in set(self._tasks.values()):
                task.state.publish_views()
            self._are_published.set()

    def queried(self, sub_topology: int, timeout_s: float) -> Task | None:
        """Return the task of a global store whose view can be read; usable from any thread.

        The first call waits for the worker to publish the view; it returns None if the worker does
        not do it within the time-out, or has stopped.
        """
        self._is_queried = True
        if not self._are_published.wait(timeout_s) or self._has_ended:
            return None
        tasks = self._tasks.values()
        return next((t for t in tasks if t.task_id.sub_topology == sub_topology), None)

    def close(self) -> Steps[None]:
        """Release consumer and stores."""
        self._has_ended = True
        self._are_published.set()  # wake up waiting callers, which get nothing
        if self._consumer is not None:
            yield Step("close_log_consumer", self._consumer.close)
            self._consumer = None
        self._work_time.close()
        for task in set(self._tasks.values()):
            task.close()

    def _read(self, timeout_s: float) -> Steps[list[TopicPartition]]:
        """Process available records; return the partitions that have no more for now."""
        assert self._consumer is not None
        polled = yield Step("global_poll", self._consumer.poll, (_BATCH, timeout_s))
        self._overtaken |= polled.out_of_range.keys()
        self._process_polled(polled)
        if self._overtaken:
            yield from self._find_again(sorted(self._overtaken))
        return [partition for partition, _ in polled.ends]

    def _start_task(self, partition: TopicPartition, start: int) -> None:
        self._began_at[partition] = start
        self._tasks[partition].start_at({partition: start})

    def _find_again(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Handle positions outside their logs: continue if no record was missed."""
        assert self._consumer is not None
        assert self._admin is not None
        starts = yield Step("start_offsets", self._admin.start_offsets, (partitions,))
        ends = yield Step("end_offsets", self._admin.end_offsets, (partitions,))
        positions = {tp: task.queues[tp].position for tp, task in self._tasks.items()}
        for partition in partitions:
            position, start, end = positions[partition], starts[partition], ends[partition]
            if start <= position <= end:
                continue  # a broker that has just become the leader had old metadata
            if position != self._began_at[partition]:
                raise TopicsChangedError(
                    f"global topic {partition} holds the offsets {start} to {end}, and was read to"
                    f" {position}: unread records were lost, by retention or by an unclean election"
                    " of a leader, and with them deletions of rows. The worker restarts and"
                    " reads the table again. If this repeats, this instance reads more slowly"
                    " than the topic's retention deletes: give it a longer one"
                )
            _LOGGER.warning("global topic %s: read from its start at %d", partition, start)
            self._start_task(partition, start)
            positions[partition] = start
        yield Step("global_assign", self._consumer.assign, (positions,))
        self._overtaken.clear()

    def _process_polled(self, polled: Polled) -> None:
        touched = dict.fromkeys(self._behind)
        for partition, records in polled.records.items():
            task = self._tasks[partition]
            task.add_records(partition, records)
            touched[task] = None
        self._process(list(touched))

    def _process(self, tasks: Sequence[Task]) -> None:
        self._behind = []
        for task in tasks:
            if self._work_time.is_up():
                self._behind.append(task)
                continue
            with self._work_time.of(task):
                task.process(1 << 60)
            if any(map(task.buffered, task.partitions)):
                self._behind.append(task)
            task.committed(task.freeze(), {})
            # While views are published, applying copies the rows: then it waits a little.
            if not self._are_published.is_set() or task.state.has_many_unapplied(_UNAPPLIED_MAX):
                task.state.apply()
