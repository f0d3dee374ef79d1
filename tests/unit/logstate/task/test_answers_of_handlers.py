"""Answers of error handlers that are none, and dead letters that would come back for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import ConfigError
from logstate.task.error_handlers import (
    Action,
    Decision,
    ErrorHandlers,
    FailedRecord,
    dead_letter,
    skip,
)
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder
from tests.unit.logstate.task.task_bench import topology_of

NO_ACTION = ["skip", "SKIP", None, True, 1, skip]
NO_DELAY = [5, 0.5, None, "5s", timedelta(seconds=-1)]


@pytest.mark.parametrize("action", NO_ACTION)
def test_an_action_that_is_none_is_refused(action: Any) -> None:
    with pytest.raises(ConfigError, match=r"action of a Decision must be Action.FAIL, .*; got"):
        Decision(action)


def test_the_action_that_a_word_means_is_told() -> None:
    for word in ("skip", "dead-letter", "RETRY"):
        with pytest.raises(ConfigError) as refused:
            Decision(word)  # type: ignore[arg-type]
        meant = word.upper().replace("-", "_")
        assert str(refused.value).endswith(f"Write Decision(Action.{meant})")


@pytest.mark.parametrize("delay", NO_DELAY, ids=repr)
def test_a_delay_that_is_none_is_refused(delay: Any) -> None:
    with pytest.raises(ConfigError, match="delay of a Decision must be"):
        Decision(Action.RETRY, delay)


def failing(builder: StreamsBuilder) -> None:
    builder.stream("in", key=str, value=str).map_values(int, value=int).to("out")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [(("skip",), "got 'skip'"), ((Action.RETRY, 5), "delay of a Decision must be a timedelta")],
)
def test_a_handler_that_makes_such_a_decision_is_named_with_its_record(
    arguments: Any, found: str
) -> None:
    def answer(record: FailedRecord) -> Decision:
        return Decision(*arguments)

    handlers = ErrorHandlers(processing=answer)
    with (
        TopologyTestDriver(topology_of(failing), error_handlers=handlers) as driver,
        pytest.raises(ConfigError) as refused,
    ):
        driver.pipe("in", "k", "no number")
    said = str(refused.value)
    assert "the processing handler" in said
    assert "test_answers_of_handlers.py" in said
    assert "topic 'in', partition 0, offset 0" in said
    assert found in said


@pytest.mark.parametrize(
    "name", ["", " ", "my topic", "a/b", "Ünicode", "a\nb", "x" * 250, 5, ".."]
)
def test_a_dead_letter_topic_that_no_topic_can_be_called_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="dead_letter_topic must be the name of a topic"):
        ErrorHandlers(dead_letter_topic=name)


#: a record that fails in each of the stages
LOOPING: dict[str, tuple[Any, bytes]] = {
    "one that does not decode": (
        lambda b: b.stream("in", key=str, value=int).to("out"),
        b"no number",
    ),
    "one that is not processed": (failing, b"no number"),
    "one whose result does not encode": (
        lambda b: b.stream("in", key=str, value=str).map_values(len, value=str).to("out"),
        b"four",
    ),
}


@pytest.mark.parametrize(("declare", "value"), LOOPING.values(), ids=LOOPING)
def test_a_letter_that_fails_itself_does_not_come_back_for_ever(declare: Any, value: bytes) -> None:
    handlers = ErrorHandlers(dead_letter, dead_letter, dead_letter, dead_letter_topic="in")
    with (
        TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver,
        pytest.raises(ConfigError, match="would come back here and fail forever") as refused,
    ):
        driver.pipe_raw("in", b"k", value, 1)
    assert "offset=0" in str(refused.value)


def test_dead_letters_may_be_read_where_they_are_written() -> None:
    seen: list[bytes] = []

    def declare(builder: StreamsBuilder) -> None:
        failing(builder)
        builder.stream("dead", key=bytes, value=bytes).foreach(seen.append)

    handlers = ErrorHandlers(processing=dead_letter, dead_letter_topic="dead")
    with TopologyTestDriver(topology_of(declare), error_handlers=handlers) as driver:
        driver.pipe("in", "k", "no number")
    assert seen == [b"no number"]
