"""Partition counts of output topics, and the default partition of a key."""

from __future__ import annotations

import time
from collections.abc import Callable

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Producer

from logstate.contracts.errors import RefusedError, RetriableError
from logstate.kafka.faults import translate_error

#: Kafka's default partition of a key, in C; the client's stubs do not know it
murmur2_partition: Callable[[bytes, int], int] = confluent_kafka.murmur2  # type: ignore[attr-defined]
#: the partition count of an output topic is looked up again after this time
_COUNT_LIFETIME_S = 300.0


class PartitionCounts:
    """The partition counts of output topics, looked up again from time to time.

    Partitions of keys are not cached: hashing one costs 100 ns, finding it among 100,000
    earlier ones costs 270 ns (``docs/benchmarks.md``).
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._counts: dict[str, tuple[int, float]] = {}

    def of(self, topic: str) -> int:
        """Return the count. Raise RefusedError if the topic does not exist."""
        known, expires = self._counts.get(topic, (0, 0.0))
        now = time.monotonic()
        if expires >= now:
            return known
        try:
            metadata = self._producer.list_topics(topic, timeout=10).topics[topic]
        except KafkaException as exc:
            raise translate_error(exc, f"looking up the partitions of {topic!r}", "admin") from exc
        count = len(metadata.partitions)
        if metadata.error is not None or count == 0:
            text = (
                f"output topic {topic!r} does not exist or has no leader: {metadata.error};"
                " output topics are never created by the application: create it first"
            )
            if known or _is_leaderless(metadata.error):
                raise RetriableError(text)  # a broker that has just started does not know it yet
            raise RefusedError(text, topic=topic)
        self._counts[topic] = (count, now + _COUNT_LIFETIME_S)
        return count


def _is_leaderless(error: KafkaError | None) -> bool:
    return error is not None and error.code() == KafkaError.LEADER_NOT_AVAILABLE
