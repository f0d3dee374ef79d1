"""A state per key that a function carries from record to record, with a result for each record.

Semantics:

- ``step(key, value, state)`` returns the next state and the result, which is forwarded with the
  record's timestamp and headers. The first record of a key finds what the initializer returns.
- a state of None deletes the row: the next record begins again.
- a record with a null key or value is dropped and counted.
- records are taken in the order of their arrival, so none is late. The timestamp of a row is the
  largest of its records.

How it works: a row per key, one read and one write for each record. State commits with the input
offsets: a record that is processed again after a crash finds the state before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.mapper_results import pair_of
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode
from logstate.topology.operators.aggregates.initial_values import new_values
from logstate.topology.operators.tables.rows import bind_rows


class ScanNode(ProcessorNode):
    """``initializer()`` makes a state, ``step(key, value, state)`` the next one and a result."""

    store: StoreSpec
    initializer: Callable[[], Any]
    step: Callable[[Any, Any, Any], Any]

    def own_stores(self) -> tuple[StoreSpec, ...]:
        return (self.store,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        read, write = bind_rows(task, self.store)
        begin, step = new_values(self.initializer, self.store), self.step
        drop = null_dropper(task.dropper, self.name)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(key)
                return
            row, newest = read(key), timestamp
            if row is not None and row[1] > newest:
                newest = row[1]
            pair = step(key, value, begin() if row is None else row[0])
            if type(pair) is not tuple or len(pair) != 2:
                pair = pair_of(pair, step, "scan()", "(state, result)")
            state, result = pair
            is_change = row is not None or state is not None
            if is_change and write(key, state, newest, timestamp, headers) is None:
                return  # the row has expired already, which the store has counted
            forward(key, result, timestamp, headers)

        return process
