"""Records of global tables that fail: the handlers are asked, in the driver as on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import DeserializationError, LogstateError, ProcessingError
from logstate.contracts.records import Record
from logstate.metrics import catalogue
from logstate.serdes import json_of
from logstate.task.error_handlers import (
    Action,
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    retry,
    skip,
)
from logstate.testing import TopologyTestDriver
from logstate.topology import KStream, Processor, StreamsBuilder, key_value_store
from tests.unit.logstate.task.task_bench import topology_of
from tests.unit.logstate.worker.worker_rig import WorkerRig, cluster_of, outputs

Declare = Callable[[StreamsBuilder], object]

#: how often a processor fails before it takes what is "late"
FAILURES = 2


def looked_up(stream: KStream[str, str], table: Any) -> None:
    joined = stream.left_join(table, lambda v, n: f"{v}:{n}", key_mapper=lambda k, v: k, value=str)
    joined.to("out", value=str)


def tabled(builder: StreamsBuilder) -> None:
    """Ages by name; "bad" is no number."""
    ages = builder.global_table("ages", key=str, value=json_of(int), store="ages")
    looked_up(builder.stream("in", key=str, value=str), ages)


def processed() -> Declare:
    """The same through a processor that raises for "bad", and at first for "late"."""
    calls = [0]

    class Keep(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.store("ages")
            store.put(record.key, record.value)
            if record.value == "bad":
                raise ValueError("no age")
            calls[0] += record.value == "late"
            if record.value == "late" and calls[0] <= FAILURES:
                raise OSError("away")

    class Look(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            found = self.context.store("ages").get(record.key)
            self.context.forward(record._replace(value=f"{record.value}:{found}"))

    def declare(builder: StreamsBuilder) -> None:
        ages = key_value_store("ages", str, str)
        builder.add_global_store(ages, "ages", Keep, key=str, value=str)
        builder.stream("in", key=str, value=str).process(Look, key=str, value=str).to("out")

    return declare


FAILING = {"an undecodable value": lambda: tabled, "a processor that raises": processed}
failing = pytest.mark.parametrize("declare", FAILING.values(), ids=FAILING)
#: then "a" is asked for, and "b"
AGES = [("a", "1"), ("b", "2"), ("b", "bad"), ("a", "3")]


def driven(declare: Declare, handlers: ErrorHandlers) -> list[Any]:
    with TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver:
        for time, (key, value) in enumerate(AGES):
            driver.pipe_raw("ages", key.encode(), value.encode(), time)
        for key in "ab":
            driver.pipe("in", key, key)
        assert [task.skipped_total for task in driver._globals] == [1]
        return [value for _, value in driver.read("out", value=str)]


def clustered(declare: Declare, handlers: ErrorHandlers) -> list[Any]:
    """Half of them are there before the start."""
    cluster = cluster_of({"ages": 1, "in": 1, "out": 1, "dead": 1})
    rig = WorkerRig(cluster, declare, error_handlers=handlers)
    for time, (key, value) in enumerate(AGES):
        cluster.produce("ages", key.encode(), value.encode(), timestamp=time + 1)
    rig.start().until_running()
    for key in "ab":
        cluster.produce("in", key.encode(), key.encode(), timestamp=1)
    rig.commit()
    rig.commit()
    rig.clock.advance(1_000)
    rig.turn(2)
    assert rig.total(catalogue.SKIPPED_RECORDS.name) == 1
    rig.stop()
    assert not cluster.records("dead")
    return [value for _, value in outputs(cluster)]


both = pytest.mark.parametrize("run", [driven, clustered])


@both
@failing
def test_a_global_record_that_fails_is_skipped_and_rolled_back(
    run: Any, declare: Callable[[], Declare]
) -> None:
    handlers = ErrorHandlers(deserialization=skip, processing=skip)
    assert run(declare(), handlers) == ["a:3", "b:2"]


@both
@failing
def test_there_is_no_dead_letter_of_a_global_record_and_the_log_says_so(
    run: Any, declare: Callable[[], Declare], caplog: pytest.LogCaptureFixture
) -> None:
    handlers = ErrorHandlers(
        deserialization=dead_letter, processing=dead_letter, dead_letter_topic="dead"
    )
    assert run(declare(), handlers) == ["a:3", "b:2"]
    assert "partition=0, offset=2" in caplog.text
    assert "is skipped in a global store" in caplog.text


@both
@failing
def test_the_handler_is_told_which_global_record_failed(
    run: Any, declare: Callable[[], Declare]
) -> None:
    told: list[FailedRecord] = []

    def note(record: FailedRecord) -> Decision:
        told.append(record)
        return Decision(Action.SKIP)

    run(declare(), ErrorHandlers(deserialization=note, processing=note))
    (record,) = told
    assert record.source is not None
    assert (record.source.topic, record.source.offset, record.value) == ("ages", 2, b"bad")


@both
@failing
def test_without_a_handler_it_stops_and_names_the_record(
    run: Any, declare: Callable[[], Declare]
) -> None:
    with pytest.raises(LogstateError, match="topic 'ages', partition 0, offset 2") as failure:
        run(declare(), ErrorHandlers())
    assert isinstance(failure.value, DeserializationError | ProcessingError)


RETRIED = ErrorHandlers(processing=retry(5, backoff=timedelta(milliseconds=100)))


def test_a_global_record_is_tried_again_and_nothing_overtakes_it() -> None:
    with TopologyTestDriver(topology_of(processed()), error_handlers=RETRIED) as driver:
        driver.pipe("ages", "a", "late", timestamp=1)
        driver.pipe("ages", "a", "then", timestamp=2)
        assert driver.store("ages").get("a") is None
        for _ in range(FAILURES):
            driver.advance_wall_clock(1_000)
        assert driver.store("ages").get("a") == "then"


def test_no_task_runs_before_a_global_record_that_is_tried_again_at_the_start() -> None:
    cluster = cluster_of({"ages": 1, "in": 1, "out": 1})
    rig = WorkerRig(cluster, processed(), error_handlers=RETRIED)
    cluster.produce("ages", b"a", b"late", timestamp=1)
    cluster.produce("in", b"a", b"a", timestamp=1)
    rig.before = lambda step: (
        rig.clock.advance(50) if step.name == "global_poll" and not rig.stages else None
    )
    rig.start().until_running()
    rig.commit()
    rig.commit()
    assert outputs(cluster) == [("a", "a:late")]


def test_a_global_record_that_is_tried_again_does_not_stop_the_tasks() -> None:
    cluster = cluster_of({"ages": 1, "in": 1, "out": 1})
    rig = WorkerRig(cluster, processed(), error_handlers=RETRIED).start().until_running()
    cluster.produce("ages", b"a", b"late", timestamp=1)
    rig.turn(2)
    cluster.produce("in", b"a", b"a", timestamp=1)
    rig.commit()
    assert outputs(cluster) == [("a", "a:None")]
    for _ in range(10):
        rig.clock.advance(100)
        rig.turn()
    cluster.produce("in", b"a", b"b", timestamp=2)
    rig.commit()
    rig.commit()
    assert outputs(cluster) == [("a", "a:None"), ("a", "b:late")]
