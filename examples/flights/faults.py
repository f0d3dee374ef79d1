"""Faults to plant, so that the demo can show that it would notice them.

``duplicates``: some results are really produced a second time. ``reference``: one figure of the
reference is wrong by one minute. ``spark``: Spark reads one changelog partition instead of all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import polars as pl
from confluent_kafka import Consumer, Producer, TopicPartition

from examples.flights.outputs import is_end
from examples.flights.reference import Reference

Fault = Literal["duplicates", "reference", "spark"]
FAULTS: tuple[Fault, ...] = ("duplicates", "reference", "spark")

ONE_PARTITION = {"partition": "0"}


def produce_again(bootstrap: str, topic: str, records: int = 10) -> None:
    """Append copies of the first records of a topic's partition 0, headers included."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "flights-demo-fault",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    copies = [m for m in consumer.consume(records, 120) if not is_end(m)]
    consumer.close()
    producer = Producer({"bootstrap.servers": bootstrap})
    for copy in copies:
        producer.produce(topic, copy.value(), copy.key(), 0, headers=list(copy.headers() or ()))
    if not copies or producer.flush(180):
        raise RuntimeError(f"the fault could not be planted in {topic}")


def wrong_by_a_minute(reference: Reference) -> Reference:
    """The reference with one more minute of delay for its first model."""
    first = pl.int_range(pl.len()) == 0
    minutes = pl.col("minutes") + first.cast(pl.Int64)
    return replace(reference, model_totals=reference.model_totals.with_columns(minutes))
