"""Fill the input topics: airlines and planes, then the flights in order of their event time.

    python -m examples.flights.loader --bootstrap localhost:9092 [--days 14]

Every record's timestamp is its event time; a table row was known when the year began. The keys are
carrier, tail number, tail number: flights and planes have the same number of partitions and the
same partitioner (murmur2, as in the Java clients), so a flight lies where its plane lies. Flights
without a tail number have no key; they go to the partitions in turn, the same way in every run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.progress import Progress

from examples.flights import data

PARTITIONS = 4
INPUT_TOPICS = ("airlines", "planes", "flights")
OUTPUT_TOPICS = ("carrier-hours", "model-totals")

_YEAR_START = datetime(2013, 1, 1, tzinfo=UTC)
_YEAR_START_MS = int(_YEAR_START.timestamp() * 1000)
_DAY_MS = 86_400_000
_BATCH = 500
_QUEUED_MAX = 25_000


class Row(NamedTuple):
    key: str | None
    value: msgspec.Struct
    timestamp_ms: int


def create_topics(bootstrap: str) -> None:
    """Create the inputs and the outputs; fails when one of them exists already."""
    # Event times lie years back: with a retention by time the broker would delete every record.
    config = {"retention.ms": "-1"}
    topics = [NewTopic(name, PARTITIONS, 1, config=config) for name in INPUT_TOPICS + OUTPUT_TOPICS]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics(topics).values():
        created.result()


def rows(days: int | None = None) -> dict[str, list[Row]]:
    """What goes into each topic, in order; ``days`` limits the flights to the first of the year."""
    flights = data.flights()
    if days is not None:
        end_ms = _YEAR_START_MS + days * _DAY_MS
        flights = [flight for flight in flights if flight.event_time_ms < end_ms]
    return {
        "airlines": [Row(airline.carrier, airline, _YEAR_START_MS) for airline in data.airlines()],
        "planes": [Row(plane.tailnum, plane, _YEAR_START_MS) for plane in data.planes()],
        "flights": [Row(flight.tailnum, flight, flight.event_time_ms) for flight in flights],
    }


def load(bootstrap: str, topics: dict[str, list[Row]], loaded: Callable[[str, int], None]) -> None:
    """Produce everything and wait until it is stored; calls ``loaded(topic, count)`` on the way.

    ``loaded`` may take its time: the next records come when it has returned.
    """
    failures: list[str] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            # A repeated flight would be one more flight in every result.
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 50,
            "log_level": 3,
            "batch.size": 500_000,
            "message.timeout.ms": 180_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(str(error)),
        }
    )
    encode = msgspec.json.Encoder().encode
    for topic, content in topics.items():
        turn = 0
        for start in range(0, len(content), _BATCH):
            batch = content[start : start + _BATCH]
            for key, value, timestamp_ms in batch:
                partition = -1  # by key
                if key is None:
                    partition, turn = turn % PARTITIONS, turn + 1
                producer.produce(
                    topic, encode(value), key, partition=partition, timestamp=timestamp_ms
                )
            # Bounds what is queued, and serves the failures.
            while len(producer) > _QUEUED_MAX:
                producer.poll(0.01)
            loaded(topic, len(batch))
    missing = producer.flush(180)
    if missing or failures:
        raise RuntimeError(f"{missing + len(failures)} records were not stored: {failures[:3]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", required=True, help="host:port of a broker")
    parser.add_argument("--days", type=int, help="only the first days of the year")
    arguments = parser.parse_args()
    create_topics(arguments.bootstrap)
    topics = rows(arguments.days)
    with Progress() as progress:
        bars = {topic: progress.add_task(topic, total=len(topics[topic])) for topic in topics}
        load(
            arguments.bootstrap,
            topics,
            lambda topic, count: progress.advance(bars[topic], count),
        )


if __name__ == "__main__":
    main()
