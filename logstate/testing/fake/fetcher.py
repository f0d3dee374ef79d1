"""Fetching from assigned partitions: positions, pauses, ends. Shared by both kinds of consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from logstate.contracts.clients import Polled
from logstate.contracts.records import TopicPartition
from logstate.testing.fake.partition_log import PartitionLog


class _Place:
    """The position of an assigned partition."""

    __slots__ = ("is_paused", "position", "reported_end")

    def __init__(self, position: int | None, *, is_paused: bool = False) -> None:
        self.position = position
        self.is_paused = is_paused
        #: the last reported end, so that it is reported once
        self.reported_end: int | None = None


class Fetcher:
    """Positions of the assigned partitions; read committed."""

    def __init__(self, log_of: Callable[[TopicPartition], PartitionLog | None]) -> None:
        self._log_of = log_of
        self._places: dict[TopicPartition, _Place] = {}
        self._first = 0

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._places

    @property
    def partitions(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return list(self._places)

    def replace(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions."""
        self._places = {partition: _Place(position) for partition, position in positions.items()}

    def add_paused(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions without a position."""
        for partition in partitions:
            place = self._places.get(partition)
            if place is None:
                self._places[partition] = _Place(None, is_paused=True)
            else:
                place.position, place.is_paused = None, True

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the assignment."""
        for partition in partitions:
            self._places.pop(partition, None)

    def seek(self, partition: TopicPartition, position: int) -> None:
        """Continue reading from there."""
        place = self._places[partition]
        place.position, place.reported_end = position, None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching from them."""
        self._set_paused(partitions, is_paused=True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch from them again."""
        self._set_paused(partitions, is_paused=False)

    def _set_paused(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        for partition in partitions:
            place = self._places.get(partition)
            if place is not None:
                place.is_paused = is_paused

    def position(self, partition: TopicPartition) -> int | None:
        """Return the next offset to read."""
        place = self._places.get(partition)
        return None if place is None else place.position

    def fetch(self, polled: Polled, max_records: int) -> bool:
        """Add available records; return whether there was anything to report."""
        left = max_records
        self._first += 1
        for partition, place in self._in_turn():
            position = place.position
            if position is None or place.is_paused:
                continue
            log = self._log_of(partition)
            if log is None:
                continue
            if position == log.end and place.reported_end == position:
                continue  # the end was already reported
            if not log.start <= position <= log.end:
                place.position = None
                polled.out_of_range[partition] = position
                continue
            end = log.lso
            if position < end:
                records, position = log.read(position, left)
                if records:
                    polled.records[partition] = [*records]
                    left -= len(records)
                place.position = position
            if position >= end and place.reported_end != position:
                place.reported_end = position
                polled.ends.append((partition, position))
        return bool(polled.records or polled.ends or polled.out_of_range)

    def _in_turn(self) -> list[tuple[TopicPartition, _Place]]:
        """Return the assigned partitions, beginning with another one each time."""
        places = list(self._places.items())
        first = self._first % len(places) if places else 0
        return places[first:] + places[:first] if first else places
