"""Processors with timers per key, for their tests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KeyTimers,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    timer_store,
)


class Remind(Processor[str, int, str, int]):
    """Sets a timer ``value`` ms after a record; a negative value takes back the one at -value."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.timers: KeyTimers[str] = KeyTimers(context, "timers", self.remind)

    def process(self, record: Record[str, int]) -> None:
        if record.value < 0:
            self.timers.cancel(record.key, -record.value)
        else:
            self.timers.set(record.key, record.timestamp + record.value)

    def remind(self, key: str, at_ms: int) -> None:
        self.context.forward(Record(key, at_ms, at_ms))


def driver_of(supplier: Any = Remind, **settings: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    timers = timer_store("timers", str)
    stream.process(supplier, stores=timers, key=str, value=int, name="remind").to("out")
    return TopologyTestDriver(builder.build(), **settings)


class Sees(Processor[str, int, str, int]):
    """Forwards what it is called for: records as ``key``, timers as ``!key`` with their times."""

    kind: Any = "stream_time"
    every = timedelta(milliseconds=1)

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.timers: KeyTimers[str] = KeyTimers(
            context, "timers", self.due, kind=self.kind, every=self.every
        )
        context.schedule(timedelta(milliseconds=10), "stream_time", self.tick)

    def process(self, record: Record[str, int]) -> None:
        self.timers.set(record.key, record.value)
        self.context.forward(Record(record.key, record.timestamp, record.timestamp))

    def due(self, key: str, at_ms: int) -> None:
        self.context.forward(Record(f"!{key}", at_ms, self.context.current_stream_time_ms()))

    def tick(self, now_ms: int) -> None:
        self.context.forward(Record("tick", now_ms, now_ms))


def calls(driver: TopologyTestDriver) -> list[str]:
    """The calls in order: ``key@time``; of timers also the stream time that they saw."""
    read = driver.read_with_timestamps("out", value=int)
    return [f"{k}@{v}/{t}" if k.startswith("!") else f"{k}@{v}" for k, v, t in read]
