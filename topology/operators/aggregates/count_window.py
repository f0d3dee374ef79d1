"""Aggregation per key and so many values: count windows.

Semantics:

- null key: dropped, counted. Null value: dropped, counted, in no window.
- a window starts at every ``step``-th value of a key and has the ``n`` values from there on, in the
  order in which they arrive; event time does not matter for that, so no record is late.
- a result is forwarded once per window, under the key of its values: when the window has ``n``
  values, or when the key has had no value for the timeout. The latter closes all open windows of
  the key, by their starts; the next value of the key is its first one.
- timeout: by the operator's stream time, from the stream time at which the last value of the key
  arrived. A record that advances stream time (one with a null value does, too) first closes what
  that makes due, of all keys, by time and key bytes, and is then counted. With ``close_on_idle``
  stream time advances while the inputs are idle.
- timestamp of a result: the largest of the values in the window. Headers: those of the record that
  closed the window.
- batches: ``closes_after_first``. The timeout is measured from the first value of a window, and
  begins with the first one of each.
- a result of None is not forwarded; the next value of the window starts with the initializer.

How it works: ``store`` has one row per key: how many values the key has had, and the stream time of
the last one. Windows side by side also have their aggregate there. Overlapping ones have the last
values of the key in ``values``, one row each, at most ``n``, and fold those of a window when it
closes: that is fewer writes than an aggregate per open window. Batches, which are windows side by
side, keep their values in the same way.

Invariants: a key has a row in ``store`` exactly if it has one timer in ``timers``, which is not
later than the end of its timeout. Timers that are due too early are first postponed to the end, so
that a value costs no write of a timer. The clock ``earliest:<timers>`` is not later than the first
timer; -1 after a start without clocks, before the timers have been read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import Any, NamedTuple, TypeAlias

from logstate.contracts.changelog_keys import MAX_TIME_MS
from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import CountWindows
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, late_edge
from logstate.topology.operators.streams.idle_clock import Waiting, advance_when_idle

_HEAD = struct.Struct(">qq?")
#: due timers that are read before the first of them runs
_READ_AHEAD = 100


class CountedValues(NamedTuple):
    """What ``store`` has of a key."""

    #: side by side: values of the open window; overlapping: values since the last pause
    number: int
    #: stream time when the last one arrived; of batches: the first one of the open window
    at_ms: int
    #: of the open window; None: it has no values, or windows overlap
    aggregate: Any


class CountedValuesSerde(Serde[CountedValues]):
    """8 bytes count | 8 bytes time | 1 byte: whether there is an aggregate | aggregate.

    The description has ``n`` and ``step``: rows of other windows cannot be continued.
    """

    def __init__(self, windows: CountWindows, inner: Serde[Any] | None) -> None:
        self.windows, self.inner = windows, inner
        self.immutable = inner is None or inner.immutable

    def serializer(self, topic: str, is_key: bool) -> Serializer[CountedValues]:
        pack = _HEAD.pack
        if self.inner is None:
            return lambda row: pack(row[0], row[1], False)
        inner = self.inner.serializer(topic, is_key)

        def serialize(row: CountedValues) -> bytes:
            count, at_ms, aggregate = row
            if aggregate is None:
                return pack(count, at_ms, False)
            return pack(count, at_ms, True) + inner(aggregate)

        return serialize

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[CountedValues]:
        inner = None if self.inner is None else self.inner.deserializer(topic, is_key)
        size = _HEAD.size

        def deserialize(data: bytes) -> CountedValues:
            count, at_ms, has_aggregate = _HEAD.unpack_from(data)
            aggregate = inner(data[size:]) if has_aggregate and inner is not None else None
            return CountedValues(count, at_ms, aggregate)

        return deserialize

    def describe(self) -> dict[str, Any]:
        return {
            "format": "count_window",
            "schema": None,
            "n": self.windows.n,
            "step": self.windows.step,
            "inner": None if self.inner is None else self.inner.describe(),
        }


class CountWindowNode(ProcessorNode):
    """``aggregator(key, value, aggregate)`` folds; ``result(row)`` makes the result of a window."""

    windows: CountWindows
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    result: Callable[[Any], Any] | None
    store: StoreSpec
    #: of overlapping windows and of batches; keys are pairs of key and number
    values: StoreSpec | None
    closes_after_first: bool = False
    timers: StoreSpec

    @property
    def waits_for_stream_time(self) -> bool:
        return True

    @property
    def own_idle_ms(self) -> int | None:
        return self.windows.close_on_idle_ms

    def own_stores(self) -> tuple[StoreSpec, ...]:
        values = () if self.values is None else (self.values,)
        return (self.store, *values, self.timers)

    def retains_records(self) -> bool:
        return self.values is not None

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        name, windows = self.store.name, self.windows
        observed = task.time_cell(f"observed:{name}")
        emit = _emission(forward, self.result)
        emit_due = _emission(late_edge(task, f"closed windows of {name}", forward), self.result)
        add, close = (_folding if self.values is None else _buffering)(self, task)
        read, put = _reader(task.store(name)), task.store(name).put
        timers = Timers(task, self.timers)
        timeout = windows.timeout_ms
        drop = null_dropper(task.dropper, self.name)

        def end_of_timeout(key: Any) -> int:
            end: int = read(key)[0][1] + timeout
            return min(end, MAX_TIME_MS)

        def run_due(headers: Headers) -> None:
            now = observed.time
            task.timestamp, task.headers = now, headers
            timers.postpone(now, end_of_timeout)
            for key in timers.due(now):
                for aggregate, newest in close(key, read(key)):
                    emit_due(key, aggregate, newest, headers)
                    task.timestamp, task.headers = now, headers
                put(key, None)

        def last_due(limit: int) -> int | None:
            ends = map(end_of_timeout, timers.until(limit))
            return max((end for end in ends if end <= limit), default=None)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                drop(key)
                return
            if timestamp > observed.time:
                observed.time = timestamp
            now = observed.time
            if now >= timers.earliest.time:
                run_due(headers)
            if value is None:
                drop(key)
                return
            task.timestamp, task.headers = timestamp, headers
            row = read(key)
            if row is None:
                timers.set(min(now + timeout, MAX_TIME_MS), key)
            closed = add(key, value, timestamp, row, now)
            if closed is not None:
                emit(key, *closed, headers)

        waiting = Waiting(timers.times, last_due, lambda _: run_due(None))
        advance_when_idle(task, name, observed, self.close_on_idle_ms, waiting, node=self.name)
        return process


#: aggregate and timestamp of a window that closes
_Closed: TypeAlias = tuple[Any, int]
#: add(key, value, timestamp, row, stream time) -> the window that this closes
_Add: TypeAlias = Callable[[Any, Any, int, Any, int], _Closed | None]
#: close(key, row) -> the windows that are open
_Close: TypeAlias = Callable[[Any, Any], Iterator[_Closed]]


def _folding(node: CountWindowNode, task: TaskContext) -> tuple[_Add, _Close]:
    """Return how the one open window of a key takes a value, and how it closes."""
    put = task.store(node.store.name).put
    n, initializer, aggregator = node.windows.n, node.initializer, node.aggregator

    def add(key: Any, value: Any, timestamp: int, row: Any, now: int) -> _Closed | None:
        count, aggregate, newest = 0, None, timestamp
        if row is not None:
            (count, _, aggregate), newest, _ = row
            if not count or newest < timestamp:
                newest = timestamp
        aggregate = aggregator(key, value, initializer() if aggregate is None else aggregate)
        count += 1
        if count < n:
            put(key, (CountedValues(count, now, aggregate), newest, None))
            return None
        put(key, (CountedValues(0, now, None), newest, None))
        return aggregate, newest

    def close(_key: Any, row: Any) -> Iterator[_Closed]:
        (count, _, aggregate), newest, _ = row
        if count:
            yield aggregate, newest

    return add, close


def _buffering(node: CountWindowNode, task: TaskContext) -> tuple[_Add, _Close]:
    """Return how the last values of a key take one more, and how the open windows close."""
    assert node.values is not None
    put, values = task.store(node.store.name).put, task.store(node.values.name)
    put_value, read_value = values.put, _reader(values)
    initializer, aggregator = node.initializer, node.aggregator
    n, step, from_first = node.windows.n, node.windows.step, node.closes_after_first

    def folded(key: Any, rows: list[Any]) -> _Closed:
        aggregate, newest = None, 0
        for value, timestamp, _ in rows:
            aggregate = aggregator(key, value, initializer() if aggregate is None else aggregate)
            newest = max(newest, timestamp)
        return aggregate, newest

    def add(key: Any, value: Any, timestamp: int, row: Any, now: int) -> _Closed | None:
        number = 0 if row is None else row[0][0]
        at_ms = row[0][1] if from_first and number % step else now
        put(key, (CountedValues(number + 1, at_ms, None), timestamp, None))
        start = number + 1 - n
        if start < 0 or start % step:
            put_value((key, number), (value, timestamp, None))
            return None
        rows = [read_value((key, one)) for one in range(start, number)]
        for one in range(start, min(start + step, number)):
            put_value((key, one), None)
        if step < n:
            put_value((key, number), (value, timestamp, None))
        return folded(key, [*rows, (value, timestamp, None)])

    def close(key: Any, row: Any) -> Iterator[_Closed]:
        count = row[0][0]
        first = 0 if count < n else ((count - n) // step + 1) * step
        rows = [read_value((key, one)) for one in range(first, count)]
        for one in range(first, count):
            put_value((key, one), None)
        for start in range(0, len(rows), step):
            yield folded(key, rows[start:])

    return add, close


class Timers:
    """The end of the timeout of each key, or an earlier time, as rows of a timer store."""

    def __init__(self, task: TaskContext, spec: StoreSpec) -> None:
        self._store = task.store(spec.name)
        #: not later than the first of them
        self.earliest = task.time_cell(f"earliest:{spec.name}")

    def set(self, at_ms: int, key: Any) -> None:
        """Set the timer of a key, which has none."""
        self._store.put((at_ms, key), b"")
        if at_ms < self.earliest.time:
            self.earliest.time = at_ms

    def times(self) -> Iterator[int]:
        """Yield the times of all timers, in order."""
        return (timer[0] for timer, _ in self._store.range())

    def until(self, limit: int) -> Iterator[Any]:
        """Yield the keys whose timers are not later than a time."""
        rows = takewhile(lambda row: row[0][0] <= limit, self._store.range())
        return (timer[1] for timer, _ in rows)

    def postpone(self, now: int, end_of_timeout: Callable[[Any], int]) -> None:
        """Postpone the timers that are due by ``now`` and earlier than the end of their timeout."""
        last = None
        is_done = False
        while not is_done:
            rows = takewhile(lambda row: row[0][0] <= now, self._store.range(last))
            found = [timer for timer, _ in islice(rows, _READ_AHEAD)]
            is_done = len(found) < _READ_AHEAD
            for timer in found:
                end = end_of_timeout(timer[1])
                if timer[0] < end and timer != last:
                    self._store.put(timer, None)
                    self._store.put((end, timer[1]), b"")
                last = timer

    def due(self, now: int) -> Iterator[Any]:
        """Yield the keys whose timers are due, by time and key bytes, and delete the timers."""
        is_done = False
        while not is_done:
            found: list[Any] = []
            self.earliest.time, is_done = MAX_TIME_MS, True
            for timer, _ in self._store.range():
                if timer[0] > now or len(found) == _READ_AHEAD:
                    self.earliest.time, is_done = timer[0], timer[0] > now
                    break
                found.append(timer)
            for timer in found:
                self._store.put(timer, None)
                yield timer[1]


def _emission(
    forward: Forward, result: Callable[[Any], Any] | None
) -> Callable[[Any, Any, int, Headers], None]:
    def emit(key: Any, aggregate: Any, timestamp: int, headers: Headers) -> None:
        if aggregate is not None:
            forward(key, aggregate if result is None else result(aggregate), timestamp, headers)

    return emit


def _reader(store: Any) -> Callable[[Any], Any]:
    """Return how rows are read as plain tuples."""
    read: Callable[[Any], Any] = getattr(store, "get_row", store.get)
    return read
