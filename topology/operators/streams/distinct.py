"""Distinct records: the first of each key, or key and id, for ever or once per window; and a limit
on the records of a key in each window.

Semantics:

- first is the first to arrive: it is forwarded, unchanged, even if a later one is older by event
  time. The others are dropped and counted (`duplicate`).
- a record with a null key, or an id of None, is forwarded, and does not advance the clock.
- with windows the first of each window is forwarded, or, with a limit, the first ones up to the
  limit; the others are dropped and counted (`throttled`). A record is late if its window is closed,
  by the operator's own stream time with that of the record: dropped and counted, or emitted with
  ``late``, because the row of its window may have expired.

How it works: a row per key (and id), or per key (and id) and window, with the time of the forwarded
record. Without windows rows are never deleted. A duplicate costs one read, a first record one read
and one write. State commits with the input offsets: a record that is processed again after a crash
does not find its own row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers, Windowed
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import TumblingWindows
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode
from logstate.topology.operators.streams.idle_clock import advance_when_idle
from logstate.topology.operators.streams.late_records import late_output


class DistinctNode(ProcessorNode):
    """``store`` has rows of windows if there are ``windows``; keys are pairs if there is an id."""

    passes_on = True

    store: StoreSpec
    windows: TumblingWindows | None = None
    #: ``id_selector(key, value)``; None: the key alone decides
    id_selector: Callable[[Any, Any], Any] | None = None
    #: records that a window forwards, which its rows count; None: one, and rows have no number
    limit: int | None = None

    @property
    def waits_for_stream_time(self) -> bool:
        return self.windows is not None

    @property
    def own_idle_ms(self) -> int | None:
        return None if self.windows is None else self.windows.close_on_idle_ms

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        if self.windows is None:
            first = self._compile_first(task, forward)
        else:
            first = self._compile_windows(self.windows, task, forward, children)
        id_of = self.id_selector
        if id_of is None:

            def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                if key is None:
                    forward(key, value, timestamp, headers)
                else:
                    first(key, key, value, timestamp, headers)

            return process

        by_value: Callable[[Any], Any] | None = getattr(id_of, "by_value", None)

        def process_with_id(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                found = None
            else:
                found = id_of(key, value) if by_value is None else by_value(value)
            if found is None:
                forward(key, value, timestamp, headers)
            else:
                first((key, found), key, value, timestamp, headers)

        return process_with_id

    def _compile_first(self, task: TaskContext, forward: Forward) -> Callable[..., None]:
        store = task.store(self.store.name)
        read, put = store.get_row, store.put
        drop_duplicate = task.dropper(self.name, DropReason.DUPLICATE)

        def first(same: Any, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if read(same) is not None:
                drop_duplicate()
                return
            put(same, (True, timestamp, None))
            forward(key, value, timestamp, headers)

        return first

    def _compile_windows(
        self, windows: TumblingWindows, task: TaskContext, forward: Forward, children: Children
    ) -> Callable[..., None]:
        name = self.store.name
        store, size, grace = task.store(name), windows.size_ms, windows.grace_ms
        limit = self.limit
        fetch, put = store.fetch_row, store.put
        observed = task.time_cell(f"observed:{name}")
        drop_late = task.dropper(self.name, DropReason.LATE)
        over = DropReason.DUPLICATE if limit is None else DropReason.THROTTLED
        drop_over = task.dropper(self.name, over)
        emit_late = late_output(self, children, DropReason.LATE)
        advance_when_idle(task, name, observed, self.close_on_idle_ms)

        def first(same: Any, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if timestamp > observed.time:
                observed.time = timestamp
            start = timestamp - timestamp % size
            late_ms = observed.time - grace - start - size + 1
            if late_ms > 0:
                if emit_late is None:
                    drop_late(late_ms)
                else:
                    missed = Windowed(key, start, start + size)
                    emit_late(key, value, timestamp, headers, missed, late_ms)
                return
            row = fetch(same, start)
            if row is not None and (limit is None or row[0] >= limit):
                drop_over()
                return
            count = True if limit is None else 1 if row is None else row[0] + 1
            put(same, (count, timestamp, None), start)
            forward(key, value, timestamp, headers)

        return first
