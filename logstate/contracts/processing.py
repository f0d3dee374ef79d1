"""The contract between compiled operators and the task that runs them.

An operator is compiled once per task into ONE closure that receives a record and calls the closure
of the next operator: depth first, so that output order is Kafka Streams' order. Nothing else is on
the hot path: no record object, no context switch.

- stream edge: ``process(key, value, timestamp, headers)``
- table edge:  ``process(key, new, old, timestamp, headers, is_latest)``; ``old`` is None unless a
  downstream operator asked for old values; ``is_latest`` False marks an out-of-order update of a
  versioned table (KIP-914).

:class:`TaskContext` is the argument of compilation. Its record attributes (``timestamp`` ...)
describe the record that entered the sub-topology; ``process()`` nodes set them to their current
record while user code runs, and plain key-value stores log that timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from logstate.contracts.drops import Drop, DropReason
from logstate.contracts.errors import WrongThreadError
from logstate.contracts.open_rows import LookAtOpen
from logstate.contracts.records import FetchedRecord, Headers, ProducedFields, TaskId
from logstate.contracts.stores import StoreSpec, TtlClock

StreamProcess: TypeAlias = "Callable[[Any, Any, int, Headers], None]"
TableProcess: TypeAlias = "Callable[[Any, Any, Any, int, Headers, bool], None]"

_MS = timedelta(milliseconds=1)
_EMIT_INTERVAL_MS = 1_000


@dataclass(frozen=True)
class EmitIntervals:
    """Minimum wall-clock time between two checks for final results: for closed windows, and for
    unmatched rows of outer joins.

    Event time decides what a check finds. The setting of the application or test driver comes first
    (None: not set), then that of the builder, then a default.

    >>> intervals = EmitIntervals.of(timedelta(seconds=5), None)
    >>> intervals.of_windows(declared_ms=10), intervals.of_outer_joins(declared_ms=10)
    (5000, 10)
    """

    windows_ms: int | None = None
    outer_joins_ms: int | None = None
    default_ms: int = _EMIT_INTERVAL_MS

    @classmethod
    def of(
        cls,
        windows: timedelta | None,
        outer_joins: timedelta | None,
        *,
        default_ms: int = _EMIT_INTERVAL_MS,
    ) -> EmitIntervals:
        """Build it from the settings of an application or a test driver."""
        return cls(
            None if windows is None else windows // _MS,
            None if outer_joins is None else outer_joins // _MS,
            default_ms,
        )

    def of_windows(self, declared_ms: int | None) -> int:
        """Return the interval for ``emit="close"``; ``declared_ms`` is the builder's."""
        return self._first(self.windows_ms, declared_ms)

    def of_outer_joins(self, declared_ms: int | None) -> int:
        """Return the interval for the unmatched rows of left and outer stream joins."""
        return self._first(self.outer_joins_ms, declared_ms)

    def _first(self, *said: int | None) -> int:
        return next((one for one in said if one is not None), self.default_ms)


#: used if the application or test driver sets nothing
DEFAULT_EMIT_INTERVALS = EmitIntervals()


#: the clock of a cut that is the stream time of its task
STREAM_TIME: Final = "task:stream_time"


class TimeCell:
    """A stream time that decides a result: journaled at each commit, rolled back, restored.

    ``time`` starts at -1. Operators read and write the attribute directly.
    """

    __slots__ = ("time",)

    def __init__(self, time: int = -1) -> None:
        self.time = time


#: deletes the rows of a store that have expired at a stream time; returns their keys, their values
#: and the times at which they expired, in the order of these
TakeExpired: TypeAlias = "Callable[[int], list[tuple[Any, Any, int]]]"
#: (key, value, time at which the row expired)
EmitExpired: TypeAlias = "Callable[[Any, Any, int], None]"


class IdleTime(NamedTuple):
    """For how long the inputs of a task have been idle; both times are monotonic, in ms.

    Idle: every partition is at its end and has no open transaction, all records are processed,
    nothing is paused or restoring, and the brokers have confirmed that at ``now_ms``.
    """

    #: since when; a different time for each idle period of a task
    since_ms: float
    now_ms: float


class IdleOperator(Protocol):
    """An operator whose stream time advances while the inputs of its task are idle."""

    def is_due(self, idle: IdleTime) -> bool:
        """Return True if :meth:`tick` would advance stream time, or emit something."""

    def tick(self, idle: IdleTime) -> None:
        """Advance stream time and emit what that closes."""

    def is_open(self) -> bool:
        """Return True if ticks alone would still emit something."""


#: types of immutable objects; a function may change an object of another type
SCALAR_TYPES = frozenset({type(None), str, int, float, bool, bytes})


