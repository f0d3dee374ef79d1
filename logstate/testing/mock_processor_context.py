"""MockProcessorContext: one processor under test, without topology, topics or task.

It implements :class:`logstate.topology.ProcessorContext`: stores are real ones in memory; forwarded
records, schedules and commit requests are only recorded, and refused like in the context of a task.
Clocks do not move until they are set, and scheduled callbacks run when the test calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple, TypeVar, overload

from logstate.changelog.state import TaskState
from logstate.contracts.drops import Drop
from logstate.contracts.errors import StoreAccessError, WrongThreadError
from logstate.contracts.processing import ProcessorMetrics, TimeCell
from logstate.contracts.records import Headers, Record, RecordMetadata, TaskId
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import topic_name
from logstate.contracts.typed_stores import StoreDeclaration, name_of
from logstate.testing.processor_bench import TestContext
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.graph.nodes import Process
from logstate.topology.operators.streams.process import ConnectedStores, ForwardingContext
from logstate.topology.processor.processor_context import PunctuationKind

S = TypeVar("S")


class CapturedForward(NamedTuple):
    """A record that was forwarded, and to which child; None: to all."""

    record: Record[Any, Any]
    child: str | None


class CapturedSchedule:
    """A schedule; the test calls ``callback(timestamp)``."""

    def __init__(
        self,
        interval: timedelta,
        kind: PunctuationKind,
        callback: Callable[[int], None],
        start: int | None,
    ) -> None:
        self.interval = interval
        self.kind = kind
        self.callback = callback
        self.start = start
        self.is_cancelled = False

    def cancel(self) -> None:
        """Stop the schedule."""
        self.is_cancelled = True


class _StoreContext:
    """The parts of a task that its stores and the checks of a context need."""

    def __init__(self, application_id: str, task_id: TaskId) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.timestamp = 0
        self.headers: Headers = None
        self.topic: str | None = None
        self.partition = task_id.partition
        self.offset = -1
        self.thread = get_ident()
        self.misuse: WrongThreadError | None = None
        self.stream_time = -1
        self.wall_clock_ms: Callable[[], int] = lambda: 0
        self._cells: dict[str, TimeCell] = {}

    def is_running_here(self) -> bool:
        """Return True in the thread that created the context, because nothing else runs it."""
        return False

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return topic_name(self.application_id, name, is_internal=is_internal)

    def time_cell(self, name: str) -> TimeCell:
        return self._cells.setdefault(name, TimeCell())

    def schedule(self, *_given: object, **_options: object) -> None:
        """Accept a checked schedule; the test calls it."""

    def request_commit(self) -> None:
        """Do nothing; the context counts the requests."""

    def store_dropper(self, _store: str) -> Drop:
        """Return a counter that does nothing: a test does not read the drops of stores."""
        return _not_counted


def _not_counted(late_ms: int = 0) -> None: ...


class _AnyChild(dict[str, Process]):
    """Children of every name, which the context of a task gets from its topology."""

    def __init__(self, capture: Callable[..., None]) -> None:
        super().__init__()
        self._capture = capture

    def __missing__(self, child: str) -> Process:
        return partial(self._capture, child)


class MockProcessorContext:
    """A context that records what a processor does.

    >>> from logstate import Processor, Record, key_value_store
    >>> from logstate.testing import MockProcessorContext
    >>> class Count(Processor):
    ...     def process(self, record):
    ...         counts = self.context.store("counts")
    ...         count = (counts.get(record.key) or 0) + 1
    ...         counts.put(record.key, count)
    ...         self.context.forward(record._replace(value=count))
    >>> context = MockProcessorContext(stores=[key_value_store("counts", str, int)])
    >>> count = Count()
    >>> count.init(context)
    >>> count.process(Record("ada", "home", 5))
    >>> [record.value for record, child in context.forwarded], context.store("counts").get("ada")
    ([1], 1)

    Args:
        stores: declarations of the stores that the processor uses, or a single one.
        application_id: the application's id.
        task_id: the task's id.
        wall_clock_ms: the time of the wall clock.
        application_config: the application's settings; its id and ``state_dir`` if not given.
        state_dir: parent of the processor's directory; a temporary one if not given.

    Raises TopologyError for stores that are not declarations.

    Source: Kafka Streams' ``MockProcessorContext`` (KIP-267, KIP-478).
    """

    def __init__(
        self,
        *,
        stores: StoreSpec | Iterable[StoreSpec] = (),
        application_id: str = "app",
        task_id: TaskId = TaskId(0, 0),  # noqa: B008  immutable
        wall_clock_ms: int = 0,
        application_config: Mapping[str, Any] | None = None,
        state_dir: Path | None = None,
    ) -> None:
        self.application_id = application_id
        self.task_id = task_id
        #: the records that the processor forwarded, in order
        self.forwarded: list[CapturedForward] = []
        #: the schedules of the processor, in order
        self.schedules: list[CapturedSchedule] = []
        #: how often it requested a commit
        self.commit_requests = 0
        #: the time of the wall clock; the test sets it
        self.wall_clock_ms = wall_clock_ms
        #: origin of the current record; the test sets it
        self.metadata: RecordMetadata | None = None
        self._of_stores = _StoreContext(application_id, task_id)
        context: Any = self._of_stores
        self._application_context = TestContext(application_id, state_dir, application_config)
        self._of_stores.wall_clock_ms = self.current_system_time_ms
        specs = _declared(stores)
        self._state = TaskState(specs, context, publishes_views=False)
        context.store = self._state.stores.__getitem__
        self._checks = ForwardingContext(
            context,
            "under test",
            ConnectedStores(specs),
            None,
            partial(self._capture, None),
            _AnyChild(self._capture),
        )

    @property
    def partition(self) -> int:
        """The task's partition."""
        return self.task_id.partition

    @property
    def application_config(self) -> Mapping[str, Any]:
        """The given settings."""
        return self._application_context.application.application_config

    @property
    def state_dir(self) -> Path:
        """An existing directory."""
        return self._application_context.files(self.task_id)

    @property
    def metrics(self) -> ProcessorMetrics:
        """Creates metrics; ``measured`` returns their values."""
        return self._application_context.application.metrics(str(self.task_id), "processor")

    @property
    def measured(self) -> dict[str, Any]:
        """Return what the processor measured, like ``Application.metrics``."""
        return self._application_context.metrics.snapshot()

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Record a forwarded record, for a child of any name.

        Raises TypeError or ValueError for an object that is not a record, or has an invalid part.
        """
        self._checks.forward(record, child)

    @overload
    def store(self, name: StoreDeclaration[S]) -> S: ...
    @overload
    def store(self, name: str) -> Any: ...
    def store(self, name: str | StoreDeclaration[Any]) -> Any:
        """Return a store; raise StoreAccessError for one that was not given."""
        name = name_of(name)
        if name in self._state.stores:
            return self._checks.store(name)
        known = ", ".join(map(repr, self._state.stores)) or "none"
        raise StoreAccessError(
            f"the processor asked for store {name!r}; the context was made with: {known}. Give"
            " its declaration in MockProcessorContext(stores=[...])."
        )

    def schedule(
        self,
        interval: timedelta,
        kind: PunctuationKind,
        callback: Callable[[int], None],
        *,
        start: int | None = None,
    ) -> CapturedSchedule:
        """Record a schedule; its callback runs when the test calls it.

        Raises TopologyError for an interval, a kind or a callback that the context of a task
        refuses, TypeError or ValueError for an invalid start time.
        """
        self._checks.schedule(interval, kind, callback, start=start)
        made = CapturedSchedule(interval, kind, callback, start)
        self.schedules.append(made)
        return made

    @property
    def stream_time_ms(self) -> int:
        """The stream time, by which rows with a TTL expire; the test sets it."""
        return self._of_stores.stream_time

    @stream_time_ms.setter
    def stream_time_ms(self, time_ms: int) -> None:
        self._of_stores.stream_time = time_ms

    def current_stream_time_ms(self) -> int:
        """Return the time that the test set, -1 at first."""
        self._checks.current_stream_time_ms()
        return self.stream_time_ms

    def current_system_time_ms(self) -> int:
        """Return the time that the test set."""
        return self.wall_clock_ms

    def record_metadata(self) -> RecordMetadata | None:
        """Return the metadata that the test set."""
        self._checks.record_metadata()
        return self.metadata

    def commit(self) -> None:
        """Count a request."""
        self._checks.commit()
        self.commit_requests += 1

    def take_forwarded(self) -> list[CapturedForward]:
        """Return the records that were forwarded since the last call."""
        forwarded, self.forwarded = self.forwarded, []
        return forwarded

    def _capture(self, child: str | None, key: Any, value: Any, time: int, head: Headers) -> None:
        self.forwarded.append(CapturedForward(Record(key, value, time, head), child))


def _declared(stores: StoreSpec | Iterable[StoreSpec]) -> list[StoreSpec]:
    given = ConnectedStores(stores)
    if len(given.owned) < len(given.names):
        named = next(name for name in given.names if all(name != one.name for one in given.owned))
        raise declaration_error(
            f"MockProcessorContext(stores=...) takes declarations, found the name {named!r}: there"
            " is no topology that declares its content. Give key_value_store(name, key, value),"
            " window_store(...), session_store(...) or versioned_store(...)."
        )
    return list(given.owned)
