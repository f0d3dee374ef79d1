"""Aggregation per key and time window: tumbling, hopping, unlimited and custom windows.

Semantics, exactly Kafka Streams' (`KStreamWindowAggregate`):

- null key: dropped, counted. Null VALUE: the aggregator is called with it, so `count()` counts it,
  unlike the aggregation without windows; Kafka Streams' documentation says otherwise, its code and
  results do not.
- late: a window is closed once the operator's own stream time (largest timestamp it has seen, this
  record included) reaches window end + grace. A record is dropped and counted once PER closed
  window; a hopping record may be late for one window and on time for the next. With ``late`` it is
  emitted instead, once per closed window, before the updates of the open ones.
- result: key ``Windowed(key, start, end)``, end exclusive; timestamp = largest of the window's
  records. A result of None deletes the row and is forwarded as a tombstone; the next record starts
  from the initializer.
- order: windows ascending by start for ``emit="update"``; start, then key bytes for
  ``emit="close"``.
- old values: the initializer's value is the old value of a row's first update, and a downstream
  `group_by` subtracts it; with ``emit="commit"`` a row has no old value until it was emitted.
- ``emit="close"`` looks for windows only when a record arrives. A window that the store no longer
  shows (its retention ran out because event time jumped) is never emitted, but counted
  (``expired_results_total``) and logged: give the store a longer retention if jumps are possible.

Repartitions nothing itself; the store is a timestamped window store with key, 8-byte start and a
zero sequence number in its changelog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import StreamProcess, TableProcess, TaskContext, TimeCell
from logstate.contracts.record_parts import event_time_of, shown
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.topology.declaring.windows import (
    UnlimitedWindows,
    Windows,
    advance_ms_of,
    are_tumbling,
)
from logstate.topology.graph.nodes import Children, Forward, ValueGetter
from logstate.topology.operators.aggregates.emit_on_close import (
    CloseClock,
    ClosedRows,
    Emission,
    close_when_idle,
    emission_of,
    emitting_closed,
    stream_time_of,
)
from logstate.topology.operators.aggregates.fold import FoldNode, make_fold
from logstate.topology.operators.streams.late_records import late_output

_HEAD = """\
if key is None:
    drop_null_key()
    return
if timestamp > observed.time:
    observed.time = timestamp
"""
_ONE_WINDOW = (
    _HEAD
    + """\
start = timestamp - timestamp % size
end = start + size
if end <= observed.time - grace:
    drop_late(observed.time - grace - end + 1)
    return
"""
)
_WINDOWS = (
    _HEAD
    + """\
close_time = observed.time - grace
for start, end in windows_for(timestamp):
    if end <= close_time:
        drop_late(close_time - end + 1)
        continue
