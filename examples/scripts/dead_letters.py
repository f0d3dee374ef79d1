# /// script
# requires-python = ">=3.11"
# dependencies = ["confluent-kafka", "logstate"]
# ///
"""Moves records that cannot be processed to a topic of dead letters, and continues.

    uv run dead_letters.py localhost:9092

readings ── parse ── group by key ── maximum (store: warmest)
              └─ records that raise an error ── dead letters

Without `ErrorHandlers` the application stops before such a record, so that nothing is lost.
"""

from __future__ import annotations

import argparse
import os

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from logstate import Application, ErrorHandlers, StreamsBuilder, Topology, dead_letter

READINGS, DEAD = "dead-letters-readings", "dead-letters"
SENT = [("attic", "21.5"), ("hall", "warm"), ("attic", "24.0"), ("hall", "19.0")]


def warmer(warmest: float, reading: float) -> float:
    return max(warmest, reading)


def topology() -> Topology:
    builder = StreamsBuilder()
    (
        builder.stream(READINGS, key=str, value=str)
        .map_values(float, value=float)
        .group_by_key()
        .reduce(warmer, store="warmest")
    )
    return builder.build()


def create_topics(bootstrap: str, *names: str) -> None:
    """Topics that exist are left as they are."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for result in admin.create_topics([NewTopic(name, 1) for name in names]).values():
        try:
            result.result()
        except KafkaException as error:
            if error.args[0] != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def print_dead_letters(bootstrap: str) -> None:
    """Those of earlier runs too."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not used"})
    _, end = consumer.get_watermark_offsets(TopicPartition(DEAD, 0))
    consumer.assign([TopicPartition(DEAD, 0, 0)])
    is_over = False
    while not is_over:
        for letter in consumer.consume(100, timeout=1):
            headers = dict(letter.headers() or ())
            reason = headers["__streams.errors.message"]
            print(f"dead letter: {letter.key()!r} {letter.value()!r}: {reason.decode()}")
        is_over = consumer.position([TopicPartition(DEAD, 0)])[0].offset >= end
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "bootstrap", nargs="?", default=os.environ.get("LOGSTATE_BOOTSTRAP", "localhost:9092")
    )
    bootstrap = parser.parse_args().bootstrap
    create_topics(bootstrap, READINGS, DEAD)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for room, reading in SENT:
        producer.produce(READINGS, key=room, value=reading)
    producer.flush()
    with Application(
        topology(),
        application_id="dead-letters",
        bootstrap=bootstrap,
        state_dir="state",
        error_handlers=ErrorHandlers(processing=dead_letter, dead_letter_topic=DEAD),
    ) as app:
        app.wait_until_caught_up()
        for room, row in sorted(app.store("warmest", key=str, value=float).all()):
            print(f"{room}: {row.value}")
    print_dead_letters(bootstrap)


if __name__ == "__main__":
    main()
