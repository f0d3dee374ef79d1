"""The low level: processors that users write, and the context they are given.

A processor exists once per task (one partition), so it may keep plain attributes, but only what is
in a store survives a crash. Everything runs in the task's thread.

>>> class Doubler(Processor[str, int, str, int]):
...     def process(self, record: Record[str, int]) -> None:
...         self.context.forward(record._replace(value=record.value * 2))
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, Literal, Protocol, TypeVar

from logstate.processing import Cancellable
from logstate.records import Record, RecordMetadata, TaskId

K = TypeVar("K")
V = TypeVar("V")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")

PunctuationKind = Literal["stream_time", "wall_clock"]


class ProcessorContext(Protocol):
    """What a processor may ask of its task."""

    @property
    def application_id(self) -> str:
        """The application's id."""

    @property
    def task_id(self) -> TaskId:
        """The task: sub-topology and partition."""

    @property
    def partition(self) -> int:
        """The task's partition."""

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Send a record to all children, or to the one operator named ``child``.

        Depth first: when it returns, everything below has happened. Raises ValueError for a
        negative timestamp and KeyError for an unknown child.
        """

    def store(self, name: str) -> Any:
        """A store the processor is connected to, or a global store (read-only)."""

    def schedule(
        self,
        interval: timedelta,
        kind: PunctuationKind,
        callback: Callable[[int], None],
        *,
        start: int | None = None,
    ) -> Cancellable:
        """Call ``callback(timestamp)`` every ``interval`` of stream time or of the wall clock.

        Stream time: first with the first record, then whenever stream time reaches the next grid
        point; intervals that were jumped over collapse into one call. Wall clock: first one
        interval from now. ``start`` (ms since the epoch) anchors the grid (KIP-1146). Per task, not
        per key.
        """

    def current_stream_time_ms(self) -> int:
        """The largest timestamp the task has seen; -1 before the first record."""

    def current_system_time_ms(self) -> int:
        """The wall clock."""

    def record_metadata(self) -> RecordMetadata | None:
        """Where the current record came from; None inside scheduled callbacks."""

    def commit(self) -> None:
        """Ask for a commit soon; a hint."""


class Processor(Generic[K, V, KOut, VOut]):
    """Base class of user processors; override what you need."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Called once per task, when its stores are ready. The default keeps the context."""
        self.context = context

    def process(self, record: Record[K, V]) -> None:
        """Called for every record."""
        raise NotImplementedError(f"{type(self).__name__} does not define process(record)")

    def close(self) -> None:
        """Called when the task is closed. Do not forward or write here."""


class ValueTransformer(Generic[K, V, VOut]):
    """Base class for `KTable.transform_values`: map_values with stores and a context."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Called once per task. The default keeps the context, which cannot forward here."""
        self.context = context

    def transform(self, key: K, value: V | None) -> VOut | None:
        """The new value; called with None for tombstones."""
        raise NotImplementedError(f"{type(self).__name__} does not define transform(key, value)")

    def close(self) -> None:
        """Called when the task is closed."""
