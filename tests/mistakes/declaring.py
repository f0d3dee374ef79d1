"""Mistakes in a topology, found where it is declared or built."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from logstate import (
    JoinWindows,
    Materialized,
    Processor,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
    serdes,
    until_window_closes,
)
from logstate.topology import KStream
from tests.mistakes.mistake import mistake

HERE = "tests/mistakes/declaring.py"
SECOND = timedelta(seconds=1)


def stream(name: str = "in") -> KStream[str, str]:
    return StreamsBuilder().stream(name, value=str)


async def fetch(value: str) -> bool:
    return bool(value)


def forgets(value: str) -> None:
    value.upper()


@mistake("predicate", "fetch at", "async def", "would never run", "plain function", HERE)
def a_predicate_is_a_coroutine_function() -> None:
    stream().filter(fetch)


@mistake("action", "async def", HERE)
def an_action_is_a_coroutine_function() -> None:
    stream().foreach(fetch)


@mistake("mapper", "forgets at", "never returns a value", "`return`", HERE)
def a_mapper_forgets_to_return() -> None:
    stream().map_values(forgets)


@mistake("generator function", "flat_map", HERE)
def a_mapper_yields() -> None:
    def words(value: str) -> Any:
        yield from value.split()

    stream().map_values(words)


class AsyncProcessor(Processor[str, str, str, str]):
    async def process(self, record: Any) -> None:  # type: ignore[override]
        pass


@mistake("process() of AsyncProcessor", "async def", HERE)
def a_processor_is_async() -> None:
    stream().process(AsyncProcessor)


@mistake("not an object", "class", HERE)
def one_processor_is_given_for_all_tasks() -> None:
    stream().process(AsyncProcessor())  # type: ignore[arg-type]


@mistake("reducer", "required parameter", "(old, new)", HERE)
def a_reducer_has_one_parameter() -> None:
    stream().group_by_key().reduce(lambda value: value, store="s")  # type: ignore[arg-type,misc]


@mistake("predicate", "not callable", HERE)
def a_predicate_is_a_value() -> None:
    stream().filter(True)  # type: ignore[call-overload]


@mistake("*args", HERE)
def a_mapper_takes_anything() -> None:
    stream().map_values(lambda *values: values)


@mistake("store", 'store="some-name"', HERE)
def a_count_has_no_store() -> None:
    stream().group_by_key().count()


@mistake("name", 'name="..."', "changelog", HERE)
def a_stream_join_has_no_name() -> None:
    left = stream()
    other: Any = left.builder
    left.join(other.stream("b", value=str), lambda a, b: a, windows=JoinWindows.symmetric(SECOND))


@mistake("different StreamsBuilders", HERE)
def two_builders_are_mixed() -> None:
    stream().merge(stream("other"))


@mistake("timedelta", "found 10", HERE)
def a_window_is_a_number() -> None:
    TumblingWindows(size=10)  # type: ignore[arg-type]


@mistake("whole number of milliseconds", HERE)
def a_window_is_finer_than_a_millisecond() -> None:
    TumblingWindows(size=timedelta(microseconds=10))


@mistake("at least 1 ms", HERE)
def a_gap_is_zero() -> None:
    SessionWindows(gap=timedelta(0))


@mistake("retention", "open windows would be lost", HERE)
def a_store_forgets_open_windows() -> None:
    windows = TumblingWindows(size=timedelta(hours=1))
    store = Materialized("s", retention=SECOND)
    stream().group_by_key().windowed_by(windows).count(store=store)


@mistake("retention", "not windowed", "history=", HERE)
def a_plain_table_has_a_retention() -> None:
    stream().group_by_key().count(store=Materialized("s", retention=SECOND))


@mistake("versioned and in memory", HERE)
def a_versioned_store_is_in_memory() -> None:
    store = Materialized("s", history=SECOND, in_memory=True)
    StreamsBuilder().table("in", value=str, store=store)


@mistake("value", "topic 'in'", "value=", HERE)
def a_topic_has_no_type() -> None:
    StreamsBuilder().stream("in")


@mistake("topic", HERE)
def a_topic_has_no_name() -> None:
    StreamsBuilder().stream("", value=str)


@mistake("not a valid name for a topic", "letters, digits", HERE)
def a_topic_has_a_space_in_its_name() -> None:
    StreamsBuilder().stream("my topic", value=str)


@mistake("read", "'in'", HERE)
def a_topic_is_a_stream_and_a_table() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str)
    builder.table("in", value=str, store="t")
    builder.build()


@mistake("'s'", HERE)
def two_stores_have_one_name() -> None:
    builder = StreamsBuilder()
    builder.table("a", value=str, store="s")
    builder.table("b", value=str, store="s")
    builder.build()


@mistake("windowed keys", "until_time_limit", HERE)
def a_plain_table_waits_for_windows() -> None:
    table = stream().group_by_key().count(store="s")
    table.suppress(until_window_closes(), name="final")


@mistake("needs a store", 'store="some-name"', HERE)
def a_join_reads_a_table_without_a_store() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", value=str)
    builder.stream("in", value=str).join(table, lambda a, b: a).to("out", value=str)
    builder.build()


@mistake("declared after build()", HERE)
def something_is_declared_after_the_build() -> None:
    builder = StreamsBuilder()
    first = builder.stream("in", value=str)
    first.to("out")
    builder.build()
    first.filter(lambda value: True).to("late")


@mistake("already built", HERE)
def a_builder_builds_twice() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("out")
    builder.build()
    builder.build()


@mistake("default branch", HERE)
def a_branch_comes_after_the_default() -> None:
    split = stream().split()
    split.default_branch()
    split.branch(lambda value: True)


@mistake("merger", "sessions", HERE)
def a_session_cogroup_has_no_merger() -> None:
    grouped = stream().group_by_key().cogroup(lambda total, value: total)
    grouped.windowed_by(SessionWindows(gap=SECOND)).aggregate(int, value=int, store="s")


@mistake("offset_reset", "earliest", HERE)
def a_reset_is_misspelt() -> None:
    StreamsBuilder().stream("in", value=str, offset_reset="begining")


@mistake("emit", HERE)
def an_emit_does_not_exist() -> None:
    stream().group_by_key().count(store="s", emit="final")  # type: ignore[arg-type]


@mistake("is not connected", "stores=", HERE)
def a_store_is_not_connected() -> None:
    from logstate import TopologyTestDriver, key_value_store

    class Counting(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.store("counts")

        def process(self, record: Any) -> None:
            pass

    builder = StreamsBuilder().add_store(key_value_store("counts", str, int))
    builder.stream("in", value=str).process(Counting)
    TopologyTestDriver(builder.build())


@mistake("is not the class of a Protobuf message", "the module that protoc wrote")
def a_message_of_protobuf_is_an_object() -> None:
    from google.protobuf.timestamp_pb2 import Timestamp

    serdes.protobuf(Timestamp())  # type: ignore[arg-type, unused-ignore]


@mistake("has no JSON schema to register", "Declare a type with fields")
def a_schema_is_wanted_of_a_dict() -> None:
    serdes.json_schema_of(dict, registry="mock://mistakes")


@mistake("'pickle' unpickles", "another codec")
def a_codec_of_faust_runs_what_it_reads() -> None:
    from logstate.faust import codec

    codec("pickle")


@mistake("'in' is read twice", "value types", "map()", HERE)
def a_topic_is_read_as_two_types() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("a")
    builder.stream("in", value=int).to("b")
    builder.build()


@mistake("'in' is read twice", "timestamp extractors", HERE)
def a_topic_is_read_with_two_clocks() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=str).to("a")
    builder.stream("in", value=str, timestamp_extractor=lambda k, v, r, p: 0).to("b")
    builder.build()
