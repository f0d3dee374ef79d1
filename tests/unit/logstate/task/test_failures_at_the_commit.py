"""What fails below emit="commit" is answered as it is where every update is emitted at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from logstate.contracts.errors import ConfigError, ProcessingError
from logstate.contracts.records import Record
from logstate.task.error_handlers import (
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    skip,
)
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, StreamsBuilder
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of

Emit = Literal["update", "commit"]
Declare = Callable[[StreamsBuilder, Emit], object]

RECORDS = [("a", "x"), ("b", "x"), ("a", "x"), ("b", "x"), ("c", "x"), ("a", "x")]


def raises(count: int) -> int:
    if count == 2:
        raise ValueError("two")
    return count


def not_encodable(count: int) -> Any:
    return "two" if count == 2 else count


def counted(function: Callable[[int], Any]) -> Declare:
    def declare(builder: StreamsBuilder, emit: Emit) -> None:
        grouped = builder.stream("in", key=str, value=str).group_by_key()
        counts = grouped.count(store="n", emit=emit).to_stream()
        counts.map_values(function, value=int).to("out")

    return declare


def summed(builder: StreamsBuilder, emit: Emit) -> None:
    """Through a table that subtracts what it was told before, and a repartition topic."""
    counts = builder.stream("in", key=str, value=str).group_by_key().count(store="n", emit=emit)
    mapped = counts.map_values(raises, value=int)
    by_all = mapped.group_by(lambda k, v: ("all", v), key=str, value=int)
    total = by_all.aggregate(
        lambda: 0, lambda total, v: total + v, lambda total, v: total - v, store="sum", value=int
    )
    total.to_stream().to("out")


DECLARED = {"raises": counted(raises), "encodes": counted(not_encodable), "sums": summed}
declared = pytest.mark.parametrize("declare", DECLARED.values(), ids=DECLARED)
SKIP = ErrorHandlers(processing=skip, production=skip)


def driven(
    declare: Declare, emit: Emit, handlers: ErrorHandlers, commit_every: int = 1
) -> tuple[Any, ...]:
    builder = StreamsBuilder()
    declare(builder, emit)
    topology = builder.build()
    with TopologyTestDriver(topology, error_handlers=handlers, commit_every=commit_every) as driver:
        for i, (key, value) in enumerate(RECORDS, 1):
            driver.pipe("in", key, value, timestamp=i)
        driver.advance_wall_clock(1)
        out: dict[Any, Any] = {}
        for record in driver.outputs:
            out[record.topic, record.key] = record.value
        counts = {key: row.value for key, row in driver.store("n").all()}
        return out, counts, driver.task.skipped_total


def clustered(declare: Declare, emit: Emit, handlers: ErrorHandlers) -> tuple[Any, ...]:
    cluster = cluster_of({"in": 1, "out": 1, "dead": 1})
    rig = WorkerRig(cluster, lambda b: declare(b, emit), error_handlers=handlers)
    rig.start().until_running()
    for i, (key, value) in enumerate(RECORDS, 1):
        cluster.produce("in", key.encode(), value.encode(), timestamp=i)
    for _ in range(80):
        rig.clock.advance(100)
        rig.turn()
    records = [*cluster.records("out"), *cluster.records("dead")]
    out = {(r.topic(), r.key()): r.value() for r in records}
    skipped = sum(owned.task.skipped_total for owned in rig.tasks.values())
    return out, {key: row.value for key, row in rig.store("0_0", "n").all()}, skipped


@declared
@pytest.mark.parametrize("commit_every", [1, 2, 100])
def test_the_driver_skips_at_the_commit_what_it_skips_at_once(
    declare: Declare, commit_every: int
) -> None:
    at_once = driven(declare, "update", SKIP)
    assert at_once[2] > 0
    assert driven(declare, "commit", SKIP, commit_every) == at_once


@declared
def test_a_worker_skips_at_the_commit_what_it_skips_at_once(declare: Declare) -> None:
    at_once, at_the_commit = (clustered(declare, emit, SKIP) for emit in ("update", "commit"))
    assert at_once[:2] == at_the_commit[:2]
    assert at_the_commit[2] >= at_once[2] > 0  # replays count again


def test_the_dead_letter_is_the_record_of_the_result() -> None:
    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    builder = StreamsBuilder()
    counted(raises)(builder, "commit")
    with TopologyTestDriver(builder.build(), error_handlers=handlers, commit_every=3) as driver:
        for i, (key, value) in enumerate(RECORDS[:3], 1):
            driver.pipe("in", key, value, timestamp=i)
        (letter,) = [record for record in driver.outputs if record.topic == "dead"]
    assert (letter.key, letter.value, letter.timestamp) == (b"a", b"x", 3)
    assert dict(letter.headers or ())["__streams.errors.message"] == b"two"
    out, _, _ = clustered(counted(raises), "commit", handlers)
    assert {key for topic, key in out if topic == "dead"} == {b"a", b"b"}


@pytest.mark.parametrize("function", [raises, not_encodable])
def test_the_dead_letter_is_the_record_of_the_result_where_the_rest_is_kept(function: Any) -> None:
    handlers = ErrorHandlers(
        processing=dead_letter, production=dead_letter, dead_letter_topic="dead", on_skip="keep"
    )
    builder = StreamsBuilder()
    counted(function)(builder, "commit")
    with TopologyTestDriver(builder.build(), error_handlers=handlers, commit_every=4) as driver:
        for timestamp, (key, value) in enumerate([*RECORDS[:1], ("a", "second"), *RECORDS[3:5]], 1):
            driver.pipe("in", key, value, timestamp=timestamp)
        (letter,) = [record for record in driver.outputs if record.topic == "dead"]
    assert (letter.key, letter.value, letter.timestamp) == (b"a", b"second", 2)
    assert dict(letter.headers or ())["__streams.errors.offset"] == b"1"


@pytest.mark.parametrize("run", [driven, clustered])
def test_without_a_handler_the_error_names_record_node_and_function(run: Any) -> None:
    with pytest.raises(ProcessingError, match="buffered for the commit failed") as caught:
        run(counted(raises), "commit", ErrorHandlers())
    error = caught.value
    assert error.topic == "in"
    assert error.task == "0_0"
    assert "MAPVALUES" in str(error.node)
    assert "test_failures_at_the_commit.py" in str(error.function)
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("function", [raises, not_encodable])
@pytest.mark.parametrize("run", [driven, clustered])
def test_only_the_result_is_left_out_where_the_rest_is_to_be_kept(run: Any, function: Any) -> None:
    """As Kafka Streams does."""
    handlers = ErrorHandlers(processing=skip, production=skip, on_skip="keep")
    out, counts, skipped = run(counted(function), "commit", handlers)
    assert counts == {"a": 3, "b": 2, "c": 1}
    assert skipped > 0
    assert out["out", b"a"] == (3).to_bytes(8, "big")


def test_the_handler_hears_of_the_record() -> None:
    heard: list[FailedRecord] = []

    def remember(record: FailedRecord) -> Decision:
        heard.append(record)
        return skip(record)

    clustered(counted(raises), "commit", ErrorHandlers(processing=remember))
    assert [(r.stage, r.key, r.source and r.source.offset) for r in heard] == [
        ("processing", b"a", 2),
        ("processing", b"b", 3),
        ("processing", b"a", 5),  # the count is two again
    ]
    assert all(isinstance(r.error, ProcessingError) for r in heard)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def mute(count: int) -> int:
    raise Mute


@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize("run", [driven, clustered])
def test_an_error_that_cannot_say_what_it_is_is_skipped_or_told_like_any(
    run: Any, emit: Emit
) -> None:
    with pytest.raises(ProcessingError, match=r"Mute: .no text: its __str__ raised RuntimeError"):
        run(counted(mute), emit, ErrorHandlers())
    _, _, skipped = run(counted(mute), emit, SKIP)
    assert skipped >= len(RECORDS)
    letters = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    out, _, _ = run(counted(mute), emit, letters)
    assert ("dead", b"c") in out


class CannotClose(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)

    def close(self) -> None:
        raise ValueError("cannot close")


def test_a_processor_that_cannot_close_is_named() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(CannotClose, name="p", key=str, value=str).to("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(
        ProcessingError, match=r"closing a processor failed: task 0_0, node 'p', in"
    ):
        driver.close()


def test_a_processor_that_cannot_close_is_only_told_where_failures_are_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).process(CannotClose, name="p", key=str, value=str).to("out")
    with TopologyTestDriver(builder.build(), error_handlers=SKIP) as driver:
        driver.pipe("in", "k", "v")
        assert driver.read("out", value=str) == [("k", "v")]
    assert "closing a processor failed: task 0_0, node 'p'" in caplog.text


def failing_handler(record: FailedRecord) -> Decision:
    raise KeyError("no such answer")


def silent_handler(record: FailedRecord) -> Any:
    return None


@pytest.mark.parametrize("handler", [failing_handler, silent_handler])
@pytest.mark.parametrize("run", [driven, clustered])
def test_a_handler_that_does_not_answer_is_named(run: Any, handler: Any) -> None:
    with pytest.raises(ConfigError, match=f"the processing handler {handler.__name__} at .*two"):
        run(counted(raises), "update", ErrorHandlers(processing=handler))
