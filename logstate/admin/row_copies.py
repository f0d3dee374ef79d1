"""Copies the rows of a changelog into a changelog with other partitions.

Every committed record is copied, in the order of its partition, with its timestamp and headers, so
versions, deletions and rows that expire later do not change. A key is in one partition before the
copy and in one after it, so for most kinds the order between partitions does not matter.

For versions it does: a restore skips versions that are older than the history, measured from the
newest version read so far from that log. If one old partition were copied after another, all
versions of the second would be too old. So the old partitions are merged by the newest version
that each has reached: a version then meets a clock no later than in its own log. Versions that
were too old in their own log are left out, because the store has refused them.

Invariant: a row that is not in the partition that murmur2 of its key gives stops the copy. Its
producer used another partitioner, so later records of the key would not reach the row's new place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import Final

from logstate.admin.logs import Logs
from logstate.changelog.cut import UNKNOWN_TIME_MS
from logstate.changelog.stores.key_value import KEY_VALUE
from logstate.changelog.stores.kinds import kind_of
from logstate.contracts.errors import UpgradeError
from logstate.contracts.records import FetchedRecord, ProducedFields, TopicPartition
from logstate.kafka.partition_counts import murmur2_partition
from logstate.topics.merged_clocks import emitted_clock
from logstate.topics.row_places import key_part, with_place_of_left
from logstate.topics.store_moves import StoreMove

#: internal topics write event time 0 as "no timestamp", because the client replaces 0 by now
NO_TIMESTAMP: Final = -1
#: memory for all clients of merged partitions together, and the minimum for each, in KiB
_FETCHED_KIB, _LEAST_KIB = 65_536, 1_024
_BATCH = 10_000

Clocks = Mapping[str, int]


class RowCopies:
    """Copies the rows of one store; ``clocks`` are those of its old tasks, by partition."""

    def __init__(self, move: StoreMove, clocks: Mapping[int, Clocks], merged: Clocks) -> None:
        self._move = move
        self.source = move.source
        kind = self.kind = kind_of(move.entry)
        key = move.entry.get("key")
        self._part_before = key_part(kind, key, move.hashed_before)
        self._part_after = key_part(kind, key, move.hashed_after)
        self._left_part = key_part(KEY_VALUE, (key or {}).get("primary_key"), move.hashed_of_left)
        self._clocks = clocks
        self._merged = merged
        #: rows that were final results, already sent, and are not copied
        self.left_behind = 0
        #: whether the partitions have to be copied together
        self.is_merged = kind.is_versioned

    def of_all_partitions(self, logs: Logs) -> Iterator[list[ProducedFields]]:
        """Return the records of all old partitions, by the newest version that each has reached."""
        before = self._move.before
        kib = max(_FETCHED_KIB // before, _LEAST_KIB)
        merged = merge(*(self._by_clock(logs, n, kib) for n in range(before)), key=itemgetter(0))
        copies = map(itemgetter(1), merged)
        while batch := list(islice(copies, _BATCH)):
            yield batch

    def _by_clock(
        self, logs: Logs, partition: int, queue_kib: int
    ) -> Iterator[tuple[int, ProducedFields]]:
        """Return the versions that a restore of the partition accepts, each with the next clock."""
        history_ms, clock_ms = self._move.spec.history_ms or 0, UNKNOWN_TIME_MS
        for copy in chain.from_iterable(self.of_partition(logs, partition, queue_kib)):
            time_ms = max(copy[4], 0)
            if time_ms >= clock_ms - history_ms:
                clock_ms = max(clock_ms, time_ms)
                yield clock_ms, copy

    def of_partition(
        self, logs: Logs, partition: int, queue_kib: int | None = None
    ) -> Iterator[list[ProducedFields]]:
        """Return the records of an old partition, as they are written, in batches."""
        source = TopicPartition(self._move.source, partition)
        bounds = logs.bounds([source])[source]
        was_sent = self._sent_early(partition)
        for batch in logs.read(source, bounds.start, bounds.end, queue_kib=queue_kib):
            copies = []
            for record in batch:
                if was_sent is not None and was_sent(record.key()):
                    self.left_behind += record.value() is not None
                    continue
                copies.append(self._copy(source, record))
            yield copies

    def _copy(self, source: TopicPartition, record: FetchedRecord) -> ProducedFields:
        move = self._move
        key, value = record.key(), record.value()
        part = self._part_before(key)
        if murmur2_partition(part, move.before) != source.partition:
            raise _wrong_partition(source, record, part, move.before)
        if move.left_partitions is not None:
            value = with_place_of_left(key, value, self._left_part, move.left_partitions)
        time_ms = record.timestamp()[1]
        return (
            move.target,
            murmur2_partition(self._part_after(key), move.after),
            key,
            value,
            time_ms if time_ms > 0 else NO_TIMESTAMP,
            record.headers(),
        )

    def _sent_early(self, partition: int) -> Callable[[bytes], bool] | None:
        """Return a check whether the old task has sent a row that would be sent again."""
        final, name = self._move.final_results, emitted_clock(self._move.spec.name)
        emitted = self._clocks.get(partition, {}).get(name, UNKNOWN_TIME_MS)
        by_all = self._merged.get(name, UNKNOWN_TIME_MS)
        if final is None or emitted == by_all:
            return None
        time_of = self.kind.key_layout.expiry_time
        return lambda key: final.was_sent_early(time_of(key), emitted, by_all)


def _wrong_partition(
    source: TopicPartition, record: FetchedRecord, part: bytes, partitions: int
) -> UpgradeError:
    place = murmur2_partition(part, partitions)
    return UpgradeError(
        f"{source}, offset {record.offset()}: the row of key {part!r} belongs to partition"
        f" {place} of {partitions} by murmur2 of its key. The inputs are"
        " written by a producer with another partitioner (librdkafka's default is CRC32; set"
        " partitioner=murmur2_random), or the store's keys are not those that its input is"
        " partitioned by: such rows cannot be moved. Nothing was changed"
    )
