"""Tables: filters, mappers, groups, aggregates, old values and what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import ProcessingError, SerdeError
from logstate.serdes import int64, string
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder, ValueTransformer, key_value_store
from logstate.topology.operators.tables.change import change_deserializer, change_serializer


def run_table(
    declare: Any, records: list[tuple[Any, Any, int]], *, store: Any = "tab-store"
) -> list[Any]:
    builder = StreamsBuilder()
    declare(builder.table("tab", key=str, value=int, store=store, name="tab"))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("tab", records)
        return driver.read_with_timestamps("out", value=int)


def test_a_filtered_row_that_stops_matching_becomes_a_tombstone_once() -> None:
    result = run_table(
        lambda table: table.filter(lambda value: value > 5).to_stream().to("out"),
        [("a", 9, 1), ("a", 1, 2), ("a", 2, 3)],
    )
    assert result == [("a", 9, 1), ("a", None, 2)]


def test_without_old_values_every_row_that_does_not_match_is_a_tombstone() -> None:
    result = run_table(
        lambda table: table.filter(lambda value: value > 5).to_stream().to("out"),
        [("a", 1, 1), ("a", 2, 2)],
        store=None,
    )
    assert result == [("a", None, 1), ("a", None, 2)]


def test_tombstones_never_reach_a_tables_mapper() -> None:
    result = run_table(
        lambda table: table.map_values(lambda value: value + 1, value=int).to_stream().to("out"),
        [("a", 1, 1), ("a", None, 2)],
    )
    assert result == [("a", 2, 1), ("a", None, 2)]


def test_null_keys_of_a_table_are_dropped_and_counted() -> None:
    builder = StreamsBuilder()
    builder.table("tab", value=int, store="s", name="tab")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("tab", [(None, 1, 1), ("a", 2, 2)])
        assert driver.dropped_total == 1
        assert [key for key, _ in driver.store("s").all()] == ["a"]


def test_an_aggregator_may_change_the_aggregate_it_is_given() -> None:
    def add(aggregate: dict[str, int], value: int) -> dict[str, int]:
        aggregate["sum"] += value
        return aggregate

    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    sums = stream.group_by_key().aggregate(lambda: {"sum": 0}, add, value=dict, store="sums")
    # A group above makes the aggregation send old values, which must not change behind its back.
    sums.group_by(lambda k, v: ("all", v["sum"]), key=str, value=int, name="grp").aggregate(
        list,
        lambda seen, value: [*seen, f"+{value}"],
        lambda seen, value: [*seen, f"-{value}"],
        value=list,
        store="log",
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 1), ("a", 2, 2), ("a", 4, 3)])
        assert driver.store("sums").get("a").value == {"sum": 7}
        # The initializer's value counts as the row before the first one, as in Kafka Streams.
        assert driver.store("log").get("all").value == ["+1", "-1", "+3", "-3", "+7"]


def test_a_null_aggregate_deletes_the_row_and_starts_anew() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    counts = stream.group_by_key().aggregate(
        lambda: 0, lambda n, v: None if v == 0 else n + v, value=int, store="s"
    )
    counts.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 1), ("a", 2, 2), ("a", 0, 3), ("a", 5, 4)])
        assert driver.read("out", value=int) == [("a", 1), ("a", 3), ("a", None), ("a", 5)]


def test_a_late_record_does_not_take_the_aggregates_time_back() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    stream.group_by_key().reduce(
        lambda old, new: old if old > new else new, store="s"
    ).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 5, 100), ("a", 1, 50)])
        assert driver.read_with_timestamps("out", value=int) == [("a", 5, 100), ("a", 5, 100)]


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 9))), max_size=30
)


@given(ROWS)
def test_a_grouped_tables_sums_equal_those_of_its_rows(rows: list[tuple[str, int | None]]) -> None:
    builder = StreamsBuilder()
    table = builder.table("tab", key=str, value=int, store="s", name="tab")
    grouped = table.group_by(lambda key, value: (str(value % 3), value), key=str, value=int)
    grouped.aggregate(
        lambda: 0, lambda n, v: n + v, lambda n, v: n - v, value=int, store="sums", name="agg"
    )
    grouped.count(store="counts", name="cnt")
    table_now: dict[str, int] = {}
    with TopologyTestDriver(builder.build()) as driver:
        for time, (key, value) in enumerate(rows):
            driver.pipe("tab", key, value, timestamp=time)
            if value is None:
                table_now.pop(key, None)
            else:
                table_now[key] = value
        sums = {key: row.value for key, row in driver.store("sums").all() if row.value}
        counts = {key: row.value for key, row in driver.store("counts").all() if row.value}
    expected = {
        str(group): [value for value in table_now.values() if value % 3 == group]
        for group in range(3)
    }
    assert sums == {group: sum(values) for group, values in expected.items() if sum(values)}
    assert counts == {group: len(values) for group, values in expected.items() if values}


def test_an_update_within_one_group_travels_in_one_record() -> None:
    builder = StreamsBuilder()
    table = builder.table("tab", key=str, value=int, store="s", name="tab")
    table.group_by(lambda key, value: ("g", value), key=str, value=int, name="grp").count(
        store="c", name="cnt"
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("tab", [("a", 1, 1), ("a", 2, 2)])
        records = driver.internal["app-grp-repartition"]
    eight = int64.serializer("", False)
    assert [record.value for record in records] == [
        eight(1) + b"\x01",
        b"\x10" + eight(2) + eight(1) + b"\x02",
    ]


def test_changes_survive_their_bytes() -> None:
    write = change_serializer(string.serializer("", False))
    read = change_deserializer(string.deserializer("", False))
    for change in [("new", None), (None, "old"), ("x" * 300, "y" * 70_000), ("", "")]:
        assert read(write(change)) == change


def test_a_change_without_values_is_an_error() -> None:
    write = change_serializer(string.serializer("", False))
    read = change_deserializer(string.deserializer("", False))
    with pytest.raises(SerdeError):
        write((None, None))
    with pytest.raises(SerdeError):
        read(b"x\x07")


def test_a_versioned_table_keeps_late_rows_below_newer_ones() -> None:
    store = Materialized("s", history=timedelta(minutes=1))
    result = run_table(
        lambda table: table.filter(lambda value: True).to_stream().to("out"),
        [("a", 1, 100), ("a", 2, 50)],
        store=store,
    )
    assert result == [("a", 1, 100), ("a", 2, 50)]


def test_a_join_reads_a_filtered_table_through_its_filter() -> None:
    builder = StreamsBuilder()
    table = builder.table("tab", key=str, value=int, store="s", name="tab")
    visible = table.filter(lambda value: value > 5).map_values(lambda v: v * 10, value=int)
    stream = builder.stream("in", key=str, value=int, name="in")
    stream.left_join(visible, lambda left, right: [left, right], name="j").to("out", value=list)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("tab", [("a", 9, 1), ("b", 1, 1)])
        driver.pipe_all("in", [("a", 1, 2), ("b", 1, 2), (None, 1, 2), ("a", None, 2)])
        assert driver.read("out", value=list) == [
            ("a", [1, 90]),
            ("b", [1, None]),
            (None, [1, None]),
        ]
        assert driver.dropped_total == 1


def test_a_global_table_is_found_by_any_key() -> None:
    builder = StreamsBuilder()
    names = builder.global_table("names", key=str, value=str, store="g")
    stream = builder.stream("in", key=str, value=str, name="in")
    inner = stream.join(names, lambda left, right: left + right, key_mapper=lambda value: value)
    inner.to("inner", value=str)
    left = stream.left_join(
        names, lambda left, right: f"{left}{right}", key_mapper=lambda k, v: None if v == "?" else v
    )
    left.to("left", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("names", "x", "X")
        driver.pipe_all("in", [("k", "x", 1), ("k", "y", 2), ("k", "?", 3)])
        assert driver.read("inner", value=str) == [("k", "xX")]
        assert driver.read("left", value=str) == [("k", "xX"), ("k", "yNone"), ("k", "?None")]


class AddSeen(ValueTransformer[str, int, int]):
    """Adds the number of updates of the key so far."""

    def transform(self, key: str, value: int | None) -> int | None:
        if value is None:
            return None
        store = self.context.store("seen")
        seen = (store.get(key) or 0) + 1
        store.put(key, seen)
        return value + seen


def test_transform_values_may_use_stores() -> None:
    result = run_table(
        lambda table: (
            table.transform_values(
                AddSeen, stores=[key_value_store("seen", str, int)], value=int, store="out-s"
            )
            .to_stream()
            .to("out")
        ),
        [("a", 10, 1), ("a", 10, 2), ("a", None, 3)],
    )
    assert result == [("a", 11, 1), ("a", 12, 2), ("a", None, 3)]


class Highest(ValueTransformer[str, int, int]):
    """The largest value so far, as the row of the result has it."""

    def transform(self, key: str, value: int | None) -> int | None:
        row = self.context.store("out-s").get(key)
        return value if row is None or value is None else max(value, row.value)


@pytest.mark.parametrize("store", ["out-s", Materialized("out-s", in_memory=True)])
def test_a_transformer_finds_the_rows_of_its_own_result_as_before_the_update(store: Any) -> None:
    result = run_table(
        lambda table: table.transform_values(Highest, value=int, store=store).to_stream().to("out"),
        [("a", 3, 0), ("a", 2, 1), ("b", 1, 2), ("a", 5, 3), ("a", None, 4), ("a", 1, 5)],
    )
    assert [(key, value) for key, value, _ in result] == [
        ("a", 3), ("a", 3), ("b", 1), ("a", 5), ("a", None), ("a", 1),
    ]  # fmt: skip


def test_a_transformer_that_names_the_store_of_its_result_is_connected_to_it_once() -> None:
    result = run_table(
        lambda table: (
            table.transform_values(
                Highest,
                value=int,
                stores=[key_value_store("seen", str, int), "out-s"],
                store="out-s",
            )
            .to_stream()
            .to("out")
        ),
        [("a", 3, 0), ("a", 2, 1)],
    )
    assert result == [("a", 3, 0), ("a", 3, 1)]


def test_a_transformer_with_history_reads_its_own_result_with_history() -> None:
    class Before(ValueTransformer[str, int, int]):
        def transform(self, key: str, value: int | None) -> int | None:
            found = self.context.store("out-s").get(key)
            return None if value is None else value + (0 if found is None else found.value)

    store = Materialized("out-s", history=timedelta(seconds=1))
    result = run_table(
        lambda table: table.transform_values(Before, value=int, store=store).to_stream().to("out"),
        [("a", 3, 0), ("a", 2, 1)],
    )
    assert result == [("a", 3, 0), ("a", 5, 1)]


def test_a_transformer_without_a_store_of_its_own_has_none_to_ask_for() -> None:
    with pytest.raises(ProcessingError, match=r"offset 0.* asked for store 'out-s'"):
        run_table(
            lambda table: table.transform_values(Highest, value=int).to_stream().to("out"),
            [("a", 3, 0)],
        )


GROUPS: list[tuple[str, Any]] = [
    ("no pair", None),
    ("no key", (None, 7)),
    ("no value", ("Ulm", None)),
]


@pytest.mark.parametrize("nothing", [row for _, row in GROUPS], ids=[name for name, _ in GROUPS])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 0], [("Ulm", 1), ("Ulm", 0)]),  # leaves its group, joins none
        ([0, 1], [("Ulm", 1)]),  # was in none, joins one
        ([0, 0, None], []),  # was never in one
        ([1, None], [("Ulm", 1), ("Ulm", 0)]),
        ([1, 0, 1], [("Ulm", 1), ("Ulm", 0), ("Ulm", 1)]),
    ],
)
@pytest.mark.parametrize("history", [None, timedelta(hours=1)], ids=["plain", "versioned"])
def test_a_row_that_its_group_mapper_gives_no_group_is_in_none(
    history: Any, values: list[Any], expected: Any, nothing: Any
) -> None:
    def declare(table: Any) -> None:
        cities = table.group_by(
            lambda _, value: ("Ulm", value) if value else nothing, name="by", key=str, value=int
        )
        cities.count(store="n").to_stream().to("out")

    result = run_table(
        declare,
        [("ada", value, time) for time, value in enumerate(values)],
        store=Materialized("tab-store", history=history) if history else "tab-store",
    )
    assert [(key, value) for key, value, _ in result] == expected


def test_commit_emission_sends_the_last_update_with_the_first_old_value() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="in")
    counts = stream.group_by_key().count(store="c", emit="commit")
    counts.to_stream().to("out")
    with TopologyTestDriver(builder.build(), commit_every=3) as driver:
        driver.pipe_all("in", [("a", 1, 1), ("a", 1, 2), ("b", 1, 3), ("a", 1, 4)])
        assert driver.read("out", value=int) == [("a", 2), ("b", 1)]
