"""One side of a stream-stream join: inner, left or outer, within a window.

A left record at t and a right record match if the right one's timestamp is in [t - before,
t + after], both ends included. Either side triggers: it looks for partners in the OTHER side's
window store, then (see `stream_join_window`) enters its own.

Semantics, exactly Kafka Streams' (`KStreamKStreamJoin`, KIP-633, KIP-962):

- null value: dropped and counted. Null key: likewise, but a side whose unmatched rows are results
  forwards it at once, without a partner: it can never have one.
- if the end of the window is before time 0, it is 0: with a negative ``before`` or ``after``, the
  first records find partners at 0 that their window does not contain.
- result: the joined value with the larger timestamp of the pair and the headers of the record that
  triggered it; partners in order of their timestamps, then of their arrival.
- late: there is no check. A record joins all rows that the other store still returns: those with
  timestamps above its clock - (before + after + grace). With all three 0 it never returns any.
- so a record of a side that lags may miss partners. If the other store's clock has passed its
  window and grace, it is counted (``late_join_records_total``; Kafka Streams has no such metric)
  and processed like any other record.
- unmatched rows wait in the shared store until stream time, that of both sides together, has PASSED
  their window and the grace; they leave by timestamp, right before left, then key, with their own
  timestamp. They leave only when a record arrives that is as new as stream time: an idle topic
  flushes nothing, except with ``close_on_idle``. A match takes all waiting rows of that key, side
  and timestamp with it.
- an out-of-order record without partner whose window is over for stream time is forwarded without
  waiting, although the grace is not over (which costs a correction: its partner may still arrive
  and join, after the unmatched result was sent). In Kafka Streams waiting would not help: only
  records at stream time search for expired rows.
- searches for expired rows are at least ``emit_interval_ms`` of wall-clock time apart, and skipped
  while the LAST row that the previous search visited, or an earlier one that was added since, has
  to keep waiting. So rows may leave later than they could: the newest of a left join's waiting rows
  decides, not the oldest. Kafka Streams does this to search rarely.

Invariants: the clocks are cells of the task, shared by both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import starmap, takewhile
from typing import Any, NamedTuple, TypeAlias

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import StreamProcess, TaskContext, TimeCell
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, late_edge
from logstate.topology.operators.streams.idle_clock import Waiting, advance_when_idle

#: emits the unmatched rows whose time is over: (timestamp and headers of the triggering record)
EmitUnmatched: TypeAlias = Callable[[int, Headers], None]

_NONE_WAITS = -1
_BOTH_SIDES = 2


class StreamJoinNode(ProcessorNode):
    """One of the two sides. ``joiner(key, left, right)`` on both."""

    is_left_side: bool
    own_window_store: str
    other_window_store: str
    outer_store: StoreSpec | None
    windows: JoinWindows
    joiner: Callable[[Any, Any, Any], Any]
    emits_unmatched: bool
    other_emits_unmatched: bool
    clock: str
    emit_interval_ms: int | None

    def retains_records(self) -> bool:
        return True

    @property
    def waits_for_stream_time(self) -> bool:
        # The clock belongs to both sides; one of them has the option.
        return self.outer_store is not None and self.is_left_side

    @property
    def own_idle_ms(self) -> int | None:
        return self.windows.close_on_idle_ms if self.waits_for_stream_time else None

    @property
    def before_ms(self) -> int:
        """How far back this side's records search for partners."""
        return self.windows.before_ms if self.is_left_side else self.windows.after_ms

    @property
    def after_ms(self) -> int:
        """How far ahead this side's records search for partners."""
        return self.windows.after_ms if self.is_left_side else self.windows.before_ms

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return () if self.outer_store is None else (self.outer_store,)

    def store_names(self) -> tuple[str, ...]:
        # The window store first: if hashes collide, descriptions show the order of connecting.
        return (self.other_window_store, *super().store_names())

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        if self.outer_store is None:
            return self._compile_inner(task, forward)
        return self._compile_outer(task, forward, self.outer_store)

    def _join(self) -> Callable[[Any, Any, Any], Any]:
        """Return the joiner with this side's value first."""
        joiner = self.joiner
        return joiner if self.is_left_side else lambda key, this, other: joiner(key, other, this)

    def _compile_inner(self, task: TaskContext, forward: StreamProcess) -> StreamProcess:
        partners = partners_in(task, self.other_window_store, back_ms=self.before_ms)
        fetch, others, reach, note_late = partners
        join, own_store = self._join(), task.store(self.own_window_store)
        copied = own_store.copied
        before, after = self.before_ms, self.after_ms
        drop = null_dropper(task.dropper, self.name)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(key)
                return
            if timestamp + reach < others.time:
                note_late()
            first, last = max(0, timestamp - before), max(0, timestamp + after)
            # A joiner may change its arguments: each call gets a separate object.
            data, is_first = own_store.encoded_last, True
            for partner_time, partner in fetch(key, first, last):
                if not is_first and copied is not None:
                    value = copied(data)
                is_first = False
                joined = join(key, value, partner)
                forward(key, joined, max(timestamp, partner_time), headers)

        return process

    def _compile_outer(
        self, task: TaskContext, forward: StreamProcess, outer_store: StoreSpec
    ) -> StreamProcess:
        partners = partners_in(task, self.other_window_store, back_ms=self.before_ms)
        fetch, others, reach, note_late = partners
        waiting = task.store(outer_store.name)
        wait, take_out = waiting.add, waiting.take_out
        observed = task.time_cell(self.clock)
        watched = task.time_cell(f"{self.clock}-watched")
        emit_expired = self._compile_emission(task, forward, outer_store)
        if self.is_left_side:
            self._compile_idle_clock(task, forward, outer_store, observed)
        join, own_store = self._join(), task.store(self.own_window_store)
        copied = own_store.copied
        before, after = self.before_ms, self.after_ms
        is_left = self.is_left_side
        emits_unmatched, other_waits = self.emits_unmatched, self.other_emits_unmatched
        drop = null_dropper(task.dropper, self.name)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if timestamp > observed.time:
                observed.time = timestamp
            if value is None or (key is None and not emits_unmatched):
                drop(key)
                return
            if key is None:
                forward(key, join(key, value, None), timestamp, headers)
                return
            if timestamp == observed.time:
                emit_expired(timestamp, headers)
            if timestamp + reach < others.time:
                note_late()
            last = max(0, timestamp + after)
            data, is_unmatched = own_store.encoded_last, True
            for partner_time, partner in fetch(key, max(0, timestamp - before), last):
                if not is_unmatched and copied is not None:
                    value = copied(data)  # a joiner may have changed the one before
                is_unmatched = False
                if other_waits:
                    # The store logs a deletion with these.
                    task.timestamp, task.headers = timestamp, headers
                    take_out(partner_time, not is_left, key)
                joined = join(key, value, partner)
                forward(key, joined, max(timestamp, partner_time), headers)
            if not (is_unmatched and emits_unmatched):
                return
            if last < observed.time:
                forward(key, join(key, value, None), timestamp, headers)
                return
            if watched.time == _NONE_WAITS or timestamp < watched.time:
                watched.time = timestamp
            task.timestamp, task.headers = timestamp, headers
            wait(timestamp, is_left, key, value)

        return process

    def _compile_emission(
        self, task: TaskContext, forward: StreamProcess, outer_store: StoreSpec
    ) -> EmitUnmatched:
        """Return a function that forwards and removes the rows that stream time has passed."""
        waiting = task.store(outer_store.name)
        observed = task.time_cell(self.clock)
        watched = task.time_cell(f"{self.clock}-watched")
        next_look = task.time_cell(f"{self.clock}-next-look")
        left_wait, right_wait = self._waits()
        own_wait = self.after_ms + self.windows.grace_ms
        interval = task.emit_intervals.of_outer_joins(self.emit_interval_ms)
        forward_unmatched = self._unmatched(task, forward, outer_store)

        def emit_expired(timestamp: int, headers: Headers) -> None:
            time = observed.time
            # An empty store is searched, too, and that counts for the interval: in Kafka Streams
            # the sum overflows there.
            if own_wait == 0 if watched.time == _NONE_WAITS else watched.time + own_wait >= time:
                return
            now = task.wall_clock_ms()
            # Farther ahead than one interval: the wall clock went back, or another instance's was
            # ahead. Waiting for it to catch up would delay results for that long.
            if now < next_look.time <= now + interval:
                return
            next_look.time = now + interval
            watched.time = _NONE_WAITS
            open_sides: set[bool] = set()
            for row_time, is_left, key, values in waiting.rows():
                watched.time = row_time
                if len(open_sides) == _BOTH_SIDES:
                    return
                if row_time + (left_wait if is_left else right_wait) >= time:
                    open_sides.add(is_left)  # all later rows of this side are open, too
                    continue
                for value in values:
                    forward_unmatched(key, value, is_left, row_time, headers)
                task.timestamp, task.headers = timestamp, headers
                waiting.remove(row_time, is_left, key)

        return emit_expired

    def _waits(self) -> tuple[int, int]:
        """Return how long unmatched rows of the left side and of the right side wait, in ms."""
        windows = self.windows
        return windows.after_ms + windows.grace_ms, windows.before_ms + windows.grace_ms

    def _unmatched(
        self, task: TaskContext, forward: StreamProcess, outer_store: StoreSpec
    ) -> Callable[[Any, Any, bool, int, Headers], None]:
        """Return a function that forwards an unmatched value of a side."""
        joiner = self.joiner

        def join_unmatched(
            key: Any, value: Any, is_left: bool, timestamp: int, headers: Headers
        ) -> None:
            left, right = (value, None) if is_left else (None, value)
            forward(key, joiner(key, left, right), timestamp, headers)

        return late_edge(task, outer_store.name, join_unmatched)

    def _compile_idle_clock(
        self,
        task: TaskContext,
        forward: StreamProcess,
        outer_store: StoreSpec,
        observed: TimeCell,
    ) -> None:
        """Show the rows of both sides that wait, and let them leave while the inputs are idle.

        The latter if the option is set.
        """
        buffer = task.store(outer_store.name)
        left_wait, right_wait = self._waits()
        least = min(left_wait, right_wait)
        forward_unmatched = self._unmatched(task, forward, outer_store)

        def closes_at(row_time: int, is_left: bool) -> int:
            return row_time + (left_wait if is_left else right_wait) + 1

        def close_times() -> Iterator[int]:
            return starmap(closes_at, buffer.times())

        def last_due(limit: int) -> int | None:
            early = takewhile(lambda row: row[0] + least < limit, buffer.times())
            return max((due for due in starmap(closes_at, early) if due <= limit), default=None)

        def emit_due(time: int) -> None:
            for row_time, is_left, key, values in buffer.rows():
                if row_time + least >= time:
                    return
                if closes_at(row_time, is_left) > time:
                    continue
                for value in values:
                    forward_unmatched(key, value, is_left, row_time, None)
                task.timestamp, task.headers = time, None
                buffer.remove(row_time, is_left, key)

        idle_ms, waiting = self.close_on_idle_ms, Waiting(close_times, last_due, emit_due)
        advance_when_idle(task, self.clock, observed, idle_ms, waiting, node=self.name)


class Partners(NamedTuple):
    """The other side's store, as operators search it."""

    fetch: Callable[[Any, int, int], Iterator[tuple[int, Any]]]
    #: the store's stream time
    clock: TimeCell
    #: A record misses expired rows if the clock is farther ahead of it than this: beyond the
    #: window's end and the grace. The one partner exactly at the limit, which the store hides a
    #: millisecond early, makes no record late.
    reach_ms: int
    note_late: Callable[[], None]


def partners_in(task: TaskContext, store: str, *, back_ms: int) -> Partners:
    """Return the store for records that search ``back_ms`` back."""
    opened = task.store(store)
    segments = opened.segments
    task.join_late(store, 0)
    reach_ms = segments.retention_ms - back_ms
    return Partners(opened.fetch_range, segments.cell, reach_ms, partial(task.join_late, store))
