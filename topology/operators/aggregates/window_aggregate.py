"""Aggregation per key and time window: tumbling, hopping, unlimited and custom windows.

>>> from datetime import timedelta
>>> from logstate.testing.driver import TopologyTestDriver
>>> from logstate.topology import StreamsBuilder, TumblingWindows
>>> builder = StreamsBuilder()
>>> ten = TumblingWindows(size=timedelta(milliseconds=10), grace=timedelta(milliseconds=5))
>>> clicks = builder.stream("clicks", key=str, value=str).group_by_key().windowed_by(ten)
>>> counts = clicks.count(store="clicks-per-window")
>>> counts.to_stream(lambda window, count: f"{window.key}@{window.start_ms}", key=str).to("counts")
>>> with TopologyTestDriver(builder.build()) as driver:
...     driver.pipe_all("clicks", [("ada", "home", 3), ("ada", "cart", 12), ("ada", "late", 8)])
...     driver.pipe_all("clicks", [("bob", "home", 15), ("ada", "too late", 9)])
...     driver.read("counts", value=int), driver.dropped_total
([('ada@0', 1), ('ada@10', 1), ('ada@0', 2), ('bob@10', 1)], 1)

Semantics, exactly Kafka Streams' (`KStreamWindowAggregate`):

- null key: dropped, counted. Null VALUE: the aggregator is called with it, so `count()` counts it,
  unlike the aggregation without windows; Kafka Streams' documentation says otherwise, its code and
  results do not.
- late: a window is closed once the operator's own stream time (largest timestamp it has seen, this
  record included) reaches window end + grace. A record is dropped and counted once PER closed
  window; a hopping record may be late for one window and on time for the next.
- result: key ``Windowed(key, start, end)``, end exclusive; timestamp = largest of the window's
  records. A result of None deletes the row and is forwarded as a tombstone; the next record starts
  from the initializer.
- order: windows ascending by start for ``emit="update"``; start, then key bytes for
  ``emit="close"``.
- old values: the initializer's value is the old value of a row's first update, and a downstream
  `group_by` subtracts it.
- ``emit="close"`` looks for windows only when a record arrives. A window that the store no longer
  shows (its retention ran out because event time jumped) is never emitted: give the store a longer
  retention if jumps are possible.

Repartitions nothing itself; the store is a timestamped window store with key, 8-byte start and a
zero sequence number in its changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from logstate.contracts.generated_code import make_function
from logstate.contracts.processing import StreamProcess, TableProcess, TaskContext, TimeCell
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.topology.declaring.windows import Emit, HoppingWindows, TumblingWindows, Windows
from logstate.topology.graph.nodes import Process, ValueGetter
from logstate.topology.operators.aggregates.emit_on_close import CloseClock, stream_time_of
from logstate.topology.operators.aggregates.emit_on_commit import hold_windows_until_commit
from logstate.topology.operators.tables.table_nodes import MaterializedNode
from logstate.topology.operators.tables.to_stream import stream_below

#: updates one row: (key, value, timestamp, headers, window start, window end)
RowUpdate: TypeAlias = Callable[[Any, Any, int, Headers, int, int], None]


#: the common case in as few steps as there are: every record has exactly one window
_PLAIN = """\
def bind(store, functions, windows, forward, context, types):
    row_of_window, put, newest, to_oldest = store
    initializer, aggregator = functions
    size, grace, observed = windows
    task, drop = context
    new_tuple, Windowed = types

    def process(key, value, timestamp, headers):
        if key is None:
            drop("null_key")
            return
        if timestamp > observed.time:
            observed.time = timestamp
        start = timestamp - timestamp % size
        if start + size <= observed.time - grace:
            drop("late")
            return
        row = row_of_window((key, start)) if start >= newest.time + to_oldest else None
        if row is None:
            old = initializer()
            latest = timestamp
        else:
            old, latest, _ = row
            if timestamp > latest:
                latest = timestamp
        new = aggregator(old, value)
        if new is None:
            task.timestamp = timestamp
            task.headers = headers
            put(key, None, start)
        else:
            put(key, (new, latest, None), start)
        windowed = new_tuple(Windowed, (key, start, start + size))
        forward({change})
    return process
