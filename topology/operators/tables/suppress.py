"""Buffering a table's updates until they are final, or for some time.

``until="window_closes"``: a windowed row is forwarded once, when its window is closed and can
change no more. ``until="time_limit"``: a key is forwarded at most once per ``wait_ms`` of event
time; the first update starts the clock, later ones replace it without resetting the clock.

Semantics, exactly Kafka Streams' (`KTableSuppressProcessor`):

- time is the operator's own stream time, the largest timestamp that reached it: nothing leaves
  until a later record comes. An idle topic keeps its last windows waiting, except with
  ``close_on_idle``: stream time then advances while the inputs are idle, and that of the windows
  with it, so that no record changes a window that has left.
- a row leaves once buffer time + wait <= stream time, earliest first, then by key bytes; with the
  timestamp, headers, topic and offset of the record that caused it. The buffer time is the end of
  the window, or the timestamp of the key's first buffered update.
- tombstones: a window that was deleted before it closed is never forwarded; a time limit forwards
  tombstones.
- old value: that of the key's LAST update. It can differ from the value forwarded before: a value
  that was replaced while waiting is subtracted downstream although it was never added. Joins, which
  read the table, see the value from before the key entered the buffer. A table of exact changes
  sends that value, and the tombstone of a window that was forwarded before.
- full (more than ``max_records`` keys or ``max_bytes`` estimated bytes): ``emit_early`` forwards
  the earliest rows, the one just put included; ``shut_down`` raises ProcessingError after due rows
  were forwarded: final results cannot be early.
- sliding and session windows: a window whose end + wait EQUALS stream time is forwarded here while
  the aggregation still accepts records for it, so it can be forwarded twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Literal

from logstate.contracts.errors import ProcessingError
from logstate.contracts.processing import Contributors, TableProcess, TaskContext, TimeCell
from logstate.contracts.record_parts import TIMESTAMP_MAX
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow, StoreSpec
from logstate.topology.graph.nodes import Children, Forward, TableNode, ValueGetter, late_edge
from logstate.topology.operators.streams.idle_clock import (
    Waiting,
    advance_when_idle,
    close_windows,
)


class SuppressNode(TableNode):
    """Forwards the rows of ``parent`` late, from the suppress buffer ``store``."""

    parent: TableNode
    store: StoreSpec
    until: Literal["window_closes", "time_limit"]
    wait_ms: int
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: Literal["shut_down", "emit_early"] = "emit_early"
    idle_ms: int | None = None
    #: the aggregations above whose windows it waits for; none if it waits for a time limit
    windowed: tuple[TableNode, ...] = ()
    #: names of their clocks, which a tick advances too
    window_clocks: tuple[str, ...] = ()

    @property
    def waits_for_stream_time(self) -> bool:
        return self.until == "time_limit"

    @property
    def own_idle_ms(self) -> int | None:
        idle = [one.close_on_idle_ms for one in self.windowed]
        of_windows = [one for one in idle if one is not None]
        return max(of_windows) if idle and len(of_windows) == len(idle) else self.idle_ms

    def __post_init__(self) -> None:
        # The buffer stores the value that was forwarded before: the old value of the first update.
        self.parent.enable_sending_old_values(force=True)

    def enable_sending_old_values(self, *, force: bool) -> bool:
        self.sends_old_values = self.parent.enable_sending_old_values(force=force)
        return self.sends_old_values

    def enable_exact_changes(self) -> None:
        self.sends_exact_changes = True
        self.parent.enable_exact_changes()

    def getter_store_names(self) -> tuple[str, ...]:
        return (self.store.name, *self.parent.getter_store_names())

    def value_getter(self, task: TaskContext) -> ValueGetter:
        prior = task.store(self.store.name).prior
        latest_of_parent = self.parent.value_getter(task).as_forwarded()

        def latest(key: Any) -> StoredRow | None:
            is_waiting, value = prior(key)
            if not is_waiting:
                return latest_of_parent(key)
            # Only the parent's old value is known, not its timestamp.
            return None if value is None else (value, -1, None)

        return ValueGetter(latest, lags=True)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> TableProcess:
        buffer = task.store(self.store.name)
        put = buffer.put
        observed = task.time_cell(self.name)
        is_final = self.until == "window_closes"
        wait = self.wait_ms
        is_over_capacity = self._compile_capacity(buffer)
        traces = task.traces
        contributors = None if traces is None else traces.contributors(task, self.name)
        if contributors is not None:
            forward = _continuing_traces(forward, contributors, buffer.identity)
        emit_first = self._compile_emission(task, buffer, forward)
        emits_early = self.when_full == "emit_early"
        self._compile_idle_clock(task, buffer, observed, emit_first)

        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if timestamp > observed.time:
                observed.time = timestamp
            put(key, new, old, key.end_ms if is_final else timestamp, timestamp, headers)
            expiry = observed.time - wait
            while buffer.min_timestamp <= expiry:
                emit_first()
            if is_over_capacity is None:
                return
            while is_over_capacity():
                if not emits_early:
                    raise self._buffer_full(task, buffer)
                emit_first()

        if contributors is None:
            return process
        contributed, identity = contributors.add, buffer.identity

        def process_traced(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            contributed(identity(key), headers)
            process(key, new, old, timestamp, headers, is_latest)

        return process_traced

    def _compile_idle_clock(
        self, task: TaskContext, buffer: Any, observed: TimeCell, emit_first: Callable[[], None]
    ) -> None:
        """Let rows leave while the inputs are idle, if the option is set; show which wait.

        The windows that have left are closed for the aggregations above, whose own clocks stop once
        the inputs have been idle for the time of the option.
        """
        wait = self.wait_ms

        def close_times() -> Iterator[int]:
            return (ms + wait for ms in buffer.times())

        def first_due(limit: int) -> int | None:
            due: int = buffer.min_timestamp + wait
            return due if due <= limit else None

        def emit_due(time: int) -> None:
            if buffer.min_timestamp > time - wait:
                return
            while buffer.min_timestamp <= time - wait:
                emit_first()
            close_windows(task, self.window_clocks, min(time + 1, TIMESTAMP_MAX))

        # The name of its store: unlike that of a node it differs from those of all other clocks.
        clock = self.store.name
        waiting = Waiting(close_times, first_due, emit_due)
        advance_when_idle(task, clock, observed, self.close_on_idle_ms, waiting, node=self.name)

    def _compile_emission(
        self, task: TaskContext, buffer: Any, forward: TableProcess
    ) -> Callable[[], None]:
        drops_tombstones = self.until == "window_closes"
        sends_old, is_exact = self.sends_old_values, self.sends_exact_changes
        prior = buffer.prior
        forward = late_edge(task, self.name, forward)

        def emit_first() -> None:
            key, new, old, timestamp, headers, *place = buffer.first()
            if is_exact:  # the value from before the key waited is the one that was sent last
                _, old = prior(key)
            if new is not None or not drops_tombstones or (is_exact and old is not None):
                current = task.topic, task.partition, task.offset
                task.topic, task.partition, task.offset = place
                forward(key, new, old if sends_old else None, timestamp, headers, True)
                task.topic, task.partition, task.offset = current
            # Only now: while the row is being forwarded, joins still read the value before it.
            buffer.remove_first()

        return emit_first

    def _compile_capacity(self, buffer: Any) -> Callable[[], bool] | None:
        max_records, max_bytes = self.max_records, self.max_bytes
        if max_records is None and max_bytes is None:
            return None

        def is_over_capacity() -> bool:
            if max_records is not None and buffer.num_records > max_records:
                return True
            return max_bytes is not None and buffer.size_bytes > max_bytes

        return is_over_capacity

    def _buffer_full(self, task: TaskContext, buffer: Any) -> ProcessingError:
        raised = "raise max_records or max_bytes"
        if self.until == "window_closes":
            remedy = (
                "Final results cannot be forwarded before their windows close. More keys are active"
                f" in the open windows than expected: {raised}, or shorten the grace"
            )
        else:
            remedy = (
                f"More keys change within {self.wait_ms} ms than expected: {raised}, shorten the"
                " limit, or leave out shut_down_when_full, so that a full buffer sends its oldest"
                " rows early"
            )
        return ProcessingError(
            f"the buffer of suppress {self.name!r}, store {self.store.name!r}, is full: it holds"
            f" {buffer.num_records} records of {buffer.size_bytes} bytes; max_records is"
            f" {self.max_records}, max_bytes {self.max_bytes}; topic {task.topic!r}, partition"
            f" {task.partition}, offset {task.offset}, task {task.task_id}. {remedy}",
            topic=task.topic,
            partition=task.partition,
            offset=task.offset,
            task=str(task.task_id),
            node=self.name,
        )


def _continuing_traces(
    forward: TableProcess, contributors: Contributors, identity: Callable[[Any], Hashable]
) -> TableProcess:
    """``forward`` with headers that continue the traces of all records of the result."""
    emitted = contributors.emitted

    def process(
        key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
    ) -> None:
        forward(key, new, old, timestamp, emitted(identity(key), headers), is_latest)

    return process
