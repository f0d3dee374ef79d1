"""A processor that looks at the first rows of a store pays for those, however many there are.

Rows wait in memory for seconds before the backend takes them over, and all rows of a store in
memory are there for good. A look that went through them with every record would make each record
cost as much as all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KeyTimers,
    Materialized,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    key_value_store,
    timer_store,
)
from tests.steps import STEPS

FEW, MANY = 200, 2_000
FAR_MS = 1_000_000


class Remind(Processor[str, int, str, int]):
    """Sets a timer for each record."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.timers: KeyTimers[str] = KeyTimers(context, "timers", self.remind)

    def process(self, record: Record[str, int]) -> None:
        self.timers.set(record.key, record.value)

    def remind(self, key: str, at_ms: int) -> None:
        self.context.forward(Record(key, at_ms, at_ms))


class First(Processor[str, int, str, int]):
    """Forwards the first row of its store, and keeps the record."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.rows = context.store("rows")

    def process(self, record: Record[str, int]) -> None:
        for key, value in self.rows.all():
            self.context.forward(Record(key, value, record.timestamp))
            break
        self.rows.put(record.key, record.value)


def reminders(builder: StreamsBuilder, *, in_memory: bool) -> None:
    timers = timer_store("timers", str, in_memory=in_memory)
    records = builder.stream("in", value=int)
    records.process(Remind, stores=timers, key=str, value=int, name="remind").to("out")


def first_rows(builder: StreamsBuilder, *, in_memory: bool) -> None:
    rows = key_value_store("rows", str, int, in_memory=in_memory)
    records = builder.stream("in", value=int)
    records.process(First, stores=rows, key=str, value=int, name="first").to("out")


def waiting(builder: StreamsBuilder, *, in_memory: bool) -> None:
    rates = Materialized("rates", history=timedelta(milliseconds=2 * FAR_MS))
    table = builder.table("rates", value=int, store=rates)
    grace = timedelta(milliseconds=FAR_MS)
    joined = builder.stream("in", value=int).left_join(
        table, lambda value, rate: value, grace=grace, name="waiting"
    )
    joined.to("out", value=int)


def steps_of_a_record(
    build: Callable[..., None], rows: int, *, in_memory: bool, commit_every: int
) -> tuple[int, list[Any]]:
    """Of one record beside ``rows``, none of which is due, and of one at which one is."""
    builder = StreamsBuilder()
    build(builder, in_memory=in_memory)
    with TopologyTestDriver(
        builder.build(), changelog_writes="commit", commit_every=commit_every
    ) as driver:
        for number in range(rows):
            key = f"k{number * 7_919 % 1_000_003:07d}"
            driver.pipe("in", key, FAR_MS + number, timestamp=number)
        driver.pipe("in", "l", 2 * FAR_MS, timestamp=rows)
        driver.take_outputs()
        with STEPS.counted():
            driver.pipe("in", "m", 2 * FAR_MS, timestamp=rows + 1)
            driver.pipe("in", "n", 3 * FAR_MS, timestamp=FAR_MS)
        return STEPS.total, driver.read("out", value=int)


@pytest.mark.parametrize(
    ("in_memory", "commit_every"), [(False, 10**9), (True, 1)], ids=["pending", "in memory"]
)
@pytest.mark.parametrize("build", [reminders, first_rows, waiting])
def test_a_look_at_first_rows_costs_the_same_however_many_there_are(
    build: Callable[..., None], in_memory: bool, commit_every: int
) -> None:
    steps = {}
    for rows in (FEW, MANY):
        steps[rows], out = steps_of_a_record(
            build, rows, in_memory=in_memory, commit_every=commit_every
        )
        assert out, "one was due"
    assert steps[MANY] <= 1.2 * steps[FEW]