"""


class WindowAggregateNode(MaterializedNode):
    """One row per key and window. ``initializer()``, ``aggregator(key, value, aggregate)``."""

    windows: Windows
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    emit: Emit
    emit_interval_ms: int = 0

    def value_getter(self, task: TaskContext) -> ValueGetter:
        return windowed_row_getter(task, self.store)

    def compile(
        self, task: TaskContext, forward: TableProcess, children: Mapping[str, Process]
    ) -> StreamProcess:
        windows = self.windows
        observed = stream_time_of(task, self.store.name, self.group_number, self.emit)
        if self.emit == "close":
            update = self._compile_update(task, None)
            process = _compile_assignment(task, observed, windows, update)
            return self._emitting_closed(task, observed, process, forward)
        if self.emit == "commit":
            forward = hold_windows_until_commit(task, forward, self.store)
        by_value = getattr(self.aggregator, "by_value", None)
        if isinstance(windows, TumblingWindows) and by_value is not None and not self._copies_old():
            return self._compile_plain(task, observed, windows, by_value, forward)
        update = self._compile_update(task, forward)
        return _compile_assignment(task, observed, windows, update)

    def _copies_old(self) -> bool:
        # A mutable aggregate may be changed in place: old and new must not be one object.
        return self.sends_old_values and not self.store.value.immutable

    def _compile_plain(
        self,
        task: TaskContext,
        observed: TimeCell,
        windows: TumblingWindows,
        aggregator: Callable[[Any, Any], Any],
        forward: TableProcess,
    ) -> StreamProcess:
        """Without a key for the aggregator and copies of old values."""
        store = task.store(self.store.name)
        below = stream_below(forward)
        if below is not None:
            change = "windowed, new, latest, headers"
        elif self.sends_old_values:
            change = "windowed, new, old, latest, headers, True"
        else:
            change = "windowed, new, None, latest, headers, True"
        bind = make_function("bind", _PLAIN.format(change=change), "window aggregate")
        process: StreamProcess = bind(
            (store.row_of_window, store.put, store.segments.cell, store.to_oldest),
            (self.initializer, aggregator),
            (windows.size_ms, windows.grace_ms, observed),
            forward if below is None else below,
            (task, task.drop),
            # Half the time of a named tuple's own constructor, which is a Python function.
            (tuple.__new__, Windowed),
        )
        return process

    def _compile_update(self, task: TaskContext, forward: TableProcess | None) -> RowUpdate:
        """Read, aggregate, write, forward one row; without ``forward`` the row only changes."""
        store = task.store(self.store.name)
        fetch, put = store.fetch_row, store.put
        initializer, aggregator = self.initializer, self.aggregator
        by_value = getattr(aggregator, "by_value", None)
        sends_old = self.sends_old_values
        copies_old = self._copies_old()
        # Half the time of a named tuple's own constructor, which is a Python function.
        new = tuple.__new__

        def update(
            key: Any, value: Any, timestamp: int, headers: Headers, start: int, end: int
        ) -> None:
            row = fetch(key, start)
            if row is None:
                aggregate = old = initializer()
                if copies_old:
                    old = initializer()
                latest = timestamp
            else:
                aggregate, latest, _ = row
                old = fetch(key, start)[0] if copies_old else aggregate
                if timestamp > latest:
                    latest = timestamp
            if by_value is not None:
                aggregate = by_value(aggregate, value)
            else:
                aggregate = aggregator(key, value, aggregate)
            if aggregate is None:
                task.timestamp, task.headers = timestamp, headers
                put(key, None, start)
            else:
                put(key, (aggregate, latest, None), start)
            if forward is not None:
                forward(
                    new(Windowed, (key, start, end)),
                    aggregate,
                    old if sends_old else None,
                    latest,
                    headers,
                    True,
                )

        return update

    def _emitting_closed(
        self, task: TaskContext, observed: TimeCell, process: StreamProcess, forward: TableProcess
    ) -> StreamProcess:
        """``process``, then the final results of the windows that this record closed."""
        fetch_all = task.store(self.store.name).fetch_all
        clock = CloseClock(task, self.store.name, self.emit_interval_ms)
        size, grace = self.windows.size_ms, self.windows.grace_ms
        advance = _advance_ms(self.windows)

        def process_and_emit(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            process(key, value, timestamp, headers)
            if key is None:
                return
            close_time = observed.time - grace
            if not clock.is_due(close_time):
                return
            upper = close_time - size
            emitted = clock.emitted_until
            lower = 0 if emitted == -1 else max(0, emitted - size) + 1
            if upper < 0 or upper // advance * advance < lower:
                return  # no window starts in between: nothing can have closed
            for windowed, row in fetch_all(lower, upper):
                forward(windowed, row.value, None, row.timestamp, headers, True)
            clock.advance(close_time)

        return process_and_emit


def no_aggregate() -> None:
    """The initializer of a reduce: its aggregator takes the first value as it is."""


def windowed_row_getter(task: TaskContext, spec: StoreSpec) -> ValueGetter:
    """Reads the row of a ``Windowed`` key from a window store."""
    fetch = task.store(spec.name).fetch

    def latest(windowed: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
        row: ValueAndTimestamp[Any] | None = fetch(windowed.key, windowed.start_ms)
        return row

    return ValueGetter(latest)


def _compile_assignment(
    task: TaskContext, observed: TimeCell, windows: Windows, update: RowUpdate
) -> StreamProcess:
    windows_for, grace = windows.windows_for, windows.grace_ms
    drop = task.drop

    def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None:
            drop("null_key")
            return
        if timestamp > observed.time:
            observed.time = timestamp
        close_time = observed.time - grace
        for start, end in windows_for(timestamp):
            if end > close_time:
                update(key, value, timestamp, headers, start, end)
            else:
                drop("late")

    return process


def _advance_ms(windows: Windows) -> int:
    """The grid of possible window starts; 1 where nothing is known of them."""
    if isinstance(windows, TumblingWindows):
        return windows.size_ms
    return windows.advance_ms if isinstance(windows, HoppingWindows) else 1
