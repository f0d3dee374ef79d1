"""User code of one task starts, fires and is closed in the order in which it was written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from logstate import Processor, Record, StreamsBuilder, TopologyTestDriver, ValueTransformer
from logstate.topology.processor.processor_context import ProcessorContext as Context
from logstate.topology.processor.processor_context import PunctuationKind

TEN = timedelta(milliseconds=10)


def ticking(name: str, kind: PunctuationKind, told: list[str]) -> Callable[[], Processor]:
    """Of processors that tell when they start, tick and end."""

    class Ticking(Processor[str, str, str, str]):
        def init(self, context: Context) -> None:
            super().init(context)
            told.append(f"init {name}")
            context.schedule(TEN, kind, self.tick)

        def tick(self, time: int) -> None:
            self.context.forward(Record(name, name, time))

        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)

        def close(self) -> None:
            told.append(f"close {name}")

    return Ticking


def test_processors_start_and_end_in_the_order_of_writing_parents_first() -> None:
    told: list[str] = []
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    for name in "AB":
        stream.process(ticking(name, "wall_clock", told), key=str, value=str, name=name).to("out")
    first = stream.process(ticking("C", "wall_clock", told), key=str, value=str, name="C")
    first.process(ticking("D", "wall_clock", told), key=str, value=str, name="D").to("out")
    with TopologyTestDriver(builder.build()):
        assert told == ["init A", "init B", "init C", "init D"]
        told.clear()
    assert told == ["close A", "close B", "close C", "close D"]


@pytest.mark.parametrize("kind", ["stream_time", "wall_clock"])
def test_schedules_of_two_operators_that_are_due_at_one_moment_fire_in_that_order(
    kind: PunctuationKind,
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    for name in "AB":
        stream.process(ticking(name, kind, []), key=str, value=str, name=name).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", "v", timestamp=0)
        if kind == "wall_clock":
            driver.advance_wall_clock(10)
        fired = [key for key, _ in driver.read("out", key=str, value=str) if key != "k"]
    assert fired == ["A", "B"]


def test_what_reads_a_transformed_table_starts_after_what_makes_it() -> None:
    told: list[str] = []

    class Told(ValueTransformer[str, str, str]):
        def init(self, context: Context) -> None:
            self.number = len(told)
            told.append("init")

        def transform(self, key: str, value: str | None) -> str | None:
            return None if value is None else f"{value}{self.number}"

    builder = StreamsBuilder()
    numbered = builder.table("t", key=str, value=str, store="ts").transform_values(Told, value=str)
    other = builder.table("u", key=str, value=str, store="us")
    other.join(numbered, lambda mine, its: f"{mine} {its}", value=str).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("u", "k", "u", timestamp=0)
        driver.pipe("t", "k", "written-by-", timestamp=1)
        driver.pipe("u", "k", "u", timestamp=2)
        assert driver.read("out", key=str, value=str) == [
            ("k", "u written-by-0"),
            ("k", "u written-by-1"),
        ]


def test_init_may_choose_what_a_record_is_processed_with() -> None:
    class Loud(Processor[str, str, str, str]):
        def init(self, context: Context) -> None:
            super().init(context)
            self.process = self.process_loudly  # type: ignore[method-assign]

        def process(self, record: Record[str, str]) -> None:
            raise AssertionError("init() chose another")

        def process_loudly(self, record: Record[str, str]) -> None:
            self.context.forward(record._replace(value=f"{record.value}!"))

    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).process(Loud, key=str, value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "k", "v", timestamp=0)
        assert driver.read("out", key=str, value=str) == [("k", "v!")]
