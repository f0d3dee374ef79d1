"""Which record of a task is next, what it waits for, and the positions it commits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from logstate.contracts.records import TopicPartition
from logstate.task.error_handlers import ErrorHandlers, retry
from logstate.topology import StreamsBuilder
from tests.unit.logstate.task.task_bench import TaskBench


def merged(builder: StreamsBuilder) -> None:
    """Two topics read by one task, passed through in the order of processing."""
    left = builder.stream("left", key=str, value=str)
    left.merge(builder.stream("right", key=str, value=str)).to("out", value=str)


def passed(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).to("out", value=str)


# --- which record is next -------------------------------------------------------------------------


def test_the_smallest_timestamp_among_the_partitions_is_next() -> None:
    bench = TaskBench(merged)
    bench.add("left", ("k", "l1", 1), ("k", "l4", 4), ("k", "l6", 6))
    bench.add("right", ("k", "r2", 2), ("k", "r3", 3), ("k", "r5", 5))
    bench.end("left")
    bench.end("right")
    assert bench.task.process(100) == 6
    assert bench.take() == ["l1", "r2", "r3", "l4", "r5", "l6"]


def test_within_a_partition_offset_order_rules_whatever_the_times() -> None:
    bench = TaskBench(merged)
    bench.add("left", ("k", "l9", 9), ("k", "l1", 1))
    bench.add("right", ("k", "r5", 5))
    bench.end("left")
    bench.end("right")
    bench.task.process(100)
    assert bench.take() == ["r5", "l9", "l1"]


@pytest.mark.parametrize("first", ["left", "right"])
def test_of_equal_timestamps_the_partition_whose_record_came_first_is_next(first: str) -> None:
    bench = TaskBench(merged)
    second = "right" if first == "left" else "left"
    bench.add(first, ("k", "first", 5))
    bench.add(second, ("k", "second", 5))
    bench.end("left")
    bench.end("right")
    bench.task.process(100)
    assert bench.take() == ["first", "second"]


def test_a_limit_cuts_a_run_and_the_order_goes_on_where_it_was() -> None:
    bench = TaskBench(merged)
    bench.add("left", *(("k", f"l{t}", t) for t in (1, 2, 5, 6)))
    bench.add("right", *(("k", f"r{t}", t) for t in (3, 4, 7)))
    bench.end("left")
    bench.end("right")
    taken = []
    while count := bench.task.process(2):
        assert count <= 2
        taken.append(bench.take())
    assert taken == [["l1", "l2"], ["r3", "r4"], ["l5", "l6"], ["r7"]]


def test_a_task_waits_for_a_partition_that_is_empty_and_not_at_its_end() -> None:
    bench = TaskBench(merged)
    assert bench.task.awaited() == [], "nothing waits"
    bench.add("left", ("k", "l5", 5))
    assert bench.task.process(100) == 0
    assert bench.task.awaited() == [TopicPartition("right", 0)]
    bench.add("right", ("k", "r3", 3))
    assert bench.task.awaited() == []
    assert bench.task.process(100) == 1
    assert bench.take() == ["r3"]
    assert bench.task.awaited() == [TopicPartition("right", 0)]
    bench.end("right")
    assert bench.task.awaited() == []
    assert bench.task.process(100) == 1
    assert bench.take() == ["l5"]


def test_an_end_notice_holds_until_something_arrives() -> None:
    bench = TaskBench(merged)
    bench.end("left")
    bench.add("right", ("k", "r1", 1))
    assert bench.task.process(100) == 1
    bench.add("left", ("k", "l2", 2))
    bench.end("right")
    assert bench.task.process(100) == 1
    bench.add("right", ("k", "r9", 9))
    assert bench.task.process(100) == 0, "left may bring something older than 9"


def test_a_task_that_does_not_wait_takes_what_is_there() -> None:
    bench = TaskBench(merged, max_idle_ms=None)
    bench.add("left", ("k", "l5", 5))
    assert bench.task.process(100) == 1


def test_a_task_waits_at_the_end_of_a_partition_as_long_as_it_is_told() -> None:
    bench = TaskBench(merged, max_idle_ms=500)
    bench.add("left", ("k", "l5", 5))
    bench.end("right")
    assert bench.task.process(100) == 0
    assert bench.task.awaited() == [TopicPartition("right", 0)]
    bench.clock.advance(499)
    assert bench.task.process(100) == 0
    bench.clock.advance(1)
    assert bench.task.awaited() == []
    assert bench.task.process(100) == 1
    bench.add("left", ("k", "l6", 6))
    assert bench.task.process(100) == 1, "the time is over until the partition has a record"


def test_the_time_begins_again_when_the_partition_had_a_record() -> None:
    bench = TaskBench(merged, max_idle_ms=500)
    bench.add("left", ("k", "l5", 5))
    bench.end("right")
    assert bench.task.process(100) == 0
    bench.clock.advance(400)
    bench.add("right", ("k", "r4", 4))
    assert bench.task.process(100) == 1
    assert bench.take() == ["r4"]
    bench.end("right")
    bench.clock.advance(400)
    assert bench.task.process(100) == 0
    bench.clock.advance(500)
    assert bench.task.process(100) == 1


def test_with_one_partition_there_is_nothing_to_wait_for() -> None:
    bench = TaskBench(passed)
    assert bench.pipe("in", ("k", "b", 9), ("k", "a", 1)) == ["b", "a"]


def test_a_record_that_is_retried_is_not_forgotten_beside_other_partitions() -> None:
    failures = [True]

    def shout(value: str) -> str:
        if value == "bad" and failures:
            failures.pop()
            raise OSError("try again")
        return value.upper()

    def declare(builder: StreamsBuilder) -> None:
        left = builder.stream("left", key=str, value=str)
        both = left.merge(builder.stream("right", key=str, value=str))
        both.map_values(shout, value=str).to("out", value=str)

    handlers = ErrorHandlers(processing=retry(3, backoff=timedelta(seconds=1)))
    bench = TaskBench(declare, error_handlers=handlers)
    bench.add("left", ("k", "bad", 5))
    bench.end("left")
    bench.end("right")
    assert bench.task.process(100) == 0
    bench.clock.advance(1_000)
    assert bench.task.process(100) == 1
    assert bench.take() == ["BAD"]


# --- positions ------------------------------------------------------------------------------------


def test_records_from_before_a_seek_are_not_processed() -> None:
    bench = TaskBench(passed)
    bench.task.start_at({TopicPartition("in", 0): 5})
    bench.add("in", ("k", "old", 1), ("k", "new", 2), at=4)
    bench.task.process(100)
    assert bench.take() == ["new"]
    assert bench.consumed("in") == 6


def test_seeking_drops_what_was_buffered() -> None:
    bench = TaskBench(passed)
    bench.add("in", ("k", "a", 1), ("k", "b", 2))
    bench.task.start_at({TopicPartition("in", 0): 1})
    assert bench.task.buffered(TopicPartition("in", 0)) == 0
    assert bench.task.process(100) == 0
    assert bench.consumed("in") == 1


def test_an_end_notice_from_before_a_seek_is_ignored() -> None:
    bench = TaskBench(merged)
    bench.task.start_at({TopicPartition("right", 0): 50})
    bench.end("right", 40)
    bench.add("left", ("k", "l1", 1))
    assert bench.task.process(100) == 0


def test_control_records_behind_the_last_record_are_committed_as_read() -> None:
    bench = TaskBench(passed)
    bench.pipe("in", ("k", "a", 1))
    bench.end("in", 3)
    assert bench.commit().offsets == {TopicPartition("in", 0): 3}


def test_what_is_buffered_is_not_committed() -> None:
    bench = TaskBench(merged)
    bench.add("left", ("k", "l1", 1), ("k", "l9", 9))
    bench.add("right", ("k", "r2", 2))
    bench.task.process(100)
    assert bench.commit().offsets == {TopicPartition("left", 0): 1, TopicPartition("right", 0): 1}


def test_a_commit_names_every_input_partition_once_it_has_started() -> None:
    bench = TaskBench(merged)
    bench.task.start_at({TopicPartition("left", 0): 7, TopicPartition("right", 0): 8})
    assert bench.commit().offsets == {TopicPartition("left", 0): 7, TopicPartition("right", 0): 8}


def test_buffered_records_are_counted_with_the_decoded_head() -> None:
    bench = TaskBench(merged)
    bench.add("left", ("k", "a", 1), ("k", "b", 2))
    bench.task.process(100)
    assert bench.task.buffered(TopicPartition("left", 0)) == 2
