"""What a conformance case works with: a cluster, fresh names, and patience."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from logstate.contracts.clients import (
    Cluster,
    GroupConsumer,
    LogConsumer,
    NewTopic,
    Polled,
    Rebalance,
    TransactionalProducer,
)
from logstate.contracts.records import FetchedRecord, ProducedRecord, TopicPartition
from tests.broker.patient_producers import initialised
from tests.patience import until

#: what a broker needs to answer a poll; a fake has its answer at once
BROKER_POLL_S = 0.2


class Rig:
    """A cluster under test. Everything it makes is closed by ``close``."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        poll_s: float,
        prepare_group: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``prepare_group`` is told of a group before somebody joins it."""
        self.cluster = cluster
        self.poll_s = poll_s
        self._prepare_group = prepare_group
        self._closing = ExitStack()
        self.admin = cluster.admin()
        self._closing.callback(self.admin.close)

    def close(self) -> None:
        self._closing.close()

    # ------------------------------------------------------------------ making things

    def name(self, prefix: str) -> str:
        return f"{prefix}-{uuid.uuid4().hex[:10]}"

    def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = self.name("log")
        self.admin.create_topics([NewTopic(name, partitions, 1, config or {})])
        return name

    def producer(self, transactional_id: str | None = None) -> TransactionalProducer:
        producer = self.cluster.transactional_producer(transactional_id or self.name("tx"))
        self._closing.callback(producer.close)
        return initialised(producer)

    def reader(self, positions: Mapping[TopicPartition, int]) -> Reader:
        consumer = self.cluster.log_consumer()
        self._closing.callback(consumer.close)
        consumer.assign(positions)
        return Reader(self, consumer)

    def member(
        self, group: str, topics: Sequence[str], instance_id: str | None = None
    ) -> GroupMember:
        self._prepare_group(group)
        consumer = self.cluster.group_consumer(group_id=group, instance_id=instance_id)
        self._closing.callback(consumer.close)
        return GroupMember(consumer, topics, self.poll_s)

    # ------------------------------------------------------------------ doing things

    def write(self, partition: TopicPartition, *values: bytes) -> None:
        """Outside transactions."""
        producer = self.cluster.plain_producer()
        producer.produce(records(partition, *values))
        producer.flush()
        producer.close()

    def commit(self, partition: TopicPartition, *values: bytes) -> None:
        """In a transaction of its own."""
        producer = self.producer()
        producer.begin()
        producer.produce(records(partition, *values))
        producer.flush()
        producer.commit()

    def end(self, partition: TopicPartition) -> int:
        return self.admin.end_offsets([partition])[partition]

    def eventually(self, is_true: Callable[[], Any]) -> None:
        until(is_true, "it did not become true")


class Reader:
    """A log consumer and everything it has read."""

    def __init__(self, rig: Rig, consumer: LogConsumer) -> None:
        self._rig = rig
        self.consumer = consumer
        self.records: list[FetchedRecord] = []
        self.ends: list[tuple[TopicPartition, int]] = []
        self.out_of_range: dict[TopicPartition, int] = {}

    @property
    def values(self) -> list[Any]:
        return [record.value() for record in self.records]

    def poll(self, max_records: int = 100) -> Polled:
        polled = self.consumer.poll(max_records, self._rig.poll_s)
        for found in polled.records.values():
            self.records += found
        self.ends += polled.ends
        self.out_of_range |= polled.out_of_range
        return polled

    def read_to(self, partition: TopicPartition, position: int) -> None:
        """Poll until the position is reached, however many records that is."""

        def is_there() -> bool:
            self.poll()
            reached = self.consumer.position(partition)
            return reached is not None and reached >= position

        self._rig.eventually(is_there)

    def read_to_end_notice(self, partition: TopicPartition) -> int:
        """Poll until the partition's end is reported; returns the position there."""

        def is_reported() -> bool:
            self.poll()
            return any(tp == partition for tp, _ in self.ends)

        self._rig.eventually(is_reported)
        return next(position for tp, position in self.ends if tp == partition)


class GroupMember:
    """A member that answers every change of its assignment by agreeing."""

    def __init__(self, consumer: GroupConsumer, topics: Sequence[str], poll_s: float) -> None:
        self.consumer = consumer
        self._poll_s = poll_s
        self.owned: set[TopicPartition] = set()
        self.history: list[Rebalance] = []
        self.records: list[FetchedRecord] = []
        consumer.subscribe(topics, self._answer)

    def poll(self) -> Polled:
        polled = self.consumer.poll(100, self._poll_s)
        for rebalance in polled.rebalances:  # of a fake; a client has called _answer already
            self._answer(rebalance)
        for found in polled.records.values():
            self.records += found
        return polled

    def _answer(self, rebalance: Rebalance) -> None:
        self.history.append(rebalance)
        if rebalance.kind == "assigned":
            self.owned |= set(rebalance.partitions)
        else:
            self.owned -= set(rebalance.partitions)


def records(partition: TopicPartition, *values: bytes | None) -> list[ProducedRecord]:
    """Records without keys for one partition."""
    topic, number = partition
    return [ProducedRecord(topic, number, None, value, 1_000) for value in values]


def together(members: Iterable[GroupMember]) -> None:
    """One poll of each."""
    for member in members:
        member.poll()
