"""Foreign-key join, left side: it subscribes to right rows, and joins their responses.

Each change of a left row sends an instruction to the right side, at the foreign key, to subscribe
or unsubscribe it. The subscription contains a hash of the new row, by which the response is
recognized as current (see `row_hash`; the foreign key, too, is computed from the row as it will be
read later). What is sent (KIP-213, KIP-962):

========================  =======================================  ============================
change                    inner                                    left
========================  =======================================  ============================
new row                   subscribe, answer if found               subscribe, answer
same foreign key          subscribe, answer if found               subscribe, answer
other foreign key         unsubscribe the old; subscribe, answer   likewise
foreign key became null   unsubscribe, answer; counted as dropped  unsubscribe; ask with null key
null foreign key          nothing; counted as dropped              ask with null key
row deleted               unsubscribe, answer                      unsubscribe; ask with null key
deleted, key was null     nothing                                  ask with null key
========================  =======================================  ============================

Asking with a null key requests a response "no right row" without subscribing.
Out-of-order updates of a versioned table are dropped and counted (KIP-914).

A response carries the hash of the left row of its subscription. If the row has changed since, a
newer response is on its way: the old one is dropped and counted. So the join is correct although
its two sides run in different tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from logstate.contracts.drops import Drop, DropReason
from logstate.contracts.processing import StreamProcess, TaskContext
from logstate.contracts.records import Headers
from logstate.contracts.serde import Serde
from logstate.serdes.join_serdes import Instruction, Subscription, SubscriptionResponse
from logstate.topology.graph.nodes import Children, Forward, Process, ProcessorNode, TableNode
from logstate.topology.operators.joins.row_hash import RowHashes

#: sends an instruction: (foreign key, instruction, left key, hash, timestamp, headers)
Send = Callable[[Any, Instruction, Any, "bytes | None", int, Headers], None]
#: sends a change: (new foreign key, old one, left key, hash, timestamp, headers)
SendChange = Callable[[Any, Any, Any, "bytes | None", int, Headers], None]


class SubscriptionSendNode(ProcessorNode):
    """Forwards ``(foreign key, Subscription)``. ``foreign_key(key, value)``."""

    left: TableNode
    foreign_key: Callable[[Any, Any], Any]
    foreign_key_serde: Serde[Any]
    value: Serde[Any]
    registration_topic: str
    is_left: bool
    use_versioned_semantics: bool = field(default=False, init=False)

    def retains_records(self) -> bool:
        return True  # the row's bytes, of which it sends a hash

    def compile(self, task: TaskContext, forward: Forward, children: Children) -> Process:
        foreign_key = self.foreign_key
        of_update = RowHashes(self.left, self.value, self.registration_topic, task).of_update
        send_change = self._compile_send_change(task, forward)
        skips_older = self.use_versioned_semantics
        drop = task.dropper(self.name, DropReason.OUT_OF_ORDER)

        def process(
            key: Any, new: Any, old: Any, timestamp: int, headers: Headers, is_latest: bool
        ) -> None:
            if skips_older and not is_latest:
                drop()
                return
            if new is None and old is None:
                return
            row_hash = None
            if new is not None:
                new, row_hash = of_update(key, new, is_latest=is_latest)
            wanted = None if new is None else foreign_key(key, new)
            held = None if old is None else foreign_key(key, old)
            send_change(wanted, held, key, row_hash, timestamp, headers)

        return process

    def _compile_send_change(self, task: TaskContext, forward: StreamProcess) -> SendChange:
        def send(
            foreign_key: Any,
            instruction: Instruction,
            key: Any,
            row_hash: bytes | None,
            timestamp: int,
            headers: Headers,
        ) -> None:
            subscription = Subscription(row_hash, instruction, key, task.partition)
            forward(foreign_key, subscription, timestamp, headers)

        differ = self._compile_differ(task)
        if self.is_left:
            return _left_changes(send, differ)
        drop = task.dropper(self.name, DropReason.NULL_FOREIGN_KEY)
        return _inner_changes(drop, send, differ)

    def _compile_differ(self, task: TaskContext) -> Callable[[Any, Any], bool]:
        """Whether foreign keys differ, in their bytes: objects need not be comparable."""
        topic = task.topic_name(self.registration_topic, is_internal=True)
        serialize = self.foreign_key_serde.serializer(f"{topic}-fk", True)

        def differ(wanted: Any, held: Any) -> bool:
            return wanted is None or serialize(wanted) != serialize(held)

        return differ


def _left_changes(send: Send, differ: Callable[[Any, Any], bool]) -> SendChange:
    def send_change(wanted: Any, held: Any, *row: Any) -> None:
        if held is not None and differ(wanted, held):
            send(held, Instruction.UNSUBSCRIBE, *row)
        # In every case the result has to be computed again from the right side's response.
        send(wanted, Instruction.SUBSCRIBE_AND_ANSWER, *row)

    return send_change


def _inner_changes(drop: Drop, send: Send, differ: Callable[[Any, Any], bool]) -> SendChange:
    def send_change(wanted: Any, held: Any, key: Any, row_hash: bytes | None, *record: Any) -> None:
        if wanted is None:
            if row_hash is not None:
                drop()
            if held is not None:
                send(held, Instruction.UNSUBSCRIBE_AND_ANSWER, key, row_hash, *record)
        elif held is not None and differ(wanted, held):
            # No response for the old foreign key: that for the new one determines the result.
            send(held, Instruction.UNSUBSCRIBE, key, row_hash, *record)
            send(wanted, Instruction.SUBSCRIBE_AND_ANSWER, key, row_hash, *record)
        else:
            # Without a right row there was no result either, so there is nothing to delete.
            send(wanted, Instruction.SUBSCRIBE_AND_ANSWER_IF_FOUND, key, row_hash, *record)

    return send_change


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
