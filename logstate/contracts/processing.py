"""The contract between compiled operators and the task that runs them.

An operator is compiled once per task into ONE closure that receives a record and calls the closure
of the next operator: depth first, so that output order is Kafka Streams' order. Nothing else is on
the hot path: no record object, no context switch.

- stream edge: ``process(key, value, timestamp, headers)``
- table edge:  ``process(key, new, old, timestamp, headers, is_latest)``; ``old`` is None unless a
  downstream operator asked for old values; ``is_latest`` False marks an out-of-order update of a
  versioned table (KIP-914).

:class:`TaskContext` is what compilation gets. Its record attributes (``timestamp`` ...) describe
the record that entered the sub-topology; ``process()`` nodes narrow them to the record at hand
while user code runs, which is what plain key-value stores log as timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from logstate.contracts.drops import Drop, DropReason
from logstate.contracts.errors import WrongThreadError
from logstate.contracts.records import FetchedRecord, Headers, ProducedFields, TaskId
from logstate.contracts.stores import StoreSpec

StreamProcess: TypeAlias = "Callable[[Any, Any, int, Headers], None]"
TableProcess: TypeAlias = "Callable[[Any, Any, Any, int, Headers, bool], None]"

_MS = timedelta(milliseconds=1)
_EMIT_INTERVAL_MS = 1_000


@dataclass(frozen=True)
class EmitIntervals:
    """Least wall-clock time between two looks for what is final: for closed windows, and for
    unmatched rows of outer joins.

    Event time decides what a look finds. Whoever runs the topology decides first (None: unsaid),
    then its builder, then a default.

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
        """Of the settings of an application or a test driver."""
        return cls(
            None if windows is None else windows // _MS,
            None if outer_joins is None else outer_joins // _MS,
            default_ms,
        )

    def of_windows(self, declared_ms: int | None) -> int:
        """For ``emit="close"``; ``declared_ms`` is the builder's."""
        return self._first(self.windows_ms, declared_ms)

    def of_outer_joins(self, declared_ms: int | None) -> int:
        """For the unmatched rows of left and outer stream joins, likewise."""
        return self._first(self.outer_joins_ms, declared_ms)

    def _first(self, *said: int | None) -> int:
        return next((one for one in said if one is not None), self.default_ms)


#: where nobody who runs the topology says anything
DEFAULT_EMIT_INTERVALS = EmitIntervals()


class TimeCell:
    """A clock that decides a result: journaled at each commit, rolled back, restored with the cut.

    ``time`` starts at -1. Operators read and write the attribute directly.
    """

    __slots__ = ("time",)

    def __init__(self, time: int = -1) -> None:
        self.time = time


#: whose objects nobody can change; of others a function may change what it is given
SCALAR_TYPES = frozenset({type(None), str, int, float, bool, bytes})


class FanOut:
    """An operator with several children, which get the same objects."""

    __slots__ = ("to_compare",)

    def __init__(self, to_compare: int) -> None:
        #: of how many records the children are compared with what they were given
        self.to_compare = to_compare


class Cancellable(Protocol):
    """The handle of a scheduled punctuation."""

    def cancel(self) -> None: ...


class CounterOfUser(Protocol):
    """A sum that only grows."""

    def add(self, amount: float = 1) -> None:
        """Add to it; the amount is not negative."""


class GaugeOfUser(Protocol):
    """A value that goes up and down."""

    def set(self, value: float) -> None:
        """Replace it."""


class HistogramOfUser(Protocol):
    """How often a figure fell into which range."""

    def observe(self, figure: float) -> None:
        """Count one."""


class ProcessorMetrics(Protocol):
    """Makes the metrics of one processor; the same object for the same name and labels.

    ``meaning`` is what the exporters tell of it. Raise ValueError for a name or a label that cannot
    be, or that means something else already.
    """

    def counter(
        self, name: str, meaning: str, /, *, unit: str = "", **labels: object
    ) -> CounterOfUser:
        """A counter, whose name ends in ``_total``."""

    def gauge(self, name: str, meaning: str, /, *, unit: str = "", **labels: object) -> GaugeOfUser:
        """A gauge; it is gone when the task is."""

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
        """A histogram; ``buckets`` are upper bounds, of durations in seconds if not given."""


