"""Check that no unread records are between two tasks while state is moved.

A record written for the old partitions would reach a task that does not have the rows of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from logstate.admin.logs import Logs
from logstate.contracts.clients import Committed
from logstate.contracts.errors import UpgradeError
from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.kafka.partition_counts import murmur2_partition

#: records to check of an input that was never read: nothing was counted yet, so a sample suffices
_LOOK = 10_000

Offsets = Mapping[TopicPartition, Committed]


def check_is_drained(logs: Logs, partitions: Sequence[TopicPartition], committed: Offsets) -> None:
    """Raises UpgradeError if a repartition topic holds a record that was not read."""
    so = (
        "they are in the partitions that the old tasks read. Start the application with its"
        " previous topology and inputs, stop it when `logstate lag` shows no lag, and try again."
        " (Let it read everything before its inputs are extended: it does not start after that.)"
    )
    _check_first_unread(logs, partitions, committed, f": {so}")


def check_was_read(logs: Logs, partitions: Sequence[TopicPartition], committed: Offsets) -> None:
    """Raises UpgradeError if an input that the topology dropped was not read to its end."""
    so = (
        "the topology no longer reads this topic: they would be lost. Stop its producers, let the"
        " application read it to its end, and try again."
    )
    _check_first_unread(logs, partitions, committed, f", and {so}")


def check_inputs(
    logs: Logs, partitions: Sequence[TopicPartition], committed: Offsets, count: int
) -> None:
    """Raises UpgradeError if an input that is still read holds a record of another partition."""
    for tp in partitions:
        for record in _records_of_other_partitions(logs, tp, _position(committed, tp), count):
            key, place = record.key(), murmur2_partition(record.key(), count)
            raise UpgradeError(
                f"{tp}, offset {record.offset()}: the record of key {key!r} was not processed yet,"
                f" and belongs to partition {place} of {count}: it was written"
                " before the topic was extended, or by a producer that does not place keys by"
                " murmur2. Its rows would be in another task. Stop the producers, let the"
                " application read the topic to its end, stop it, and extend the topic only then;"
                " or write the unread records to a topic with the new count, by key, and read that"
                " one instead. Nothing was changed"
            )


def _records_of_other_partitions(
    logs: Logs, partition: TopicPartition, position: int | None, count: int
) -> Iterator[FetchedRecord]:
    for at, record in enumerate(_unread_records(logs, partition, position)):
        if position is None and at >= _LOOK:
            return
        key = record.key()
        if key is not None and murmur2_partition(key, count) != partition.partition:
            yield record


def _check_first_unread(
    logs: Logs, partitions: Sequence[TopicPartition], committed: Offsets, so: str
) -> None:
    for tp in partitions:
        for record in _unread_records(logs, tp, _position(committed, tp)):
            raise UpgradeError(
                f"{tp} holds records that were not processed, from offset {record.offset()} on{so}"
                " Nothing was changed"
            )


def _position(committed: Offsets, partition: TopicPartition) -> int | None:
    found = committed.get(partition)
    return None if found is None else found.offset


def _unread_records(
    logs: Logs, partition: TopicPartition, position: int | None
) -> Iterator[FetchedRecord]:
    bounds = logs.bounds([partition])[partition]
    start = bounds.start if position is None else max(position, bounds.start)
    for batch in logs.read(partition, start, bounds.stable_end):
        yield from batch
