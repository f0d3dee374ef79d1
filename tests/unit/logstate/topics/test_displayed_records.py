"""The newest records of a topic, whatever markers and gaps are between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.records import FetchedRecord, TopicPartition
from logstate.testing.fake.fetched import StoredRecord
from logstate.topics.displayed_records import newest_records, place_in_time

Ranges = Mapping[TopicPartition, tuple[int, int]]


class Log:
    """Partitions with records at some offsets, and the ranges that were read."""

    def __init__(self, offsets: list[list[int]], ends: int) -> None:
        self.bounds = {TopicPartition("t", n): (0, ends) for n in range(len(offsets))}
        self._records = {
            TopicPartition("t", number): [
                StoredRecord("t", number, at, None, b"", at, []) for at in sorted(found)
            ]
            for number, found in enumerate(offsets)
        }
        self.read_offsets = 0

    def read(self, ranges: Ranges) -> Iterator[FetchedRecord]:
        for tp, (start, end) in ranges.items():
            self.read_offsets += end - start
            for record in self._records[tp]:
                if start <= record.offset() < end:
                    yield record

    def all(self) -> list[StoredRecord]:
        return [record for records in self._records.values() for record in records]


@given(
    offsets=st.lists(
        st.sets(st.integers(0, 4_999), max_size=60).map(sorted), min_size=1, max_size=4
    ),
    limit=st.integers(1, 40),
)
def test_the_last_records_of_all_partitions_are_found(offsets: list[list[int]], limit: int) -> None:
    log = Log(offsets, 5_000)
    wanted = sorted(log.all(), key=place_in_time)[-limit:]
    assert newest_records(log.bounds, limit, log.read) == wanted


def test_a_dense_partition_is_not_read_from_its_beginning() -> None:
    log = Log([list(range(100_000))], 100_000)
    found = newest_records(log.bounds, 5, log.read)
    assert [record.offset() for record in found] == [99_995, 99_996, 99_997, 99_998, 99_999]
    assert log.read_offsets < 100


def test_a_topic_without_records_has_none() -> None:
    log = Log([[], []], 0)
    assert newest_records(log.bounds, 5, log.read) == []
