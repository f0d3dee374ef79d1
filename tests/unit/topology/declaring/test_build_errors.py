"""Wrong graphs are refused: what is wrong, why, what to do, and where the user wrote it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.errors import TopologyError
from logstate.topology import (
    JoinWindows,
    Materialized,
    Processor,
    StreamsBuilder,
    TumblingWindows,
    UnlimitedWindows,
    key_value_store,
    until_window_closes,
)

HERE = "tests/unit/topology/declaring/test_build_errors.py:"


def numbers(builder: StreamsBuilder, topic: str = "in") -> Any:
    return builder.stream(topic, key=str, value=int, name=topic)


class Ignore(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        pass


def test_two_stores_of_one_name_are_refused_with_both_places() -> None:
    builder = StreamsBuilder()
    numbers(builder).group_by_key().count(store="counts", name="a")
    numbers(builder, "other").group_by_key().count(store="counts", name="b")
    with pytest.raises(TopologyError, match="two stores named 'counts'") as caught:
        builder.build()
    assert str(caught.value).count(HERE) == 2


def test_two_operators_of_one_name_are_refused() -> None:
    builder = StreamsBuilder()
    stream = numbers(builder)
    stream.filter(lambda value: value > 1, name="same").to("out")
    stream.filter(lambda value: value > 2, name="same").to("out")
    with pytest.raises(TopologyError, match="two operators named 'same'") as caught:
        builder.build()
    assert HERE in str(caught.value)


def test_a_topic_without_value_serde_is_refused_where_it_is_declared() -> None:
    with pytest.raises(TopologyError, match="value of topic 'clicks'") as caught:
        StreamsBuilder().stream("clicks")
    assert (caught.value.declared_at or "").startswith(HERE)


def test_a_sink_of_new_objects_needs_a_serde() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match=r"No serde for the value of topic 'out'.*value="):
        numbers(builder).map_values(lambda value: object()).to("out")


def test_whoever_made_the_new_objects_is_named_with_its_place() -> None:
    builder = StreamsBuilder()
    made = numbers(builder).map_values(lambda value: [value], name="boxed")
    told = rf"operator 'boxed' \(declared at {HERE}\d+\) makes new objects"
    with pytest.raises(TopologyError, match=told):
        made.filter(bool, name="full").to("out")
    rekeyed = numbers(builder).select_key(lambda key, value: (key, value), name="pairs")
    with pytest.raises(TopologyError, match=r"the key of topic 'out'.*operator 'pairs'"):
        rekeyed.filter(bool).to("out")


def test_a_group_by_that_leaves_out_its_serdes_is_named() -> None:
    told = rf"operator 'pairs' \(declared at {HERE}\d+\) makes new objects"
    grouped = numbers(StreamsBuilder()).group_by(lambda key, value: (key, value), name="pairs")
    with pytest.raises(TopologyError, match=f"the key of store 'n': {told}"):
        grouped.count(store="n")
    table = StreamsBuilder().table("stock", value=int, store="stock")
    regrouped = table.group_by(lambda key, value: (key, [value]), name="pairs", key=str)
    with pytest.raises(TopologyError, match=f"the value of .*: {told}"):
        regrouped.count(store="n")


def test_streams_that_come_together_with_other_serdes_are_named() -> None:
    builder = StreamsBuilder()
    texts = builder.stream("texts", value=str)
    merged = numbers(builder).merge(texts, name="both")
    with pytest.raises(TopologyError, match="'both' brings streams together whose serdes differ"):
        merged.to("out")
    with pytest.raises(TopologyError, match="it has several streams, whose serdes differ"):
        texts.to("out", also=[builder.stream("counts", value=int)])


def test_something_that_is_no_serde_is_refused() -> None:
    with pytest.raises(TopologyError, match="jsn"):
        StreamsBuilder().stream("clicks", value="jsn")


def test_an_aggregation_needs_a_store_name() -> None:
    with pytest.raises(TopologyError, match="store="):
        numbers(StreamsBuilder()).group_by_key().count()


def test_a_repartition_needs_a_name() -> None:
    with pytest.raises(TopologyError, match="A repartition needs a name"):
        numbers(StreamsBuilder()).repartition()


def test_a_join_of_a_rekeyed_stream_needs_a_name_for_its_topic() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", value=str, store="t-store")
    stream = numbers(builder).select_key(str, key=str)
    with pytest.raises(TopologyError, match="repartition topic"):
        stream.join(table, lambda left, right: right)


def test_a_join_with_a_table_that_has_no_store_asks_for_one() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", value=str, name="tab")
    with pytest.raises(TopologyError, match="Table 'tab' needs a store"):
        numbers(builder).join(table, lambda left, right: right)


def test_a_group_of_a_table_without_old_values_asks_for_a_store() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", value=str, name="tab").filter(lambda value: value > "a")
    with pytest.raises(TopologyError, match="Table 'tab' needs a store"):
        table.group_by(lambda key, value: (value, key))


@pytest.mark.parametrize("name", ["", "a b", "ä", "a/b", "..", "x" * 250])
def test_names_that_fit_no_topic_are_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="not a valid name"):
        numbers(StreamsBuilder()).filter(bool, name=name)


def test_the_length_of_a_derived_name_counts() -> None:
    with pytest.raises(TopologyError, match="249"):
        numbers(StreamsBuilder()).repartition(name="x" * 240)


def test_an_unknown_store_is_refused_with_those_that_exist() -> None:
    builder = StreamsBuilder()
    builder.add_store(key_value_store("seen", str, int))
    numbers(builder).process(Ignore, stores=["sene"], name="p")
    with pytest.raises(TopologyError, match=r"'sene', which does not exist.*'seen'"):
        builder.build()


def test_a_global_store_is_not_connected_to() -> None:
    builder = StreamsBuilder()
    builder.global_table("g", value=str, store="g-store")
    numbers(builder).process(Ignore, stores=["g-store"], name="p")
    with pytest.raises(TopologyError, match="global store 'g-store'"):
        builder.build()


def test_a_topic_is_read_by_one_source() -> None:
    builder = StreamsBuilder()
    numbers(builder, "in").to("out")
    builder.table("in", value=int, store="s", name="tab")
    with pytest.raises(TopologyError, match="'in' is read twice"):
        builder.build()


def test_overlapping_topic_lists_are_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("a", "b", value=int, name="ab").to("out")
    builder.stream("b", value=int, name="only-b").to("out")
    with pytest.raises(TopologyError, match="overlap without being equal"):
        builder.build()


def test_one_topic_has_one_offset_reset() -> None:
    builder = StreamsBuilder()
    builder.stream("a", value=int, name="one", offset_reset="earliest").to("out")
    builder.stream("a", value=int, name="two", offset_reset="latest").to("out")
    with pytest.raises(TopologyError, match="different offset resets"):
        builder.build()


def test_an_unknown_offset_reset_is_refused() -> None:
    with pytest.raises(TopologyError, match="earlist"):
        StreamsBuilder().stream("a", value=int, offset_reset="earlist")


def test_repartitions_that_are_joined_must_not_be_declared_unequal() -> None:
    builder = StreamsBuilder()
    left = numbers(builder, "a").repartition(name="left", partitions=2)
    right = numbers(builder, "b").repartition(name="right", partitions=3)
    windows = JoinWindows.symmetric(timedelta(seconds=1))
    left.join(right, lambda a, b: a + b, windows=windows, name="j")
    with pytest.raises(TopologyError, match="left-repartition: 2, right-repartition: 3"):
        builder.build()


def test_streams_of_two_builders_cannot_meet() -> None:
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        numbers(StreamsBuilder(), "a").merge(numbers(StreamsBuilder(), "b"))


def test_a_stream_join_needs_windows() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="needs windows="):
        numbers(builder, "a").join(numbers(builder, "b"), lambda a, b: a)
    with pytest.raises(TopologyError, match="needs windows="):
        numbers(builder, "c").outer_join(numbers(builder, "d"), lambda a, b: a)


def test_a_serde_that_an_aggregation_lacks_is_asked_for_where_it_can_be_said() -> None:
    builder = StreamsBuilder()
    keyed = numbers(builder, "a").select_key(lambda _, value: value, name="by-value")
    asked = r"'by-value'.*Give store=Materialized\('n', key="
    with pytest.raises(TopologyError, match=asked):
        keyed.group_by_key().count(store="n")
    sizes = numbers(builder, "b").map_values(lambda value: value, name="sizes").group_by_key()
    asked = r"'sizes'.*Give store=Materialized\('m', value="
    with pytest.raises(TopologyError, match=asked):
        sizes.reduce(lambda a, b: a, store="m")
    with pytest.raises(TopologyError, match=r"value of store 'k'.*Give value="):
        sizes.aggregate(int, lambda value, total: total, store="k")


def test_a_stream_has_no_outer_join_with_a_table() -> None:
    builder = StreamsBuilder()
    left, table = numbers(builder, "a"), builder.table("t", value=str, store="s")
    rows = builder.global_table("g", value=str, store="g")
    for other in (table, rows):
        with pytest.raises(TopologyError, match=r"no outer join with a table.*left_join"):
            left.outer_join(other, lambda a, b: a)  # type: ignore[call-overload]


def test_options_of_another_join_are_refused() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", value=str, store="s")
    windows = JoinWindows.symmetric(timedelta(seconds=1))
    with pytest.raises(TopologyError, match="stream-table join has no option windows"):
        numbers(builder).join(table, lambda a, b: a, windows=windows)


def test_a_join_with_a_global_table_needs_a_key_mapper() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("g", value=str, store="g-store")
    with pytest.raises(TopologyError, match="key_mapper="):
        numbers(builder).join(table, lambda a, b: a)


def test_final_results_need_windows_that_close() -> None:
    grouped = numbers(StreamsBuilder()).group_by_key()
    with pytest.raises(TopologyError, match="no windows"):
        grouped.count(store="s", emit="close")
    with pytest.raises(TopologyError, match="never close"):
        grouped.windowed_by(UnlimitedWindows()).count(store="s", emit="close")
    with pytest.raises(TopologyError, match="emit must be"):
        grouped.count(store="s", emit="sometimes")


def test_suppress_until_windows_close_needs_windows() -> None:
    table = StreamsBuilder().table("t", value=int, store="s")
    with pytest.raises(TopologyError, match="needs windowed keys"):
        table.suppress(until_window_closes(), name="sup")


def test_suppress_below_a_versioned_table_is_refused() -> None:
    builder = StreamsBuilder()
    store = Materialized("s", history=timedelta(minutes=1))
    table = builder.table("t", value=int, store=store).filter(lambda value: value > 1)
    from logstate.topology import until_time_limit

    table.suppress(until_time_limit(timedelta(seconds=1)), name="sup")
    with pytest.raises(TopologyError, match="below a versioned table"):
        builder.build()


def test_a_retention_shorter_than_the_open_windows_is_refused() -> None:
    windows = TumblingWindows(size=timedelta(seconds=10), grace=timedelta(seconds=5))
    grouped = numbers(StreamsBuilder()).group_by_key().windowed_by(windows)
    with pytest.raises(TopologyError, match=r"12000 ms.*15000 ms"):
        grouped.count(store=Materialized("s", retention=timedelta(seconds=12)))


def test_a_duration_that_is_no_timedelta_is_refused() -> None:
    with pytest.raises(TopologyError, match="timedelta"):
        TumblingWindows(size=10)  # type: ignore[arg-type]


def test_a_grace_on_an_unversioned_table_is_refused() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", value=str, store="s")
    with pytest.raises(TopologyError, match="versioned table"):
        numbers(builder).join(table, lambda a, b: a, grace=timedelta(seconds=1), name="j")


def test_a_builder_builds_once() -> None:
    builder = StreamsBuilder()
    numbers(builder).to("out")
    builder.build()
    with pytest.raises(TopologyError, match="already built"):
        builder.build()


def test_an_unknown_optimization_is_refused() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="reuse_source_topics"):
        builder.build(optimization="everything")


def test_a_failed_aggregation_shape_names_the_users_line() -> None:
    grouped = numbers(StreamsBuilder()).group_by_key()
    with pytest.raises(TopologyError) as caught:
        grouped.aggregate(int, lambda aggregate: aggregate, value=int, store="s")
    assert (caught.value.declared_at or "").startswith(HERE)
