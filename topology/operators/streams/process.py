"""process and process_values: the user's own processor as an operator.

While user code runs, the task's record attributes are those of the record it was given, because
plain stores log with them. They are restored after every forward: operators further down set their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from logstate.contracts.errors import StoreAccessError
from logstate.contracts.open_rows import open_rows
from logstate.contracts.processing import Cancellable, ProcessorMetrics, TaskContext
from logstate.contracts.record_parts import (
    TIMESTAMP_MAX,
    event_time_of,
    own_headers_of,
    shown,
)
from logstate.contracts.records import Headers, Record, RecordMetadata, TaskId
from logstate.contracts.stores import StoreSpec
from logstate.contracts.typed_stores import StoreDeclaration, name_of
from logstate.serdes.json_serde import JsonSerde
from logstate.topology.declaring.callbacks import scheduled
from logstate.topology.declaring.declaration_site import declaration_error
from logstate.topology.declaring.plain_functions import (
    begin,
    end,
    made_by,
    refuse_unfinished,
)
from logstate.topology.declaring.windows import scheduled_ms
from logstate.topology.graph.blame import labelled
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, late_edge
from logstate.topology.operators.streams.idle_clock import FollowingIdleClock, Waiting
from logstate.topology.operators.streams.task_thread import (
    WRITES,
    OwnSchedule,
    OwnStore,
    check_thread,
)
from logstate.topology.operators.streams.timed_store import as_written_by_users
from logstate.topology.processor.key_timers import TimerLook
from logstate.topology.processor.processor import Processor
from logstate.topology.processor.processor_context import PunctuationKind

#: stands for the bytes of keys, whose serde is not known here
_key_as_json = JsonSerde[Any]().unchecked_serializer(is_key=True)


class ConnectedStores:
    """The stores of a user's operator: by name, or declared with the operator."""

    def __init__(self, stores: str | StoreSpec | Iterable[str | StoreSpec]) -> None:
        one: object = stores
        is_one = isinstance(one, str | bytes | StoreSpec) or not isinstance(one, Iterable)
        given: tuple[Any, ...] = (stores,) if is_one else tuple(stores)  # type: ignore[arg-type]
        for store in given:
            if not isinstance(store, str | StoreSpec):
                raise declaration_error(
                    f"stores= takes names of stores, or declarations such as key_value_store(...),"
                    f" found {store!r}. Give the stores that the processor gets from its context."
                )
        self.owned = tuple(store for store in given if isinstance(store, StoreSpec))
        self.names = tuple(store.name if isinstance(store, StoreSpec) else store for store in given)
        #: all global stores, known when the plan is made: readable without connecting
        self.global_names: frozenset[str] = frozenset()


