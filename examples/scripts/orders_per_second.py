# /// script
# requires-python = ">=3.11"
# dependencies = ["confluent-kafka", "logstate", "msgspec"]
# ///
"""Adds up orders per customer and second, and shows what happens to late ones.

    uv run orders_per_second.py localhost:9092

orders ── group by key ── windows of a second ── sum (store: spent)
                                  └─ late orders ── late-orders

An order counts in the second of its own timestamp, in whatever order the records arrive. A window
accepts orders until a timestamp half a second after its end has been seen; later ones are late.
The store keeps windows for a minute of such time, so that closed ones can be read.
"""

from __future__ import annotations

import argparse
import os
import time
from datetime import timedelta

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logstate import (
    Application,
    LateRecord,
    Materialized,
    StreamsBuilder,
    Topology,
    TumblingWindows,
)

ORDERS, LATE = "orders-per-second-orders", "orders-per-second-late"
#: milliseconds after the first second begins, customer, cents
SENT = [
    (100, "ada", 250),
    (300, "bob", 900),
    (900, "ada", 125),
    (1_300, "ada", 400),
    (950, "ada", 60),  # out of order, and in time: its window is open until 1,500 ms
    (2_600, "ada", 80),
    (980, "ada", 500),  # its window has closed
]


class Order(msgspec.Struct, frozen=True):
    cents: int


def topology() -> Topology:
    builder = StreamsBuilder()
    seconds = TumblingWindows(size=timedelta(seconds=1), grace=timedelta(milliseconds=500))
    (
        builder.stream(ORDERS, key=str, value=Order)
        .group_by_key()
        .windowed_by(seconds)
        .aggregate(
            int,
            lambda spent, order: spent + order.cents,
            store=Materialized("spent", retention=timedelta(minutes=1)),
            value=int,
            late="late-orders",
        )
    )
    builder.late("late-orders", key=str, value=Order).peek(print_late).to(LATE)
    return builder.build()


def print_late(customer: str, late: LateRecord[str, Order]) -> None:
    print(f"late by {late.by_ms} ms: {late.value.cents} cents of {customer}")


def create_topics(bootstrap: str, *names: str) -> None:
    """Topics that exist are left as they are."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # One partition, so that each run prints the same: stream time is per partition.
    for result in admin.create_topics([NewTopic(name, 1) for name in names]).values():
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
    create_topics(bootstrap, ORDERS, LATE)
    begin_ms = int(time.time()) * 1_000
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for after_ms, customer, cents in SENT:
        value = msgspec.json.encode(Order(cents))
        producer.produce(ORDERS, key=customer, value=value, timestamp=begin_ms + after_ms)
    producer.flush()
    with Application(
        topology(), application_id="orders-per-second", bootstrap=bootstrap, state_dir="state"
    ) as app:
        app.wait_until_caught_up()
        spent = app.store("spent", key=str, value=int, kind="timestamped_window")
        rows = spent.fetch_all(begin_ms, begin_ms + 3_000)
        for window, row in sorted(rows, key=lambda one: (one[0].start_ms, one[0].key)):
            second = (window.start_ms - begin_ms) // 1_000
            print(f"second {second}: {window.key} spent {row.value} cents")


if __name__ == "__main__":
    main()
