"""What came out, judged by the source coordinates that every output record carries.

One flight causes one record on each output topic. So of each flight (partition, offset) and each
output topic there must be exactly one record, read committed: none is a loss, two a duplicate. The
audit never looks at the results themselves; a wrong figure is the comparison's business.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from examples.flights.app import SOURCE_HEADER
from examples.flights.loader import OUTPUT_TOPICS, PARTITIONS

Partition = tuple[str, int]


class Offsets(NamedTuple):
    """Next offsets of one partition: of what is committed, and of all that is on the log."""

    committed: int
    written: int


class OutputAudit:
    """Counts, over as many calls of ``read`` as it takes, what each flight has caused."""

    def __init__(self, bootstrap: str, flights: int) -> None:
        """``flights`` is the number of records there will be on the flights topic."""
        self._bootstrap = bootstrap
        self._caused = {topic: [bytearray() for _ in range(PARTITIONS)] for topic in OUTPUT_TOPICS}
        self._consumer = _consumer(bootstrap, "read_committed")
        self._consumer.assign(
            [TopicPartition(topic, p, OFFSET_BEGINNING) for topic, p in output_partitions()]
        )
        self._read_to: dict[Partition, int] = dict.fromkeys(output_partitions(), 0)
        self.expected = flights * len(OUTPUT_TOPICS)
        self.records = 0

    def read(self, timeout_s: float = 0.2) -> int:
        """Count what has been committed meanwhile; returns how many records that were."""
        before = self.records
        for message in self._consumer.consume(10_000, timeout_s):
            topic, partition, offset = place(message)
            if is_end(message):
                self._read_to[topic, partition] = offset
                continue
            source_partition, source_offset = source_of(message)
            caused = self._caused[topic][source_partition]
            if source_offset >= len(caused):
                caused.extend(bytes(source_offset + 1 - len(caused)))
            caused[source_offset] = min(caused[source_offset] + 1, 255)
            self._read_to[topic, partition] = offset + 1
            self.records += 1
        return self.records - before

    def read_to_end(self, timeout_s: float = 180) -> None:
        """Count everything that is committed at this moment."""
        ends = {at: end.committed for at, end in offsets(self._bootstrap, output_partitions())}
        deadline = time.monotonic() + timeout_s
        while any(self._read_to[at] < end for at, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"read to {self._read_to}, not to {ends}, in {timeout_s} s")
            self.read()

    @property
    def lost(self) -> int:
        """Flights without a result, over both topics."""
        return self.expected - self._flights_with_results()

    @property
    def duplicated(self) -> int:
        """Results beyond the first of a flight, over both topics."""
        return (
            sum(sum(partition) for partition in self._partitions()) - self._flights_with_results()
        )

    def _flights_with_results(self) -> int:
        return sum(len(partition) - partition.count(0) for partition in self._partitions())

    def close(self) -> None:
        self._consumer.close()

    def _partitions(self) -> Iterator[bytearray]:
        for of_topic in self._caused.values():
            yield from of_topic


def output_partitions() -> list[Partition]:
    return [(topic, partition) for topic in OUTPUT_TOPICS for partition in range(PARTITIONS)]


def offsets(bootstrap: str, partitions: Sequence[Partition]) -> list[tuple[Partition, Offsets]]:
    """The committed and the written end of each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    latest: OffsetSpec = OffsetSpec.latest()
    asked = {TopicPartition(*at): latest for at in partitions}
    ends = []
    for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        answers = admin.list_offsets(asked, isolation_level=isolation)
        ends.append({(at.topic, at.partition): _offset(answers[at].result()) for at in asked})
    return [(at, Offsets(ends[0][at], ends[1][at])) for at in partitions]


def _offset(answer: Any) -> int:
    # The published type stubs do not know the attribute.
    return int(answer.offset)


def records_between(bootstrap: str, at: Partition, start: int, end: int, isolation: str) -> int:
    """How many records of a partition a reader of this isolation level gets in [start, end)."""
    consumer = _consumer(bootstrap, isolation)
    try:
        consumer.assign([TopicPartition(*at, start)])
        deadline = time.monotonic() + 180
        records = 0
        while time.monotonic() < deadline:
            for message in consumer.consume(1_000, 0.5):
                if is_end(message) or place(message)[2] >= end:
                    return records
                records += 1
        raise TimeoutError(f"{at} was not read from {start} to {end} in 180 s")
    finally:
        consumer.close()


def source_of(message: Message) -> tuple[int, int]:
    """Partition and offset of the flight that caused a record."""
    for name, value in message.headers() or ():
        if name == SOURCE_HEADER and isinstance(value, bytes):
            _, partition, offset = value.split(b":")
            return int(partition), int(offset)
    raise ValueError("{}-{} at {} does not name its source".format(*place(message)))


def place(message: Message) -> tuple[str, int, int]:
    """Topic, partition and offset."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def is_end(message: Message) -> bool:
    """Whether this is not a record but the news that a partition's end is reached."""
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  the client's public name for it
        raise ConnectionError(error.str())
    return True


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "flights-demo-audit",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            # Aborted records and transaction markers take offsets and are never delivered, so the
            # last record does not tell where the end is.
            "enable.partition.eof": True,
            "log_level": 3,
        }
    )
