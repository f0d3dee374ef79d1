# /// script
# requires-python = ">=3.11"
# dependencies = ["confluent-kafka", "logstate"]
# ///
"""Counts words: the smallest topology with state.

    uv run word_count.py localhost:9092

lines ── split into words ── group by word ── count (store: counts) ── word-counts

Run it again: the counts continue where they were, because the store has a changelog topic.
"""

from __future__ import annotations

import argparse
import os

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logstate import Application, StreamsBuilder, Topology

LINES, COUNTS = "word-count-lines", "word-counts"
TEXT = ["to be or not to be", "that is the question", "to sleep perchance to dream"]


def topology() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(LINES, value=str).flat_map_values(str.split, value=str)
    # A new key: all records of a word go through the topic "word-count-by-word-repartition" to
    # one partition, so that one task counts them.
    counts = words.group_by(lambda word: word, name="by-word", key=str).count(store="counts")
    counts.to_stream().to(COUNTS, value=int)
    return builder.build()


def create_topics(bootstrap: str, *names: str) -> None:
    """Topics that exist are left as they are."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for result in admin.create_topics([NewTopic(name, 3) for name in names]).values():
        try:
            result.result()
        except KafkaException as error:
            if error.args[0] != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "bootstrap", nargs="?", default=os.environ.get("LOGSTATE_BOOTSTRAP", "localhost:9092")
    )
    bootstrap = parser.parse_args().bootstrap
    create_topics(bootstrap, LINES, COUNTS)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for line in TEXT:
        producer.produce(LINES, value=line)
    producer.flush()
    with Application(
        topology(), application_id="word-count", bootstrap=bootstrap, state_dir="state"
    ) as app:
        app.wait_until_caught_up()
        counts = app.store("counts", key=str, value=int)
        for word, row in sorted(counts.all(), key=lambda one: (-one[1].value, one[0])):
            print(f"{row.value:3} {word}")


if __name__ == "__main__":
    main()
