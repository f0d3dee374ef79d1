"""Batches: lists of so many values of a key, or of fewer when the time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from logstate.contracts.errors import TopologyError
from logstate.serdes import list_of
from logstate.testing import TopologyTestDriver
from logstate.topology import StreamsBuilder
from tests.unit.topology.operators.aggregates.test_count_windows import (
    VALUES,
    Model,
    Value,
    lists_of,
    ms,
    process,
)
from tests.unit.topology.operators.one_operator import OneOperator


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@given(records=VALUES)
def test_a_batch_is_sent_when_it_is_full_or_a_time_after_its_first_value(
    n: int, records: list[Value]
) -> None:
    run, model = OneOperator(lists_of(n, n, is_batch=True)), Model(n, n, is_batch=True)
    for record in records:
        assert [found[:3] for found in process(run, record)] == model.pipe(*record)
    assert sum(1 for _ in run.store("s-values").all()) == sum(map(len, model.values.values()))
    run.pipe("z", None, 1_000)
    for spec in lists_of(n, n, is_batch=True).own_stores():
        assert list(run.store(spec.name).all()) == []


def test_later_values_do_not_delay_a_batch() -> None:
    run = OneOperator(lists_of(5, 5, is_batch=True))
    for time in (0, 4, 9):
        assert run.pipe("a", time, time) == []
    assert [row[:3] for row in run.pipe("b", 1, 10)] == [("a", [0, 4, 9], 9)]


def test_batches_are_read_behind_a_repartition_topic_and_survive_a_lost_disk() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str).select_key(lambda word: word[0], key=str)
    words.batch(2, within=ms(5), close_on_idle=ms(100), store="pairs").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("x", "ab", 0), ("y", "ba", 1)])
        driver.crash(loses_disk=True)
        driver.pipe("in", "z", "ac", timestamp=2)
        assert driver.read("out", value=list_of(str)) == [("a", ["ab", "ac"])]
        driver.advance_wall_clock(101)
        assert driver.read("out", value=list_of(str)) == [("b", ["ba"])]


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (lambda: batches(2, within=ms(0)), "timeout of count windows must be at least 1 ms"),
        (lambda: batches(2, within=ms(9), store=None), "A batch needs a name for its store"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(
    declare: Callable[[], object], text: str
) -> None:
    with pytest.raises(TopologyError, match=text):
        declare()


def batches(n: int, **options: Any) -> object:
    return StreamsBuilder().stream("in", key=str, value=int).batch(n, **{"store": "s", **options})
