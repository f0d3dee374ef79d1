"""One task: its times, what a commit takes out, and what a discard takes back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import ProcessingError
from logstate.contracts.records import Record, TopicPartition
from logstate.topology import Processor, StreamsBuilder
from logstate.topology.processor.processor import ProcessorContext
from tests.unit.logstate.task.task_bench import TaskBench, values


def merged(builder: StreamsBuilder) -> None:
    """Two topics read by one task, passed through in the order of processing."""
    left = builder.stream("left", key=str, value=str)
    left.merge(builder.stream("right", key=str, value=str)).to("out", value=str)


def passed(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).to("out", value=str)


def counted(builder: StreamsBuilder) -> None:
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().map_values(str, value=str).to("out", value=str)


# --- times ----------------------------------------------------------------------------------------


def test_stream_time_is_the_largest_time_seen_and_partition_times_are_their_own() -> None:
    bench = TaskBench(merged)
    assert bench.task.stream_time == -1
    bench.add("left", ("k", "a", 10), ("k", "b", 4))
    bench.add("right", ("k", "c", 7))
    bench.end("left")
    bench.end("right")
    bench.task.process(100)
    assert bench.task.stream_time == 10
    assert bench.commit().partition_times == {
        TopicPartition("left", 0): 10,
        TopicPartition("right", 0): 7,
    }


def test_the_partition_time_of_a_cut_does_not_know_a_record_that_was_only_looked_at() -> None:
    """Else an extractor that builds on it would answer otherwise after a restart."""
    seen: list[int] = []

    def one_later(key: Any, value: Any, timestamp: int, partition_time: int) -> int:
        seen.append(partition_time)
        return partition_time + 10

    def declare(builder: StreamsBuilder) -> None:
        left = builder.stream("left", key=str, value=str, timestamp_extractor=one_later)
        left.merge(builder.stream("right", key=str, value=str)).to("out", value=str)

    bench = TaskBench(declare)
    bench.add("left", ("k", "a", 0), ("k", "b", 0))
    bench.add("right", ("k", "r", 10))
    bench.end("right")
    bench.task.process(2)
    commit = bench.commit()
    assert commit.partition_times[TopicPartition("left", 0)] == 9
    uninterrupted = list(seen)
    bench.abort(commit)
    bench.add("left", ("k", "b", 0), at=commit.offsets[TopicPartition("left", 0)])
    bench.add("right", ("k", "r", 10), at=0)
    bench.end("right", 1)
    bench.task.process(100)
    assert seen[len(uninterrupted) :] == uninterrupted[1:] == [9]


# --- commits --------------------------------------------------------------------------------------


def test_a_commit_takes_out_outputs_writes_offsets_and_clocks_of_the_same_records() -> None:
    bench = TaskBench(counted)
    bench.add("in", ("ada", "x", 5), ("ada", "x", 9), ("bob", "x", 7))
    bench.task.process(2)
    commit = bench.commit()
    assert values(commit.outputs) == ["1", "2"]
    assert [w[0] for w in commit.changes.writes["counts"]] == [b"ada"]
    assert commit.changes.clocks["task:stream_time"] == 9
    assert commit.offsets == {TopicPartition("in", 0): 2}
    bench.task.process(1)
    rest = bench.commit()
    assert values(rest.outputs) == ["1"]
    assert [w[0] for w in rest.changes.writes["counts"]] == [b"bob"]


def test_a_commit_without_outputs_and_writes_has_the_offsets_that_moved() -> None:
    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).filter(lambda value: False).to("out", value=str)

    bench = TaskBench(declare)
    bench.pipe("in", ("k", "v", 1))
    assert bench.task.has_uncommitted_input
    commit = bench.commit()
    assert not commit.outputs
    assert not any(commit.changes.writes.values())
    assert commit.offsets == {TopicPartition("in", 0): 1}
    assert not bench.task.has_uncommitted_input


def test_what_a_commit_took_out_does_not_change_when_processing_goes_on() -> None:
    bench = TaskBench(counted)
    bench.add("in", ("ada", "x", 5), ("ada", "x", 6))
    bench.task.process(1)
    commit = bench.task.freeze()
    bench.task.process(1)
    assert values(commit.outputs) == ["1"]
    assert commit.offsets == {TopicPartition("in", 0): 1}
    assert commit.partition_times == {TopicPartition("in", 0): 5}


def test_what_was_held_back_for_the_commit_is_in_it() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        counts = stream.group_by_key().count(store="counts", emit="commit")
        counts.to_stream().map_values(str, value=str).to("out", value=str)

    bench = TaskBench(declare)
    assert bench.pipe("in", ("ada", "x", 1), ("ada", "x", 2)) == []
    assert values(bench.commit().outputs) == ["2"]
    bench.pipe("in", ("ada", "x", 3))
    bench.task.discard()
    assert values(bench.task.freeze().outputs) == []


# --- discards -------------------------------------------------------------------------------------


def test_after_a_discard_the_same_records_give_the_same_results() -> None:
    bench = TaskBench(counted)
    bench.pipe("in", ("ada", "x", 5))
    commit = bench.commit()
    results = []
    for _ in range(3):
        bench.add("in", ("ada", "x", 8), ("bob", "x", 6), at=1)
        bench.task.process(100)
        results.append((bench.take(), bench.task.stream_time, bench.consumed("in")))
        bench.abort(commit)
        assert bench.task.stream_time == 5
        assert bench.consumed("in") == 1
        assert not bench.task.has_uncommitted_input
    assert results == [(["2", "1"], 8, 3)] * 3


class Scheduler(Processor[str, str, str, str]):
    """Schedules with the first record, reports each call, stops on the word "stop"."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.first = context.schedule(timedelta(milliseconds=10), "stream_time", self.tick)

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", str(now), now))

    def process(self, record: Record[str, str]) -> None:
        if record.value == "stop":
            self.first.cancel()
        if record.value == "more":
            self.context.schedule(timedelta(milliseconds=10), "stream_time", self.tick, start=20)


