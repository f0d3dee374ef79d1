"""A topic: its id, configuration and logs."""

from __future__ import annotations

from collections.abc import Mapping

from logstate.contracts.records import TopicPartition
from logstate.testing.fake.partition_log import SEGMENT_MS, PartitionLog

#: what brokers use where a topic says nothing
_DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.compaction.lag.ms": "0",
    "segment.ms": str(SEGMENT_MS),
}


class FakeTopic:
    """``topic_id`` is new whenever a topic of the same name is created again."""

    def __init__(
        self, name: str, topic_id: str, partitions: int, config: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config = {**_DEFAULTS, **(config or {})}
        self.partitions: list[TopicPartition] = []
        self.logs: list[PartitionLog] = []
        self.grow(partitions)
        self.bytes_max = int(self.config["max.message.bytes"])
        self.uses_append_time = self.config["message.timestamp.type"] == "LogAppendTime"

    def grow(self, partitions: int) -> None:
        """Have so many partitions; those that there are stay as they are."""
        for number in range(len(self.logs), partitions):
            self.partitions.append(TopicPartition(self.name, number))
            self.logs.append(PartitionLog(self.name, number))

    @property
    def cleanup_policy(self) -> set[str]:
        """``{"delete"}``, ``{"compact"}`` or both."""
        return {word.strip() for word in self.config["cleanup.policy"].split(",")}

    def clean(self, now_ms: int) -> None:
        """Compact and expire every partition as its configuration says, all at once."""
        retention_ms = int(self.config["retention.ms"])
        for log in self.logs:
            if "compact" in self.cleanup_policy:
                log.compact(
                    now_ms,
                    tombstone_lifetime_ms=int(self.config["delete.retention.ms"]),
                    lag_ms=int(self.config["min.compaction.lag.ms"]),
                    segment_ms=int(self.config["segment.ms"]),
                )
            if "delete" in self.cleanup_policy and retention_ms >= 0:
                log.expire(now_ms, retention_ms)