class ProcessNode(ProcessorNode):
    """``keeps_key``: process_values, whose results must have the key of their input."""

    chooses_children = True

    supplier: Callable[[], Processor[Any, Any, Any, Any]]
    connections: ConnectedStores
    keeps_key: bool = False
    #: under which its schedules' due times are committed
    schedule_name: str
    #: of its timers
    idle_ms: int | None = None

    @property
    def own_idle_ms(self) -> int | None:
        return self.idle_ms

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return self.connections.owned

    def store_names(self) -> tuple[str, ...]:
        return self.connections.names

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        processor = made_by(self.supplier, "processor", ("init", "process", "close"))
        context = ForwardingContext(
            task, self.name, self.connections, self.declared_at, forward, children
        )
        context.schedule_name = self.schedule_name
        context.idle_ms = self.close_on_idle_ms
        user_process: Callable[..., Any] = processor.process  # None, unless it is a mistake

        def start() -> None:
            nonlocal user_process
            begin(processor, context, "processor")
            user_process = processor.process  # init() may have chosen another
            task.on_close(self.name, close)

        def close() -> None:
            context.end()
            end(processor, "processor")

        task.starting.append(start)
        new_tuple = tuple.__new__

        # A processor may append to the list of headers, so it gets a copy: the record may be read
        # again, and other operators get the same list.
        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if headers is not None:
                headers = list(headers)
            task.timestamp = timestamp
            task.headers = headers
            result = user_process(new_tuple(Record, (key, value, timestamp, headers)))
            if result is not None:
                refuse_unfinished(result, user_process, "processor")

        if not self.keeps_key:
            return process

        def process_values(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if headers is not None:
                headers = list(headers)
            task.timestamp = timestamp
            task.headers = headers
            context.fixed_key = (key,)
            result = user_process(new_tuple(Record, (key, value, timestamp, headers)))
            context.fixed_key = None
            if result is not None:
                refuse_unfinished(result, user_process, "processor")

        return process_values


class OperatorContext:
    """The context of every user's operator: stores, clocks, schedules; it cannot forward."""

    def __init__(
        self,
        task: TaskContext,
        name: str,
        connections: ConnectedStores,
        declared_at: str | None,
    ) -> None:
        self._task = task
        self._name = name
        self._connections = connections
        self._declared_at = declared_at
        self._schedules = 0
        #: the stores as they were returned
        self._stores: dict[str, Any] = {}
        #: names the due times of schedules in the committed cut
        self.schedule_name = name
        #: how long inputs are idle before timers run without a later record
        self.idle_ms: int | None = None

    @property
    def application_id(self) -> str:
        return self._task.application_id

    @property
    def task_id(self) -> TaskId:
        return self._task.task_id

    @property
    def partition(self) -> int:
        return self._task.task_id.partition

    @property
    def application_config(self) -> Mapping[str, Any]:
        return self._task.application_context.application_config

    @property
    def state_dir(self) -> Path:
        files, task = self._task.application_context.files, self._task.task_id
        if files is None:
            raise StoreAccessError(
                f"Processor {self._name!r} asked for a state_dir, but task {task} has none: it"
                " has a global store, is being replayed, or runs in a simulation. Keep its data"
                " in a store instead."
            )
        return files(task)

    @cached_property
    def metrics(self) -> ProcessorMetrics:
        return self._task.application_context.metrics(str(self._task.task_id), self._name)

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        raise TypeError(f"Operator {self._name!r} returns its result; it cannot forward {record}.")

    def store(self, name: str | StoreDeclaration[Any]) -> Any:
        self._check_thread("store()", changes=False)
        name = name_of(name)
        found = self._task.store
        if name in self._connections.names:
            known = self._stores.get(name)
            if known is None:
                known = self._stores[name] = self._own_store(
                    as_written_by_users(found(name), name), name
                )
            return known
        if name in self._connections.global_names:
            return _ReadOnly(self._own_store(found(name), name), name)
        known = ", ".join(map(repr, self._connections.names)) or "none"
        raise StoreAccessError(
            f"Processor {self._name!r} (declared at {self._declared_at}) asked for store {name!r},"
            f" to which it is not connected; connected: {known}. Add the store to the builder and"
            " name it in stores=."
        )

    def schedule(
        self,
        interval: timedelta,
        kind: PunctuationKind,
        callback: Callable[[int], None],
        *,
        start: int | None = None,
    ) -> Cancellable:
        self._check_thread("schedule()", changes=True)
        interval_ms = scheduled_ms(interval, kind)
        scheduled(callback)
        if start is not None:
            start = event_time_of(start, "schedule() got as start=")
        task = self._task
        self._schedules += 1

        called: Callable[..., Any] = callback
        if isinstance(callback, TimerLook):
            self._skip_timers_that_fail(callback)

        def punctuate(timestamp: int) -> None:
            task.timestamp = timestamp
            task.headers = None
            self._begin_punctuation()
            result: Any = called(timestamp)
            if result is not None:
                refuse_unfinished(result, callback, "scheduled callback")

        name = f"{self.schedule_name}-{self._schedules}"
        timers = callback if kind == "stream_time" and isinstance(callback, TimerLook) else None
        if timers is not None and self.idle_ms is not None:
            waiting = Waiting(timers.times, timers.last_due, punctuate)
            idle_ms = self.idle_ms
            clock = FollowingIdleClock(task, name, idle_ms, lambda: task.stream_time, waiting)
            task.when_idle(name, clock)
        schedule = task.schedule(
            interval_ms,
            kind if timers is None else "timers",
            labelled(punctuate, self._name),
            start_ms=start,
            name=name,
        )
        if timers is not None:
            times = timers.times
            task.show_open(self._name, lambda: open_rows(times(), task.stream_time))
        return OwnSchedule(schedule, task, self._name)

    def _skip_timers_that_fail(self, look: TimerLook) -> None:
        call = look.call

        def run_timer(key: Any, at_ms: int) -> None:
            call(key, at_ms)

        labelled(run_timer, self._name)
        look.call = late_edge(self._task, f"timers of {self._name}", run_timer)

    def current_stream_time_ms(self) -> int:
        self._check_thread("current_stream_time_ms()", changes=False)
        return self._task.stream_time

    def current_system_time_ms(self) -> int:
        return self._task.wall_clock_ms()

    def record_metadata(self) -> RecordMetadata | None:
        self._check_thread("record_metadata()", changes=False)
        task = self._task
        if task.topic is None:
            return None
        return RecordMetadata(task.topic, task.partition, task.offset)

    def commit(self) -> None:
        self._check_thread("commit()", changes=True)
        self._task.request_commit()

    def _begin_punctuation(self) -> None:
        """Called before a punctuation, which has no current record."""

    def _check_thread(self, call: str, *, changes: bool) -> None:
        if not self._task.is_running_here():
            check_thread(self._task, self._name, f"{call} of its context", changes=changes)

    def _own_store(self, store: Any, name: str) -> OwnStore:
        return OwnStore(store, self._task, self._name, name)


class ForwardingContext(OperatorContext):
    """The context of processors."""

    def __init__(
        self,
        task: TaskContext,
        name: str,
        connections: ConnectedStores,
        declared_at: str | None,
        forward: Forward,
        children: Mapping[str, Process],
    ) -> None:
        super().__init__(task, name, connections, declared_at)
        self._forward = forward
        self._children = children
        #: the beginning of errors about a forwarded record
        self._forwarded = f"Processor {name!r} forwarded a record with"
        #: the key that results must have, in a tuple because it may be None; None: any
        self.fixed_key: tuple[Any] | None = None

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        task = self._task
        if not task.is_running_here():
            self._check_thread("forward()", changes=True)
        try:
            key, value, timestamp, headers = record
        except (TypeError, ValueError):
            raise TypeError(
                f"{self._forwarded.removesuffix(' a record with')} {shown(record)}"
                f" ({type(record).__name__}), which is not a Record: pass Record(key, value,"
                " timestamp), or record._replace(value=...) of the input"
            ) from None
        if type(timestamp) is not int or not 0 <= timestamp <= TIMESTAMP_MAX:
            timestamp = event_time_of(timestamp, self._forwarded)
        if headers is not None:
            headers = own_headers_of(headers, self._forwarded)
        fixed = self.fixed_key
        if fixed is not None and key is not fixed[0] and _is_other_key(key, fixed[0]):
            raise ValueError(
                f"process_values {self._name!r} changed a key: the rows of one key would be spread"
                " over partitions without a repartition. Use process()."
            )
        target = self._forward if child is None else self._child(child)
        outer_timestamp, outer_headers = task.timestamp, task.headers
        target(key, value, timestamp, headers)
        task.timestamp, task.headers = outer_timestamp, outer_headers
        self.fixed_key = fixed

    def end(self) -> None:
        """Refuse to forward from now on: the processor is about to be closed."""

        def refuse(*_: object) -> None:
            raise RuntimeError(
                f"Processor {self._name!r} forwarded a record in close(), after the last commit of"
                " its task: it would be lost. Forward in process(), or in a scheduled callback"
            )

        self._forward = refuse
        self._children = dict.fromkeys(self._children, refuse)

    def _child(self, name: str) -> Callable[..., None]:
        try:
            return self._children[name]
        except KeyError:
            known = ", ".join(map(repr, self._children)) or "none"
            raise KeyError(
                f"Processor {self._name!r} has no child {name!r}; its children: {known}."
            ) from None

    def _begin_punctuation(self) -> None:
        self.fixed_key = None


def _is_other_key(key: Any, fixed: Any) -> bool:
    """Whether a key that is another object is another key: 1, 1.0 and True are three keys."""
    if key != fixed or type(key) is str:
        return bool(key != fixed)
    try:
        return _key_as_json(key) != _key_as_json(fixed)
    except Exception:  # noqa: BLE001  no JSON, such as a Protobuf message
        return type(key) is not type(fixed)


class _ReadOnly:
    """A global store for processors: it is filled only from its topic."""

    def __init__(self, store: Any, name: str) -> None:
        self._store = store
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute in WRITES:
            raise StoreAccessError(
                f"Global store {self._name!r} is read-only here: it contains the records of its"
                " topic. Write to that topic instead."
            )
        return getattr(self._store, attribute)
