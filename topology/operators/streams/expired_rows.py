"""Rows that expire as a stream: they are deleted and emitted before the record that ends their TTL.

A task looks for them before it runs timers and the record that advances stream time. So a row is
deleted and emitted in one commit, in the order of event time, whenever the commits are, and nothing
can write its key before. Commits do not delete rows of such a store.

By the wall clock, a task looks before each record and while it is idle. The clock of the store is
that of the last look, so a look takes every row that has expired since the one before.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from logstate.contracts.processing import StreamProcess, TakeExpired, TaskContext, TimeCell
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.graph.blame import labelled
from logstate.topology.graph.nodes import Children, Forward, ProcessorNode, late_edge


class ExpiredRowsNode(ProcessorNode):
    """The head of the stream of a store's rows that expire: key, last value, time + TTL."""

    gets_no_results = True
    takes_deltas = True

    store: StoreSpec = field(kw_only=False)

    def store_names(self) -> tuple[str, ...]:
        return (self.store.name,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> StreamProcess:
        forward_row = late_edge(task, self.name, forward)

        def emit(key: Any, value: Any, expired_at: int) -> None:
            task.timestamp, task.headers = expired_at, None
            forward_row(key, value, expired_at, None)

        take, clock = task.store(self.store.name).expired_rows(), self.store.ttl_by
        if clock == "wall_clock":
            take = _at_wall_clock(take, task.time_cell(self.store.clock_name))
        task.when_rows_expire(clock, self.name, take, labelled(emit, self.name))

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            raise AssertionError("no operator sends it records")

        return process


def _at_wall_clock(take: TakeExpired, cell: TimeCell) -> TakeExpired:
    """Return a take that sets the clock of its store, which never goes back."""

    def take_at(now: int) -> list[tuple[Any, Any, int]]:
        cell.time = max(cell.time, now)
        return take(cell.time)

    return take_at
