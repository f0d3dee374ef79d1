"""Stream-global-table join: the row is looked up by a key computed from the record.

No co-partitioning and no repartition: every instance has the whole table. It is not synchronised in
time with the stream. A null computed key finds nothing: an inner join drops the record (counted),
a left join joins it with null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class GlobalTableJoinNode(ProcessorNode):
    """Inner or left join by a mapped key; the result keeps the stream's key."""

    store_name: str
    key_mapper: Callable[[Any, Any], Any]
    joiner: Callable[[Any, Any, Any], Any]
    is_left: bool

    def global_store_names(self) -> tuple[str, ...]:
        return (self.store_name,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        get = task.store(self.store_name).get
        key_mapper, joiner, is_left = self.key_mapper, self.joiner, self.is_left
        drop_null_value = task.dropper(self.name, DropReason.NULL_VALUE)
        drop_unmapped = task.dropper(self.name, DropReason.NULL_MAPPED_KEY)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if value is None:
                drop_null_value()
                return
            mapped = key_mapper(key, value)
            row = None if mapped is None else get(mapped)
            if row is not None:
                forward(key, joiner(key, value, row.value), timestamp, headers)
            elif is_left:
                forward(key, joiner(key, value, None), timestamp, headers)
            elif mapped is None:
                drop_unmapped()

        return process
