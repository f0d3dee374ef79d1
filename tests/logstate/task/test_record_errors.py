"""Errors about one record: what happened, which record, where, what to do."""

from __future__ import annotations

import pytest

from logstate.contracts.errors import (
    DeserializationError,
    LogstateError,
    ProcessingError,
    SerdeError,
)
from logstate.contracts.records import TaskId, TopicPartition
from logstate.task.record_errors import failed, undecodable, without_timestamp
from logstate.testing.fake.fetched import StoredRecord
from logstate.topology.graph.blame import Blame, blame

RECORD = StoredRecord("orders", 3, 41, b"k", b"payload", -1)
TASK = TaskId(1, 3)


@pytest.mark.parametrize("part", ["key", "value"])
def test_bytes_that_do_not_decode(part: str) -> None:
    error = undecodable(RECORD, part, "orders-source", TASK, ValueError("expected 8 bytes"))
    assert isinstance(error, DeserializationError | SerdeError)
    assert str(error).startswith(f"the {part} of a record does not decode")
    assert "topic 'orders', partition 3, offset 41, task 1_3, source 'orders-source'" in str(error)
    assert "expected 8 bytes" in str(error)
    assert "Nothing past this record was committed; correct the serde" in str(error)
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
