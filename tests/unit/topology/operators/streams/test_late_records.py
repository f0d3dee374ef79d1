"""Late records as a stream: what operators would drop as late, once per missed window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.contracts.records import Record, Windowed
from logstate.contracts.serde import Deserializer, Serde, Serializer
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    HoppingWindows,
    JoinWindows,
    KStream,
    Materialized,
    Processor,
    ProcessorContext,
    SlidingWindows,
    StreamsBuilder,
    TumblingWindows,
    until_window_closes,
)
from tests.unit.topology.operators.streams.late_inputs import (
    driver_of,
    grouped,
    late_of,
    missed,
    ms,
    to_out,
    windowed,
)


def test_a_late_record_is_emitted_once_per_window_that_it_missed() -> None:
    with driver_of(windowed(HoppingWindows(size=ms(10), advance=ms(5)))) as driver:
        driver.pipe("in", "ada", "a", timestamp=16)
        driver.pipe("in", "ada", "b", timestamp=7, headers=[("h", b"1")])
        driver.pipe("in", "ada", "c", timestamp=14)
        assert late_of(driver) == [
            LateRecord("ada", "b", [("h", b"1")], 7, Windowed("ada", 0, 10), 7, "late", "count"),
            LateRecord("ada", "b", [("h", b"1")], 7, Windowed("ada", 5, 15), 2, "late", "count"),
            LateRecord("ada", "c", None, 14, Windowed("ada", 5, 15), 2, "late", "count"),
        ]
        assert driver.read("out", value=int) == [
            ("ada@10-20", 1),
            ("ada@15-25", 1),
            ("ada@10-20", 2),
        ]
        assert driver.dropped_total == 0
        assert [(one.node, one.count) for one in driver.task.drops.late_streams()] == [("late", 3)]


def test_the_record_of_the_late_stream_has_the_key_time_and_headers_of_the_late_one() -> None:
    with driver_of(windowed(TumblingWindows(size=ms(10)))) as driver:
        driver.pipe("in", "ada", "a", timestamp=16)
        driver.pipe("in", "bob", "b", timestamp=7, headers=[("h", b"1")])
        (record,) = driver.take_outputs()[1:]
        assert (record.topic, record.key, record.timestamp) == ("late", b"bob", 7)
        assert list(record.headers or ()) == [("h", b"1")]


def test_null_keys_are_not_late_and_null_values_only_where_they_count() -> None:
    def both(builder: StreamsBuilder, late: str | None) -> None:
        groups = grouped(builder)
        to_out(groups.windowed_by(TumblingWindows(size=ms(10))).count(store="n", late=late))
        sliding = groups.windowed_by(SlidingWindows(difference=ms(2)))
        to_out(sliding.count(store="m", late="other"))
        builder.late("other").to("other")

    with driver_of(both) as driver:
        driver.pipe("in", "ada", "a", timestamp=50)
        driver.pipe("in", None, "b", timestamp=1)
        driver.pipe("in", "ada", None, timestamp=1)
        assert missed(late_of(driver)) == [(None, 0, 10, 41)]  # a tumbling window counts it
        assert driver.read("other", value=dict) == []
        reasons = sorted((one.reason.value, one.count) for one in driver.dropped if one.count)
        assert reasons == [("null_key", 1), ("null_key", 1), ("null_value", 1)]


def test_deduplication_emits_what_is_too_old_to_know() -> None:
    def declare(builder: StreamsBuilder, late: str | None) -> None:
        stream = builder.stream("in", key=str, value=str)
        stream.deduplicate_by_key(ms(10), store="seen", name="once", late=late).to("out")

    with driver_of(declare) as driver:
        driver.pipe_all("in", [("a", "x", 100), ("b", "y", 75), ("c", "z", 90), ("a", "w", 95)])
        driver.pipe("in", None, "null", timestamp=1)
        assert driver.read("out", value=str) == [("a", "x"), ("c", "z"), (None, "null")]
        assert late_of(driver) == [LateRecord("b", "y", None, 75, None, 15, "late", "once")]
        assert [(one.reason.value, one.count) for one in driver.dropped] == [("duplicate", 1)]


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_a_versioned_table_emits_what_is_older_than_its_history(optimization: str) -> None:
    builder = StreamsBuilder()
    store = Materialized("prices", history=ms(10))
    builder.table("in", key=str, value=str, store=store, name="prices", late="late")
    builder.late("late", key=str, value=str).to("late")
    with TopologyTestDriver(builder.build(optimization=optimization)) as driver:
        driver.pipe_all("in", [("tea", "3", 50), ("tea", "2", 40), ("rum", "9", 39)])
        driver.pipe("in", "rum", None, timestamp=7)
        assert late_of(driver) == [
            LateRecord("rum", "9", None, 39, None, 1, "expired", "prices"),
            LateRecord("rum", None, None, 7, None, 33, "expired", "prices"),
        ]
        prices = driver.store("prices")
        assert (prices.get("tea", 45).value, prices.get("rum")) == ("2", None)
        assert driver.dropped_total == 0


def test_a_processor_that_writes_the_store_of_a_table_drops_what_is_too_old() -> None:
    class Correct(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.prices = context.store("prices")

        def process(self, record: Record[str, str]) -> None:
            self.prices.put(record.key, record.value, record.timestamp)

    builder = StreamsBuilder()
    store = Materialized("prices", history=ms(10))
    builder.table("in", key=str, value=str, store=store, late="late")
    builder.late("late", key=str, value=str).to("late")
    builder.stream("fixes", key=str, value=str).process(Correct, stores=["prices"])
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("tea", "3", 50), ("tea", "2", 7)])
        driver.pipe("fixes", "tea", "1", timestamp=7)
        assert [one.value for one in late_of(driver)] == ["2"]
        assert [one.count for one in driver.dropped if one.reason == "expired"] == [1]


def table_join(builder: StreamsBuilder, late: str | None) -> None:
    rates = Materialized("rates", history=ms(100))
    table = builder.table("rates", key=str, value=str, store=rates)
    stream = builder.stream("in", key=str, value=str)
    joined = stream.left_join(table, lambda a, b: f"{a}+{b}", grace=ms(10), name="rated", late=late)
    joined.to("out", value=str)


def test_a_join_with_grace_emits_what_may_not_wait() -> None:
    with driver_of(table_join) as driver:
        driver.pipe("rates", "a", "r", timestamp=0)
        driver.pipe_all("in", [("a", "x", 20), ("a", "y", 9), ("a", "z", 10), ("a", "end", 99)])
        assert driver.read("out", value=str) == [("a", "z+r"), ("a", "x+r")]
        assert late_of(driver) == [LateRecord("a", "y", None, 9, None, 1, "late", "rated")]

    def at_once(builder: StreamsBuilder) -> None:
        table = builder.table("rates", value=str, store="rates")
        builder.stream("in", value=str).join(table, lambda a, b: a, late="late")

    assert "without grace= it joins every record at once" in refused(at_once)


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_a_stream_joined_with_itself_has_late_records_once_per_side(optimization: str) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    windows = JoinWindows.symmetric(ms(5))
    joined = stream.join(stream, lambda a, b: f"{a}{b}", windows=windows, name="own", late="late")
    joined.to("out", value=str)
    builder.late("late", key=str, value=str).to("late")
    with TopologyTestDriver(builder.build(optimization=optimization)) as driver:
        driver.pipe_all("in", [("a", "x", 50), ("a", "y", 5)])
        found = [(one.value, one.by_ms, one.node) for one in late_of(driver)]
        sides = ["own-this-windowed", "own-other-windowed"][: 1 if optimization == "all" else 2]
        assert found == [("y", 41, side) for side in sides]
        assert driver.read("out", value=str) == [("a", "xx")]


def test_late_records_can_be_counted_joined_and_merged_back() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("in", key=str, value=str)
    windows = TumblingWindows(size=ms(10))
    clicks.group_by_key().windowed_by(windows).count(store="n", late="late")
    late = builder.late("late", key=str, value=str)
    late.group_by_key().count(store="late-n")
    names = builder.table("names", key=str, value=str, store="names")
    late.join(names, lambda one, name: f"{name}:{one.value}").to("joined", value=str)
    late.map_values(lambda one: one.value, value=str).merge(clicks).to("all")
    by_value = late.group_by(lambda _, one: one.value, key=str, name="by-value")
    by_value.count(store="values").to_stream().to("values")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("names", "ada", "Ada")
        driver.pipe_all("in", [("ada", "a", 30), ("ada", "b", 1), ("bob", "c", 2)])
        assert driver.store("late-n").get("ada").value == 1
        assert driver.read("joined", value=str) == [("ada", "Ada:b")]
        # Each late record comes twice: merged back, and of the input that it was merged with.
        assert driver.read("all", value=str) == [
            *[("ada", "a"), ("ada", "b"), ("ada", "b"), ("bob", "c"), ("bob", "c")]
        ]
        assert driver.read("values", value=int) == [("b", 1), ("c", 1)]


def test_a_late_stream_renames_no_operator_and_adds_one() -> None:
    names = []
    for late in (None, "late"):
        builder = StreamsBuilder()
        windowed(TumblingWindows(size=ms(10)))(builder, late)
        (part,) = builder.build().description().sub_topologies
        names.append({node.name: node.successors for node in part.nodes})
    assert names[1] == {**names[0], "count": ("KTABLE-TOSTREAM-0000000002", "late"), "late": ()}
    assert names[0]["count"] == ("KTABLE-TOSTREAM-0000000002",)


def test_all_groups_of_a_cogroup_share_a_late_stream() -> None:
    builder = StreamsBuilder()
    ups, downs = (builder.stream(topic, value=str).group_by_key() for topic in ("ups", "downs"))
    both = ups.cogroup(lambda n, _: n + 1).cogroup(downs, lambda n, _: n - 1)
    table = both.windowed_by(TumblingWindows(size=ms(10))).aggregate(
        int, store="n", value=int, name="votes", late="late"
    )
    to_out(table)
    builder.late("late", key=str, value=str).to("late")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("ups", [("a", "x", 30), ("a", "late up", 3)])
        driver.pipe_all("downs", [("a", "y", 4), ("a", "z", 30), ("a", "late down", 4)])
        found = [(one.value, one.node) for one in late_of(driver)]
        assert found == [
            ("late up", "votes-cogroup-agg-0"),
            ("late down", "votes-cogroup-agg-1"),
        ]


def test_a_late_stream_that_nothing_reads_is_counted_and_not_dropped() -> None:
    builder = StreamsBuilder()
    windowed(TumblingWindows(size=ms(10)))(builder, "late")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", "x", 30), ("a", "y", 3)])
        assert driver.dropped_total == 0
        assert [one.count for one in driver.task.drops.late_streams()] == [1]


def refused(declare: Callable[[StreamsBuilder], object]) -> str:
    with pytest.raises(TopologyError) as found:
        declare(StreamsBuilder())
    return str(found.value)


def twice(builder: StreamsBuilder) -> None:
    windows = grouped(builder).windowed_by(TumblingWindows(size=ms(10)))
    windows.count(store="n", late="late")
    windows.count(store="m", late="late")


def closed_without_windows(builder: StreamsBuilder) -> None:
    windowed(TumblingWindows(size=ms(10)))(builder, "late")
    late = builder.late("late", key=str, value=str)
    late.group_by_key().count(store="m").suppress(until_window_closes(), name="final")


def test_mistakes_with_late_streams_are_refused() -> None:
    text = refused(lambda builder: builder.late("late"))
    assert "No operator declared so far has late='late'; late streams so far: none" in text
    assert "Two operators have late='late'" in refused(twice)
    text = refused(lambda builder: grouped(builder).count(store="n", late="late"))
    assert "without windows no record is late" in text
    text = refused(lambda builder: builder.table("in", value=str, store="n", late="late"))
    assert "its store keeps no history" in text
    text = refused(lambda builder: builder.stream("in", value=str).to_table(late="late"))
    assert "its store keeps no history" in text
    text = refused(lambda b: windowed(TumblingWindows(size=ms(10)))(b, "a b"))
    assert "'a b' is not a valid name for a late stream" in text
    assert "needs windowed keys" in refused(closed_without_windows)


def test_a_late_stream_without_a_type_asks_for_the_serde_where_it_is_written() -> None:
    def declare(builder: StreamsBuilder) -> None:
        encoded = Encoded()
        stream: KStream[str, str] = builder.stream("in", key=str, value=encoded)
        windows = TumblingWindows(size=ms(10))
        stream.group_by_key().windowed_by(windows).count(store="n", late="late")
        builder.late("late", key=str, value=encoded).to("late")

    text = refused(declare)
    assert "No serde for the value of topic 'late': operator 'late'" in text
    assert "Give value=" in text


class Encoded(Serde[str]):
    """A serde that no type names."""

    def serializer(self, topic: str, is_key: bool) -> Serializer[str]:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Deserializer[str]:
        return bytes.decode

    def describe(self) -> dict[str, Any]:
        return {"format": "own", "schema": None}
