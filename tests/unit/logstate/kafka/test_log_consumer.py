"""The reader of logs on a cluster that librdkafka itself plays: no broker, and no fake."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from logstate.contracts.records import TopicPartition
from logstate.kafka.log_consumer import KafkaLogConsumer
from tests.patience import until

LOG = TopicPartition("log", 0)


class Played:
    """A reader, whose client plays the cluster, and somebody who writes to it."""

    def __init__(self) -> None:
        self.reader = KafkaLogConsumer(
            {
                "bootstrap.servers": "played",
                "test.mock.num.brokers": 1,
                "group.id": "reader",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        (broker,) = self.reader._consumer.list_topics(timeout=60).brokers.values()
        address = f"{broker.host}:{broker.port}"
        self.writer = Producer({"bootstrap.servers": address, "log_level": 0})

    def write(self, count: int) -> None:
        for _ in range(count):
            self.writer.produce(LOG.topic, b"v", partition=LOG.partition)
        self.writer.flush()

    def read(self, count: int) -> list[int | None]:
        """The offsets of so many records."""
        found: list[int | None] = []

        def is_read() -> bool:
            polled = self.reader.poll(100, 0.1)
            found.extend(record.offset() for record in polled.records.get(LOG, ()))
            return len(found) >= count

        until(is_read, lambda: f"read {found}")
        return found


@pytest.fixture
def played() -> Iterator[Played]:
    played = Played()
    yield played
    played.reader.close()


def test_a_position_that_was_outside_its_log_is_read_from_once_the_log_holds_it(
    played: Played,
) -> None:
    """The client had given the partition up; assigned where it was, it stayed so for ever."""
    played.write(10)
    played.reader.assign({LOG: 20})
    until(lambda: LOG in played.reader.poll(100, 0.1).out_of_range)
    played.write(15)
    played.reader.assign({LOG: 20})
    assert played.read(5) == [20, 21, 22, 23, 24]


def test_what_is_assigned_where_it_is_read_is_read_on(played: Played) -> None:
    played.write(3)
    played.reader.assign({LOG: 0})
    assert played.read(3) == [0, 1, 2]
    played.reader.assign({LOG: 3})
    played.write(2)
    assert played.read(2) == [3, 4]
