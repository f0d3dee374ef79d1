"""Foreign-key join, right side: tells every subscriber of a right row that it changed.

One response per subscription, in the order of the left keys' bytes, with the timestamp and headers
of the right record, even where the left row is newer. An update that changes nothing is sent all
the same. Null keys are dropped and counted; so are out-of-order updates of a versioned table
(KIP-914).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.serdes.foreign_key_serdes import SubscriptionResponse
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class SubscriptionUpdateNode(ProcessorNode):
    """Forwards ``(left key, SubscriptionResponse)``."""

    store: str
    use_versioned_semantics: bool = field(default=False, init=False)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        subscribers = task.store(self.store).subscribers
        skips_older = self.use_versioned_semantics
        drop_null_key = task.dropper(self.name, DropReason.NULL_KEY)
        drop_older = task.dropper(self.name, DropReason.OUT_OF_ORDER)

        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if key is None:
                drop_null_key()
                return
            if skips_older and not is_latest:
                drop_older()
                return
            for row_hash, _, primary_key, partition in subscribers(key):
                response = SubscriptionResponse(row_hash, new, partition)
                forward(primary_key, response, timestamp, headers)

        return process
