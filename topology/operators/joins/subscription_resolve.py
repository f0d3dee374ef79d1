"""Foreign-key join, left side again: joins a response with the left row, if it is still the one.

A response carries the hash of the left row it was asked for (see `row_hash`). If the row has
changed since, a newer response is on its way: the old one is dropped and counted. That is how the
join stays correct though its two sides run in different tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde
from logstate.serdes.foreign_key_serdes import SubscriptionResponse
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, TableNode
from logstate.topology.operators.joins.row_hash import RowHashes


class SubscriptionResolveNode(ProcessorNode):
    """Forwards ``(left key, joined value or None)``. ``joiner(key, left, right)``."""

    left: TableNode
    value: Serde[Any]
    registration_topic: str
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool

    def store_names(self) -> tuple[str, ...]:
        return self.left.getter_store_names()

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        latest = self.left.value_getter(task).latest
        is_current = RowHashes(self.left, self.value, self.registration_topic, task).is_current
        joiner, is_left = self.joiner, self.is_left
        drop = task.dropper(self.name, DropReason.STALE_RESPONSE)

        def process(
            key: Any, response: SubscriptionResponse, timestamp: int, headers: Headers
        ) -> None:
            row = latest(key)
            left = None if row is None else row[0]
            row_hash, right, _ = response
            if not is_current(key, left, row_hash):
                drop()
                return
            if right is None and (row is None or not is_left):
                joined = None
            else:
                joined = joiner(key, left, right)
            forward(key, joined, timestamp, headers)

        return process
