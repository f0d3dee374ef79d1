"""The observable state of a worker: metrics and the queryable tasks.

The worker calls it only at batch and commit boundaries, never per record.
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
from logstate.worker.input_wait import InputWait, wait_line
from logstate.worker.late_record_rate import TELL_INTERVAL_MS, LateRecordRate, late_line
from logstate.worker.outage import NO_TROUBLE, Outage, Trouble
from logstate.worker.summary import Summary, SummaryIntervals
from logstate.worker.task_lag import input_lag, lag_of, restore_lag

_LOGGER = logging.getLogger(__name__)

_REFRESH_MS = 200.0
#: a new member may wait this long for revocations; after that it has no partitions
FIRST_ASSIGNMENT_MS = 15_000
#: label of a single worker; the instance numbers several worker processes
_WORKER = {"worker": "0"}
_topic_of = itemgetter(0)

KnownEnds: TypeAlias = "Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]"

#: what is open, when the first of it closes, and stream time
_OF_OPERATORS = catalogue.OPEN_ROWS, catalogue.NEXT_CLOSE, catalogue.OPERATOR_TIME
#: metric and labels -> the last counted total
_Seen: TypeAlias = dict[tuple[str, ...], int]


class WorkerObserver:
    """Publishes a worker's state to other threads."""

    #: the group has assigned partitions, or none, for the first time
    is_assigned = False
    started_ms: float | None = None
    #: state of the brokers; None if it is not checked
    outage: Outage | None = None
    #: tasks of the global stores; they do not belong to the group, every worker has them
    global_tasks: Sequence[Task] = ()
    #: processing is paused on request
    is_paused = False
    #: the worker was asked to stop, and is stopping
    is_stopping = False
    #: for any reason
    has_ended = False
    #: since its start, all its tasks could be read at one time, or it had none for long
    was_ready = False
    #: monotonic time since when none of its tasks can be read; None while one can, or it has none
    unreadable_since_ms: float | None = None

    def __init__(
        self,
        metrics: Metrics | None = None,
        monotonic_ms: Callable[[], float] | None = None,
        summary_intervals: SummaryIntervals | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._monotonic_ms = monotonic_ms
        self._summary = Summary(self.metrics, summary_intervals)
        self._refreshed_ms = float("-inf")
        #: task id -> task, replaced as a whole: readers see one consistent map
        self.tasks: Mapping[TaskId, OwnedTask] = {}
        self.changed = threading.Condition()
        #: has joined the group
        self.is_started = False
        #: the group has assigned this member's partitions, possibly none
        self.is_assigned = False
        #: called in the worker thread when anything here may have changed
        self.on_change: Callable[[], None] = lambda: None
        #: keyed by task, which keeps counting if it becomes a standby and comes back
        self._seen: WeakKeyDictionary[Task, _Seen] = WeakKeyDictionary()
        self._late: WeakKeyDictionary[Task, LateRecordRate] = WeakKeyDictionary()
        self._waits: WeakKeyDictionary[Task, InputWait] = WeakKeyDictionary()
        #: sub-topology -> when the next line about late records of its tasks may follow
        self._tell_late_at_ms: dict[int, float] = {}
        #: totals of restores, which begin at 0 with each assignment
        self._restored: dict[TaskId, _Seen] = {}
        self._declare_worker()

    def _declare_worker(self) -> None:
        """Create the series of the worker, so that rates and alerts have a zero to begin at.

        Not ``worker_alive``: 0 there means that the worker failed.
        """
        for metric in catalogue.CATALOGUE:
            if metric.labels == ("worker",) and metric is not catalogue.WORKER_ALIVE:
                self.metrics.declare(metric, **_WORKER)
        for stage in Stage:
            self.metrics.declare(catalogue.TASKS, **_WORKER, state=stage.value)

    @property
    def away_since_ms(self) -> float | None:
        """Monotonic time since when the brokers are unavailable; None if they are available."""
        return None if self.outage is None else self.outage.since_ms

    @property
    def is_away(self) -> bool:
        """True if the brokers are unavailable."""
        return self.outage is not None and self.outage.since_ms is not None

    def trouble(self, now_ms: float) -> Trouble:
        """Report whether the brokers are unavailable or were in trouble recently."""
        return NO_TROUBLE if self.outage is None else self.outage.trouble(now_ms)

    @property
    def refusal(self) -> str | None:
        """Why the brokers reject clients, if they do."""
        return None if self.outage is None else self.outage.refusal

    def started(self) -> None:
        """Handle the start: topics are checked, and the group is joined."""
        self.is_started = True
        self.started_ms = None if self._monotonic_ms is None else self._monotonic_ms()
        self.metrics.gauge(catalogue.WORKER_ALIVE, **_WORKER).set(1)
        self._notify_change()

    def paused(self, is_paused: bool) -> None:
        """Handle a pause or its end."""
        self.is_paused = is_paused
        self._notify_change()

    def stopping(self) -> None:
        """Handle a requested stop."""
        self.is_stopping = True
        self._notify_change()

    def replaced(self) -> None:
        """Handle that a new worker replaces the ended one."""
        self.is_started = self.is_assigned = self.has_ended = self.was_ready = False
        self.is_paused = False  # the next worker reports its own state
        self.started_ms = None
        self._notify_change()

    def _notify_change(self) -> None:
        self.on_change()
        with self.changed:
            self.changed.notify_all()

    def tasks_changed(self, tasks: Mapping[TaskId, OwnedTask]) -> None:
        """Handle a change of the set of tasks or of a stage."""
        created, closed = tasks.keys() - self.tasks.keys(), self.tasks.keys() - tasks.keys()
        self.metrics.counter(catalogue.TASK_CREATED, **_WORKER).add(len(created))
        self.metrics.counter(catalogue.TASK_CLOSED, **_WORKER).add(len(closed))
        self._note_readable(tasks)
        self.tasks = dict(tasks)
        by_stage: dict[Stage, int] = dict.fromkeys(Stage, 0)
        for owned in tasks.values():
            by_stage[owned.stage] += 1
        for stage, count in by_stage.items():
            self.metrics.gauge(catalogue.TASKS, **_WORKER, state=stage.value).set(count)
        self._notify_change()

    def _note_readable(self, tasks: Mapping[TaskId, OwnedTask]) -> None:
        """Note what readiness depends on, from the tasks before and after a change."""
        now = 0.0 if self._monotonic_ms is None else self._monotonic_ms()
        is_old = self.started_ms is not None and now - self.started_ms >= FIRST_ASSIGNMENT_MS
        readable = [owned.is_readable for owned in tasks.values()]
        if (readable and all(readable)) or (not self.tasks and is_old):
            self.was_ready = True
        if not readable or any(readable):
            self.unreadable_since_ms = None
        elif self.unreadable_since_ms is None:
            self.unreadable_since_ms = now

    def ended(self) -> None:
        """Handle the end of the worker; its tasks will be closed."""
        self.has_ended = True
        self.metrics.gauge(catalogue.WORKER_ALIVE, **_WORKER).set(0)

    def processed(self, duration_ms: float) -> None:
        """Record a turn that processed something."""
        self.metrics.histogram(catalogue.PROCESS_LATENCY, **_WORKER).observe(duration_ms / 1000)

    def applied(self, duration_ms: float) -> None:
        """Record that committed rows were written to a local store."""
        self.metrics.histogram(catalogue.APPLY_LATENCY, **_WORKER).observe(duration_ms / 1000)

    def committed(self, report: CommitReport, duration_ms: float) -> None:
        """Record a committed transaction."""
        self.metrics.counter(catalogue.COMMITS, **_WORKER).add(1)
        self.metrics.histogram(catalogue.COMMIT_LATENCY, **_WORKER).observe(duration_ms / 1000)
        for (task, store), count in report.changelog_records.items():
            self.metrics.counter(catalogue.CHANGELOG_RECORDS, task=task, store=store).add(count)
        with self.changed:
            self.changed.notify_all()

    def aborted(self) -> None:
        """Record an aborted transaction."""
        self.metrics.counter(catalogue.TRANSACTIONS_ABORTED, **_WORKER).add(1)

    def lost_records(self, topic: str, offsets: int) -> None:
        """Record input records that were deleted before they were processed."""
        self.metrics.counter(catalogue.LOST_RECORDS, topic=topic).add(offsets)

    def produced(self, owned: OwnedTask, outputs: Sequence[ProducedFields]) -> None:
        """Count records that were sent to output or repartition topics."""
        topics = set(map(_topic_of, outputs))
        # Usually there is just one topic; counting record by record takes three times as long.
        counts = Counter(map(_topic_of, outputs)) if len(topics) > 1 else {}
        for topic in topics:
            count = counts.get(topic, len(outputs))
            self.metrics.counter(
                catalogue.RECORDS_PRODUCED, task=str(owned.task_id), topic=topic
            ).add(count)

    def rebalanced(self, kind: str, partitions: int) -> None:
        """Record a change of the assignment."""
        self.is_assigned = kind != "lost"
        self.metrics.counter(catalogue.REBALANCES, **_WORKER).add(1)
        if kind == "lost":
            self.metrics.counter(catalogue.PARTITIONS_LOST, **_WORKER).add(partitions)

    def turn(self, tasks: Mapping[TaskId, OwnedTask], known_ends: KnownEnds | None = None) -> None:
        """Handle the end of a turn; metrics are refreshed a few times a second.

        ``known_ends`` returns the ends of logs, which are needed most while a task lags behind.
        """
        if self._monotonic_ms is not None:
            now = self._monotonic_ms()
            if now - self._refreshed_ms < _REFRESH_MS:
                return
            before_ms, self._refreshed_ms = self._refreshed_ms, now
        else:
            before_ms = 0.0
        if known_ends is not None:
            for owned in tasks.values():
                if owned.stage is Stage.RUNNING:
                    owned.ends.update(known_ends(owned.partitions))
                    owned.look_at_inputs(max(0.0, before_ms))
        self.refresh(tasks)
        if self._monotonic_ms is not None and self._summary.is_due(self._refreshed_ms):
            self._summary.log(self._refreshed_ms, [lag_of(owned) for owned in tasks.values()])

    def refresh(self, tasks: Mapping[TaskId, OwnedTask]) -> None:
        """Update the metrics of every task now."""
        for task_id, owned in tasks.items():
            if owned.task_or_none is not None:
                self._refresh_task(task_id, owned)
        for task in self.global_tasks:
            self._refresh_drops(task)
            self._refresh_passed_over(task)
        self.on_change()

    def task_closing(self, owned: OwnedTask) -> None:
        """Take the last counts of a task that will be closed, and drop its gauges."""
        self._refresh_task(owned.task_id, owned)
        self._restored.pop(owned.task_id, None)
        self.metrics.forget(task=str(owned.task_id))
        for topic, partition in owned.partitions:
            self.metrics.forget(topic=topic, partition=partition)

    def _refresh_task(self, task_id: TaskId, owned: OwnedTask) -> None:
        task, name = owned.task, str(task_id)
        if task not in self._seen:
            self._declare_task(owned, name)
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
            (catalogue.INPUT_WAIT, self._refresh_wait(owned)),
            (catalogue.INPUT_BUFFER, sum(map(task.buffered, task.partitions))),
            (catalogue.WRITE_BUFFER_BYTES, task.state.unapplied_bytes),
        ):
            self.metrics.gauge(gauge, task=name).set(figure)
        for node, found in task.open_operators.look(self._now_ms).items():
            next_ms = -1 if found.next_ms is None else found.next_ms
            figures = found.total, next_ms, found.stream_time_ms
            for gauge, figure in zip(_OF_OPERATORS, figures, strict=True):
                self.metrics.gauge(gauge, task=name, node=node).set(figure)
        for tp in owned.partitions:
            at = {"topic": tp.topic, "partition": str(tp.partition)}
            lag = input_lag(owned, tp)
            if lag is not None:
                self.metrics.gauge(catalogue.INPUT_LAG, **at).set(lag)
            if tp in task.partition_times:
                self.metrics.gauge(catalogue.PARTITION_TIME, **at).set(task.partition_times[tp])

    def _declare_task(self, owned: OwnedTask, task: str) -> None:
        """Create the series of a task's stores and topics that are counted when they are used.

        Topics that a function chooses per record get theirs with the first record.
        """
        for sub_topology in owned.task.sub_topologies:
            for ref in sub_topology.sink_topics:
                topic = owned.task.topic_name(ref.name, is_internal=ref.is_internal)
                self.metrics.declare(catalogue.RECORDS_PRODUCED, task=task, topic=topic)
            for node, label in sub_topology.operator_labels.items():
                self.metrics.gauge(
                    catalogue.OPERATOR_INFO, task=task, node=node, operator=label
                ).set(1)
            for store in sub_topology.stores:
                if store.is_logged and store.source_topic is None:
                    self.metrics.declare(catalogue.CHANGELOG_RECORDS, task=task, store=store.name)
        for topic in dict.fromkeys(tp.topic for tp in owned.partitions):
            self.metrics.declare(catalogue.LOST_RECORDS, topic=topic)

    def _refresh_passed_over(self, task: Task) -> None:
        """Count the decisions of error handlers."""
        seen, name = self._seen.setdefault(task, {}), str(task.task_id)
        self._count_up(seen, catalogue.SKIPPED_RECORDS, task.skipped_total, task=name)
        self._count_up(seen, catalogue.DEAD_LETTERS, task.dead_letters_total, task=name)

    def _refresh_drops(self, task: Task) -> int:
        """Count drops by node and reason; return the number of late records."""
        name, late = str(task.task_id), 0
        seen = self._seen.setdefault(task, {})
        for one in task.drops:
            at = {"task": name, "node": one.node, "reason": one.reason.value}
            self._count_up(seen, catalogue.DROPPED_RECORDS, one.count, **at)
            if one.reason.is_late:
                late += one.count
                self.metrics.gauge(catalogue.DROPPED_LATENESS, **at).set(one.late_max_ms)
        emitted = 0
        for stream in task.drops.late_streams():
            emitted += stream.count
            at = {"task": name, "stream": stream.node}
            self._count_up(seen, catalogue.LATE_STREAM_RECORDS, stream.count, **at)
        self._count_up(seen, catalogue.LATE_RECORDS, late + emitted, task=name)
        return late

    def _tell_late(self, task: Task, late: int) -> None:
        now_ms = self._now_ms()
        share = self._late.setdefault(task, LateRecordRate())
        found = share.check(now_ms, task.processed.total(), late)
        sub_topology = task.task_id.sub_topology
        if found is not None and now_ms >= self._tell_late_at_ms.get(sub_topology, now_ms):
            self._tell_late_at_ms[sub_topology] = now_ms + TELL_INTERVAL_MS
            topics = dict.fromkeys(tp.topic for tp in task.partitions)
            _LOGGER.warning("%s", late_line(task.task_id, topics, *found))

    def input_wait_ms(self, task: Task) -> float:
        """Return how long the records of a task have waited for another input; from any thread."""
        wait = self._waits.get(task)
        return 0.0 if wait is None else wait.longest_ms(self._now_ms())

    def _refresh_wait(self, owned: OwnedTask) -> float:
        """Return how long the records of a task have waited, and warn about a long wait."""
        task, now_ms = owned.task, self._now_ms()
        wait = self._waits.setdefault(task, InputWait())
        is_running = owned.stage is Stage.RUNNING and not self.is_paused
        wait.update(now_ms, task.processed.total(), task.awaited() if is_running else [])
        for tp in wait.to_warn_about(now_ms):
            waited_ms, end = now_ms - wait.since_ms[tp], owned.ends.get(tp)
            _LOGGER.warning(
                "%s",
                wait_line(
                    owned.task_id, tp, waited_ms, task.position(tp), end, task.partition_times
                ),
            )
        return wait.longest_ms(now_ms)

    def _now_ms(self) -> float:
        return 0.0 if self._monotonic_ms is None else self._monotonic_ms()

    def _count_up(self, seen: _Seen, metric: Metric, total: int, **labels: str) -> None:
        """Add the growth of a total since the last call; a new task begins at 0."""
        key = (metric.name, *labels.values())
        grown = max(0, total - seen.get(key, 0))
        if grown or seen.get(key) != total:
            seen[key] = total
            self.metrics.counter(metric, **labels).add(float(grown))
