"""count, reduce and aggregate of a grouped table: subtract the old value, then add the new one.

Input is a stream edge of changes ``(new, old)``, as they come from the repartition topic. The
subtractor runs only if there is an aggregate to subtract from; the adder starts with the
initializer's value if there is none (``reduce``: with the new value itself). A null result
deletes the row; a count goes down to 0 and stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.errors import LogstateError
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process
from logstate.topology.operators.aggregates.emit_on_commit import (
    AggregatedTableNode,
    Difference,
    hold_rows_until_commit,
)
from logstate.topology.operators.aggregates.fold import count_one
from logstate.topology.operators.aggregates.initial_values import new_values
from logstate.topology.operators.tables.change import Change
from logstate.topology.operators.tables.rows import bind_rows


class TableAggregateNode(AggregatedTableNode):
    """``initializer`` None means reduce."""

    initializer: Callable[[], Any] | None
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    #: of two aggregates; not None: what is emitted on commit are differences
    difference: Difference | None = None

    @property
    def operation(self) -> str | None:
        return "count" if self.adder is count_one else None

    @property
    def sends_deltas(self) -> bool:
        return self.difference is not None

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        if self.emit == "commit":
            forward = hold_rows_until_commit(
                task,
                forward,
                self.store,
                sends_old_values=self.sends_old_values,
                difference=self.difference,
            )
        updates = self.rows_before(task)
        read, write = bind_rows(task, self.store)
        initializer, adder, subtractor = self.initializer, self.adder, self.subtractor
        if initializer is not None:
            initializer = new_values(initializer, self.store)
        is_held = self.emit == "commit"
        with_old = is_held or self.sends_old_values
        copies_old = self.sends_old_values and not self.store.value.immutable
        name = self.name

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise LogstateError(f"A change with a null key reached the aggregation {name!r}.")
            added, removed = change
            row = read(key)
            aggregate = before = None if row is None else row[0]
            newest = timestamp
            if removed is not None and before is not None:
                aggregate = subtractor(key, removed, before)
            if added is not None:
                if aggregate is None and initializer is None:
                    aggregate = added
                else:
                    if aggregate is None and initializer is not None:
                        aggregate = initializer()
                    aggregate = adder(key, added, aggregate)
            if row is not None and row[1] > timestamp:
                newest = row[1]
            if copies_old and row is not None:
                row = read(key)
                before = None if row is None else row[0]
            is_latest = write(key, aggregate, newest, timestamp, headers)
            if is_latest is not None:
                if is_held and aggregate is None:
                    newest = timestamp  # the time of a held tombstone
                if updates is not None:
                    updates.time_before = None if row is None else row[1]
                forward(key, aggregate, before if with_old else None, newest, headers, is_latest)

        return process
