"""Reading whole topics, committed records only."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from logstate.contracts.errors import BrokerError
from logstate.contracts.records import TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.campaigns.chaos.flow import PARTITIONS
from tests.campaigns.chaos.oracle import Entry
from tests.patience import PATIENCE_S


def read_topic(
    cluster: KafkaCluster, topic: str, limit_s: float = PATIENCE_S
) -> dict[int, list[Entry]]:
    """Everything up to the end of each partition, READ UNCOMMITTED: no open transaction is left.

    Raises TimeoutError where the end is not reached.
    """
    partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    admin = cluster.admin()
    ends = admin.end_offsets(partitions)
    admin.close()
    reader = cluster.log_consumer()
    reader.assign(dict.fromkeys(partitions, 0))
    found: dict[int, list[Entry]] = defaultdict(list)
    deadline = time.monotonic() + limit_s
    try:
        while any((reader.position(tp) or 0) < end for tp, end in ends.items()):
            if time.monotonic() > deadline:
                at = {tp.partition: reader.position(tp) for tp in partitions}
                raise TimeoutError(f"{topic}: reading stands at {at}, the ends are {ends}")
            for tp, records in reader.poll(10_000, 0.2).records.items():
                found[tp.partition] += [
                    Entry(r.key().decode(), r.value().decode(), r.timestamp()[1]) for r in records
                ]
    finally:
        reader.close()
    return dict(found)


class Counting:
    """Counts the committed records of topics while they grow."""

    def __init__(self, cluster: KafkaCluster, topics: Sequence[str]) -> None:
        self.counts = dict.fromkeys(topics, 0)
        self._reader = cluster.log_consumer()
        self._reader.assign({TopicPartition(t, p): 0 for t in topics for p in range(PARTITIONS)})

    def poll(self) -> None:
        """Read what is there now."""
        try:
            polled = self._reader.poll(10_000, 0.2)
        except BrokerError:
            return
        for tp, records in polled.records.items():
            self.counts[tp.topic] += len(records)

    def close(self) -> None:
        self._reader.close()
