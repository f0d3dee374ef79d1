"""Facts about a log in addition to its records: offsets by time, and compaction settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import confluent_kafka
import confluent_kafka.admin

from logstate.contracts.errors import LogstateError
from logstate.contracts.records import TopicPartition
from logstate.kafka.log_reader import asked


def first_offset_since(
    config: Mapping[str, Any], partition: TopicPartition, time_ms: int
) -> int | None:
    """Return the offset of the first record whose timestamp is not before a time, or None.

    A transaction marker, which consumers do not see, has the time of the broker's clock. Raises
    TopicError for an unknown partition, BrokerError if no broker responds.
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


class CleanerSettings(NamedTuple):
    """``delete.retention.ms`` and ``segment.ms`` of a compacted topic."""

    tombstones_kept_ms: int
    segment_ms: int


def cleaner_settings(config: Mapping[str, Any], topic: str) -> CleanerSettings | None:
    """Return the settings of a topic; None if the brokers do not allow to describe it."""
    kind = confluent_kafka.admin.ResourceType.TOPIC
    resource = confluent_kafka.admin.ConfigResource(kind, topic)
    with suppress(LogstateError):
        (found,) = asked(
            config,
            lambda admin: admin.describe_configs([resource], request_timeout=30.0),
            lambda one: f"the settings of {one.name!r}",
        ).values()
        kept, segment = (int(found[name].value) for name in ("delete.retention.ms", "segment.ms"))
        return CleanerSettings(kept, segment)
    return None
