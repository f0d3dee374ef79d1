"""A predicate's result is true or false of the record, or its record fails with the function."""

from __future__ import annotations

import asyncio
import functools
import math
import re
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from logstate import (
    Application,
    Decision,
    ErrorHandlers,
    ProcessingError,
    StreamsBuilder,
    TopologyTestDriver,
    skip,
)
from logstate.app.instance.restarts import response_to
from logstate.contracts.errors import ConfigError
from logstate.testing import FakeCluster
from tests.patience import until


class Color(Enum):
    RED = 1


class Unclear:
    def __bool__(self) -> bool:
        raise ValueError("it depends")


class Callable_:  # noqa: N801
    def __call__(self) -> bool:
        return False


def function() -> bool:
    return False


async def coroutine() -> bool:
    return False


#: name -> (what is returned, what is told of it)
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (lambda: function, r"\(function\).*Was the call forgotten\?"),
    "lambda": (lambda: lambda: False, r"\(function\).*Was the call forgotten\?"),
    "method": (lambda: "text".isdigit, r"\(builtin_function_or_method\).*forgotten"),
    "bound method": (lambda: Callable_().__call__, r"\(method\).*forgotten"),
    "unbound method": (lambda: str.isdigit, r"\(method_descriptor\).*forgotten"),
    "partial": (lambda: functools.partial(function), r"\(partial\).*forgotten"),
    "callable object": (Callable_, r"\(Callable_\).*forgotten"),
    "class": (lambda: ValueError, r"<class 'ValueError'> \(type\), a class"),
    "enum": (lambda: Color, r"\(Enum(Type|Meta)\), a class"),
    "NotImplemented": (lambda: NotImplemented, "NotImplemented.*true for every record"),
    "ellipsis": (lambda: ..., "true for every record"),
    "coroutine": (coroutine, "coroutine, of which nothing has run"),
    "generator": (lambda: (n for n in ()), "generator, of which nothing has run"),
    "map": (lambda: map(bool, []), r"\(map\), an iterator"),
    "list iterator": (lambda: iter([]), r"\(list_iterator\), an iterator"),
    "module": (lambda: math, "a module"),
    "array": (lambda: np.array([True, False]), r"\(ndarray\), an array.*\.all\(\) or \.any\(\)"),
    "array of one": (lambda: np.array([True]), r"\(ndarray\), an array"),
    "empty array": (lambda: np.array([]), r"\(ndarray\), an array"),
    "column": (lambda: pa.array([True]), "BooleanArray.*an array"),
    "unclear": (Unclear, r"whose truth cannot be determined \(ValueError: it depends\)"),
}
ACCEPTED: dict[str, tuple[Any, bool]] = {
    "True": (True, True),
    "False": (False, False),
    "None": (None, False),
    "0": (0, False),
    "1": (1, True),
    "text": ("x", True),
    "empty text": ("", False),
    "list": ([0], True),
    "empty dict": ({}, False),
    "match": (re.match("a", "a"), True),
    "numpy bool": (np.bool_(False), False),
    "numpy int": (np.int64(3), True),
    "array without dimensions": (np.array(0), False),
    "member": (Color.RED, True),
    "object": (object(), True),
}


def filtered(stream: Any, answer: Callable[[Any], Any]) -> None:
    stream.filter(answer).to("out")


def filtered_by_key(stream: Any, answer: Callable[[Any], Any]) -> None:
    stream.filter(lambda k, v: answer(v)).to("out")


def filtered_not(stream: Any, answer: Callable[[Any], Any]) -> None:
    stream.filter_not(answer).to("out")


def branched(stream: Any, answer: Callable[[Any], Any]) -> None:
    parts = stream.split(name="b-").branch(answer, name="yes").default_branch(name="no")
    parts["b-yes"].to("out")


def filtered_table(stream: Any, answer: Callable[[Any], Any]) -> None:
    stream.to_table(store="t").filter(answer).to_stream().to("out")


def filtered_not_table(stream: Any, answer: Callable[[Any], Any]) -> None:
    stream.to_table(store="t").filter_not(answer).to_stream().to("out")


OPERATORS = [
    filtered, filtered_by_key, filtered_not, branched, filtered_table, filtered_not_table
]  # fmt: skip


