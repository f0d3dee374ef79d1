"""Stream-table join without grace: a stream record is joined with the table's current row.

A versioned table returns the row as of the stream record's time (KIP-914); with a tolerance, only
one that is not older than that. Only the stream triggers results; they have the stream record's
timestamp and headers. Null values on the stream are dropped and counted; null keys too, except in a
left join, where they meet no row (KIP-962).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoredRow
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, TableNode

#: reads the row of a key as of a time
AsOf: TypeAlias = "Callable[[Any, int], StoredRow | None]"


def tolerant(as_of: AsOf, tolerance_ms: int | None) -> AsOf:
    """Return a reader of rows that began at most ``tolerance_ms`` before the time; None: all."""
    if tolerance_ms is None:
        return as_of
    oldest_ms = tolerance_ms

    def recent(key: Any, timestamp: int) -> StoredRow | None:
        row = as_of(key, timestamp)
        return None if row is None or row[1] < timestamp - oldest_ms else row

    return recent


class StreamTableJoinNode(ProcessorNode):
    """Inner or left join by the record's own key. ``tolerance_ms``: of versioned tables."""

    table: TableNode
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool
    tolerance_ms: int | None = None

    def store_names(self) -> tuple[str, ...]:
        return self.table.getter_store_names()

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        latest, as_of, *_ = self.table.value_getter(task)
        if as_of is not None:
            as_of = tolerant(as_of, self.tolerance_ms)
        joiner = self.joiner
        by_value: Callable[[Any, Any], Any] | None = getattr(joiner, "by_value", None)
        is_left = self.is_left
        drop = null_dropper(task.dropper, self.name)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None or (key is None and not is_left):
                drop(key)
                return
            if key is None:
                row = None
            elif as_of is None:
                row = latest(key)
            else:
                row = as_of(key, timestamp)
            if row is not None:
                if by_value is not None:
                    forward(key, by_value(value, row[0]), timestamp, headers)
                else:
                    forward(key, joiner(key, value, row[0]), timestamp, headers)
            elif is_left:
                forward(key, joiner(key, value, None), timestamp, headers)

        return process