def scheduled(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).process(Scheduler).to("out", key=str, value=str)


@pytest.mark.parametrize("word", ["go", "stop", "more"])
def test_schedules_go_back_with_a_discard(word: str) -> None:
    def after(bench: TaskBench) -> list[Any]:
        return bench.pipe("in", ("k", word, 12), ("k", "go", 33), ("k", "go", 44))

    bench, uninterrupted = TaskBench(scheduled), TaskBench(scheduled)
    for each in (bench, uninterrupted):
        assert each.pipe("in", ("k", "go", 3)) == ["3"]
    commit = bench.commit()
    expected = after(uninterrupted)
    for _ in range(2):
        bench.task.start_at({TopicPartition("in", 0): 1})
        bench._next["in"] = 1
        assert after(bench) == expected
        bench.abort(commit)


def test_due_times_come_back_with_the_clocks_of_a_cut() -> None:
    bench = TaskBench(scheduled)
    bench.pipe("in", ("k", "go", 27))
    commit = bench.commit()
    names = [name for name in commit.changes.clocks if name.startswith("schedule:")]
    assert [commit.changes.clocks[name] for name in names] == [30]
    successor = TaskBench(scheduled)
    successor.task.set_clocks(commit.changes.clocks, commit.partition_times)
    assert successor.task.stream_time == 27
    assert successor.pipe("in", ("k", "go", 29)) == []
    assert successor.pipe("in", ("k", "go", 31)) == ["31"]


# --- punctuation ----------------------------------------------------------------------------------


def test_a_punctuator_has_no_record_and_the_time_of_the_look() -> None:
    seen = []

    class Looker(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            context.schedule(timedelta(milliseconds=10), "wall_clock", self.check)

        def check(self, now: int) -> None:
            seen.append((now, self.context.record_metadata()))

        def process(self, record: Record[str, str]) -> None:
            seen.append(self.context.record_metadata())

    bench = TaskBench(lambda b: b.stream("in", key=str, value=str).process(Looker))
    bench.pipe("in", ("k", "v", 1))
    bench.clock.advance(25)
    assert bench.task.punctuate("wall_clock") == 1
    assert seen == [("in", 0, 0), (1_000_025, None)]
    bench.pipe("in", ("k", "v", 2))
    assert seen[-1] == ("in", 0, 1)


def test_a_stream_time_punctuation_runs_after_the_record_that_made_it_due() -> None:
    class Both(Scheduler):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)

    bench = TaskBench(
        lambda b: b.stream("in", key=str, value=str).process(Both).to("out", key=str, value=str)
    )
    assert bench.pipe("in", ("k", "a", 4), ("k", "b", 5), ("k", "c", 10)) == [
        "a",
        "4",
        "b",
        "c",
        "10",
    ]


# --- the rest of the context ----------------------------------------------------------------------


def test_internal_topics_get_the_application_id_and_counts_have_a_default() -> None:
    task = TaskBench(passed, partition_counts={"out": 4}).task
    assert task.topic_name("by-user-repartition", is_internal=True) == "app-by-user-repartition"
    assert task.topic_name("out", is_internal=False) == "out"
    assert (task.partition_count("out"), task.partition_count("another")) == (4, 1)


def test_a_commit_may_be_asked_for_once() -> None:
    task = TaskBench(passed).task
    task.request_commit()
    assert task.wants_commit
    task.freeze()
    assert not task.wants_commit
    task.request_commit()
    task.discard()
    assert not task.wants_commit


def test_closing_ends_processors_children_first_and_then_the_state() -> None:
    closed = []

    def closing(name: str) -> type[Processor[str, str, str, str]]:
        class Closing(Processor[str, str, str, str]):
            def process(self, record: Record[str, str]) -> None:
                self.context.forward(record)

            def close(self) -> None:
                closed.append(name)

        return Closing

    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.process(closing("parent")).process(closing("child"))

    TaskBench(declare).task.close()
    assert sorted(closed) == ["child", "parent"]


def test_nothing_after_a_failed_record_is_processed() -> None:
    def declare(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.map_values(lambda value: str(10 // int(value)), value=str).to("out", value=str)

    bench = TaskBench(declare)
    bench.add("in", ("k", "5", 1), ("k", "0", 2), ("k", "2", 3))
    with pytest.raises(ProcessingError):
        bench.task.process(100)
    assert bench.take() == ["2"]
    assert bench.consumed("in") == 1
    assert bench.commit().partition_times == {TopicPartition("in", 0): 1}
