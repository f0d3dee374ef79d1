"""Joins in which each left record meets at most one record of the other stream, the first or the
last one of an interval around it.

A left record at t waits until its interval [t - before, t + after] is closed: until the stream time
of the RIGHT side has passed t + after + grace. Then it is joined with one of the right records of
its key whose timestamps are in the interval, both ends included: the one with the smallest
timestamp for "first", the largest for "last"; of several with one timestamp the one that arrived
first or last. So the order in which the two sides are read relative to each other changes no
result, as long as no record is late.

- stream time is that of the right side alone: the largest timestamp of the right records, with null
  keys, null values and heartbeats among them. Left records do not advance it: a left record says
  nothing about the right records that are still to come.
- heartbeats: a right record with a null value, or one that the predicate names, advances stream
  time and is nothing else. It is not counted as dropped.
- null values and, in an inner join, null keys of the left side are dropped and counted; in a left
  join a null key is forwarded at once, without a partner. Null keys of the right side are dropped
  and counted, after they have advanced stream time.
- late: a right record that is older than stream time - grace may belong to an interval that is
  closed. A left record is late if its interval is closed when it arrives. Both are counted
  (``late_join_records_total``) and processed: the right one is kept for intervals that are still
  open, the left one is joined at once with what is still stored. With ``late`` they are emitted as
  late records instead, neither joined nor kept; then the results are those of a join of all records
  that are not late.
- idle inputs: no result comes while the right side has no record, except with ``close_on_idle``: on
  idle inputs stream time advances from the newest record of EITHER side, and right records that
  come after it are late by the usual rule.
- results leave by the left timestamp, then key bytes, then arrival, before the record that closed
  their intervals is kept. They have the larger timestamp of the pair, the headers of the left
  record, and the place it came from.

Invariants: the right store returns every record of every open interval, because it is written
after the intervals were closed, and keeps records for before + after + grace + 1 ms by a clock that
is never ahead of stream time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from logstate.contracts.drops import DropReason, null_dropper
from logstate.contracts.open_rows import open_rows
from logstate.contracts.processing import StreamProcess, TaskContext, TimeCell
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, late_edge
from logstate.topology.operators.streams.idle_clock import (
    CloseTimes,
    FollowingIdleClock,
    Waiting,
    observed_cell,
)
from logstate.topology.operators.streams.late_records import late_output


class IntervalSideNode(ProcessorNode):
    """What both sides have. ``joiner(key, left, right)``; ``clock`` is the name of the join."""

    clock: str
    windows: JoinWindows
    joiner: Callable[[Any, Any, Any], Any]
    takes_last: bool
    is_left: bool
    #: in which left records wait
    buffer: StoreSpec
    #: the right records
    rows: StoreSpec

    def retains_records(self) -> bool:
        return True

    def store_names(self) -> tuple[str, ...]:
        return (self.buffer.name, self.rows.name)

    def _stream_time(self, task: TaskContext) -> TimeCell:
        return observed_cell(task, self.clock)

    @property
    def _wait_ms(self) -> int:
        """How long after its timestamp the interval of a left record closes."""
        wait_ms: int = self.windows.after_ms + self.windows.grace_ms + 1
        return wait_ms

    def _close_times(self, task: TaskContext) -> CloseTimes:
        times, wait_ms = task.store(self.buffer.name).times, self._wait_ms

        def close_times() -> Iterator[int]:
            return (timestamp + wait_ms for timestamp in times())

        return close_times

    def _compile_join(self, task: TaskContext, forward: Forward) -> StreamProcess:
        fetch = task.store(self.rows.name).fetch_range
        before, after = self.windows.before_ms, self.windows.after_ms
        joiner, takes_last, is_left = self.joiner, self.takes_last, self.is_left

        def join(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            task.timestamp, task.headers = timestamp, headers
            found = fetch(key, timestamp - before, timestamp + after, reverse=takes_last)
            for partner_time, partner in found:
                joined = joiner(key, value, partner)
                forward(key, joined, max(timestamp, partner_time), headers)
                return
            if is_left:
                forward(key, joiner(key, value, None), timestamp, headers)

        return join


class IntervalLeftNode(IntervalSideNode):
    """Lets left records wait until their intervals are closed."""

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.buffer,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        wait = task.store(self.buffer.name).put
        join = self._compile_join(task, forward)
        observed, joiner, is_left = self._stream_time(task), self.joiner, self.is_left
        before, after = self.windows.before_ms, self.windows.after_ms
        open_ms = self._wait_ms - 1
        task.join_late(self.rows.name, 0)
        note_late = partial(task.join_late, self.rows.name)
        drop = null_dropper(task.dropper, self.name)
        emit_late = late_output(self, children, DropReason.LATE)
        close_times = self._close_times(task)
        task.show_open(self.name, lambda: open_rows(close_times(), observed.time))

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None or (key is None and not is_left):
                drop(key)
                return
            if key is None:
                forward(key, joiner(key, value, None), timestamp, headers)
                return
            late_ms = observed.time - timestamp - open_ms
            if late_ms <= 0:
                wait(key, value, timestamp, headers)
                return
            note_late()
            if emit_late is None:
                join(key, value, timestamp, headers)
                return
            missed = Windowed(key, max(0, timestamp - before), max(0, timestamp + after))
            emit_late(key, value, timestamp, headers, missed, late_ms)

        return process


class IntervalRightNode(IntervalSideNode):
    """Keeps right records, and joins the left records whose intervals they close."""

    #: heartbeat(key, value): whether a record only advances stream time
    heartbeat: Callable[[Any, Any], object] | None

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.rows,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        put = task.store(self.rows.name).put
        observed, close = self._stream_time(task), self._compile_closing(task, forward)
        is_heartbeat, grace = self.heartbeat, self.windows.grace_ms
        before, after = self.windows.before_ms, self.windows.after_ms
        self._compile_idle_clock(task, close)
        task.join_late(self.buffer.name, 0)
        note_late = partial(task.join_late, self.buffer.name)
        drop = null_dropper(task.dropper, self.name)
        emit_late = late_output(self, children, DropReason.LATE)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if timestamp > observed.time:
                observed.time = timestamp
                close()
            if value is None or (is_heartbeat is not None and is_heartbeat(key, value)):
                return
            if key is None:
                drop(key)
                return
            late_ms = observed.time - timestamp - grace
            if late_ms > 0:
                note_late()
                if emit_late is not None:
                    missed = Windowed(key, max(0, timestamp - after), max(0, timestamp + before))
                    emit_late(key, value, timestamp, headers, missed, late_ms)
                    return
            # The store logs with these, and operators below may have changed them.
            task.timestamp, task.headers = timestamp, headers
            put(key, value, timestamp)

        return process

    @property
    def waits_for_stream_time(self) -> bool:
        return True

    @property
    def own_idle_ms(self) -> int | None:
        return self.windows.close_on_idle_ms

    def _compile_idle_clock(self, task: TaskContext, close: Callable[[], None]) -> None:
        """Let intervals close while the inputs are idle, if the option is set."""
        idle_ms = self.close_on_idle_ms
        if idle_ms is None:
            return
        buffer, observed = task.store(self.buffer.name), self._stream_time(task)
        wait_ms = self._wait_ms

        def newest() -> int:
            time: int = max(observed.time, buffer.observed.time)
            return time

        def last_due(limit: int) -> int | None:
            found: int | None = buffer.last_due(limit, wait_ms)
            return found

        def emit(time: int) -> None:
            observed.time = max(observed.time, time)
            close()

        name, waiting = f"{self.clock}:sides", Waiting(self._close_times(task), last_due, emit)
        task.when_idle(name, FollowingIdleClock(task, name, idle_ms, newest, waiting))

    def _compile_closing(self, task: TaskContext, forward: Forward) -> Callable[[], None]:
        """Return a function that joins and removes the left records with closed intervals."""
        buffer, observed = task.store(self.buffer.name), self._stream_time(task)
        join = late_edge(task, self.buffer.name, self._compile_join(task, forward))
        wait_ms = self._wait_ms

        def close() -> None:
            buffer.forward_expired(join, observed.time - wait_ms)

        return close
