"""Deduplication: of the records of a key (or key and id) within an interval, one is forwarded.

Semantics (KIP-655, which Kafka Streams has accepted and not released):

- duplicate: a record is a duplicate if one with the same key (and id) was forwarded before it and
  is at most the interval earlier or later by event time, both ends included. A record that was not
  forwarded does not make duplicates. The first to arrive is forwarded, unchanged, even if it is
  newer. Duplicates are dropped and counted (`duplicate`).
- a record with a null key, or an id of None, is forwarded, and does not advance the clock.
- late: older than stream time, that of the records with a key (and id), by more than the grace,
  which is the store's retention less two intervals: as long as the interval, unless the store is
  kept longer. Dropped and counted, or emitted with ``late``. Records forwarded near it may have
  expired, so it is unknown whether it is a duplicate; Kafka Streams' draft forwards it if no row is
  found.

How it works: forwarded records are farther apart than the interval. So a window that is as long as
the interval has at most one row, with the time of the forwarded record, and the nearest forwarded
records can only be in a record's window, the previous and the next one: three reads of one row.

Invariants: no two forwarded records of one key (and id) are within the interval of each other, in
whatever order they arrived. Rows expire with the retention, so there are at most as many as records
forwarded within it. State commits with the input offsets, regardless of the guarantee for outputs:
a record that is processed again after a crash does not find its own row, so rows do not need an
offset (those of the draft have one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.changelog_keys import MAX_TIME_MS
from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode
from logstate.topology.operators.streams.late_records import late_output


class DeduplicateNode(ProcessorNode):
    """``store`` has windows as long as the interval; its keys are pairs if there is an id."""

    passes_on = True

    interval_ms: int
    store: StoreSpec
    #: ``id_selector(key, value)``; None: the key alone decides
    id_selector: Callable[[Any, Any], Any] | None = None

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        store, interval, id_of = task.store(self.store.name), self.interval_ms, self.id_selector
        fetch, put = store.fetch_row, store.put
        grace = (self.store.retention_ms or 0) - 2 * interval
        # The last window starts here: there is no window after it.
        last = MAX_TIME_MS - MAX_TIME_MS % interval
        # Named after the store, which the user names, never after the operator.
        observed = task.time_cell(f"observed:{self.store.name}")
        drop_late = task.dropper(self.name, DropReason.LATE)
        emit_late = late_output(self, children, DropReason.LATE)
        drop_duplicate = task.dropper(self.name, DropReason.DUPLICATE)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            same = key
            if id_of is not None and key is not None:
                found = id_of(key, value)
                same = None if found is None else (key, found)
            if same is None:
                forward(key, value, timestamp, headers)
                return
            if timestamp > observed.time:
                observed.time = timestamp
            elif timestamp < observed.time - grace:
                late_ms = observed.time - grace - timestamp
                if emit_late is None:
                    drop_late(late_ms)
                else:
                    emit_late(key, value, timestamp, headers, None, late_ms)
                return
            start = timestamp - timestamp % interval
            after = start + interval if start < last else start
            for near in (start, start - interval, after):
                row = fetch(same, near)
                if row is not None and abs(row[1] - timestamp) <= interval:
                    drop_duplicate()
                    return
            put(same, (True, timestamp, None), start)
            forward(key, value, timestamp, headers)

        return process