def driver_of(declare: Callable[..., None], answer: Callable[[Any], Any]) -> TopologyTestDriver:
    builder = StreamsBuilder()
    declare(builder.stream("in", value=str), answer)
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize("declare", OPERATORS)
@pytest.mark.parametrize("result", REFUSED)
def test_what_decides_nothing_is_refused_with_the_predicate(
    result: str, declare: Callable[..., None]
) -> None:
    made, wanted = REFUSED[result]
    with (
        driver_of(declare, lambda v: made()) as driver,
        pytest.raises(ProcessingError, match=wanted) as caught,
    ):
        driver.pipe("in", "k", "v")
    assert re.search(r"the predicate \S*<lambda> at .*test_predicate_results", str(caught.value))


@pytest.mark.parametrize("declare", OPERATORS)
@pytest.mark.parametrize("result", ACCEPTED)
def test_what_python_takes_for_true_or_false_is_taken(
    result: str, declare: Callable[..., None]
) -> None:
    given, is_true = ACCEPTED[result]
    is_negated = declare in (filtered_not, filtered_not_table)
    with driver_of(declare, lambda v: given) as driver:
        driver.pipe("in", "k", "v")
        values = [value for _, value in driver.read("out", value=str) if value is not None]
        assert values == (["v"] if is_true is not is_negated else [])


def test_a_handler_may_skip_the_record() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).filter(lambda v: v.isdigit if v == "a" else True).to("out")
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        driver.pipe_all("in", [("1", "a", 0), ("2", "b", 1)])
        assert driver.read("out", value=str) == [("2", "b")]


@pytest.mark.parametrize("result", ["function", "class", "NotImplemented", "array", "map"])
def test_a_topic_chooser_has_to_name_a_topic(result: str) -> None:
    made, _ = REFUSED[result]
    builder = StreamsBuilder()
    builder.stream("in", value=str).to(lambda k, v: made(), name="sink")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match="the topic chooser of sink 'sink' returned"),
    ):
        driver.pipe("in", "k", "v")


@pytest.mark.parametrize("result", ["function", "class", "NotImplemented"])
def test_a_partitioner_has_to_give_partitions(result: str) -> None:
    made, _ = REFUSED[result]
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out", partitioner=lambda t, k, v, n: made(), name="sink")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match="the partitioner of sink 'sink' returned"),
    ):
        driver.pipe("in", "k", "v")


@pytest.mark.parametrize("result", ["function", "class", "NotImplemented", "array", "map"])
def test_an_error_handler_has_to_decide(result: str) -> None:
    made, _ = REFUSED[result]

    def answer(failed: object) -> Decision:
        return made()  # type: ignore[no-any-return]

    builder = StreamsBuilder()
    builder.stream("in", value=str).map_values(lambda v: 1 // 0, value=int).to("out")
    handlers = ErrorHandlers(processing=answer)
    with (
        TopologyTestDriver(builder.build(), error_handlers=handlers) as driver,
        pytest.raises(ConfigError, match="it must return a Decision"),
    ):
        driver.pipe("in", "k", "v")


@pytest.mark.parametrize("result", ["function", "class", "NotImplemented", "array", "map"])
def test_a_handler_of_uncaught_exceptions_that_decides_nothing_stops_the_instance(
    result: str,
) -> None:
    made, _ = REFUSED[result]
    assert response_to(lambda failure: made(), ValueError()) == "stop_instance"


def test_an_application_stops_at_the_record(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).filter(lambda v: v.isdigit).to("out")
    cluster = FakeCluster({"in": 1, "out": 1})
    cluster.produce("in", b"k", b"v", timestamp=1)
    app = Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
    )
    app.start()
    until(lambda: app.state.name == "ERROR", lambda: app.state.name)
    with pytest.raises(ProcessingError, match="Was the call forgotten"):
        app.close()
    assert cluster.records("out") == []


def test_the_coroutine_of_a_predicate_is_closed() -> None:
    """Python would warn of one that was never awaited."""
    with driver_of(filtered, lambda v: coroutine()) as driver, pytest.raises(ProcessingError):
        driver.pipe("in", "k", "v")
    assert asyncio.run(coroutine()) is False
