"""Wrong parts of records are the error of the function that gave them, in tests too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from logstate.contracts.errors import ProcessingError
from logstate.contracts.records import Record
from logstate.task.error_handlers import ErrorHandlers, dead_letter, retry, skip
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of

Declare = Callable[[StreamsBuilder], object]


def timed(given: Any) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        def extract(key: str, value: str, record_ms: int, partition_ms: int) -> Any:
            return given if value == "bad" else record_ms

        builder.stream("in", key=str, value=str, timestamp_extractor=extract).to("out")

    return declare


def forwarding(**parts: Any) -> Declare:
    class Forward(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            bad = record.value == "bad"
            self.context.forward(record._replace(**parts) if bad else record)

    def declare(builder: StreamsBuilder) -> None:
        builder.stream("in", key=str, value=str).process(Forward, key=str, value=str).to("out")

    return declare


def chosen(given: Any) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        def choose(key: str, value: str, place: Any) -> Any:
            return given if value == "bad" else "out"

        builder.stream("in", key=str, value=str).to(choose)

    return declare


def placed(given: Any) -> Declare:
    def declare(builder: StreamsBuilder) -> None:
        def place(topic: str, key: str, value: str, count: int) -> Any:
            return given if value == "bad" else 0

        builder.stream("in", key=str, value=str).to("out", partitioner=place)

    return declare


WRONG = {
    "a float from the extractor": (timed(1.5), "extract at"),
    "None from the extractor": (timed(None), "extract at"),
    "a time beyond 64 bits": (timed(2**63), "extract at"),
    "a float forwarded": (forwarding(timestamp=1.5), "in process"),
    "None forwarded": (forwarding(timestamp=None), "in process"),
    "a negative time forwarded": (forwarding(timestamp=-1), "in process"),
    "a header of text": (forwarding(headers=[("a", "text")]), "in process"),
    "a dict of headers": (forwarding(headers={"a": b"x"}), "in process"),
    "a topic that is an int": (chosen(5), "choose at"),
    "a topic that is a list": (chosen(["out"]), "choose at"),
    "a topic with a space": (chosen("a b"), "choose at"),
    "a topic without a name": (chosen(""), "choose at"),
    "a changelog of ours": (chosen("app-rows-changelog"), "choose at"),
    "a repartition topic of ours": (chosen("app-by-name-repartition"), "choose at"),
    "our topic of cuts": (chosen("app-cuts"), "choose at"),
    "a negative partition": (placed(-1), "place at"),
    "a partition of text": (placed("0"), "place at"),
    "a bool for a partition": (placed(True), "place at"),
}
RIGHT = {
    "numpy's time": (timed(np.int64(7)), ("out", 7, None)),
    "numpy's time forwarded": (forwarding(timestamp=np.int64(7)), ("out", 7, None)),
    "no headers": (forwarding(headers=[]), ("out", 2, [])),
    "a header without a value": (forwarding(headers=[("a", None)]), ("out", 2, [("a", None)])),
    "a tuple of headers": (forwarding(headers=(("a", b"x"),)), ("out", 2, [("a", b"x")])),
    "numpy's partition": (placed(np.int64(0)), ("out", 2, None)),
    "the partition of the key": (placed(None), ("out", 2, None)),
}
wrong = pytest.mark.parametrize(("declare", "function"), WRONG.values(), ids=WRONG)
right = pytest.mark.parametrize(("declare", "found"), RIGHT.values(), ids=RIGHT)


def driven(declare: Declare, handlers: ErrorHandlers) -> tuple[list[Any], Any]:
    builder = StreamsBuilder()
    declare(builder)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        for i, value in enumerate(("a", "bad", "c"), 1):
            driver.pipe("in", "k", value, timestamp=i)
        return [(r.topic, r.value, r.timestamp, r.headers) for r in driver.outputs], driver.task


def clustered(declare: Declare, handlers: ErrorHandlers) -> tuple[list[Any], Any]:
    cluster = cluster_of({"in": 1, "out": 2, "dead": 1})
    rig = WorkerRig(cluster, declare, error_handlers=handlers).start().until_running()
    for i, value in enumerate(("a", "bad", "c"), 1):
        cluster.produce("in", b"k", value.encode(), timestamp=i)
    for _ in range(20):
        rig.clock.advance(100)
        rig.turn()
    records = [*cluster.records("out"), *cluster.records("dead")]
    found = [(r.topic(), r.value(), r.timestamp()[1], r.headers()) for r in records]
    return sorted(found, key=str), rig.tasks["0_0"].task


both = pytest.mark.parametrize("run", [driven, clustered])


@both
@wrong
def test_a_wrong_part_stops_and_names_record_and_function(
    run: Any, declare: Declare, function: str
) -> None:
    with pytest.raises(ProcessingError) as caught:
        run(declare, ErrorHandlers())
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.task) == ("in", 0, 1, "0_0")
    assert error.node is not None
    assert function in str(error.function)
    assert "test_parts_of_records.py" in str(error.function)


@both
@wrong
def test_a_record_with_a_wrong_part_is_skipped(run: Any, declare: Declare, function: str) -> None:
    found, task = run(declare, ErrorHandlers(processing=skip))
    assert [value for _, value, _, _ in found] == [b"a", b"c"]
    assert task.skipped_total == 1


@both
@wrong
def test_a_record_with_a_wrong_part_is_a_dead_letter(
    run: Any, declare: Declare, function: str
) -> None:
    found, task = run(declare, ErrorHandlers(processing=dead_letter, dead_letter_topic="dead"))
    assert sorted((topic, value) for topic, value, _, _ in found) == [
        ("dead", b"bad"), ("out", b"a"), ("out", b"c")
    ]  # fmt: skip
    assert task.dead_letters_total == 1


@both
@right
def test_a_right_part_is_what_the_client_takes(run: Any, declare: Declare, found: Any) -> None:
    records, _ = run(declare, ErrorHandlers())
    (record,) = [r for r in records if r[1] == b"bad"]
    assert (record[0], record[2], record[3]) == found
    assert type(record[2]) is int


def test_a_partition_that_the_topic_has_not_is_refused_before_the_client_sees_it() -> None:
    with pytest.raises(ProcessingError, match=r"the partition 2: topic 'out' has 2, from 0 on"):
        clustered(placed(2), ErrorHandlers())
    found, task = clustered(placed(2), ErrorHandlers(processing=skip))
    assert [value for _, value, _, _ in found] == [b"a", b"c"]
    assert task.skipped_total == 1


def test_a_record_without_a_time_is_a_matter_of_the_processing_handler() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe_all("in", [("k", "a", -1), ("k", "b", 5)])
        assert driver.read("out", value=str) == [("k", "b")]
        assert driver.task.skipped_total == 1


def test_an_extractor_that_fails_for_a_while_is_tried_again_and_nothing_overtakes() -> None:
    calls: list[str] = []

    def extract(key: str, value: str, record_ms: int, partition_ms: int) -> int:
        calls.append(value)
        if len(calls) == 1:
            raise OSError("away")
        return record_ms

    builder = StreamsBuilder()
    left = builder.stream("left", key=str, value=str, timestamp_extractor=extract)
    left.merge(builder.stream("right", key=str, value=str)).to("out")
    handlers = ErrorHandlers(processing=retry(3, backoff=timedelta(milliseconds=100)))
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe("left", "k", "a", timestamp=1)
        assert driver.outputs == []
        driver.pipe("right", "k", "b", timestamp=2)
        assert driver.outputs == []
        driver.advance_wall_clock(100)
        assert driver.read("out", value=str) == [("k", "a"), ("k", "b")]


@pytest.mark.parametrize("time", [1.5, None, "5", True, 2**63])
def test_a_test_pipes_only_what_a_topic_could_hold(time: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises((TypeError, ValueError), match="pipe got the timestamp"):
            driver.pipe("in", "k", "x", timestamp=time)
        with pytest.raises(TypeError, match="values are bytes"):
            driver.pipe("in", "k", "x", headers=[("a", "text")])  # type: ignore[list-item]
        driver.pipe("in", "k", "y", timestamp=1)
        assert driver.read("out", value=str) == [("k", "y")]
