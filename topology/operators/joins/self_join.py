"""A stream joined with itself over ONE window store (KIP-862), if the optimisation is on.

A record meets the earlier records twice, once as the left and once as the right side, and itself
once. Kafka Streams' order (`KStreamKStreamSelfJoin`): first the pairs in which the record is the
left side; then those in which it is the right side, with the pair of itself before the first
partner that is newer. The order, and if rows are about to expire the number of results, may
differ from the join over two stores.

A record that is already out of the store's retention does not meet itself; one that comes after its
window and the grace is counted as in `stream_join`. Null keys and null
values are dropped and counted. Left and outer self-joins are this too: no record is unmatched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logstate.contracts.drops import null_dropper
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.topology.declaring.windows import JoinWindows
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode
from logstate.topology.operators.joins.stream_join import partners_in


class SelfJoinNode(ProcessorNode):
    """Both sides in one. ``joiner(key, left, right)``."""

    store_name: str
    windows: JoinWindows
    joiner: Callable[[Any, Any, Any], Any]

    def store_names(self) -> tuple[str, ...]:
        return (self.store_name,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        observed = task.time_cell(self.name)
        joiner = self.joiner
        before, after = self.windows.before_ms, self.windows.after_ms
        retention = self.windows.size_ms + self.windows.grace_ms
        partners = partners_in(task, self.store_name, back_ms=max(before, after))
        fetch, own, reach, note_late = partners
        drop = null_dropper(task.dropper, self.name)
        store = task.store(self.store_name)
        copied = store.copied

        def fresh(value: Any, data: bytes) -> Any:
            """Return a separate object per call, because a joiner may change its arguments."""
            return value if copied is None else copied(data)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop(key)
                return
            if timestamp > observed.time:
                observed.time = timestamp
            if timestamp + reach < own.time:
                note_late()
            meets_itself = timestamp > observed.time - retention + 1
            data = store.encoded_last
            first, last = max(0, timestamp - before), max(0, timestamp + after)
            for partner_time, partner in fetch(key, first, last):
                joined = joiner(key, fresh(value, data), partner)
                forward(key, joined, max(timestamp, partner_time), headers)
            first, last = max(0, timestamp - after), max(0, timestamp + before)
            for partner_time, partner in fetch(key, first, last):
                if meets_itself and partner_time > timestamp:
                    meets_itself = False
                    forward(
                        key, joiner(key, fresh(value, data), fresh(value, data)), timestamp, headers
                    )
                joined = joiner(key, partner, fresh(value, data))
                forward(key, joined, max(timestamp, partner_time), headers)
            if meets_itself:
                forward(
                    key, joiner(key, fresh(value, data), fresh(value, data)), timestamp, headers
                )

        return process
