"""Reads committed offsets many times, by every way the library has, and tells what it found.

A program of its own, so that its memory can be filled with what no text may contain.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping

from logstate.contracts.clients import Committed
from logstate.contracts.records import TopicPartition
from logstate.kafka.cluster import KafkaCluster
from logstate.kafka.group_offsets import committed_offsets

TIMES = 200
OFTEN = 10
#: how often by which way
WAYS = {"group consumer": TIMES, "admin": TIMES, "log reader": TIMES // OFTEN}


def main(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    """Prints, for each partition and way, each answer and how often it was given."""
    cluster = KafkaCluster(bootstrap)
    asked = [TopicPartition(topic, n) for n in range(partitions)]
    consumer, admin = cluster.group_consumer(group_id=group, instance_id=None), cluster.admin()
    found: Counter[tuple[str, int, int | None, str]] = Counter()

    def note(way: str, answer: Mapping[TopicPartition, Committed]) -> None:
        found.update((way, tp.partition, one.offset, one.metadata) for tp, one in answer.items())

    for number in range(TIMES):
        note("group consumer", consumer.committed(asked, 30))
        note("admin", admin.committed_so_far(group, asked))
        if number % OFTEN == 0:  # makes a client each time
            note("log reader", committed_offsets({"bootstrap.servers": bootstrap}, group, asked))
    consumer.close()
    admin.close()
    print(json.dumps([[*what, times] for what, times in found.items()]))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