class _Uncounted:
    """Metrics that nobody looks at."""

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
    """What a task may tell its processors of the application that it belongs to."""

    #: the application's settings, without those of its clients, which may be secrets
    application_config: Mapping[str, Any] = field(default_factory=dict)
    #: of a task: where its processors may keep files; None: nowhere
    files: Callable[[TaskId], Path] | None = None
    #: of a task and a node
    metrics: Callable[[str, str], ProcessorMetrics] = _Uncounted


#: of tasks that no application runs
NO_APPLICATION = ApplicationContext()


class CommitBuffered(Protocol):
    """Results an operator holds back until the commit; task state like the rows of a store."""

    def emit(self) -> bool:
        """Forward what is held; returns whether there was anything."""

    def discard(self) -> None:
        """Forget what is held: the task goes back to its last commit."""

    def begin_journal(self) -> None:
        """Remember what changes from here on, so that one record's effects can be undone."""

    def end_journal(self, *, rollback: bool) -> None:
        """Stop remembering; with ``rollback`` undo the changes since ``begin_journal``."""


class TaskContext(Protocol):
    """What an operator or a store sees of its task."""

    application_id: str
    task_id: TaskId
    #: record that entered the sub-topology (or the one a process() node works on)
    timestamp: int
    headers: Headers
    #: where it came from; ``topic`` is None inside punctuators
    topic: str | None
    partition: int
    offset: int
    #: the record at hand as it was read
    fetched: FetchedRecord | None
    #: largest timestamp seen by the task; -1 before the first record
    stream_time: int
    #: how rarely is looked for what is final
    emit_intervals: EmitIntervals
    #: for processors that ask
    application_context: ApplicationContext
    #: what the node that is being compiled has called once all nodes are
    starting: list[Callable[[], None]]
    #: compiled so far; the next record after each commit is compared
    fan_outs: list[FanOut]
    #: ``threading.get_ident()`` of the thread that runs the task, or ran it last
    thread: int
    #: whether this thread is running the task at this moment; one call into C
    is_running_here: Callable[[], bool]
    #: the first refused call of another thread that would have changed something
    misuse: WrongThreadError | None

    def wall_clock_ms(self) -> int:
        """The wall clock, from the Clock seam."""

    def store(self, name: str) -> Any:
        """The store object (see logstate.contracts.stores); global stores too."""

    def time_cell(self, name: str) -> TimeCell:
        """The named clock; the same object for the same name. Names are unique in the task."""

    def dropper(self, node: str, reason: DropReason) -> Drop:
        """What counts the records that a node drops for a reason (``dropped_records_total``)."""

    def store_dropper(self, store: str) -> Drop:
        """What counts the records that expired before they came to a store, by who writes it."""

    def join_late(self, store: str) -> None:
        """Count a record for which partners in ``store`` may have expired; it goes on."""

    def results_expired(self, store: StoreSpec, count: int) -> None:
        """Count final results that expired in ``store`` before they were sent, and warn."""

    def send(self, record: ProducedFields) -> None:
        """Collect an output or repartition record; partition None = by key, murmur2."""

    def not_encoded(self, part: str, sink: str, topic: str, error: Exception) -> None:
        """``part`` of a result does not encode; returns if the result is to be left out."""

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        """``name`` itself, or ``<application id>-<name>`` for internal topics."""

    def partition_count(self, topic: str) -> int:
        """Partitions of a (resolved) topic this task writes to; asks once for one not planned.

        In the test driver what it was told, else 1. Raises TopicError where there is no such topic.
        """

    def knows_partition_count(self, topic: str) -> bool:
        """Whether that is the topic's count, and not the 1 that is told of unknown topics."""

    def schedule(
        self,
        interval_ms: int,
        kind: str,
        callback: Callable[[int], None],
        *,
        start_ms: int | None = None,
        name: str | None = None,
    ) -> Cancellable:
        """Schedule ``callback(timestamp)``; kind ``stream_time`` or ``wall_clock``."""

    def request_commit(self) -> None:
        """Ask for a commit at the next occasion; a hint."""

    def before_commit(self, held: CommitBuffered) -> None:
        """Register, while compiling, results that wait for the commit.

        Nodes are compiled children first, so the task calls ``emit`` in REVERSE order of
        registration (parents first), and again until none forwards.
        """

    @property
    def held_back(self) -> Sequence[CommitBuffered]:
        """What was registered so far."""

    def held_back_failed(self, error: Exception, record: FetchedRecord | None) -> None:
        """What came of a held back result failed; returns if it is to be left out."""

    def on_close(self, node: str, close: Callable[[], None]) -> None:
        """Register, when user code starts, what the task calls for a node when it is closed."""