class FanOut:
    """An operator with several children, which get the same objects."""

    __slots__ = ("to_compare",)

    def __init__(self, to_compare: int) -> None:
        #: for how many records the children's arguments are compared with the originals
        self.to_compare = to_compare


class Cancellable(Protocol):
    """The handle of a scheduled punctuation."""

    def cancel(self) -> None: ...


class CounterOfUser(Protocol):
    """A sum that only increases."""

    def add(self, amount: float = 1) -> None:
        """Add an amount, which is not negative."""


class GaugeOfUser(Protocol):
    """A value that increases and decreases."""

    def set(self, value: float) -> None:
        """Set the value."""


class HistogramOfUser(Protocol):
    """Counts observed values by range."""

    def observe(self, figure: float) -> None:
        """Count one value."""


class ProcessorMetrics(Protocol):
    """Creates the metrics of one processor; returns the same object for the same name and labels.

    ``meaning`` is the description for exporters. Raises ValueError for an invalid name or label, or
    one that has another meaning already.
    """

    def counter(
        self, name: str, meaning: str, /, *, unit: str = "", **labels: object
    ) -> CounterOfUser:
        """Return a counter, whose name ends in ``_total``."""

    def gauge(self, name: str, meaning: str, /, *, unit: str = "", **labels: object) -> GaugeOfUser:
        """Return a gauge; it is removed when the task is closed."""

    def histogram(
        self,
        name: str,
        meaning: str,
        /,
        *,
        unit: str = "seconds",
        buckets: Iterable[float] = ...,
        **labels: object,
    ) -> HistogramOfUser:
        """Return a histogram; ``buckets`` are upper bounds, by default durations in seconds."""


class _NoMetrics:
    """Metrics that are not collected."""

    def __init__(self, task: str, node: str) -> None: ...

    def counter(self, name: str, meaning: str, /, **_: object) -> CounterOfUser:  # noqa: ARG002
        return self

    def gauge(self, name: str, meaning: str, /, **_: object) -> GaugeOfUser:  # noqa: ARG002
        return self

    def histogram(self, name: str, meaning: str, /, **_: object) -> HistogramOfUser:  # noqa: ARG002
        return self

    def add(self, amount: float = 1) -> None: ...

    def set(self, value: float) -> None: ...

    def observe(self, figure: float) -> None: ...


@dataclass(frozen=True)
class ApplicationContext:
    """What processors can read about the application of their task."""

    #: the application's settings without those of its clients, which may contain secrets
    application_config: Mapping[str, Any] = field(default_factory=dict)
    #: returns the directory for files of a task's processors; None: there is none
    files: Callable[[TaskId], Path] | None = None
    #: returns the metrics of a task and a node
    metrics: Callable[[str, str], ProcessorMetrics] = _NoMetrics


#: for tasks outside an application
NO_APPLICATION = ApplicationContext()


class CommitBuffered(Protocol):
    """Results that an operator buffers until the commit; task state like the rows of a store."""

    def emit(self) -> bool:
        """Forward the buffered results; return whether there were any."""

    def discard(self) -> None:
        """Drop the buffered results: the task returns to its last commit."""

    def begin_journal(self) -> None:
        """Record changes from here on, so that the effects of one record can be undone."""

    def end_journal(self, *, rollback: bool) -> None:
        """Stop recording; with ``rollback`` undo the changes since ``begin_journal``."""


class Contributors(Protocol):
    """The traced records whose results wait in one operator, by the key of the result."""

    def add(self, key: Hashable, headers: Headers) -> None:
        """Note a record that contributed to the result of a key."""

    def emitted(self, key: Hashable, headers: Headers) -> Headers:
        """Return the headers of the result, which continue the trace, and forget the records."""

    def clear(self) -> None:
        """Forget all records: their results are discarded."""


class Traces(Protocol):
    """Makes the spans of a task."""

    def traced(self, task: Any, topic: str, process: StreamProcess) -> StreamProcess:
        """Return the function that processes the records of a topic, with spans."""

    def contributors(self, task: Any, operator: str) -> Contributors:
        """Return the records that contribute to the results of an operator."""


