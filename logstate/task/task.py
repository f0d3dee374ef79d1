"""One task: a sub-topology applied to one partition. Decides and computes; does no I/O itself.

The same class runs on Kafka, in the test driver and in simulations. Fetched records go in, produced
records come out in ``outputs``; in between the compiled closures of the operators run depth first.
A commit takes everything since the previous one at a single instant (:meth:`freeze`):

    commit = task.freeze()             # outputs, changelog writes, layers, offsets, clocks
    task.committed(commit, positions)  # on success; else task.discard(), restore, seek, continue

Invariants:
1. ``consumed`` never covers a record whose effects are not in ``outputs`` and the stores;
2. data frozen together was computed together: offsets, outputs, writes and clocks are one cut;
3. no record after a failed one is processed.

Not responsible for: fetching, producing, restoring, deciding when to commit.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, cast

from logstate.changelog.state import TaskState
from logstate.contracts.clock import Clock
from logstate.contracts.errors import ProcessingError, RecordError, StoreAccessError
from logstate.contracts.processing import (
    DEFAULT_EMIT_INTERVALS,
    NO_APPLICATION,
    STREAM_TIME,
    ApplicationContext,
    Cancellable,
    CommitBuffered,
    EmitIntervals,
    IdleTime,
    TimeCell,
)
from logstate.contracts.records import FetchedRecord, TaskId, TopicPartition
from logstate.task.batch_loop import after_looks, decode_head, run_queue
from logstate.task.error_handlers import FAIL_ALWAYS, ErrorHandlers
from logstate.task.idle_inputs import TaskIdle
from logstate.task.punctuation import PunctuationKind, Punctuations
from logstate.task.queues import PartitionQueue, QueueOrder
from logstate.task.record_errors import not_closed
from logstate.task.record_guard import RecordGuard
from logstate.task.task_commit import TaskCommit
from logstate.task.task_input import TaskInput
from logstate.task.task_progress import RetryLater
from logstate.topology.graph.blame import labelled
from logstate.topology.graph.origin import blame_for
from logstate.topology.graph.sub_topology import SubTopology
from logstate.topology.plan.compilation import CompiledSource, compile_sub_topology

_LOGGER = logging.getLogger(__name__)

_SCHEDULE = "schedule:"
_NEVER = float("inf")


class Task(TaskInput):
    """A :class:`logstate.contracts.processing.TaskContext` with a batch loop.

    Processors may read their stores in ``init``, so operators are compiled when the stores are
    restored: by ``initialise``, which ``start_at`` calls too. Without ``initialises`` the
    constructor leaves this to them. ``discard`` closes the processors: an abort does not roll back
    their attributes, so the next attempt gets new processors.
    """

    __slots__ = ()

    def __init__(
        self,
        task_id: TaskId,
        sub_topologies: Sequence[SubTopology],
        partitions: Iterable[TopicPartition],
        *,
        application_id: str,
        clock: Clock,
        open_state: Callable[[Task], TaskState],
        global_stores: Mapping[str, Any] | None = None,
        partition_counts: Mapping[str, int] | None = None,
        moved_topics: Mapping[str, str] | None = None,
        max_idle_ms: float | None = 0,
        error_handlers: ErrorHandlers = FAIL_ALWAYS,
        initialises: bool = True,
        emit_intervals: EmitIntervals = DEFAULT_EMIT_INTERVALS,
        application_context: ApplicationContext = NO_APPLICATION,
        sends: bool = True,
    ) -> None:
        super().__init__(task_id, application_id, clock)
        self.sends = sends
        self.emit_intervals = emit_intervals
        self.application_context = application_context
        self.moved_topics = moved_topics or {}
        self.committed_offsets: Mapping[TopicPartition, int] = {}
        #: records processed so far, by topic
        self.processed: Counter[str] = Counter()
        self.wants_commit = False
        self._global_stores = global_stores or {}
        self._partition_counts = partition_counts or {}
        self._idle = TaskIdle(max_idle_ms) if max_idle_ms else None
        self._waits = max_idle_ms is not None
        self._closers: list[tuple[str, Callable[[], None]]] = []
        self.queues = {tp: PartitionQueue(tp, 0) for tp in partitions}
        self.order = QueueOrder(self._head_time)
        #: clocks that stores request before the state, which has them later, is open
        self._early_cells: dict[str, TimeCell] = {}
        #: nothing was processed since the start, or since a wait for a retry
        self._begins = False
        self._state: TaskState | None = None
        self.sub_topologies = tuple(sub_topologies)
        self._state = self.state = open_state(self)
        self.state.cells.update(self._early_cells)
        self.guard = RecordGuard(self, error_handlers)
        self._sources: Mapping[str, CompiledSource] = {}
        if initialises:
            self.initialise()

    def initialise(self) -> None:
        """Compile the operators, which creates and initializes processors, unless that is done."""
        if self._sources:
            return
        self.late_results = self.guard.late_results if self.guard.guards_processing else None
        sources: dict[str, CompiledSource] = {}
        with self.running():
            for sub_topology in self.sub_topologies:
                sources.update(compile_sub_topology(sub_topology, self))
        self.idle_ticks.connect(self.sub_topologies, self.time_cell)
        traces = self.traces
        if traces is not None:
            sources = {
                t: replace(s, process=traces.traced(self, t, s.process)) for t, s in sources.items()
            }
        if self.guard.guards_processing:
            guarded = self.guard.guarded
            sources = {t: replace(s, process=guarded(s.process)) for t, s in sources.items()}
        if self.look_by_wall_clock.is_started:
            sources = after_looks(self, self.guard.guarded_callback, sources)
        self._sources = sources

    # ------------------------------------------------------------------ TaskContext

    def store(self, name: str) -> Any:
        store = self.state.stores.get(name)
        return store if store is not None else self._global_stores[name]

    def time_cell(self, name: str) -> TimeCell:
        if self._state is None:
            return self._early_cells.setdefault(name, TimeCell())
        return self._state.time_cell(name)

    def not_encoded(self, part: str, sink: str, topic: str, error: Exception) -> None:
        self.guard.not_encoded(part, sink, topic, error)

    def partition_count(self, topic: str) -> int:
        try:
            return self._partition_counts[topic]
        except KeyError:  # of a task without sinks
            return 1

    def knows_partition_count(self, topic: str) -> bool:
        return topic in self._partition_counts

    def schedule(
        self,
        interval_ms: int,
        kind: str,
        callback: Callable[[int], None],
        *,
        start_ms: int | None = None,
        name: str | None = None,
    ) -> Cancellable:
        assert kind in ("expiry", "timers", "stream_time", "wall_clock"), kind
        clock = cast("PunctuationKind", kind)
        name = name or self.punctuations.name_of_next(clock)
        guarded = self.guard.guarded_callback(name, callback)
        now = self.wall_clock_ms() if clock == "wall_clock" else self.stream_time
        return self.punctuations.add(
            clock, interval_ms, guarded, now=now, start_ms=start_ms, name=name
        )

    def request_commit(self) -> None:
        self.wants_commit = True

    def before_commit(self, held: CommitBuffered) -> None:
        self.commit_buffered.append(held)

    def commit_buffered_failed(self, error: Exception, record: FetchedRecord | None) -> None:
        self.guard.commit_buffered_failed(error, record)

    def on_close(self, node: str, close: Callable[[], None]) -> None:
        self._closers.append((node, labelled(close, node)))

    def skips(self, record: FetchedRecord, error: Exception, node: str) -> bool:
        return self.guard.skips(record, error, node)

    def skips_untimed(self, record: FetchedRecord, error: RecordError) -> bool:
        return self.guard.skips_untimed(record, error)

    # ------------------------------------------------------------------ input

    @property
    def source_topics(self) -> Mapping[str, CompiledSource]:
        """Resolved topic -> compiled source."""
        return self._sources

    def start_at(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start reading at these offsets; drops buffered records. The stores must be restored."""
        self.initialise()
        self._begins = True
        for partition, position in positions.items():
            self.order.forget(partition)
            self.queues[partition] = PartitionQueue(partition, position)
            self.consumed[partition] = position
        self.committed_offsets = dict(self.consumed)
        if self.state.expiry.is_due(self.stream_time):
            self.has_uncommitted_input = True  # their deletion must not wait for a record

    @property
    def has_moved(self) -> bool:
        """True if records were consumed that are not committed; a commit may be in progress."""
        return self.consumed != self.committed_offsets

    # ------------------------------------------------------------------ processing

    def process(self, limit: int) -> int:
        """Process up to ``limit`` records that may be processed now; return how many were.

        Fewer after :meth:`interrupt`, but never none because of it.

        Raises DeserializationError or ProcessingError; the failed record is not consumed and the
        task must be discarded or its record skipped.
        """
        count = 0
        self.check_misuse()
        if self.blocked_until_ms > 0:
            if self.monotonic_ms() < self.blocked_until_ms:
                return 0
            self.blocked_until_ms = 0.0
            self._begins = True
        punctuations = self.punctuations
        if self._begins:
            # Schedules due at the committed stream time do not wait for a record. Schedules of a
            # cut
            # are not due; those of a task that Kafka Streams ran have no due times. And a schedule
            # may
            # have to be retried.
            self._begins = False
            due = punctuations.next_stream_time
            if punctuations.next_timers <= self.stream_time:
                self.punctuate("timers")
            if due is not None and due <= self.stream_time:
                self.punctuate("stream_time")
        if punctuations.is_interrupted:
            punctuations.resume()
        while count < limit and self.blocked_until_ms == 0 and not punctuations.is_interrupted:
            chosen, before = self._next_queue()
            if chosen is None:
                break
            source = self._sources[chosen.partition.topic]
            with self.running():
                done = run_queue(self, chosen, source, before, limit - count)
            self.processed[chosen.partition.topic] += done
            count += done
            if self.blocked_until_ms > 0:
                self.order.arrived(chosen.partition)  # the record was put back into its queue
                punctuations.follows_timers = False
            if len(self.queues) == 1:
                break  # no other partition can have become older
        return count

    def _next_queue(self) -> tuple[PartitionQueue | None, float]:
        """Return the queue to continue with, and the time at which another one is next."""
        if len(self.queues) == 1:
            (queue,) = self.queues.values()
            return (queue if len(queue) else None), _NEVER
        order = self.order
        order.admit(self._has_head)
        if self.blocked_until_ms > 0:  # a head must be decoded again later
            for queue in filter(len, self.queues.values()):
                order.arrived(queue.partition)
            return None, _NEVER
        if self._waits and self._waits_for_input():
            return None, _NEVER
        partition = order.take()
        if partition is None:
            return None, _NEVER
        queue = self.queues[partition]
        if len(queue) > 1:
            order.arrived(partition)
        return queue, order.next_time()

    def _waits_for_input(self) -> bool:
        queues = self.queues.values()
        if any(map(PartitionQueue.is_awaited, queues)):
            return True
        return self._idle is not None and self._idle.waits(queues, self._clock.monotonic_ms())

    def _has_head(self, partition: TopicPartition) -> bool:
        queue = self.queues[partition]
        return queue.head is not None or decode_head(self, queue, self._sources[partition.topic])

    def _head_time(self, partition: TopicPartition) -> int:
        head = self.queues[partition].head
        assert head is not None, "only partitions with a decoded head are ordered"
        return head[0]

    def tick(self, idle: IdleTime) -> None:
        """Advance the stream times that advance while the inputs are idle, and emit what is due.

        Raises ProcessingError; a tick that must be retried later blocks the task.
        """
        self.check_misuse()
        now = self.wall_clock_ms()
        self.topic, self.offset = None, -1
        self.timestamp, self.headers = now, None
        try:
            with self.running():
                self.idle_ticks.run(idle, self.guard.guarded_callback, now)
        except RetryLater as later:
            self.blocked_until_ms = later.at_ms
        self.has_uncommitted_input = True  # what it changed must not wait for a record

    # ------------------------------------------------------------------ commit

    def freeze(self) -> TaskCommit:
        """Emit results buffered for the commit, then take out everything since the last one.

        Raises ProcessingError if a call of another thread was refused.
        """
        self.check_misuse()
        with self.running():
            while any(held.emit() for held in reversed(self.commit_buffered)):
                pass
        self.idle_ticks.note_open()
        self.guard.refusals.freeze()
        for fan_out in self.fan_outs:
            fan_out.to_compare = fan_out.to_compare or 1
        has_more_expired = self.state.expiry.delete(self.stream_time)
        changes = self.state.freeze()
        clocks = dict(changes.clocks)
        clocks[STREAM_TIME] = self.stream_time
        for name, time in self.punctuations.next_times().items():
            clocks[_SCHEDULE + name] = time
        outputs = self.outputs.copy()
        self.outputs.clear()
        self.wants_commit = False
        self.has_uncommitted_input = has_more_expired
        for queue in self.queues.values():
            if not len(queue):
                self.consumed[queue.partition] = queue.position
        return TaskCommit(
            self.task_id,
            replace(changes, clocks=clocks),
            outputs,
            dict(self.consumed),
            dict(self.partition_times),
        )

    def committed(self, commit: TaskCommit, positions: Mapping[str, int]) -> None:
        """Handle that the transaction with ``commit`` is committed."""
        self.state.inputs = commit.offsets
        self.state.committed(commit.changes, positions)
        self.guard.refusals.committed(commit.offsets)
        self.committed_offsets = commit.offsets

    def discard(self) -> None:
        """Discard everything uncommitted, including processors.

        ``set_clocks`` and ``start_at`` must follow before processing.
        """
        with suppress(ProcessingError):  # it is logged; the task continues with new processors
            self._close_processors()
        self.outputs.clear()
        self.wants_commit = False
        self.has_uncommitted_input = False
        for held in self.commit_buffered:
            held.discard()
        self.state.discard()
        self.guard.refusals.discard()
        self.commit_buffered.clear()
        self.fan_outs.clear()
        self._sources = {}
        self.misuse = None
        self.punctuations = Punctuations()
        self.forget_expired_rows()
        self.idle_ticks.clear()
        self.open_operators.clear()

    def set_clocks(
        self, clocks: Mapping[str, int], partition_times: Mapping[TopicPartition, int]
    ) -> None:
        """Use the clocks of the committed cut that this task continues from."""
        self.state.set_clocks(clocks)
        self.stream_time = clocks.get(STREAM_TIME, -1)
        self.partition_times = dict(partition_times)
        self.punctuations.set_next_times(
            {
                name.removeprefix(_SCHEDULE): time
                for name, time in clocks.items()
                if name.startswith(_SCHEDULE)
            }
        )

    def end(self, *, applies: bool) -> None:
        """Close the task; ``applies``: first write all committed rows to disk."""
        try:
            if applies:
                self.state.discard()
                self.state.apply()
        finally:
            self.close()

    def close(self) -> None:
        """Close processors and state. Uncommitted work is lost."""
        with ExitStack() as closing:
            closing.callback(self.state.close)
            closing.callback(self._close_processors)

    def _close_processors(self) -> None:
        """Close all processors, even if one fails; parents first, in the order of their start."""
        closers, self._closers = self._closers, []
        if closers:
            self.state.discard()  # so that later changes were made by close()
        failure: ProcessingError | None = None
        for node, close in closers:
            try:
                with self.running():
                    close()
                self._refuse_last_writes()
            except Exception as exc:  # noqa: BLE001  user code
                found = blame_for(exc, self.sub_topologies, node=node)
                failure = failure or not_closed(self.task_id, found, exc)
                failure.__cause__ = failure.__cause__ or exc
                _LOGGER.warning("%s", str(not_closed(self.task_id, found, exc)))
        if failure is not None and not self.guard.skips_failed:
            raise failure from failure.__cause__

    def _refuse_last_writes(self) -> None:
        """Raise StoreAccessError if a ``close()`` wrote to a store: no commit would include it."""
        changed = [name for name, layer in self.state.freeze().layers.items() if not layer.is_empty]
        if changed:
            self.state.discard()
            raise StoreAccessError(
                f"store {', '.join(map(repr, changed))} was written to in close(), after the last"
                " commit: it would be lost. Write in process(), or in a scheduled callback"
            )
