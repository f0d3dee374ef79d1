"""Foreign-key join, right side: it stores subscriptions, and responds now and at every change.

The instructions of subscriptions are described in `foreign_key_left`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from logstate.contracts.drops import DropReason
from logstate.contracts.processing import TaskContext
from logstate.contracts.records import Headers
from logstate.serdes.join_serdes import Instruction, Subscription, SubscriptionResponse
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, TableNode


class SubscriptionReceiveNode(ProcessorNode):
    """Stores subscriptions and passes them on unchanged, to be answered.

    A subscription without foreign key asks for an answer only, so it is not kept; any other
    instruction without foreign key is dropped and counted.
    """

    store_name: str

    def store_names(self) -> tuple[str, ...]:
        return (self.store_name,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        store = task.store(self.store_name)
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


class SubscriptionJoinNode(ProcessorNode):
    """Answers a subscription with the current right row: ``(left key, SubscriptionResponse)``.

    The response has the larger timestamp of subscription and right row. The subscription's
    instruction determines whether there is one, also if there is no row.
    """

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


class SubscriptionUpdateNode(ProcessorNode):
    """Notifies every subscriber of a changed right row: ``(left key, SubscriptionResponse)``.

    One response per subscription, in the order of the left keys' bytes, with the timestamp and
    headers of the right record, even if the left row is newer. An update that changes nothing is
    sent, too. Null keys are dropped and counted; so are out-of-order updates of a versioned table
    (KIP-914).
    """

    store_name: str
    use_versioned_semantics: bool = field(default=False, init=False)

    def store_names(self) -> tuple[str, ...]:
        return (self.store_name,)

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        subscribers = task.store(self.store_name).subscribers
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
