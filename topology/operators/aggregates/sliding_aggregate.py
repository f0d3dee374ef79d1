"""Aggregation per key and sliding window (KIP-450): one window per distinct set of records.

A window is [start, start + difference], both ends inclusive. Every record at t has a LEFT window
that ends at t and, if later records are within reach, a RIGHT window that starts at t + 1; no other
windows can differ in content. A window's aggregate therefore comes into being by copying: the left
window of a new record starts from the aggregate of the window before it, its right window from the
window that already holds the later records.

Semantics, exactly Kafka Streams' (`KStreamSlidingWindowAggregate`):

- null key or null value: dropped, counted (the other windows drop null keys only).
- late: a window is closed once the operator's stream time exceeds its end by more than the grace; a
  record is dropped and counted once per closed window, or once if all its windows are closed. With
  ``late`` it is emitted instead, as often, in the second case with its left window.
- early records, before ``difference``: their windows would start before 0, so all share [0,
  difference].
- result: key ``Windowed(key, start, end)``, end inclusive; timestamp = largest of the window's
  records; None deletes the row and is forwarded as a tombstone.
- old values: a new left window sends the aggregate it was copied from as its old value, a new right
  window none; a record exactly difference + 1 after the one before it updates its left window
  twice. So a downstream `group_by` does not add up; with ``emit="commit"``, and of a table of exact
  changes, it does.
- order of updates for one record: existing windows from the latest start down, then the previous
  record's right window, the own left window, the own right window. (Kafka Streams calls this order
  an implementation detail; early records have another one, shown in `_SlidingUpdate.early`.)
- the store is read back 2 * difference; with less retention windows split unnoticed.
- ``emit="close"``: as for other time windows; an early record does not look for closed windows.

Cost: one range read per record and up to three writes plus one per window that contains it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from logstate.contracts.drops import DropReason, null_dropper
from logstate.contracts.processing import StreamProcess, TableProcess, TaskContext
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import ValueAndTimestamp
from logstate.topology.declaring.windows import SlidingWindows
from logstate.topology.graph.nodes import Children, Forward, ValueGetter
from logstate.topology.operators.aggregates.emit_on_close import (
    CloseClock,
    Emission,
    close_when_idle,
    emission_of,
    stream_time_of,
)
from logstate.topology.operators.aggregates.fold import FoldNode, deletion_note
from logstate.topology.operators.aggregates.initial_values import new_values
from logstate.topology.operators.aggregates.window_aggregate import (
    closed_windows,
    windowed_row_getter,
)
from logstate.topology.operators.streams.late_records import EmitLate, late_output


class SlidingAggregateNode(FoldNode):
    """One row per key and sliding window. ``initializer()``, ``aggregator(key, value, agg)``."""

    windows: SlidingWindows
    emit_interval_ms: int | None = 0

    @property
    def waits_for_stream_time(self) -> bool:
        return True

    @property
    def own_idle_ms(self) -> int | None:
        return self.windows.close_on_idle_ms

    def row_getter(self, task: TaskContext) -> ValueGetter:
        return windowed_row_getter(task, self.store)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> StreamProcess:
        emission = emit_closed = None
        publish: TableProcess | None = None
        if self.emit == "close":
            emission = self._compile_emission(task, forward)
            emit_closed = emission.after_record
        else:
            publish = self.commit_buffered(task, forward)
        emit_late = late_output(self, children, DropReason.LATE)
        update = _SlidingUpdate(task, self, publish, emit_late)
        observed = stream_time_of(task, self.store.name, self.group_number, self.emit)
        difference, grace = self.windows.difference_ms, self.windows.grace_ms
        close_when_idle(task, self, observed, grace, emission)
        drop = null_dropper(task.dropper, self.name)
        drop_late = task.dropper(self.name, DropReason.LATE)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(key)
                return
            if timestamp > observed.time:
                observed.time = timestamp
            close_time = observed.time - grace
            if timestamp + difference < close_time:
                end = max(timestamp, difference)
                if emit_late is None:
                    drop_late(close_time - end)
                else:
                    missed = Windowed(key, end - difference, end)
                    emit_late(key, value, timestamp, headers, missed, close_time - end)
                return
            record = _Record(key, value, timestamp, headers, close_time)
            if timestamp < difference:
                update.early(record)
                return
            update.regular(record)
            if emit_closed is not None:
                emit_closed(close_time, headers)

        return process

    def _compile_emission(self, task: TaskContext, forward: TableProcess) -> Emission:
        size, name = self.windows.difference_ms, self.store.name
        clock = CloseClock(task, name, self.emit_interval_ms, size_ms=size)
        return emission_of(task, self.store, clock, closed_windows(task, self.store), forward)


class _Record(NamedTuple):
    """The current record and the close time when it arrived."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers
    close_time: int


class _BaseAggregate(NamedTuple):
    """The base of a window's next aggregate; ``old`` is sent downstream as the old value."""

    aggregate: Any
    old: Any
    timestamp: int
    #: of the row that the window has so far; None: it does not have one
    time_before: int | None = None


