"""Foreign-key join, right side: answers a subscription with the right row of now.

The answer has the larger timestamp of subscription and right row. Whether there is one, and what it
says where there is no row, is the subscription's instruction (see `subscription_send`).
"""

from __future__ import annotations

from typing import Any

from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.serdes.foreign_key_serdes import Instruction, Subscription, SubscriptionResponse
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, TableNode


class SubscriptionJoinNode(ProcessorNode):
    """Forwards ``(left key, SubscriptionResponse)``."""

    right: TableNode

    def store_names(self) -> tuple[str, ...]:
        return self.right.getter_store_names()

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        latest = self.right.value_getter(task).latest

        def process(
            foreign_key: Any, subscription: Subscription, timestamp: int, headers: Headers
        ) -> None:
            row_hash, instruction, primary_key, partition = subscription
            if instruction == Instruction.UNSUBSCRIBE:
                return
            row = None if foreign_key is None else latest(foreign_key)
            value = None
            if row is not None:
                timestamp = max(timestamp, row[1])
                if instruction != Instruction.UNSUBSCRIBE_AND_ANSWER:
                    value = row[0]
            elif instruction == Instruction.SUBSCRIBE_AND_ANSWER_IF_FOUND:
                return
            response = SubscriptionResponse(row_hash, value, partition)
            forward(primary_key, response, timestamp, headers)

        return process
