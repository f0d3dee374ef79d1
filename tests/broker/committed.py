"""Committed records of topics, read up to the end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing

from logstate.contracts.clients import LogConsumer
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.kafka.cluster import KafkaCluster
from tests.patience import until


def read_to_end(
    cluster: KafkaCluster,
    reader: LogConsumer,
    partitions: Collection[TopicPartition],
    read: Callable[[], object],
) -> None:
    """Call ``read``, which polls the reader, until the partitions are read to the end."""
    with closing(cluster.admin()) as admin:
        ends = admin.end_offsets(list(partitions))

    def is_read() -> bool:
        read()
        return all((reader.position(tp) or 0) >= end for tp, end in ends.items())

    until(is_read, lambda: f"{partitions} are not read to their ends, {ends}")


def committed_records(bootstrap: str, *partitions: TopicPartition) -> list[FetchedRecord]:
    """Return the committed records of partitions, up to their present ends."""
    cluster, found = KafkaCluster(bootstrap), list[FetchedRecord]()

    def read() -> None:
        for records in reader.poll(10_000, 0.1).records.values():
            found.extend(records)

    with closing(cluster.log_consumer()) as reader:
        reader.assign(dict.fromkeys(partitions, 0))
        read_to_end(cluster, reader, partitions, read)
    return found
