"""What the outside may watch of a worker: metrics and the catalogue of queryable tasks.

The worker calls it at batch and commit boundaries only, never per record.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias
from weakref import WeakKeyDictionary

from logstate.commit.commit import CommitReport
from logstate.contracts.records import ProducedFields, TaskId, TopicPartition
from logstate.metrics import catalogue
from logstate.metrics.catalogue import Metric
from logstate.metrics.instruments import Metrics
from logstate.task.owned_task import OwnedTask, Stage
from logstate.task.task import Task
from logstate.worker.lag import input_lag, restore_lag
from logstate.worker.late_record_rate import LateRecordRate, late_line
from logstate.worker.outage import NO_TROUBLE, Outage, Trouble

_LOGGER = logging.getLogger(__name__)

_REFRESH_MS = 200.0
#: its figures are those of the only one; the instance numbers those of several processes
_WORKER = {"worker": "0"}
_topic_of = itemgetter(0)

KnownEnds: TypeAlias = "Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]"

#: metric and labels -> the total that was counted last
_Seen: TypeAlias = dict[tuple[str, ...], int]


class WorkerObserver:
    """Publishes a worker's state to other threads."""

    #: the group has given partitions, or none, for the first time
    is_assigned = False
    started_ms: float | None = None
    #: what is known about the brokers; None where nobody asks them
    outage: Outage | None = None
    #: those that keep the global stores: not of the group's, and in every worker
    global_tasks: Sequence[Task] = ()
    #: nothing is processed, because that was asked for
    is_paused = False
    #: the worker was told to end, and has noticed
    is_stopping = False
    #: whatever the reason
    has_ended = False

    def __init__(
        self, metrics: Metrics | None = None, monotonic_ms: Callable[[], float] | None = None
    ) -> None:
        self.metrics = metrics or Metrics()
        self._monotonic_ms = monotonic_ms
        self._refreshed_ms = float("-inf")
        #: task id -> task, replaced as a whole: readers see one consistent map
        self.tasks: Mapping[TaskId, OwnedTask] = {}
        self.changed = threading.Condition()
        #: the group was joined
        self.is_started = False
        #: the group has said which partitions are this member's, none of them maybe
        self.is_assigned = False
        #: told, in the worker's thread, when anything of this may have changed
        self.on_change: Callable[[], None] = lambda: None
        #: by the task itself, which counts on where it is kept as a copy and comes back
        self._seen: WeakKeyDictionary[Task, _Seen] = WeakKeyDictionary()
        self._late: WeakKeyDictionary[Task, LateRecordRate] = WeakKeyDictionary()
        #: of restores, which begin at 0 with each assignment
        self._restored: dict[TaskId, _Seen] = {}

    @property
    def away_since_ms(self) -> float | None:
        """Since when the brokers are away, by the monotonic clock; None while they are not."""
        return None if self.outage is None else self.outage.since_ms

    @property
    def is_away(self) -> bool:
        """Whether the brokers are."""
        return self.outage is not None and self.outage.since_ms is not None

    def trouble(self, now_ms: float) -> Trouble:
        """Whether the brokers are away, or were in trouble lately."""
        return NO_TROUBLE if self.outage is None else self.outage.trouble(now_ms)

    @property
    def refusal(self) -> str | None:
        """Why the brokers let nobody in, where they say so."""
        return None if self.outage is None else self.outage.refusal

    def started(self) -> None:
        """Topics are checked, the group is joined."""
        self.is_started = True
        self.started_ms = None if self._monotonic_ms is None else self._monotonic_ms()
        self.metrics.gauge(catalogue.WORKER_ALIVE, **_WORKER).set(1)
        self._tell()

    def paused(self, is_paused: bool) -> None:
        """The worker stopped processing, or goes on."""
        self.is_paused = is_paused
        self._tell()

    def stopping(self) -> None:
        """The worker is about to end because it was asked to."""
        self.is_stopping = True
        self._tell()

    def replaced(self) -> None:
        """The worker ended, and another one begins from nothing."""
        self.is_started = self.is_assigned = self.has_ended = False
        self.is_paused = False  # the next one tells whether it is
        self.started_ms = None
        self._tell()

    def _tell(self) -> None:
        self.on_change()
        with self.changed:
            self.changed.notify_all()

    def tasks_changed(self, tasks: Mapping[TaskId, OwnedTask]) -> None:
        """The set of tasks or a stage changed."""
        created, closed = tasks.keys() - self.tasks.keys(), self.tasks.keys() - tasks.keys()
        self.metrics.counter(catalogue.TASK_CREATED, **_WORKER).add(len(created))
        self.metrics.counter(catalogue.TASK_CLOSED, **_WORKER).add(len(closed))
        self.tasks = dict(tasks)
        by_stage: dict[Stage, int] = dict.fromkeys(Stage, 0)
        for owned in tasks.values():
            by_stage[owned.stage] += 1
        for stage, count in by_stage.items():
            self.metrics.gauge(catalogue.TASKS, **_WORKER, state=stage.value).set(count)
        self._tell()

    def ended(self) -> None:
        """The worker runs no more; it lets go of its tasks now."""
        self.has_ended = True
        self.metrics.gauge(catalogue.WORKER_ALIVE, **_WORKER).set(0)

    def processed(self, duration_ms: float) -> None:
        """A turn processed something."""
        self.metrics.histogram(catalogue.PROCESS_LATENCY, **_WORKER).observe(duration_ms / 1000)

    def applied(self, duration_ms: float) -> None:
        """Committed rows were written to a local store."""
        self.metrics.histogram(catalogue.APPLY_LATENCY, **_WORKER).observe(duration_ms / 1000)

    def committed(self, report: CommitReport, duration_ms: float) -> None:
        """A transaction committed."""
        self.metrics.counter(catalogue.COMMITS, **_WORKER).add(1)
        self.metrics.histogram(catalogue.COMMIT_LATENCY, **_WORKER).observe(duration_ms / 1000)
        for (task, store), count in report.changelog_records.items():
            self.metrics.counter(catalogue.CHANGELOG_RECORDS, task=task, store=store).add(count)
        with self.changed:
            self.changed.notify_all()

    def aborted(self) -> None:
        """A transaction was given up."""
        self.metrics.counter(catalogue.TRANSACTIONS_ABORTED, **_WORKER).add(1)

    def lost_records(self, topic: str, offsets: int) -> None:
        """Records of an input were deleted before they were processed."""
        self.metrics.counter(catalogue.LOST_RECORDS, topic=topic).add(offsets)

    def produced(self, owned: OwnedTask, outputs: Sequence[ProducedFields]) -> None:
        """Records were sent to output or repartition topics."""
        topics = set(map(_topic_of, outputs))
        # Mostly there is just the one; counting record by record takes three times as long.
        counts = Counter(map(_topic_of, outputs)) if len(topics) > 1 else {}
        for topic in topics:
            count = counts.get(topic, len(outputs))
            self.metrics.counter(
                catalogue.RECORDS_PRODUCED, task=str(owned.task_id), topic=topic
            ).add(count)

    def rebalanced(self, kind: str, partitions: int) -> None:
        """The assignment changed."""
        self.is_assigned = kind != "lost"
        self.metrics.counter(catalogue.REBALANCES, **_WORKER).add(1)
        if kind == "lost":
            self.metrics.counter(catalogue.PARTITIONS_LOST, **_WORKER).add(partitions)

    def turn(self, tasks: Mapping[TaskId, OwnedTask], known_ends: KnownEnds | None = None) -> None:
        """A turn of the loop ended; figures are refreshed a few times a second.

        ``known_ends`` tells where the logs end, which is needed most while a task lags behind.
        """
        if self._monotonic_ms is not None:
            now = self._monotonic_ms()
            if now - self._refreshed_ms < _REFRESH_MS:
                return
            self._refreshed_ms = now
        if known_ends is not None:
            for owned in tasks.values():
                if owned.stage is Stage.RUNNING:
                    owned.ends.update(known_ends(owned.partitions))
        self.refresh(tasks)

    def refresh(self, tasks: Mapping[TaskId, OwnedTask]) -> None:
        """Read the figures of every task now."""
        for task_id, owned in tasks.items():
            if owned.task_or_none is not None:
                self._refresh_task(task_id, owned)
        for task in self.global_tasks:
            self._refresh_drops(task)
            self._refresh_passed_over(task)
        self.on_change()

    def task_closing(self, owned: OwnedTask) -> None:
        """Take the last figures of a task that goes away; its gauges go with it."""
        self._refresh_task(owned.task_id, owned)
        self._restored.pop(owned.task_id, None)
        self.metrics.forget(task=str(owned.task_id))
        for topic, partition in owned.partitions:
            self.metrics.forget(topic=topic, partition=partition)

    def _refresh_task(self, task_id: TaskId, owned: OwnedTask) -> None:
        task, name = owned.task, str(task_id)
        seen, restored = self._seen.setdefault(task, {}), self._restored.setdefault(task_id, {})
        late = self._refresh_drops(task)
        self._tell_late(task, late + task.late_joins.total())
        self._refresh_passed_over(task)
        self._count_up(seen, catalogue.PUNCTUATE, task.punctuated_total, task=name)
        for metric, totals in (
            (catalogue.LATE_JOINS, task.late_joins),
            (catalogue.EXPIRED_RESULTS, task.expired_results.counts),
        ):
            for store, total in totals.items():
                self._count_up(seen, metric, total, task=name, store=store)
        for topic in dict.fromkeys(tp.topic for tp in owned.partitions):
            total = task.processed[topic]
            self._count_up(seen, catalogue.RECORDS_CONSUMED, total, task=name, topic=topic)
        for target in owned.targets:
            labels = {"task": name, "store": target.store}
            remaining = restore_lag(owned, target)
            self.metrics.gauge(catalogue.RESTORE_REMAINING, **labels).set(remaining)
            self._count_up(restored, catalogue.RESTORED_RECORDS, target.restored_records, **labels)
        for gauge, figure in (
            (catalogue.STREAM_TIME, task.stream_time),
            (catalogue.INPUT_BUFFER, sum(map(task.buffered, task.partitions))),
            (catalogue.WRITE_BUFFER_BYTES, task.state.unapplied_bytes),
        ):
            self.metrics.gauge(gauge, task=name).set(figure)
        for tp in owned.partitions:
            lag = input_lag(owned, tp)
            if lag is not None:
                at = {"topic": tp.topic, "partition": str(tp.partition)}
                self.metrics.gauge(catalogue.INPUT_LAG, **at).set(lag)

    def _refresh_passed_over(self, task: Task) -> None:
        """What handlers of errors decided."""
        seen, name = self._seen.setdefault(task, {}), str(task.task_id)
        self._count_up(seen, catalogue.SKIPPED_RECORDS, task.skipped_total, task=name)
        self._count_up(seen, catalogue.DEAD_LETTERS, task.dead_letters_total, task=name)

    def _refresh_drops(self, task: Task) -> int:
        """By node and reason; returns how many came late."""
        name, late = str(task.task_id), 0
        seen = self._seen.setdefault(task, {})
        for one in task.drops:
            at = {"task": name, "node": one.node, "reason": one.reason.value}
            self._count_up(seen, catalogue.DROPPED_RECORDS, one.count, **at)
            if one.reason.is_late:
                late += one.count
                self.metrics.gauge(catalogue.DROPPED_LATENESS, **at).set(one.late_max_ms)
        self._count_up(seen, catalogue.LATE_RECORDS, late, task=name)
        return late

    def _tell_late(self, task: Task, late: int) -> None:
        now_ms = 0.0 if self._monotonic_ms is None else self._monotonic_ms()
        share = self._late.setdefault(task, LateRecordRate())
        found = share.look(now_ms, task.processed.total(), late)
        if found is not None:
            topics = dict.fromkeys(tp.topic for tp in task.partitions)
            _LOGGER.warning("%s", late_line(task.task_id, topics, *found))

    def _count_up(self, seen: _Seen, metric: Metric, total: int, **labels: str) -> None:
        """Add what a total has grown by since it was seen last; a new task begins at 0 again."""
        key = (metric.name, *labels.values())
        grown = total - seen.get(key, 0)
        if grown == 0 and key in seen:
            return
        seen[key] = total
        self.metrics.counter(metric, **labels).add(float(max(0, grown)))
