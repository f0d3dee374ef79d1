"""Stateless operators, routing and sinks, run in the test driver."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import LogstateError
from logstate.contracts.partitioner import partition_of
from logstate.testing import TopologyTestDriver
from logstate.topology import SessionWindows, StreamsBuilder, TumblingWindows
from logstate.topology.operators.streams.sink import compile_sink
from logstate.topology.processor.timestamp_extractors import (
    record_time_or_partition_time,
    record_time_or_skip,
)


def run(declare: Any, records: list[tuple[Any, Any, int]], **read: Any) -> list[Any]:
    builder = StreamsBuilder()
    declare(builder.stream("in", key=str, value=int, name="in"))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", records)
        return driver.read("out", **{"value": int, **read}) if driver.outputs else []


def test_filter_sees_null_values_too() -> None:
    result = run(
        lambda stream: stream.filter(lambda value: value is None).to("out"),
        [("a", 1, 0), ("b", None, 1)],
    )
    assert result == [("b", None)]


def test_filter_by_key_and_value_keeps_matching_records_in_order() -> None:
    result = run(
        lambda stream: stream.filter(lambda key, value: key == "a" or value > 2).to("out"),
        [("a", 1, 0), ("b", 2, 1), ("b", 3, 2)],
    )
    assert result == [("a", 1), ("b", 3)]


def test_filter_not_is_the_other_half() -> None:
    result = run(
        lambda stream: stream.filter_not(lambda value: value > 1).to("out"),
        [("a", 1, 0), ("a", 2, 1)],
    )
    assert result == [("a", 1)]


def test_map_replaces_key_and_value() -> None:
    result = run(
        lambda stream: stream.map(lambda k, v: (k + k, v * 2), key=str, value=int).to("out"),
        [("a", 1, 0)],
    )
    assert result == [("aa", 2)]


def test_flat_map_makes_any_number_of_records() -> None:
    result = run(
        lambda stream: stream.flat_map(
            lambda k, v: [(f"{k}{i}", i) for i in range(v)], key=str, value=int
        ).to("out"),
        [("a", 2, 0), ("b", 0, 1)],
    )
    assert result == [("a0", 0), ("a1", 1)]


def test_flat_map_values_keeps_the_key() -> None:
    result = run(
        lambda stream: stream.flat_map_values(range, value=int).to("out"),
        [("a", 2, 0)],
    )
    assert result == [("a", 0), ("a", 1)]


def test_results_go_all_the_way_down_one_after_the_other() -> None:
    seen: list[str] = []

    def declare(stream: Any) -> None:
        many = stream.flat_map_values(range, value=int)
        many.foreach(lambda value: seen.append(f"first {value}"))
        many.foreach(lambda value: seen.append(f"second {value}"))

    run(declare, [("a", 2, 0)])
    assert seen == ["first 0", "second 0", "first 1", "second 1"]


def test_three_children_are_called_in_order() -> None:
    seen: list[int] = []

    def declare(stream: Any) -> None:
        for number in range(3):
            stream.foreach(lambda value, number=number: seen.append(number), name=f"f{number}")

    run(declare, [("a", 1, 0)])
    assert seen == [0, 1, 2]


def test_split_sends_each_record_to_the_first_branch_that_fits() -> None:
    builder = StreamsBuilder()
    branches = (
        builder.stream("in", key=str, value=int, name="in")
        .split(name="size-")
        .branch(lambda value: value > 10, name="large")
        .branch(lambda value: value > 5, name="medium")
        .default_branch(name="small")
    )
    assert list(branches) == ["size-large", "size-medium", "size-small"]
    for name, branch in branches.items():
        branch.to(f"out-{name}")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 11, 0), ("b", 6, 1), ("c", 1, 2)])
        assert driver.read("out-size-large", value=int) == [("a", 11)]
        assert driver.read("out-size-medium", value=int) == [("b", 6)]
        assert driver.read("out-size-small", value=int) == [("c", 1)]


def test_a_branch_chain_that_returns_nothing_is_left_out_of_the_map() -> None:
    builder = StreamsBuilder()
    branches = (
        builder.stream("in", value=int, name="in")
        .split(name="b-")
        .branch(lambda value: value > 1, name="side", chain=lambda stream: stream.to("side"))
        .branch(lambda value: value > 0, name="kept", chain=lambda stream: stream.filter(bool))
        .no_default_branch()
    )
    assert list(branches) == ["b-kept"]


def test_merge_is_one_stream_of_both() -> None:
    builder = StreamsBuilder()
    one = builder.stream("a", value=int, name="a")
    two = builder.stream("b", value=int, name="b")
    one.merge(two, name="both").to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("b", "k", 1)
        driver.pipe("a", "k", 2)
        assert driver.read("out", value=int) == [("k", 1), ("k", 2)]


def test_print_writes_a_labelled_line() -> None:
    file = io.StringIO()
    run(lambda stream: stream.print(label="seen", file=file), [("a", 1, 0)])
    assert file.getvalue() == "[seen]: a, 1\n"


def test_a_topic_may_be_chosen_per_record() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    stream.to(lambda key, value, place: f"{place.topic}-{key}")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 2, 0)])
        assert driver.read("in-a", value=int) == [("a", 1)]
        assert driver.read("in-b", value=int) == [("b", 2)]


def test_headers_and_timestamps_pass_through() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int, name="in").map_values(lambda v: v + 1, value=int).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1, timestamp=77, headers=[("h", b"x")])
        (record,) = driver.outputs
    assert (record.timestamp, record.headers) == (77, [("h", b"x")])


def test_a_negative_extracted_time_skips_and_counts() -> None:
    builder = StreamsBuilder()
    stream = builder.stream(
        "in", value=int, name="in", timestamp_extractor=lambda key, value, record, partition: value
    )
    stream.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", -1, 5), ("b", 9, 5)])
        assert driver.read_with_timestamps("out", value=int) == [("b", 9, 9)]
        assert driver.dropped_total == 1


def test_the_ready_made_extractors_fall_back_as_they_say() -> None:
    assert record_time_or_skip(None, None, -1, 50) == -1
    assert record_time_or_partition_time(None, None, -1, 50) == 50
    assert record_time_or_partition_time(None, None, 7, 50) == 7
    with pytest.raises(ValueError, match="no event time is known yet"):
        record_time_or_partition_time(None, None, -1, -1)


class CountingTask:
    """As much of a task as a sink needs."""

    topic, partition, offset = "in", 0, 0

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.sent: list[Any] = []
        self.send = self.sent.append
        self.dropped: list[str] = []

    def dropper(self, node: str, reason: str) -> Any:
        return lambda: self.dropped.append(reason)

    def topic_name(self, name: str, *, is_internal: bool) -> str:
        return name

    def partition_count(self, topic: str) -> int:
        return self.partitions


def only_sink(declare: Any) -> Any:
    builder = StreamsBuilder()
    declare(builder.stream("in", key=str, value=int, name="in"))
    (sub_topology,) = builder.build().sub_topologies
    return sub_topology.nodes[-1]


def test_a_plain_key_leaves_the_partition_open() -> None:
    task = CountingTask(8)
    compile_sink(only_sink(lambda stream: stream.to("out")), task)("k", 1, 0, None)
    assert task.sent[0][1] is None


@pytest.mark.parametrize(
    "windows",
    [TumblingWindows(size=timedelta(seconds=1)), SessionWindows(gap=timedelta(seconds=1))],
)
def test_a_windowed_key_is_placed_by_its_inner_key(windows: Any) -> None:
    from logstate.contracts.records import Windowed

    def declare(stream: Any) -> None:
        counts = stream.group_by_key().windowed_by(windows).count(store="c")
        counts.to_stream().to("out")

    task = CountingTask(8)
    write = compile_sink(only_sink(declare), task)
    write(Windowed("some-key", 1000, 2000), 1, 0, None)
    write(Windowed("some-key", 9000, 10000), 1, 0, None)
    assert {record[1] for record in task.sent} == {partition_of(b"some-key", 8)}


@pytest.mark.parametrize(
    ("chosen", "partitions"),
    [(3, [3]), ([1, 4, 1], [1, 4]), (None, [None])],
)
def test_a_partitioner_may_choose_one_many_or_the_default(
    chosen: Any, partitions: list[int | None]
) -> None:
    seen: list[Any] = []

    def partitioner(*arguments: Any) -> Any:
        seen.append(arguments)
        return chosen

    task = CountingTask(8)
    sink = only_sink(lambda stream: stream.to("out", partitioner=partitioner))
    compile_sink(sink, task)("k", 1, 0, None)
    assert [record[1] for record in task.sent] == partitions
    assert seen == [("out", "k", 1, 8)]


def test_a_partitioner_that_chooses_nothing_drops_and_counts() -> None:
    task = CountingTask(8)
    sink = only_sink(lambda stream: stream.to("out", partitioner=lambda *_: []))
    compile_sink(sink, task)("k", 1, 0, None)
    assert task.sent == []
    assert task.dropped == ["partitioner"]


def test_a_failure_names_the_operator_and_the_users_line() -> None:
    def explode(value: int) -> int:
        return 1 // value

    with pytest.raises(LogstateError) as caught:
        run(
            lambda stream: (
                stream.filter(lambda v: True, name="first")
                .map_values(explode, value=int, name="divide")
                .to("out")
            ),
            [("a", 0, 0)],
        )
    assert caught.value.node == "divide"  # type: ignore[attr-defined]
    assert "test_streams.py" in caught.value.function  # type: ignore[attr-defined]
    assert "explode" in caught.value.function  # type: ignore[attr-defined]
