"""The progress of a task: the current record, and the results since the last commit.

Shared by the batch loop, the error handlers and the task; independent of queues, operators and
commits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, cast

from logstate.changelog.state import TaskState
from logstate.contracts.clock import Clock
from logstate.contracts.drops import DropReason
from logstate.contracts.errors import RecordError, WrongThreadError
from logstate.contracts.open_rows import LookAtOpen
from logstate.contracts.processing import (
    Cancellable,
    CommitBuffered,
    EmitExpired,
    FanOut,
    IdleOperator,
    TakeExpired,
    TaskContext,
    Traces,
)
from logstate.contracts.records import (
    FetchedRecord,
    Headers,
    ProducedFields,
    RecordMetadata,
    TaskId,
    TopicPartition,
)
from logstate.contracts.stores import StoreSpec, TtlClock
from logstate.contracts.topic_names import topic_name
from logstate.task.drops import Dropper, Drops
from logstate.task.expired_results import ExpiredResults
from logstate.task.expired_rows import LOOK_BY_WALL_CLOCK, ExpiredRows, LookByWallClock
from logstate.task.idle_ticks import IdleTicks
from logstate.task.open_operators import OpenOperators
from logstate.task.punctuation import Punctuation, PunctuationKind, Punctuations
from logstate.task.record_errors import misused
from logstate.topology.graph.operator_labels import with_label
from logstate.topology.graph.sub_topology import SubTopology, writer_of


class RetryLater(Exception):
    """The record, or the schedule, must be retried when the clock reaches ``at_ms``."""

    def __init__(self, at_ms: float) -> None:
        super().__init__(f"retry at {at_ms}")
        self.at_ms = at_ms


class TaskProgress:
    """Invariant: the effects of every record that ``consumed`` covers are in outputs and state."""

    #: set for every record: slots take a twentieth of the time of an instance's dict
    __slots__ = (
        "__dict__",
        "__weakref__",
        "fetched",
        "headers",
        "is_running_here",
        "offset",
        "partition",
        "stream_time",
        "thread",
        "timestamp",
        "topic",
    )

    #: its stores and clocks
    state: TaskState
    #: makes spans; None: without traces
    traces: Traces | None = None
    #: the last record that began a trace, and the headers of its span; for its dead letter
    began_trace: tuple[RecordMetadata, Headers] | None = None

    def __init__(self, task_id: TaskId, application_id: str, clock: Clock) -> None:
        self.task_id = task_id
        #: held by the thread that runs the task, while it does
        self._running = RLock()
        holds: Any = self._running
        self.is_running_here: Callable[[], bool] = holds._is_owned  # noqa: SLF001  as Condition does
        #: the thread that runs the task, or ran it last
        self.thread = get_ident()
        #: a refused call of another thread that would have changed something
        self.misuse: WrongThreadError | None = None
        self.application_id = application_id
        #: usual name of an internal topic -> its name after its state was moved
        self.moved_topics: Mapping[str, str] = {}
        self._clock = clock
        #: the time of the monotonic clock, without a call between: each drop asks for it
        self.monotonic_ms = clock.monotonic_ms
        #: the task's sub-topologies, for errors that name nodes and functions
        self.sub_topologies: Sequence[SubTopology] = ()
        self.timestamp = -1
        self.headers: Headers = None
        self.topic: str | None = None
        self.partition = task_id.partition
        self.offset = -1
        self.stream_time = -1
        #: the current record as it was read, for error handlers
        self.fetched: FetchedRecord | None = None
        #: records since the last freeze, in order over all topics
        self.outputs: list[ProducedFields] = []
        self.send = self.outputs.append
        #: results buffered for the commit, children first
        self.commit_buffered: list[CommitBuffered] = []
        #: callbacks of the node being compiled, for when all nodes are compiled
        self.starting: list[Callable[[], None]] = []
        #: name of the node that is being compiled, or begins
        self.compiling = ""
        #: operators whose children get the same objects
        self.fan_outs: list[FanOut] = []
        #: next offsets to commit, of every input partition that has moved
        self.consumed: dict[TopicPartition, int] = {}
        self.partition_times: dict[TopicPartition, int] = {}
        self.has_uncommitted_input = False
        self.drops = Drops(self)
        #: records that may have missed partners of a join, by the store that had dropped these
        self.late_joins: Counter[str] = Counter()
        self.expired_results = ExpiredResults()
        #: False if the outputs are not sent, as for a global store
        self.sends = True
        self.skipped_total = self.dead_letters_total = self.punctuated_total = 0
        self.punctuations = Punctuations()
        self.look_by_wall_clock = LookByWallClock()
        self.expired_rows: dict[TtlClock, ExpiredRows] = {
            "stream_time": ExpiredRows(self._schedule_look),
            "wall_clock": ExpiredRows(self.look_by_wall_clock.start),
        }
        self.idle_ticks = IdleTicks()
        self.open_operators = OpenOperators()
        #: monotonic time before which nothing is processed, because a record waits for its retry
        self.blocked_until_ms = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the task in this thread. Raises RuntimeError if another thread runs it."""
        if not self._running.acquire(blocking=False):
            raise RuntimeError(
                f"task {self.task_id} is run by thread {self.thread}, and thread {get_ident()}"
                " tried to run it at the same time. Only one thread at a time may run a task: with"
                " a test driver, call pipe(), advance_wall_clock() and close() from one thread"
            )
        self.thread = get_ident()
        try:
            yield
        finally:
            self._running.release()

    def check_misuse(self) -> None:
        """Raise ProcessingError if a call of another thread was refused: a commit would lose it."""
        if self.misuse is not None:
            raise misused(self.task_id, self.misuse) from self.misuse

    def wall_clock_ms(self) -> int:
        return self._clock.wall_clock_ms()

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        usual = topic_name(self.application_id, name, is_internal=is_internal)
        return self.moved_topics.get(usual, usual)

    @property
    def dropped(self) -> Counter[DropReason]:
        """Number of records that its nodes have dropped, by reason."""
        return self.drops.by_reason()

    def shown_node(self, name: str) -> str:
        """Return the name of a node for messages, with its label if the user did not name it."""
        return with_label(name, *(sub.operator_labels for sub in self.sub_topologies))

    def dropper(self, node: str, reason: DropReason) -> Dropper:
        return self.drops.dropper(node, reason)

    def late_counter(self, stream: str) -> Dropper:
        return self.drops.late_counter(stream)

    def store_dropper(self, store: str) -> Dropper:
        return self.drops.dropper(writer_of(store, self.sub_topologies), DropReason.EXPIRED)

    def join_late(self, store: str, count: int = 1) -> None:
        self.late_joins[store] += count

    def results_expired(self, store: StoreSpec, count: int) -> None:
        self.expired_results.add(self, store, count)

    def skips(self, record: FetchedRecord, error: Exception, node: str) -> bool:
        """Return True if an undecodable record is skipped or dead-lettered; False means fail."""
        raise NotImplementedError

    def skips_untimed(self, record: FetchedRecord, error: RecordError) -> bool:
        """Return True if a record without a time is skipped or dead-lettered; False: retried later.

        Raises the error if it is neither.
        """
        raise NotImplementedError

    def when_rows_expire(
        self, clock: TtlClock, stream: str, take: TakeExpired, emit: EmitExpired
    ) -> None:
        self.expired_rows[clock].add(stream, take, emit)

    def _schedule_look(self, look: Callable[[int], None]) -> None:
        cast("TaskContext", self).schedule(1, "expiry", look, name="expired-rows")

    def forget_expired_rows(self) -> None:
        """Forget the streams of rows that expire: the operators are made again."""
        for rows in self.expired_rows.values():
            rows.clear()
        self.look_by_wall_clock.clear()

    def due_by_wall_clock(self) -> list[str]:
        """Return the names of what the wall clock has due, in the order of the calls."""
        now, look = self.wall_clock_ms(), self.look_by_wall_clock
        has_rows = look.is_due(now) and self.state.expiry.is_look_due()
        return [LOOK_BY_WALL_CLOCK] * has_rows + self.punctuations.due("wall_clock", now)

    def when_idle(self, name: str, operator: IdleOperator) -> None:
        self.idle_ticks.add(name, operator, self.compiling)

    def show_open(self, node: str, look: LookAtOpen) -> None:
        self.open_operators.add(node, look)

    def interrupt(self) -> None:
        """End ``process`` after the current record; from any thread, may come too late."""
        self.punctuations.interrupt()

    def repeat_timers(self, timers: Cancellable) -> None:
        if self.punctuations.follows_timers:
            cast("Punctuation", timers).is_to_be_repeated = True

    def _look_for_expired(self, kind: PunctuationKind, now: int, only: str | None) -> int:
        """Emit the rows that have expired by a clock; return the number of calls."""
        if kind == "timers":
            return self.punctuations.fire("expiry", now)
        look, expired = self.look_by_wall_clock, self.expired_rows["wall_clock"]
        is_asked = kind == "wall_clock" and only in (None, LOOK_BY_WALL_CLOCK)
        if not is_asked or not look.is_due(now):
            return 0
        expired.has_found = False
        look.call(now)
        return expired.has_found

    def punctuate(self, kind: PunctuationKind, *, only: str | None = None) -> int:
        """Run due punctuations of one kind, or the one of that name; return how many ran.

        Those by the wall clock run while the task is idle, too: then its expired rows are searched.

        Raises ProcessingError; a schedule that must be retried later blocks the task.
        """
        self.check_misuse()
        if self.blocked_until_ms > 0 and self.monotonic_ms() < self.blocked_until_ms:
            return 0
        now = self.wall_clock_ms() if kind == "wall_clock" else self.stream_time
        self.topic, self.offset = None, -1
        self.timestamp, self.headers = now, None
        try:
            with self.running():
                count = self._look_for_expired(kind, now, only)
                count += self.punctuations.fire(kind, now, only=only)
                if kind == "stream_time" and self.punctuations.repeat_timers(now):
                    count += self.punctuations.fire("timers", now)
        except RetryLater as later:
            self.blocked_until_ms = later.at_ms
            return 1
        self.punctuated_total += count
        is_due = kind == "wall_clock" and self.state.expiry.is_due_while_idle(self.stream_time, now)
        if count or is_due:
            self.has_uncommitted_input = True  # its writes must not wait for a record
        return count
