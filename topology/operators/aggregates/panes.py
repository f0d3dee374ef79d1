"""Panes: the results of a window, some of them before its end, numbered and marked.

Semantics:

- input: the updates of a table whose keys are windows. A row has one pane when stream time reaches
  the end of its window (``on_time``), before that panes by the trigger (``early``), and after that
  one for each update (``late``).
- time is the operator's own stream time, the largest timestamp that reached it. An update that
  advances it first sends what that makes due, of all keys, by time and key bytes. So a pane that is
  due has no record of its own time or later.
- ``every_ms``: an early pane is due so long after the stream time of the first update since the
  pane before. ``every_records``: with the update of that number. Without an update since the pane
  before there is no early pane; the pane on time is sent in any case.
- the first update of a window may come after its end, within the grace: then its panes are late,
  and none is on time.
- ``close_on_idle`` of the windows: stream time advances while the inputs are idle, as far as a pane
  is due, and with it that of the aggregation above, which drops what comes too late for the row.
- a row that is deleted sends a pane without a value if one with a value was sent, else nothing.
- timestamp: that of the row. Headers: those of the record that caused the pane.
- null keys and late records do not get here: the aggregation above drops them.

How it works: ``store`` has a row per window until the aggregation above accepts no record for it
any more: the value, the value of the last pane, and the numbers. ``timers`` has one timer for each
row: the next early pane, the end of the window, or the time when the row is deleted.

Invariants: stream time is never ahead of that of the aggregation above, so no update comes after
its row was deleted, and numbers do not begin again. When what is due was sent, the rows of windows
that end until then are past, and no others: their timers delete rows, and nothing waits for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any, NamedTuple

from logstate.contracts.changelog_keys import MAX_TIME_MS
from logstate.contracts.pane import Pane
from logstate.contracts.processing import TableProcess, TaskContext, TimeCell
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Children, Forward, ProcessorNode, late_edge
from logstate.topology.operators.aggregates.count_window import Timers
from logstate.topology.operators.streams.idle_clock import (
    Waiting,
    advance_when_idle,
    close_windows,
    observed_cell,
)

_HEAD = struct.Struct(">qqq?ii")
_NEVER = MAX_TIME_MS + 1
_NOT_SEARCHED = -2


class PaneRow(NamedTuple):
    """What ``store`` has of a window and key."""

    #: panes that were sent, and updates since the last one
    number: int
    updates: int
    #: when its timer is due
    due_ms: int
    #: stream time has reached the end of the window
    is_past: bool
    value: Any
    #: of the last pane
    sent: Any

    def has_news(self) -> bool:
        """Whether a pane would say something: a value, or that there is none any more."""
        return self.value is not None or self.sent is not None


class PaneRowSerde(Serde[PaneRow]):
    """The numbers, and the lengths of both values, or -1, before them."""

    def __init__(self, inner: Serde[Any]) -> None:
        self.inner = inner
        self.immutable = inner.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[PaneRow]:
        inner = self.inner.serializer(topic, is_key)

        def serialize(row: PaneRow) -> bytes:
            parts = [None if one is None else inner(one) for one in row[4:]]
            lengths = (-1 if one is None else len(one) for one in parts)
            return b"".join((_HEAD.pack(*row[:4], *lengths), *filter(None, parts)))

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[PaneRow]:
        inner = self.inner.deserializer(topic, is_key)

        def deserialize(data: bytes) -> PaneRow:
            number, updates, due_ms, is_past, length, sent_length = _HEAD.unpack_from(data)
            middle = _HEAD.size + max(0, length)
            value = None if length < 0 else inner(data[_HEAD.size : middle])
            sent = None if sent_length < 0 else inner(data[middle : middle + sent_length])
            return PaneRow(number, updates, due_ms, is_past, value, sent)

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {"format": "pane", "schema": None, "inner": self.inner.describe()}


class PanesNode(ProcessorNode):
    """``end_delay_ms`` after the end of its key a window ends, and ``kept_ms`` after that its row
    is deleted.
    """

    store: StoreSpec
    timers: StoreSpec
    every_ms: int | None
    every_records: int | None
    end_delay_ms: int
    kept_ms: int
    #: the aggregation above, and the name of its clock
    windowed: ProcessorNode
    window_clock: str

    @property
    def own_idle_ms(self) -> int | None:
        return self.windowed.close_on_idle_ms

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store, self.timers)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> TableProcess:
        observed = observed_cell(task, self.store.name)
        panes = _Panes(task, self, forward, observed)
        earliest, run_due, update = panes.timers.earliest, panes.run_due, panes.update
        self._compile_idle_clock(task, panes, observed)

        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if timestamp > observed.time:
                observed.time = timestamp
            now = observed.time
            if now >= earliest.time:
                run_due(now, headers)
            update(key, new, timestamp, headers, now)

        return process

    def _compile_idle_clock(self, task: TaskContext, panes: _Panes, observed: TimeCell) -> None:
        """Show the windows that wait for panes, and send these while the inputs are idle.

        The latter if the windows have the option; then the tick is one of the aggregation, too.
        """

        def emit_due(time: int) -> None:
            panes.run_due(time, None)
            close_windows(task, (self.window_clock,), time)

        waiting = Waiting(panes.times, panes.last_due, emit_due)
        idle_ms = self.close_on_idle_ms
        advance_when_idle(task, self.store.name, observed, idle_ms, waiting, node=self.name)


class _Panes:
    """The rows of one task, each with its timer, and what is sent of them."""

    def __init__(
        self, task: TaskContext, node: PanesNode, forward: Forward, observed: TimeCell
    ) -> None:
        self._task, self._node, self._observed = task, node, observed
        #: the time of the first pane that is due, as of a stream time
        self._first_due, self._searched_at = _NEVER, _NOT_SEARCHED
        self._store, self._timers = task.store(node.store.name), task.store(node.timers.name)
        self._read: Callable[[Any], Any] = getattr(self._store, "get_row", self._store.get)
        self.timers = Timers(task, node.timers)
        self._emit = _emitting(forward)
        self._emit_due = _emitting(late_edge(task, f"panes of {node.store.name}", forward))

    def run_due(self, now: int, headers: Headers) -> None:
        """Send what is due, and delete the rows of windows that have closed."""
        task, timers = self._task, self.timers
        self._searched_at = _NOT_SEARCHED
        task.timestamp, task.headers = now, headers
        while now >= timers.earliest.time:  # a timer may set one that is due, too
            for key in timers.due(now):
                self._run(key, now, headers)
                task.timestamp, task.headers = now, headers

    def times(self) -> Iterator[int]:
        """Yield the times at which panes are due, in order."""
        if self._first() != _NEVER:
            yield from self._times()

    def last_due(self, limit: int) -> int | None:
        """Return the last time up to ``limit`` at which a pane is due."""
        if self._first() > limit:
            return None
        return max(takewhile(lambda at_ms: at_ms <= limit, self._times()), default=None)

    def _first(self) -> int:
        now = self._observed.time
        if self._searched_at != now:  # rows that are past are many, and all of them are read
            self._first_due, self._searched_at = next(self._times(), _NEVER), now
        return self._first_due

    def _times(self) -> Iterator[int]:
        now, rows = self._observed.time, self._timers.range()
        return (timer[0] for timer, _ in rows if self._end_of(timer[1]) > now)

    def _run(self, key: Windowed[Any], now: int, headers: Headers) -> None:
        row, timestamp, _ = self._read(key)
        if row.is_past:
            self._store.put(key, None)
            return
        end_ms = self._end_of(key)
        if row.due_ms < end_ms:
            row = row._replace(due_ms=end_ms)
            if row.updates and row.has_news():
                row = self._emit_due(key, row, "early", timestamp, headers)
        else:
            row = row._replace(is_past=True, due_ms=self._last_of(key))
            if row.has_news():
                row = self._emit_due(key, row, "on_time", timestamp, headers)
        self._task.timestamp, self._task.headers = now, headers
        self.timers.set(row.due_ms, key)
        self._store.put(key, (row, timestamp, None))

    def update(
        self, key: Windowed[Any], new: Any, timestamp: int, headers: Headers, now: int
    ) -> None:
        """Note an update, and send the pane that it makes due."""
        task, node = self._task, self._node
        self._searched_at = _NOT_SEARCHED
        task.timestamp, task.headers = timestamp, headers
        found = self._read(key)
        if found is None and new is None:
            return
        row = self._begin(key, now) if found is None else found[0]
        row = row._replace(value=new, updates=row.updates + 1)
        if not row.has_news() and not row.number:  # nothing was sent of it
            self._store.put(key, None)
            self._timers.put((row.due_ms, key), None)
            return
        if row.is_past or new is None or row.updates == node.every_records:
            if row.has_news():
                timing = "late" if row.is_past else "early"
                row = self._emit(key, row, timing, timestamp, headers)
        elif node.every_ms is not None and row.updates == 1 and now + node.every_ms < row.due_ms:
            self._timers.put((row.due_ms, key), None)
            row = row._replace(due_ms=now + node.every_ms)
            self.timers.set(row.due_ms, key)
        task.timestamp, task.headers = timestamp, headers
        self._store.put(key, (row, timestamp, None))

    def _begin(self, key: Windowed[Any], now: int) -> PaneRow:
        """Set the timer of a window that has none, and return its row."""
        is_past = now >= self._end_of(key)
        due_ms = self._last_of(key) if is_past else self._end_of(key)
        self.timers.set(due_ms, key)
        return PaneRow(0, 0, due_ms, is_past, None, None)

    def _end_of(self, key: Windowed[Any]) -> int:
        """Return the stream time that ends a window."""
        return min(key.end_ms + self._node.end_delay_ms, MAX_TIME_MS)

    def _last_of(self, key: Windowed[Any]) -> int:
        """Return the stream time from which on no update of a window comes."""
        return min(self._end_of(key) + self._node.kept_ms, MAX_TIME_MS)


def _emitting(forward: Forward) -> Callable[..., PaneRow]:
    """Return a function that sends the pane of a row, and returns the row after it."""

    def emit(key: Any, row: PaneRow, timing: Any, timestamp: int, headers: Headers) -> PaneRow:
        forward(key, Pane(row.value, row.sent, timing, row.number), timestamp, headers)
        return row._replace(number=row.number + 1, updates=0, sent=row.value)

    return emit
