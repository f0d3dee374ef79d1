"""Deduplication: of the records of one key, or of one key and id, within an interval one goes on.

Semantics (KIP-655, which Kafka Streams has accepted and not released):

- duplicate: a record of which one with the same key (and id) went on before, at most the interval
  earlier or later by event time, both ends included. What did not go on makes no duplicates. The
  one that came first goes on, whichever of them is older; it is not changed. The others are counted
  (`duplicate`).
- a null key, or an id of None, says nothing about a record: it goes on, and moves no clock.
- late: older than stream time, that of the records with a key (and id), by more than the grace,
  which is the store's retention less two intervals: as long as the interval, unless the store is
  kept longer. Dropped and counted. What went on near it may have expired, so nobody knows whether
  it is a duplicate; Kafka Streams' draft lets it pass if no row is found.

How it works: what went on lies farther apart than the interval. So a window that is as long as the
interval has one row at most, with the time of the record that went on, and a record's neighbours
can only be in its own window, the one before and the one behind: three reads of one row each.

Invariants: of two records of one key (and id) that went on, no one is within the interval of the
other, whatever the order they came in. Rows expire with the retention, so there are at most as many
as records went on within it. State commits with the input offsets, whatever the guarantee is about
outputs: a record that is processed again after a crash does not find its own row, which is why rows
need no offset (the draft's have one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.contracts.windowed_keys import MAX_TIME_MS
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class DeduplicateNode(ProcessorNode):
    """``store`` has windows as long as the interval; its keys are pairs where there is an id."""

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
        # The last window starts here: nothing lies behind it, and its neighbour has no key.
        last = MAX_TIME_MS - MAX_TIME_MS % interval
        # Named after the store, which the user names, never after the operator.
        observed = task.time_cell(f"observed:{self.store.name}")
        drop_late = task.dropper(self.name, DropReason.LATE)
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
                drop_late(observed.time - grace - timestamp)
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