class _SlidingUpdate:
    """The updates of one record to the windows of its key."""

    def __init__(
        self,
        task: TaskContext,
        node: SlidingAggregateNode,
        publish: TableProcess | None,
        emit_late: EmitLate | None,
    ) -> None:
        store = task.store(node.store.name)
        self._task = task
        self._fetch = store.fetch
        self._fetch_range = store.fetch_range
        self._put = store.put
        self._publish = publish
        self._rows_before = node.rows_before(task)
        self._drop_late = task.dropper(node.name, DropReason.LATE)
        self._emit_late = emit_late
        self._initializer = new_values(node.initializer, node.store)
        self._aggregator = node.aggregator
        self._note_deletion = deletion_note(node, task)
        self._difference = node.windows.difference_ms
        self._sends_old = node.sends_old_values
        # With emit="commit", and of exact changes, the old value is the last emitted one: None for
        # a new window.
        self._is_held = node.emit == "commit"
        self._is_exact = self._is_held or node.sends_exact_changes
        # Aggregates that can be changed in place must not be shared between windows, nor between
        # a row's old and new value.
        self._is_immutable = node.store.value.immutable

    def regular(self, record: _Record) -> None:
        """A record whose windows all start at 0 or later."""
        key, _, at, _, _ = record
        difference = self._difference
        starts: set[int] = set()
        left: _BaseAggregate | None = None  # base of the record's left window
        right: ValueAndTimestamp[Any] | None = None  # row to copy for its right window
        has_left = has_right = False
        previous: int | None = None  # time of the record before this one
        for start, row in self._fetch_range(key, max(0, at - 2 * difference), at + 1, reverse=True):
            starts.add(start)
            end = start + difference
            if start == at + 1:
                has_right = True
            elif end > at:
                if right is None:
                    right = self._private_copy(key, start, row)
                self._update(record, start, self._base_of(key, start, row))
            elif end == at:
                has_left = True
                self._update(record, start, self._base_of(key, start, row))
                if row.timestamp >= at:
                    return  # a record of the same time was here before: all windows exist
                previous = row.timestamp
            else:
                left = self._base_of(key, start, row)
                previous = row.timestamp
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + difference >= at:
            self._update(record, previous + 1, self._initial(at))
        if not has_left:
            if left is None or left.timestamp < at - difference:
                left = self._initial(at)
            elif self._is_exact:
                left = left._replace(old=None, time_before=None)
            if self._is_exact and previous is not None and previous + 1 == at - difference:
                # The window was updated just now, as the right window of the record before.
                written = self._fetch(key, at - difference)
                left = left._replace(old=None if written is None else written.value)
            self._update(record, at - difference, left)
        if not has_right and right is not None and right.timestamp > at:
            self._put_right(record, right)

    def early(self, record: _Record) -> None:
        """A record before ``difference``: [0, difference] stands for all windows from before 0."""
        key, _, at, _, _ = record
        starts: set[int] = set()
        combined: _BaseAggregate | None = None
        right: ValueAndTimestamp[Any] | None = None
        shared: ValueAndTimestamp[Any] | None = None
        has_right = False
        previous: int | None = None
        for start, row in self._fetch_range(key, 0, at + 1):
            starts.add(start)
            if start == 0:
                combined = self._base_of(key, start, row)
                if row.timestamp < at:
                    previous = row.timestamp
                elif row.timestamp > at:
                    shared = self._private_copy(key, start, row)
            elif start <= at:
                right = self._private_copy(key, start, row)
                self._update(record, start, self._base_of(key, start, row))
            else:
                has_right = True
        if right is None:
            # No window starts between 0 and the record: all that is in the combined window is
            # later than the record, or all is earlier.
            right = shared
        if not has_right and right is not None and right.timestamp > at:
            self._put_right(record, right)
        if previous is not None and previous + 1 not in starts:
            self._update(record, previous + 1, self._initial(at))
        self._update(record, 0, self._initial(at) if combined is None else combined)

    def _update(self, record: _Record, start: int, base: _BaseAggregate) -> None:
        """Add the record to one window, unless that is closed."""
        key, value, timestamp, headers, close_time = record
        end = start + self._difference
        if end < close_time:
            if self._emit_late is None:
                self._drop_late(close_time - end)
            else:
                missed = Windowed(key, start, end)
                self._emit_late(key, value, timestamp, headers, missed, close_time - end)
            return
        latest = base.timestamp if base.timestamp > timestamp else timestamp
        aggregate = self._aggregator(key, value, base.aggregate)
        if aggregate is None:
            self._note_deletion()
            self._task.timestamp, self._task.headers = timestamp, headers
            self._put(key, None, start)
            if self._is_held:
                latest = timestamp
        else:
            self._put(key, ValueAndTimestamp(aggregate, latest), start)
        if self._publish is not None:
            windowed = Windowed(key, start, end)
            if self._rows_before is not None:
                self._rows_before.time_before = base.time_before
            self._publish(windowed, aggregate, base.old, latest, headers, True)

    def _put_right(self, record: _Record, row: ValueAndTimestamp[Any]) -> None:
        """Put the record's own right window, which contains only later records."""
        start = record.timestamp + 1
        self._put(record.key, ValueAndTimestamp(row.value, row.timestamp), start)
        if self._publish is not None:
            windowed = Windowed(record.key, start, start + self._difference)
            if self._rows_before is not None:
                self._rows_before.time_before = None
            self._publish(windowed, row.value, None, row.timestamp, record.headers, True)

    def _base_of(self, key: Any, start: int, row: ValueAndTimestamp[Any]) -> _BaseAggregate:
        old = self._private_copy(key, start, row).value if self._sends_old else None
        if self._is_held and not self._sends_old:
            old = row.value
        return _BaseAggregate(row.value, old, row.timestamp, row.timestamp)

    def _initial(self, timestamp: int) -> _BaseAggregate:
        aggregate = self._initializer()
        if self._is_exact or not self._sends_old:
            return _BaseAggregate(aggregate, None, timestamp)
        return _BaseAggregate(
            aggregate, aggregate if self._is_immutable else self._initializer(), timestamp
        )

    def _private_copy(
        self, key: Any, start: int, row: ValueAndTimestamp[Any]
    ) -> ValueAndTimestamp[Any]:
        """Return the row, or a decoded copy that an aggregator cannot change."""
        if self._is_immutable:
            return row
        copy: ValueAndTimestamp[Any] = self._fetch(key, start)
        return copy
