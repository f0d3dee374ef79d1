"""MockProcessorContext: one processor under test, without topology, topics or task.

It implements :class:`logstate.topology.ProcessorContext`: stores are real ones in memory; forwarded
records, schedules and commit requests are only written down. Clocks stand still until they are set,
and scheduled callbacks run when the test calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from logstate.changelog.state import TaskState
from logstate.contracts.drops import Drop
from logstate.contracts.errors import StoreAccessError
from logstate.contracts.processing import ProcessorMetrics, TimeCell
from logstate.contracts.records import Headers, Record, RecordMetadata, TaskId
from logstate.contracts.stores import StoreSpec
from logstate.contracts.topic_names import topic_name
from logstate.testing.alone import TestedSurroundings
from logstate.topology.declaring.windows import scheduled_ms
from logstate.topology.processor.processor_context import PunctuationKind


class CapturedForward(NamedTuple):
    """A record that was forwarded, and to which child; None: to all."""

    record: Record[Any, Any]
    child: str | None


class CapturedSchedule:
    """A schedule that was made; ``callback(timestamp)`` is for the test to call."""

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
        """No further calls."""
        self.is_cancelled = True


class _StoreContext:
    """The little of a task that its stores need."""

    def __init__(self, application_id: str, task_id: TaskId) -> None:
        self.application_id = application_id
        self.task_id = task_id
        self.timestamp = 0
        self.headers: Headers = None
        self.topic: str | None = None
        self.partition = task_id.partition
        self.offset = -1
        self._cells: dict[str, TimeCell] = {}

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return topic_name(self.application_id, name, is_internal=is_internal)

    def time_cell(self, name: str) -> TimeCell:
        return self._cells.setdefault(name, TimeCell())

    def store_dropper(self, _store: str) -> Drop:
        """Stores count what they drop; nobody asks here."""
        return _not_counted


def _not_counted(late_ms: int = 0) -> None: ...


class MockProcessorContext:
    """A context that writes down what a processor does.

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
        stores: declarations of the stores the processor asks for.
        application_id: the application's id.
        task_id: the task's id.
        wall_clock_ms: what the wall clock shows.
        application_config: the application's settings; its id and ``state_dir`` if not given.
        state_dir: below it is that of the processor; a temporary one if not given.

    Source: Kafka Streams' ``MockProcessorContext`` (KIP-267, KIP-478).
    """

    def __init__(
        self,
        *,
        stores: Iterable[StoreSpec] = (),
        application_id: str = "app",
        task_id: TaskId = TaskId(0, 0),  # noqa: B008  immutable
        wall_clock_ms: int = 0,
        application_config: Mapping[str, Any] | None = None,
        state_dir: Path | None = None,
    ) -> None:
        self.application_id = application_id
        self.task_id = task_id
        #: what the processor forwarded, in order
        self.forwarded: list[CapturedForward] = []
        #: what the processor scheduled, in order
        self.schedules: list[CapturedSchedule] = []
        #: how often it asked for a commit
        self.commit_requests = 0
        #: what the clocks show; the test sets them
        self.stream_time_ms = -1
        self.wall_clock_ms = wall_clock_ms
        #: where the record at hand comes from; the test sets it
        self.metadata: RecordMetadata | None = None
        context: Any = _StoreContext(application_id, task_id)
        self._surroundings = TestedSurroundings(application_id, state_dir, application_config)
        self._state = TaskState(list(stores), context, publishes_views=False)

    @property
    def partition(self) -> int:
        """The task's partition."""
        return self.task_id.partition

    @property
    def application_config(self) -> Mapping[str, Any]:
        """What was given."""
        return self._surroundings.told.application_config

    @property
    def state_dir(self) -> Path:
        """A directory, which exists."""
        return self._surroundings.files(self.task_id)

    @property
    def metrics(self) -> ProcessorMetrics:
        """What makes metrics; ``measured`` has them."""
        return self._surroundings.told.metrics(str(self.task_id), "processor")

    @property
    def measured(self) -> dict[str, Any]:
        """What the processor has measured, as ``Application.metrics``."""
        return self._surroundings.metrics.snapshot()

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Write down a forwarded record; raises ValueError for a negative timestamp."""
        if record.timestamp < 0:
            raise ValueError(
                f"the processor forwarded a record with timestamp {record.timestamp}: event time"
                " is not negative"
            )
        self.forwarded.append(CapturedForward(record, child))

    def store(self, name: str) -> Any:
        """A store; raises StoreAccessError for one that was not given."""
        try:
            return self._state.stores[name]
        except KeyError:
            known = ", ".join(map(repr, self._state.stores)) or "none"
            raise StoreAccessError(
                f"the processor asked for store {name!r}; the context was made with: {known}. Give"
                " its declaration in MockProcessorContext(stores=[...])."
            ) from None

    def schedule(
        self,
        interval: timedelta,
        kind: PunctuationKind,
        callback: Callable[[int], None],
        *,
        start: int | None = None,
    ) -> CapturedSchedule:
        """Write down a schedule; its callback runs when the test calls it.

        Raises TopologyError for an interval or a kind that the real context refuses.
        """
        scheduled_ms(interval, kind)
        made = CapturedSchedule(interval, kind, callback, start)
        self.schedules.append(made)
        return made

    def current_stream_time_ms(self) -> int:
        """What the test set, -1 at first."""
        return self.stream_time_ms

    def current_system_time_ms(self) -> int:
        """What the test set."""
        return self.wall_clock_ms

    def record_metadata(self) -> RecordMetadata | None:
        """What the test set."""
        return self.metadata

    def commit(self) -> None:
        """Count a request."""
        self.commit_requests += 1

    def take_forwarded(self) -> list[CapturedForward]:
        """What was forwarded since the last call."""
        forwarded, self.forwarded = self.forwarded, []
        return forwarded
