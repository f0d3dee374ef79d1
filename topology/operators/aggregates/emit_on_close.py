"""When final results are due: emission on window close (KIP-825).

A window is final once stream time has passed its end plus the grace. Operators that emit on close
keep two clocks of the task for that: how far they have emitted, and when they last looked. Both
survive a crash, so no final result is lost or repeated.

As in Kafka Streams, closed windows are searched for only when a record arrives, and at most once
per ``emit_interval_ms`` of wall-clock time; a search counts even if nothing was due. With
``close_on_idle`` they are also searched for while the inputs are idle. Only an advance of the close
time emits. Rows that the store has expired before that are lost, as there;
here they are counted and logged, by a scan of exactly the rows that are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any, NamedTuple, TypeAlias

from logstate.contracts.processing import StreamProcess, TableProcess, TaskContext, TimeCell
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import Emit
from logstate.topology.graph.nodes import late_edge
from logstate.topology.operators.aggregates.fold import FoldNode
from logstate.topology.operators.streams.idle_clock import (
    CloseTimes,
    LastDue,
    Waiting,
    advance_when_idle,
    observed_cell,
)

#: windowed key, aggregate and timestamp
Row: TypeAlias = "tuple[Any, Any, int]"
#: rows(from_ms, to_ms): those of a span, both ends included
ClosedRows: TypeAlias = "Callable[[int, int], Iterator[Row]]"
#: emits what closed before a time, with the headers of the record that closed it
EmitClosed: TypeAlias = "Callable[[int, Headers], None]"


def stream_time_of(task: TaskContext, store: str, group_number: int, emit: Emit) -> TimeCell:
    """Return the clock by which an aggregation node finds late records and closed windows.

    Every node has its own, the nodes of a cogroup included: an input that lags is not made late by
    another. Only final results need one clock for all nodes that write a store, because what one
    of them has emitted no other may change.

    Named after the store, which the user names, never after the operator, whose generated name
    would pass to another one when an operator is inserted before it.
    """
    return observed_cell(task, clock_name(store, group_number, emit))


def clock_name(store: str, group_number: int, emit: Emit) -> str:
    """Return what the clocks of an aggregation node are named after."""
    is_shared = emit == "close" or group_number == 0
    return store if is_shared else f"{store}:{group_number}"


def sent_until(task: TaskContext, store: str) -> TimeCell:
    """Return the clock of final results: what closed before its time was sent."""
    return task.time_cell(f"emitted:{store}")


class CloseClock:
    """How far one operator has emitted final results.

    Rows have the times of their beginning, and end ``size_ms`` later; ``is_end_exclusive`` where
    one that ends at the close time is closed. If windows differ in length (``varies``)
    ``size_ms`` is that of the longest: spans of beginnings are then too wide, and :meth:`unsent`
    decides.
    """

    __slots__ = (
        "_emitted",
        "_first_open",
        "_looked",
        "_size_ms",
        "_varies",
        "_wall_clock_ms",
        "emit_interval_ms",
    )

    def __init__(
        self,
        task: TaskContext,
        store: str,
        emit_interval_ms: int | None,
        *,
        size_ms: int = 0,
        is_end_exclusive: bool = False,
        varies: bool = False,
    ) -> None:
        self._size_ms = size_ms
        self._first_open = int(is_end_exclusive)
        self._varies = varies
        # Keyed by the store, as Kafka Streams keys the time it commits with the offsets.
        self._emitted = sent_until(task, store)
        self._looked = task.time_cell(f"looked:{store}")
        self.emit_interval_ms = task.emit_intervals.of_windows(emit_interval_ms)
        self._wall_clock_ms = task.wall_clock_ms

    def first_unsent(self) -> int:
        """Return the lowest time of rows that were not emitted yet."""
        emitted = self._emitted.time
        return 0 if emitted == -1 else max(0, emitted - self._size_ms) + self._first_open

    def last_closed(self, close_time: int) -> int:
        """Return the highest time of rows that are closed."""
        size_ms = 1 if self._varies else self._size_ms
        return close_time - size_ms - 1 + self._first_open

    def span_closed(self, close_time: int, grid_ms: int) -> tuple[int, int] | None:
        """Return the span of rows that are closed and were not emitted; None: there are none.

        Times of rows are multiples of ``grid_ms``.
        """
        lower, upper = self.first_unsent(), self.last_closed(close_time)
        return None if upper < 0 or upper // grid_ms * grid_ms < lower else (lower, upper)

    def unsent(self, rows: Iterator[Row], close_time: float = inf) -> Iterator[Row]:
        """Return the rows of a span that were not emitted and closed until ``close_time``."""
        if not self._varies:
            return rows
        emitted = self._emitted.time
        return (row for row in rows if emitted < row[0].end_ms <= close_time)

    def is_due(self, close_time: int) -> bool:
        """Whether to search for windows closed before ``close_time``; counts as a search."""
        interval = self.emit_interval_ms
        if interval:
            now, looked = self._wall_clock_ms(), self._looked.time
            # A wall clock that was set back must not silence us until it has caught up.
            if looked != -1 and looked <= now < looked + interval:
                return False
            self._looked.time = now
        return self.is_open(close_time)

    def is_open(self, close_time: int) -> bool:
        """Whether something that closes before ``close_time`` may not have been emitted."""
        emitted = self._emitted.time
        return emitted == -1 or emitted < close_time

    def close_time_of(self, windowed: Windowed[Any]) -> int:
        """Return the lowest close time at which a window is closed."""
        return windowed.end_ms + 1 - self._first_open

    def advance(self, close_time: int) -> None:
        """Note that everything that closed before ``close_time`` was emitted."""
        self._emitted.time = close_time


class Emission(NamedTuple):
    """How one operator emits final results."""

    #: after a record, at most once per interval
    after_record: EmitClosed
    at_once: EmitClosed
    #: the last close time up to a limit at which a row closes that was not emitted
    last_due: LastDue
    #: those of rows that were not emitted
    close_times: CloseTimes
    interval_ms: int


def emission_of(
    task: TaskContext,
    spec: StoreSpec,
    clock: CloseClock,
    rows: ClosedRows,
    forward: TableProcess,
    *,
    grid_ms: int = 1,
) -> Emission:
    """Return functions that forward final results; also count rows that expire before that.

    Times of rows are multiples of ``grid_ms``. Rows that expire are closed: no store expires open
    windows.
    """
    task.results_expired(spec, 0)
    forward = late_edge(task, f"final results of {spec.name}", forward)

    def before_expiry(from_ms: int, to_ms: int) -> None:
        lower, upper = max(from_ms, clock.first_unsent()), to_ms - 1
        if upper // grid_ms * grid_ms < lower:
            return
        count = sum(1 for _ in clock.unsent(rows(lower, upper)))
        if count:
            task.results_expired(spec, count)

    def emit_closed(close_time: int, headers: Headers) -> None:
        span = clock.span_closed(close_time, grid_ms)
        if span is None:
            return
        for windowed, aggregate, timestamp in clock.unsent(rows(*span), close_time):
            forward(windowed, aggregate, None, timestamp, headers, True)
        clock.advance(close_time)

    def emit_after_record(close_time: int, headers: Headers) -> None:
        if clock.is_due(close_time):
            emit_closed(close_time, headers)

    def emit_at_once(close_time: int, headers: Headers) -> None:
        if clock.is_open(close_time):
            emit_closed(close_time, headers)

    def last_due(limit: int) -> int | None:
        span = clock.span_closed(limit, grid_ms) if clock.is_open(limit) else None
        unsent = () if span is None else clock.unsent(rows(*span), limit)
        return max((clock.close_time_of(row[0]) for row in unsent), default=None)

    def close_times() -> Iterator[int]:
        found = store.first_windows(clock.first_unsent())
        unsent = clock.unsent((windowed, None, 0) for windowed in found)
        return (clock.close_time_of(row[0]) for row in unsent)

    store = task.store(spec.name)
    store.before_expiry = before_expiry
    interval_ms = clock.emit_interval_ms
    return Emission(emit_after_record, emit_at_once, last_due, close_times, interval_ms)


def emitting_closed(
    process: StreamProcess, observed: TimeCell, wait_ms: int, emit_closed: EmitClosed
) -> StreamProcess:
    """Return ``process`` followed by the final results of the windows that the record closed."""

    def process_and_emit(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        process(key, value, timestamp, headers)
        if key is not None:
            emit_closed(observed.time - wait_ms, headers)

    return process_and_emit


def close_when_idle(
    task: TaskContext,
    node: FoldNode,
    observed: TimeCell,
    wait_ms: int,
    emission: Emission | None = None,
) -> None:
    """Let the windows of an aggregation close on idle inputs, if they have the option.

    Windows close when stream time has passed their end by ``wait_ms``. Without an ``emission``
    nothing is emitted; later records are late. With one, the task can count open windows.
    """
    name = clock_name(node.store.name, node.group_number, node.emit)
    idle_ms = node.close_on_idle_ms
    if emission is None:
        advance_when_idle(task, name, observed, idle_ms)
        return
    _, emit_at_once, last_closed, closed_at, interval_ms = emission

    def close_times() -> Iterator[int]:
        return (ms + wait_ms for ms in closed_at())

    def last_due(limit: int) -> int | None:
        closed = last_closed(limit - wait_ms)
        return None if closed is None else closed + wait_ms

    waiting = Waiting(close_times, last_due, lambda time: emit_at_once(time - wait_ms, None))
    advance_when_idle(
        task, name, observed, idle_ms, waiting, node=node.name, look_interval_ms=interval_ms
    )
