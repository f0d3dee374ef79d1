"""The Processor API: forwarding, stores, schedules, what a processor may not do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import LogstateError
from logstate.contracts.records import Record
from logstate.testing import TopologyTestDriver
from logstate.topology import Processor, ProcessorContext, StreamsBuilder, key_value_store


def driver_of(supplier: Any, *, keeps_key: bool = False, **options: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    if keeps_key:
        result = stream.process_values(supplier, value=int, name="p", **options)
    else:
        result = stream.process(supplier, key=str, value=int, name="p", **options)
    result.to("out", name="out")
    return TopologyTestDriver(builder.build())


class Count(Processor[str, int, str, int]):
    """Counts records per key in a store."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.store = context.store("counts")

    def process(self, record: Record[str, int]) -> None:
        count = (self.store.get(record.key) or 0) + 1
        self.store.put(record.key, count)
        self.context.forward(record._replace(value=count))


COUNTS = key_value_store("counts", str, int)


def test_a_processor_keeps_state_in_a_store_it_brings_along() -> None:
    with driver_of(Count, stores=[COUNTS]) as driver:
        driver.pipe_all("in", [("a", 7, 1), ("a", 7, 2), ("b", 7, 3)])
        assert driver.read("out", value=int) == [("a", 1), ("a", 2), ("b", 1)]


def test_a_plain_store_logs_with_the_time_of_the_record_at_hand() -> None:
    class Later(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record._replace(timestamp=record.timestamp + 1000))
            self.context.store("counts").put(record.key, record.value)

    class Inner(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store("inner").put(record.key, record.value)

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    later = stream.process(Later, stores=[COUNTS], key=str, value=int, name="p")
    later.process(Inner, stores=[key_value_store("inner", str, int)], name="q")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1, timestamp=5)
        assert driver.changelog("app-counts-changelog")[0].timestamp == 5
        assert driver.changelog("app-inner-changelog")[0].timestamp == 1005


def test_a_processor_may_forward_to_one_child() -> None:
    class Route(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record, "even" if record.value % 2 == 0 else "odd")

    builder = StreamsBuilder()
    routed = builder.stream("in", key=str, value=int, name="in").process(
        Route, key=str, value=int, name="p"
    )
    routed.to("evens", name="even")
    routed.to("odds", name="odd")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 1), ("a", 2, 2)])
        assert driver.read("evens", value=int) == [("a", 2)]
        assert driver.read("odds", value=int) == [("a", 1)]


def test_an_unknown_child_is_an_error_that_names_the_known_ones() -> None:
    class Wrong(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record, "nobody")

    with driver_of(Wrong) as driver, pytest.raises(LogstateError, match=r"'nobody'.*'out'"):
        driver.pipe("in", "a", 1)


def test_a_negative_timestamp_cannot_be_forwarded() -> None:
    class Wrong(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record._replace(timestamp=-1))

    with driver_of(Wrong) as driver, pytest.raises(LogstateError, match="timestamp -1"):
        driver.pipe("in", "a", 1)


def test_process_values_refuses_another_key() -> None:
    class Wrong(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record._replace(key="other"))

    with (
        driver_of(Wrong, keeps_key=True) as driver,
        pytest.raises(LogstateError, match="changed a key"),
    ):
        driver.pipe("in", "a", 1)


def test_process_values_needs_no_repartition_below() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    stream.process_values(Count, stores=[COUNTS], value=int).group_by_key().count(store="c")
    assert builder.build().internal_topics == ()


def test_process_may_change_keys_so_groups_below_are_repartitioned() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    stream.process(Count, stores=[COUNTS], key=str, value=int).group_by_key().count(store="c")
    assert [topic.topic.name for topic in builder.build().internal_topics] == ["c-repartition"]


def test_a_store_that_is_not_connected_is_refused() -> None:
    class Wrong(Processor[str, int, str, int]):
        def init(self, context: ProcessorContext) -> None:
            context.store("elsewhere")

    with pytest.raises(LogstateError, match=r"'elsewhere', to which it is not connected"):
        driver_of(Wrong)