"""
)


def _emitting_late(head: str) -> str:
    """Return the text that emits a late record instead of dropping it."""
    missed = "missed(key, start, end)"
    return head.replace("drop_late(", f"emit_late(key, value, timestamp, headers, {missed}, ")


class WindowAggregateNode(FoldNode):
    """One row per key and window."""

    windows: Windows
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
        observed = stream_time_of(task, self.store.name, self.group_number, self.emit)
        grace = self.windows.grace_ms
        if self.emit == "close":
            process = self._compile_fold(task, observed, None, children)
            emission = self._compile_emission(task, forward)
            close_when_idle(task, self, observed, grace, emission)
            return emitting_closed(process, observed, grace, emission.after_record)
        close_when_idle(task, self, observed, grace)
        return self._compile_fold(task, observed, self.commit_buffered(task, forward), children)

    def _compile_fold(
        self,
        task: TaskContext,
        observed: TimeCell,
        forward: TableProcess | None,
        children: Children,
    ) -> StreamProcess:
        windows = self.windows
        names: dict[str, Any] = {"observed": observed, "grace": windows.grace_ms}
        names["drop_null_key"] = task.dropper(self.name, DropReason.NULL_KEY)
        one_window, each_window = _ONE_WINDOW, _WINDOWS
        emit_late = late_output(self, children, DropReason.LATE)
        if emit_late is None:
            names["drop_late"] = task.dropper(self.name, DropReason.LATE)
        else:
            names |= {"emit_late": emit_late, "missed": Windowed}
            one_window, each_window = map(_emitting_late, (one_window, each_window))
        if are_tumbling(windows):
            names["size"] = windows.size_ms
            return make_fold(self, task, forward, head=one_window, kind="window", **names)
        names["windows_for"] = _checked_windows_for(windows, self.name)
        return make_fold(self, task, forward, head=each_window, kind="windows", **names)

    def _compile_emission(self, task: TaskContext, forward: TableProcess) -> Emission:
        size, name = self.windows.size_ms, self.store.name
        clock = CloseClock(
            task,
            name,
            self.emit_interval_ms,
            size_ms=size,
            is_end_exclusive=True,
            varies=self.windows.varies,
        )
        rows, grid_ms = closed_windows(task, self.store), advance_ms_of(self.windows) or 1
        return emission_of(task, self.store, clock, rows, forward, grid_ms=grid_ms)


def closed_windows(task: TaskContext, spec: StoreSpec) -> ClosedRows:
    """Return the rows of a window store that start in a span."""
    fetch_all = task.store(spec.name).fetch_all
    return lambda lower, upper: (
        (windowed, row.value, row.timestamp) for windowed, row in fetch_all(lower, upper)
    )


def _checked_windows_for(windows: Windows, node: str) -> Callable[[int], Sequence[tuple[int, int]]]:
    """Return ``windows_for``; the result of a user's own class is checked against its settings."""
    windows_for, size, varies = windows.windows_for, windows.size_ms, windows.varies
    if isinstance(windows, UnlimitedWindows) or advance_ms_of(windows) is not None:
        return windows_for

    def checked(timestamp: int) -> Sequence[tuple[int, int]]:
        found, last = windows_for(timestamp), -1
        if type(found) is not list and type(found) is not tuple:
            return _as_windows(found, windows, node, timestamp)
        try:
            for start, end in found:
                length = end - start
                if type(start) is not int or type(end) is not int or start <= last:
                    break
                if length != size and not (varies and 0 < length < size):
                    break
                last = start
            else:
                return found
        except (TypeError, ValueError):
            pass  # _as_windows reports windows that are not pairs of numbers
        return _as_windows(found, windows, node, timestamp)

    return checked


def _as_windows(
    found: object, windows: Windows, node: str, timestamp: int
) -> Sequence[tuple[int, int]]:
    """Convert to a sorted list of windows. Raises TypeError or ValueError if that is impossible."""
    given_by = f"{type(windows).__qualname__}.windows_for({timestamp}) returned for {node!r}"
    wanted = "Return a list of (start_ms, end_ms); an empty one if the record is in no window"
    if not isinstance(found, Iterable) or isinstance(found, (str, bytes, Mapping, set, frozenset)):
        raise TypeError(f"{given_by} {shown(found)}, which is not a list of windows. {wanted}")
    times: list[tuple[int, int]] = []
    for window in found:
        if not isinstance(window, tuple | list) or len(window) != 2:
            raise TypeError(f"{given_by} the window {shown(window)}, which is not a pair. {wanted}")
        start, end = (event_time_of(time, f"{given_by} a window with") for time in window)
        if times and start <= times[-1][0]:
            raise ValueError(
                f"{given_by} a window from {start} after one from {times[-1][0]}: a record would"
                " be counted twice, or out of order. Return each window once, by ascending starts"
            )
        length = end - start
        is_shorter = windows.varies and 0 < length < windows.size_ms
        if length != windows.size_ms and not is_shorter:
            raise ValueError(_wrong_window(windows, node, timestamp, start, end))
        times.append((start, end))
    return times


def _wrong_window(windows: Windows, node: str, timestamp: int, start: int, end: int) -> str:
    kind, size = type(windows).__qualname__, windows.size_ms
    return (
        f"{kind}.windows_for({timestamp}) returned the window [{start}, {end}) of {end - start} ms"
        f" for {node!r}, but size_ms is {size}: its store would confuse the window with another,"
        " or expire it while it is open. Days of a time zone, for example, have 23 to 25 hours."
        f" Set `varies = True` in class {kind}, and size_ms to the length of its longest window"
    )


def windowed_row_getter(task: TaskContext, spec: StoreSpec) -> ValueGetter:
    """Return a getter of ``Windowed`` keys from a window store."""
    fetch = task.store(spec.name).fetch

    def latest(windowed: Windowed[Any]) -> ValueAndTimestamp[Any] | None:
        row: ValueAndTimestamp[Any] | None = fetch(windowed.key, windowed.start_ms)
        return row

    return ValueGetter(latest)
