"""Errors about one record: what happened, which record, where, what to do."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from logstate import Application, ErrorHandlers, StreamsBuilder, skip
from logstate.contracts.errors import (
    DeserializationError,
    LogstateError,
    ProcessingError,
    SerdeError,
)
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.error_handlers import Action, Decision, FailedRecord
from logstate.task.record_errors import failed, undecodable, what_ended, without_timestamp
from logstate.testing import TopologyTestDriver
from logstate.testing.fake.fetched import StoredRecord
from logstate.topology.graph.blame import Blame, blame
from tests.patience import until
from tests.unhurried import unhurried

RECORD = StoredRecord("orders", 3, 41, b"k", b"payload", -1)
TASK = TaskId(1, 3)


@pytest.mark.parametrize("part", ["key", "value"])
def test_bytes_that_do_not_decode(part: str) -> None:
    error = undecodable(RECORD, part, "orders-source", TASK, ValueError("expected 8 bytes"))
    assert isinstance(error, DeserializationError | SerdeError)
    assert str(error).startswith(f"the {part} of a record does not decode")
    assert "topic 'orders', partition 3, offset 41, task 1_3, source 'orders-source'" in str(error)
    assert "expected 8 bytes" in str(error)
    assert "This record and later ones were not committed; correct the serde" in str(error)
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 41)
    assert (error.task, error.node, error.function) == ("1_3", "orders-source", None)


def test_a_record_without_a_timestamp() -> None:
    error = without_timestamp(RECORD, TASK)
    assert isinstance(error, ProcessingError)
    assert "topic 'orders', partition 3, offset 41, task 1_3" in str(error)
    assert "timestamp_extractor" in str(error)
    assert (error.topic, error.partition, error.offset, error.task) == ("orders", 3, 41, "1_3")


def test_a_function_that_raised() -> None:
    def users_function() -> None:
        raise KeyError("price")

    with pytest.raises(KeyError) as caught:
        users_function()
    found = blame(caught.value)
    error = failed(TopicPartition("orders", 3), 41, TASK, found, caught.value)
    assert isinstance(error, ProcessingError)
    assert "topic 'orders', partition 3, offset 41, task 1_3" in str(error)
    assert "KeyError: 'price'" in str(error)
    assert error.function is not None
    assert error.function.endswith("in users_function")
    assert error.function in str(error)


@pytest.mark.parametrize("message", ["does not decode", "no timestamp", "failed"])
def test_none_of_them_shows_the_value_of_the_record(message: str) -> None:
    errors: dict[str, LogstateError] = {
        "does not decode": undecodable(RECORD, "value", "s", TASK, ValueError("?")),
        "no timestamp": without_timestamp(RECORD, TASK),
        "failed": failed(TopicPartition("orders", 3), 41, TASK, Blame("n", None), ValueError("?")),
    }
    assert message in str(errors[message])
    assert "payload" not in str(errors[message])


class Panic(BaseException):
    """What code below Python raises when it gives up: no Exception, on purpose."""


@pytest.mark.parametrize("raised", [SystemExit, asyncio.CancelledError, Panic, KeyboardInterrupt])
def test_what_passes_every_guard_is_told_with_its_type_and_place(
    raised: type[BaseException], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no record's failure, so no handler is asked; it used to be logged as nothing at all."""

    def gives_up(value: str) -> str:
        raise raised

    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(gives_up, value=str, name="up").to("out")
    cluster = unhurried({"in": 1, "out": 1})
    cluster.produce("in", b"k", b"v", timestamp=1)
    app = Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        cluster=cluster,
        error_handlers=ErrorHandlers(processing=skip),
    )
    app.start(waits=False)
    until(lambda: not app.is_alive)
    with pytest.raises(raised):
        app.close()
    assert re.search(
        rf"stopped: {raised.__name__}: .*, raised in node 'up', in .*_errors.py:\d+ in gives_up",
        caplog.text,
    )


def test_what_ended_a_worker_is_the_librarys_own_text_where_it_has_one() -> None:
    assert what_ended(LogstateError("said")) == "said"
    assert what_ended(ValueError("v")) == "ValueError: v"


SAME = ValueError("made once")


def first(value: str) -> str:
    if value == "first":
        raise SAME
    return value


def second(value: str) -> str:
    raise SAME


def test_an_error_that_is_raised_again_is_blamed_on_whoever_raises_it_now() -> None:
    """Its traceback grows: the newest is in front, and those of before follow."""
    told: list[FailedRecord] = []

    def note(record: FailedRecord) -> Decision:
        told.append(record)
        return Decision(Action.SKIP)

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.map_values(first, value=str, name="one").map_values(second, value=str, name="two")
    handlers = ErrorHandlers(processing=note)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        for value in ("first", "second", "first"):
            driver.pipe("in", "k", value)
    assert [record.node for record in told] == ["one", "two", "one"]
    functions = [str(record.error.function) for record in told]  # type: ignore[attr-defined]
    assert [site.rpartition(" ")[2] for site in functions] == ["first", "second", "first"]
