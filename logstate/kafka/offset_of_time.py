"""Looks an offset up by a time, as brokers do it: markers of transactions count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import confluent_kafka
import confluent_kafka.admin

from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import asked


def first_offset_since(
    config: Mapping[str, Any], partition: TopicPartition, time_ms: int
) -> int | None:
    """Of the first record whose timestamp is not before a time; None where all are.

    A marker, which no consumer is shown, has the time of the broker's clock. Raises TopicError for
    an unknown partition, BrokerError if nobody answers.
    """
    log = confluent_kafka.TopicPartition(*partition)
    spec = confluent_kafka.admin.OffsetSpec.for_timestamp(time_ms)
    level = confluent_kafka.IsolationLevel.READ_UNCOMMITTED
    found = asked(
        config,
        lambda admin: admin.list_offsets({log: spec}, isolation_level=level, request_timeout=30.0),
        lambda tp: f"an offset of {tp.topic}-{tp.partition}",
    )
    offset: int = found[log].offset
    return offset if offset >= 0 else None
