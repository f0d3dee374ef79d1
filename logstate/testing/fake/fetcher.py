"""Fetching from assigned partitions: positions, pauses, ends. Shared by both kinds of consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from logstate.contracts.records import TopicPartition
from logstate.contracts.seams import Polled
from logstate.testing.fake.partition_log import PartitionLog


class Fetcher:
    """Positions of the assigned partitions; read committed."""

    def __init__(self, log_of: Callable[[TopicPartition], PartitionLog | None]) -> None:
        self._log_of = log_of
        self._positions: dict[TopicPartition, int | None] = {}
        self._paused: set[TopicPartition] = set()
        #: where the end was last reported, so that it is reported once
        self._reported_ends: dict[TopicPartition, int] = {}
        self._first = 0

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._positions

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is assigned."""
        return list(self._positions)

    def replace(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions."""
        self._positions = dict(positions)
        self._paused = set()
        self._reported_ends = {}

    def add_paused(self, partitions: Iterable[TopicPartition]) -> None:
        """Assigned, without a position."""
        for partition in partitions:
            self._positions[partition] = None
            self._paused.add(partition)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Not assigned any more."""
        for partition in partitions:
            self._positions.pop(partition, None)
            self._paused.discard(partition)
            self._reported_ends.pop(partition, None)

    def seek(self, partition: TopicPartition, position: int) -> None:
        """Read on from there."""
        self._positions[partition] = position
        self._reported_ends.pop(partition, None)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more from them."""
        self._paused.update(tp for tp in partitions if tp in self._positions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch from them again."""
        self._paused.difference_update(partitions)

    def position(self, partition: TopicPartition) -> int | None:
        """Next offset to be read."""
        return self._positions.get(partition)

    def fetch(self, polled: Polled, max_records: int) -> bool:
        """Add what can be read; returns whether there was anything to tell."""
        left = max_records
        self._first += 1
        for partition in self._in_turn():
            position = self._positions[partition]
            if position is None or partition in self._paused:
                continue
            log = self._log_of(partition)
            if log is None:
                continue
            if position == log.end and self._reported_ends.get(partition) == position:
                continue  # it stands there, and said so
            if not log.start <= position <= log.end:
                self._positions[partition] = None
                polled.out_of_range[partition] = position
                continue
            records, position = log.read(position, left)
            if records:
                polled.records[partition] = [*records]
                left -= len(records)
            self._positions[partition] = position
            self._report_end(polled, partition, position, log.lso)
        return bool(polled.records or polled.ends or polled.out_of_range)

    def _in_turn(self) -> list[TopicPartition]:
        """What is assigned, beginning with another one each time."""
        partitions = list(self._positions)
        first = self._first % len(partitions) if partitions else 0
        return partitions[first:] + partitions[:first]

    def _report_end(
        self, polled: Polled, partition: TopicPartition, position: int, end: int
    ) -> None:
        if position >= end and self._reported_ends.get(partition) != position:
            self._reported_ends[partition] = position
            polled.ends.append((partition, position))