class TaskContext(Protocol):
    """The task as operators and stores see it."""

    application_id: str
    task_id: TaskId
    #: record that entered the sub-topology (or the one a process() node works on)
    timestamp: int
    headers: Headers
    #: source of the record; ``topic`` is None inside punctuators
    topic: str | None
    partition: int
    offset: int
    #: the current record as it was read
    fetched: FetchedRecord | None
    #: largest timestamp seen by the task; -1 before the first record
    stream_time: int
    #: minimum time between two checks for final results
    emit_intervals: EmitIntervals
    #: for processors that read it
    application_context: ApplicationContext
    #: functions that the compiled nodes registered, called once all nodes are compiled
    starting: list[Callable[[], None]]
    #: name of the node that is being compiled, or begins
    compiling: str
    #: compiled so far; the next record after each commit is compared
    fan_outs: list[FanOut]
    #: ``threading.get_ident()`` of the thread that runs the task, or ran it last
    thread: int
    #: whether this thread is running the task now; one call into C
    is_running_here: Callable[[], bool]
    #: the first refused call of another thread that would have changed something
    misuse: WrongThreadError | None
    #: makes spans; None: operators contain no code for them
    traces: Traces | None

    def wall_clock_ms(self) -> int:
        """Return the wall clock, from the Clock protocol."""

    def store(self, name: str) -> Any:
        """Return the store object (see logstate.contracts.stores); global stores too."""

    def time_cell(self, name: str) -> TimeCell:
        """Return the named stream time; the same object for the same name, unique in the task."""

    def dropper(self, node: str, reason: DropReason) -> Drop:
        """Return the counter of a node's dropped records for a reason."""

    def late_counter(self, stream: str) -> Drop:
        """Return the counter of the records of a late stream, which are not dropped."""

    def store_dropper(self, store: str) -> Drop:
        """Return the counter of records that had expired when a node wrote them to a store."""

    def join_late(self, store: str, count: int = 1) -> None:
        """Count a record whose partners in ``store`` may have expired; it is still processed.

        An operator counts 0 when it is compiled, so that the metric exists from then on.
        """

    def results_expired(self, store: StoreSpec, count: int) -> None:
        """Count final results that expired in ``store`` before they were sent, and warn.

        An operator counts 0 when it is compiled, so that the metric exists from then on.
        """

    def send(self, record: ProducedFields) -> None:
        """Collect an output or repartition record; partition None = by key, murmur2."""

    def not_encoded(self, part: str, sink: str, topic: str, error: Exception) -> None:
        """Handle a result whose ``part`` does not encode; return if the result is skipped."""

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        """Return ``name`` itself, or ``<application id>-<name>`` for internal topics."""

    def partition_count(self, topic: str) -> int:
        """Return the partitions of a (resolved) topic that this task writes to.

        A topic that is not in the plan is looked up once. The test driver returns the configured
        number, by default 1. Raises TopicError if the topic does not exist.
        """

    def knows_partition_count(self, topic: str) -> bool:
        """Return whether the count is known, and not the default 1 of an unknown topic."""

    def schedule(
        self,
        interval_ms: int,
        kind: str,
        callback: Callable[[int], None],
        *,
        start_ms: int | None = None,
        name: str | None = None,
    ) -> Cancellable:
        """Schedule ``callback(timestamp)``; kind ``stream_time``, ``wall_clock`` or ``timers``.

        ``timers`` are by stream time, and called before the record that makes them due.
        """

    def repeat_timers(self, timers: Cancellable) -> None:
        """Call a schedule of timers after the current record, if others were called before it."""

    def when_rows_expire(
        self, clock: TtlClock, stream: str, take: TakeExpired, emit: EmitExpired
    ) -> None:
        """Register, while compiling, a stream of the rows of a store that expire.

        The task calls ``take`` of all streams, and then ``emit`` for each row, in the order of the
        times at which the rows expired: by stream time before the record that advances it, by the
        wall clock before each record and while the task is idle.
        """

    def when_idle(self, name: str, operator: IdleOperator) -> None:
        """Register, while compiling, an operator for the time when the inputs are idle.

        ``name`` is that of its clock; the first operator of several with one clock is called.
        """

    def show_open(self, node: str, look: LookAtOpen) -> None:
        """Register, while compiling, how the rows that wait for stream time are counted."""

    def request_commit(self) -> None:
        """Request a commit at the next opportunity; a hint."""

    def before_commit(self, held: CommitBuffered) -> None:
        """Register, while compiling, results that wait for the commit.

        Nodes are compiled children first, so the task calls ``emit`` in REVERSE order of
        registration (parents first), and again until none forwards.
        """

    @property
    def commit_buffered(self) -> Sequence[CommitBuffered]:
        """The buffered results that are registered so far."""

    def commit_buffered_failed(self, error: Exception, record: FetchedRecord | None) -> None:
        """Handle a failure of a buffered result's processing; return if the result is skipped."""

    def on_close(self, node: str, close: Callable[[], None]) -> None:
        """Register, when user code starts, what the task calls for a node when it is closed."""
