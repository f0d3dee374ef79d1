"""What a partition's queue takes, drops and remembers."""

from __future__ import annotations

from logstate.contracts.records import TopicPartition
from logstate.task.queues import PartitionQueue
from logstate.testing.fake.fetched import StoredRecord

CLICKS = TopicPartition("clicks", 0)


def record(offset: int) -> StoredRecord:
    return StoredRecord("clicks", 0, offset, None, None, 1_000)


def offsets(queue: PartitionQueue) -> list[int | None]:
    return [found.offset() for found in queue.records]


def test_records_are_kept_in_offset_order_and_move_the_position() -> None:
    queue = PartitionQueue(CLICKS, 0)
    queue.extend([record(0), record(1)])
    queue.extend([record(2)])
    assert offsets(queue) == [0, 1, 2]
    assert (len(queue), queue.position) == (3, 3)


def test_offsets_may_have_holes_where_markers_and_compaction_were() -> None:
    queue = PartitionQueue(CLICKS, 0)
    queue.extend([record(3), record(7)])
    assert offsets(queue) == [3, 7]
    assert queue.position == 8


def test_records_from_before_a_seek_are_dropped_on_arrival() -> None:
    queue = PartitionQueue(CLICKS, 5)
    queue.extend([record(3), record(4), record(5)])
    assert offsets(queue) == [5]
    assert queue.position == 6


def test_a_new_record_takes_the_end_notice_back_and_a_dropped_one_does_not() -> None:
    queue = PartitionQueue(CLICKS, 5)
    queue.is_at_end = True
    queue.extend([record(4)])
    assert queue.is_at_end
    queue.extend([record(5)])
    assert not queue.is_at_end


def test_a_decoded_head_counts_as_waiting() -> None:
    queue = PartitionQueue(CLICKS, 0)
    assert len(queue) == 0
    queue.make_head(7, "ada", "home", record(0))
    assert len(queue) == 1
    assert queue.head is not None
    assert queue.head[:3] == (7, "ada", "home")


def test_a_copy_changes_on_its_own() -> None:
    queue = PartitionQueue(CLICKS, 0)
    queue.extend([record(0)])
    queue.make_head(1, None, None, record(0))
    queue.is_at_end = True
    copy = queue.copy()
    assert (copy.head, copy.is_at_end) == (queue.head, True)
    queue.extend([record(1)])
    queue.head = None
    assert (len(copy), copy.position, copy.is_at_end) == (2, 1, True)