def test_a_global_store_can_be_read_but_not_written() -> None:
    class Lookup(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            store = self.context.store("g")
            if record.value == 0:
                store.put("x", 1)
            self.context.forward(record._replace(value=store.get(record.key).value))

    builder = StreamsBuilder()
    builder.global_table("g-topic", key=str, value=int, store="g")
    stream = builder.stream("in", key=str, value=int, name="in")
    stream.process(Lookup, key=str, value=int, name="p").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("g-topic", "a", 40)
        driver.pipe("in", "a", 1)
        assert driver.read("out", value=int) == [("a", 40)]
        with pytest.raises(LogstateError, match="read-only"):
            driver.pipe("in", "a", 0)


def test_a_read_only_store_is_filled_from_its_topic() -> None:
    class Fill(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store("ro").put(record.key, record.value)

    class Read(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.forward(record._replace(value=self.context.store("ro").get(record.key)))

    builder = StreamsBuilder()
    builder.add_read_only_store(
        key_value_store("ro", str, int), "ref", Fill, key=str, value=int, name="fill"
    )
    stream = builder.stream("in", key=str, value=int, name="in")
    stream.process(Read, stores="ro", key=str, value=int, name="read").to("out")
    topology = builder.build()
    assert topology.stores["ro"].source_topic == "ref"
    with TopologyTestDriver(topology) as driver:
        driver.pipe("ref", "a", 5)
        driver.pipe("in", "a", 0)
        assert driver.read("out", value=int) == [("a", 5)]


class Ticker(Processor[str, int, str, int]):
    """Forwards a tick per punctuation; remembers what the context said then."""

    kind = "stream_time"
    places: list[Any]

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.schedule = context.schedule(timedelta(milliseconds=10), self.kind, self.tick)  # type: ignore[arg-type]

    def tick(self, timestamp: int) -> None:
        self.places.append(self.context.record_metadata())
        self.context.forward(Record("tick", timestamp, timestamp))

    def process(self, record: Record[str, int]) -> None:
        if record.value == 99:
            self.schedule.cancel()


def test_stream_time_schedules_fire_as_time_passes_and_collapse() -> None:
    class Stream(Ticker):
        places: list[Any] = []  # noqa: RUF012

    with driver_of(Stream) as driver:
        driver.pipe_all("in", [("a", 1, 5), ("a", 1, 9), ("a", 1, 35), ("a", 99, 40)])
        driver.pipe("in", "a", 1, timestamp=100)
        ticks = [time for _, time in driver.read("out", value=int)]
    assert ticks == [5, 35]
    assert Stream.places == [None, None]


def test_wall_clock_schedules_fire_without_records() -> None:
    class Wall(Ticker):
        kind = "wall_clock"
        places: list[Any] = []  # noqa: RUF012

    with driver_of(Wall) as driver:
        driver.advance_wall_clock(timedelta(milliseconds=9))
        assert driver.read("out", value=int) == []
        driver.advance_wall_clock(timedelta(milliseconds=1))
        assert driver.read("out", value=int) == [("tick", 10)]


def test_a_processor_is_closed_with_its_task() -> None:
    closed: list[bool] = []

    class Closing(Processor[str, int, str, int]):
        def close(self) -> None:
            closed.append(True)

    with driver_of(Closing):
        pass
    assert closed == [True]


def test_the_context_knows_the_record_the_task_and_the_clocks() -> None:
    seen: list[Any] = []

    class Look(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            context = self.context
            seen.append(
                (
                    context.application_id,
                    context.partition,
                    context.record_metadata(),
                    context.current_stream_time_ms(),
                    context.current_system_time_ms(),
                )
            )

    with driver_of(Look) as driver:
        driver.advance_wall_clock(500)
        driver.pipe("in", "a", 1, timestamp=42)
    assert seen == [("app", 0, ("in", 0, 0), 42, 500)]
