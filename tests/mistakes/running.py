"""Mistakes that show when records come."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate import Materialized, Processor, StreamsBuilder, TopologyTestDriver
from logstate.topology import KStream
from tests.mistakes.mistake import mistake

HERE = "tests/mistakes/running.py"


def driven(declare: Any, *records: tuple[Any, Any]) -> None:
    builder = StreamsBuilder()
    declare(builder.stream("in", value=str))
    with TopologyTestDriver(builder.build()) as driver:
        for number, (key, value) in enumerate(records or [("k", "v")]):
            driver.pipe("in", key, value, timestamp=number)


async def looked_up(value: str) -> bool:
    return bool(value)


def asks(value: str) -> Any:
    return looked_up(value)


@mistake("topic 'in'", "offset 0", "predicate", f"asks at {HERE}", "nothing has run")
def a_predicate_hides_a_coroutine() -> None:
    driven(lambda s: s.filter(asks))


@mistake("topic 'in'", "offset 0", "action", "nothing has run", "plain function")
def an_action_hides_a_coroutine() -> None:
    driven(lambda s: s.peek(asks))


@mistake("aggregator", HERE, "returned None", "deletes=True", "offset 0")
def an_aggregator_returns_none_now_and_then() -> None:
    driven(
        lambda s: s.group_by_key().aggregate(
            int, lambda total, v: None if v else total, store=Materialized("s"), value=int
        )
    )


@mistake("topic 'in'", "partition 0", "offset 0", "ZeroDivisionError", HERE, "correct the function")
def a_function_raises() -> None:
    driven(lambda s: s.map_values(lambda value: 1 // 0, value=int))


@mistake("value of a result cannot be encoded", "topic 'out'", "offset 0", "declared type")
def a_result_has_another_type_than_declared() -> None:
    driven(lambda s: s.map_values(len, value=str).to("out"))


def decoded_as_int(builder: StreamsBuilder) -> KStream[str, int]:
    return builder.stream("in", value=int)


@mistake("does not decode", "topic 'in'", "offset 0", "another format")
def a_topic_is_read_with_another_type() -> None:
    builder = StreamsBuilder()
    decoded_as_int(builder).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"k", b"three", 0, None)


class Backwards(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        self.context.forward(record._replace(timestamp=-5))


@mistake("timestamp -5", "not negative", "offset 0")
def a_processor_forwards_a_negative_time() -> None:
    driven(lambda s: s.process(Backwards).to("out", key=str, value=str))


class Lost(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        self.context.forward(record, "nobody")


@mistake("no child 'nobody'", "its children")
def a_processor_forwards_to_nobody() -> None:
    driven(lambda s: s.process(Lost).to("out", key=str, value=str))


class Eager(Processor[str, str, str, str]):
    def init(self, context: Any) -> None:
        context.schedule(timedelta(seconds=1), "wallclock", print)

    def process(self, record: Any) -> None:
        pass


@mistake("kind must be", "'wall_clock'", "'wallclock'")
def a_schedule_is_of_no_kind() -> None:
    driven(lambda s: s.process(Eager))


@mistake("is a timestamped_key_value store", "has no fetch()", "get")
def a_store_is_read_like_another_kind() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store="s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.store("s").fetch("k")


@mistake("no store 'other'", "s")
def the_driver_is_asked_for_a_store_that_is_not_there() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).group_by_key().count(store="s")
    with TopologyTestDriver(builder.build()) as driver:
        driver.store("other")
