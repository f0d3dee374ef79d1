"""Stream-table join without grace: a stream record is joined with the table's current row.

A versioned table returns the row as of the stream record's time (KIP-914). Only the stream
triggers results; they have the stream record's timestamp and headers. Null values on the stream are
dropped and counted; null keys too, except in a left join, where they meet no row (KIP-962).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, TableNode


class StreamTableJoinNode(ProcessorNode):
    """Inner or left join by the record's own key."""

    table: TableNode
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool

    def store_names(self) -> tuple[str, ...]:
        return self.table.getter_store_names()

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        latest, as_of, *_ = self.table.value_getter(task)
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
