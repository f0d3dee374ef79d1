"""Foreign-key join, right side: keeps subscriptions and passes them on to be answered.

A subscription without foreign key asks for an answer only, so it is not kept; any other instruction
without foreign key is dropped and counted.
"""

from __future__ import annotations

from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.serdes.foreign_key_serdes import Instruction, Subscription
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode


class SubscriptionReceiveNode(ProcessorNode):
    """Forwards ``(foreign key, Subscription)`` as it came."""

    store: str

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        store = task.store(self.store)
        put, delete = store.put, store.delete
        drop = task.dropper(self.name, DropReason.NULL_FOREIGN_KEY)

        def process(
            foreign_key: Any, subscription: Subscription, timestamp: int, headers: Headers
        ) -> None:
            instruction = subscription.instruction
            if foreign_key is None:
                if instruction != Instruction.SUBSCRIBE_AND_ANSWER:
                    drop()
                    return
            else:
                # The store logs with these.
                task.timestamp, task.headers = timestamp, headers
                if instruction <= Instruction.UNSUBSCRIBE_AND_ANSWER:
                    delete(foreign_key, subscription)
                else:
                    put(foreign_key, subscription)
            forward(foreign_key, subscription, timestamp, headers)

        return process
