"""The broker as an observer sees it: topics, their ends, a group's committed offsets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from logstate.contracts.records import TopicPartition as LogPartition
from logstate.kafka.offset_metadata import read_committed
from tests.performance.settings import PARTITIONS

_WAIT_S = 30.0
_PAUSE_S = 0.1
_ATTEMPTS = 100


class Topics:
    """One observer's connection."""

    def __init__(self, bootstrap: str, partitions: int = PARTITIONS) -> None:
        self.bootstrap = bootstrap
        self._partitions = partitions
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        #: by group; members of none
        self._readers: dict[str, Consumer] = {}

    def cluster_id(self) -> str:
        """Which cluster it is: what is known of a topic holds on that one only."""
        return str(self._admin.list_topics(timeout=_WAIT_S).cluster_id)

    def exists(self, topic: str) -> bool:
        """Whether the broker has the topic."""
        return topic in self._admin.list_topics(timeout=_WAIT_S).topics

    def create(self, topic: str, **config: str) -> None:
        """Create a topic and wait until every partition has a leader."""
        new = NewTopic(topic, self._partitions, 1, config=config)
        self._admin.create_topics([new])[topic].result(_WAIT_S)
        for _ in range(_ATTEMPTS):
            metadata = self._admin.list_topics(topic, timeout=_WAIT_S).topics[topic]
            if metadata.error is None and len(metadata.partitions) == self._partitions:
                break
            time.sleep(_PAUSE_S)
        self.end(topic)

    def delete(self, *prefixes: str) -> None:
        """Delete every topic whose name starts with one of the prefixes."""
        names = [
            t for t in self._admin.list_topics(timeout=_WAIT_S).topics if _is_below(t, prefixes)
        ]
        if not names:
            return
        for future in self._admin.delete_topics(names, operation_timeout=_WAIT_S).values():
            try:
                future.result(_WAIT_S)
            except KafkaException as error:
                print(f"a topic was not deleted: {error}", file=sys.stderr)

    def changelogs(self, run: str) -> list[str]:
        """The changelog topics of an application."""
        names = self._admin.list_topics(timeout=_WAIT_S).topics
        return [name for name in names if run in name and "changelog" in name]

    def end(self, topic: str, *, is_committed: bool = False) -> int:
        """The sum of the end offsets; ``is_committed``: of what read-committed readers see."""
        options: dict[str, Any] = {}
        if is_committed:
            options["isolation_level"] = IsolationLevel.READ_COMMITTED
        partitions = len(self._admin.list_topics(topic, timeout=_WAIT_S).topics[topic].partitions)
        latest: OffsetSpec = OffsetSpec.latest()
        asked = {TopicPartition(topic, p): latest for p in range(partitions)}
        failure: BaseException | None = None
        for _ in range(_ATTEMPTS):
            futures = list(self._admin.list_offsets(asked, **options).values())
            failures = [error for f in futures if (error := f.exception(_WAIT_S)) is not None]
            if not failures and futures:
                # The client's stubs do not know the field.
                return sum(future.result().offset for future in futures)  # type: ignore[attr-defined]
            failure = failures[0] if failures else None
            time.sleep(_PAUSE_S)  # a topic just created may have no leader yet
        raise failure or RuntimeError(f"no offsets for {topic}")

    def committed(self, group: str, topic: str) -> int:
        """The sum of a group's committed offsets; 0 while the group does not exist."""
        # Not by the admin client: where the group has no coordinator yet, it ends the process.
        if group not in self._readers:
            self._readers[group] = Consumer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "group.id": group,
                    "enable.auto.commit": False,
                }
            )
        asked = [LogPartition(topic, p) for p in range(self._partitions)]
        try:
            found = read_committed(self._readers[group], asked, _WAIT_S)
        except KafkaException:
            return 0
        return sum(one.offset or 0 for one in found.values())

    def read_all(self, topic: str) -> Iterator[Message]:
        """Every committed record of a topic."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "performance-verify",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "queued.min.messages": 500_000,
            }
        )
        consumer.assign([TopicPartition(topic, p, 0) for p in range(self._partitions)])
        ended = 0
        while ended < self._partitions:
            for message in consumer.consume(10_000, 1.0):
                if message.error():
                    ended += 1
                else:
                    yield message
        consumer.close()


class Loader:
    """Writes inputs as a JVM producer would: lz4, large batches, murmur2."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": "lz4",
                "linger.ms": 50,
                "batch.size": 1_000_000,
                "batch.num.messages": 10_000,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1_000_000,
                "enable.idempotence": True,
                "partitioner": "murmur2",
            }
        )
        self._sent = 0

    def send(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        timestamp: int = 0,
        *,
        partition: int = -1,
        on_delivery: Callable[[Any, Message], None] | None = None,
    ) -> None:
        """Queue one record; waits while the queue is full."""
        options: dict[str, Any] = {"timestamp": timestamp, "partition": partition}
        if on_delivery is not None:
            options["on_delivery"] = on_delivery
        while True:
            try:
                self._producer.produce(topic, value, key, **options)
                break
            except BufferError:
                self._producer.poll(_PAUSE_S)
        self._sent += 1
        if self._sent % 1_000 == 0:
            self._producer.poll(0)

    def flush(self) -> None:
        """Wait until everything is on the broker."""
        left = self._producer.flush(_WAIT_S * 4)
        if left:
            raise RuntimeError(f"{left} input records were not delivered")


def _is_below(topic: str, prefixes: tuple[str, ...]) -> bool:
    return any(topic == prefix or topic.startswith(prefix + "-") for prefix in prefixes)
