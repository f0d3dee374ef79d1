from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.serdes.join_serdes import SubscriptionResponse
from logstate.testing import TopologyTestDriver
from logstate.topology import KTable, Materialized, StreamsBuilder
from logstate.topology.graph.nodes import SinkNode

Update = tuple[str, str, "str | None", int]  # table, key, value, time

#: left values are ``foreign key|text``
LEFT = st.tuples(
    st.just("l"),
    st.sampled_from("ab"),
    st.one_of(st.none(), st.sampled_from(["x|1", "x|2", "y|1", "|1", "xx|1"])),
    st.integers(0, 50),
)
RIGHT = st.tuples(
    st.just("r"),
    st.sampled_from(["x", "y", "xx"]),
    st.one_of(st.none(), st.sampled_from(["p", "q"])),
    st.integers(0, 50),
)
UPDATES = st.lists(st.one_of(LEFT, RIGHT), max_size=25)
BOTH = pytest.mark.parametrize("is_left", [False, True])


def foreign_key(value: str) -> str | None:
    return value.split("|", maxsplit=1)[0] or None


def pair(left: str, right: str | None) -> str:
    return f"({left},{right})"


def join(builder: StreamsBuilder, is_left: bool, **options: Any) -> KTable[str, str]:
    left = builder.table("l", value=str, store=options.pop("left", "l-store"), name="l")
    right = builder.table("r", value=str, store=options.pop("right", "r-store"), name="r")
    method = left.left_join if is_left else left.join
    given: dict[str, Any] = {"store": "j-store", "name": "fk", "value": str, **options}
    return method(right, pair, foreign_key=foreign_key, **given)


def driver_of(is_left: bool = False, **options: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    join(builder, is_left, **options).to_stream().to("out")
    return TopologyTestDriver(builder.build())


def results(driver: TopologyTestDriver, *updates: Update) -> list[tuple[str, str | None, int]]:
    for table, key, value, time in updates:
        driver.pipe(table, key, value, timestamp=time)
    return driver.read_with_timestamps("out", value=str)


def joined(is_left: bool, left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
    found = {}
    for key, value in left.items():
        other = right.get(foreign_key(value) or "")
        if other is not None or is_left:
            found[key] = pair(value, other)
    return found


# ---------------------------------------------------------------------- one by one


def test_a_row_meets_the_row_its_foreign_key_names_whichever_came_first():
    with driver_of() as driver:
        assert results(driver, ("l", "a", "x|1", 5)) == []
        assert results(driver, ("r", "x", "p", 9)) == [("a", "(x|1,p)", 9)]
        assert results(driver, ("l", "b", "x|2", 7)) == [("b", "(x|2,p)", 9)]


def test_a_result_of_the_right_side_has_its_timestamp_even_if_it_is_lower():
    with driver_of() as driver:
        assert results(driver, ("l", "a", "x|1", 50), ("r", "x", "p", 9)) == [("a", "(x|1,p)", 9)]


def test_a_changed_foreign_key_gives_one_result_that_of_the_new_one():
    with driver_of() as driver:
        results(driver, ("r", "x", "p", 1), ("r", "y", "q", 1), ("l", "a", "x|1", 2))

        assert results(driver, ("l", "a", "y|1", 3)) == [("a", "(y|1,q)", 3)]
        assert results(driver, ("r", "x", "p2", 4)) == []


def test_a_foreign_key_that_finds_nothing_deletes_the_result():
    with driver_of() as driver:
        results(driver, ("r", "x", "p", 1), ("l", "a", "x|1", 2))

        assert results(driver, ("l", "a", "y|1", 3)) == [("a", None, 3)]


def test_a_null_foreign_key_is_dropped_and_counted_in_an_inner_join():
    with driver_of() as driver:
        assert results(driver, ("l", "a", "|1", 1)) == []
        assert driver.dropped_total == 1


def test_a_null_foreign_key_joins_nothing_in_a_left_join():
    with driver_of(is_left=True) as driver:
        assert results(driver, ("l", "a", "|1", 1)) == [("a", "(|1,None)", 1)]
        assert results(driver, ("l", "a", None, 2)) == [("a", None, 2)]
        assert driver.dropped_total == 0


def test_foreign_keys_that_share_a_prefix_are_told_apart():
    with driver_of() as driver:
        results(driver, ("l", "a", "x|1", 1), ("l", "b", "xx|1", 1))

        assert results(driver, ("r", "x", "p", 2)) == [("a", "(x|1,p)", 2)]


def test_a_response_to_an_older_row_is_dropped_and_counted():
    with driver_of() as driver:
        results(driver, ("r", "x", "p", 1), ("l", "a", "x|1", 2))
        topic = "app-fk-subscription-response-topic"
        stale = driver.internal[topic][-1]
        results(driver, ("l", "a", "x|2", 3))
        driver.pipe_raw(topic, stale.key, stale.value, 4)

        assert results(driver) == []
        assert driver.dropped_total == 1


def test_older_updates_of_versioned_tables_are_dropped_and_counted():
    history = timedelta(seconds=1)
    with driver_of(
        left=Materialized("l-store", history=history),
        right=Materialized("r-store", history=history),
    ) as driver:
        results(driver, ("r", "x", "p", 50), ("l", "a", "x|1", 50))

        assert results(driver, ("r", "x", "q", 40), ("l", "a", "x|2", 40)) == []
        assert driver.dropped_total == 2


def test_the_left_key_and_value_may_give_the_foreign_key_together():
    builder = StreamsBuilder()
    left = builder.table("l", value=str, store="l-store", name="l")
    right = builder.table("r", value=str, store="r-store", name="r")
    left.join(
        right, pair, foreign_key=lambda key, value: key + value, store="j", value=str, name="fk"
    ).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        assert results(driver, ("r", "ab", "p", 1), ("l", "a", "b", 1)) == [("a", "(b,p)", 1)]


def test_a_table_can_be_joined_with_itself():
    builder = StreamsBuilder()
    table = builder.table("l", value=str, store="l-store", name="l")
    table.left_join(
        table, pair, foreign_key=foreign_key, store="j", value=str, name="fk"
    ).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        assert results(driver, ("l", "x", "|root", 1), ("l", "a", "x|1", 2)) == [
            ("x", "(|root,None)", 1),
            ("a", "(x|1,|root)", 2),
        ]


# ---------------------------------------------------------------------- where records go


def sinks(**options: Any) -> dict[str, SinkNode]:
    builder = StreamsBuilder()
    join(builder, False, **options)
    nodes = [node for sub in builder.build().sub_topologies for node in sub.nodes]
    return {node.name: node for node in nodes if isinstance(node, SinkNode)}


def test_a_response_goes_to_the_partition_that_the_left_row_came_from():
    partitioner = sinks()["fk-subscription-response-sink"].partitioner
    assert partitioner is not None

    assert partitioner("t", "a", SubscriptionResponse(None, "p", 3), 8) == 3
    assert partitioner("t", "a", SubscriptionResponse(None, "p", None), 8) is None


def test_partitioners_see_keys_only_and_name_one_partition():
    def by_length(topic: str, key: str, value: object, partitions: int) -> int | list[int]:
        assert value is None
        return len(key) if key != "many" else [1, 2]

    nodes = sinks(partitioner=by_length, other_partitioner=by_length)
    for name in ("fk-subscription-registration-sink", "fk-subscription-response-sink"):
        partitioner = nodes[name].partitioner
        assert partitioner is not None
        assert partitioner("t", "abc", "a value", 8) == 3
        with pytest.raises(Exception, match="exactly one partition"):
            partitioner("t", "many", "a value", 8)


def test_a_join_without_name_is_refused():
    with pytest.raises(TopologyError, match="two internal topics"):
        driver_of(name=None)


@BOTH
@given(updates=UPDATES)
def test_a_join_that_keeps_no_rows_sends_what_one_that_keeps_them_does(
    is_left: bool, updates: list[Update]
):
    with driver_of(is_left) as keeping, driver_of(is_left, store=None) as passing:
        assert results(passing, *updates) == results(keeping, *updates)


def test_a_join_that_keeps_no_rows_has_no_store_and_no_changelog_for_them():
    builder = StreamsBuilder()
    join(builder, False, store=None).to_stream().to("out")
    assert set(builder.build().stores) == {"fk-subscription-store", "l-store", "r-store"}


#: operators below that read the joined rows, or their old values
READERS: dict[str, Any] = {
    "join": lambda table, other: table.join(other, pair),
    "group_by": lambda table, other: table.group_by(lambda value: (value, 1), key=str, value=int),
    "foreign key": lambda table, other: table.join(
        other, pair, foreign_key=foreign_key, name="again", value=str
    ),
    "stream": lambda table, other: other.to_stream().join(table, pair),
}


@pytest.mark.parametrize("below", READERS.values(), ids=READERS)
def test_who_reads_the_rows_of_a_join_that_keeps_none_is_told_to_name_a_store(below: Any):
    builder = StreamsBuilder()
    other = builder.table("other", value=str, store="other")
    table = join(builder, False, store=None)
    with pytest.raises(TopologyError, match="'fk-result' needs a store"):
        below(table, other)


# ---------------------------------------------------------------------- against the model


@BOTH
@given(updates=UPDATES)
def test_the_results_are_at_any_time_the_join_of_both_tables(is_left: bool, updates: list[Update]):
    rows: dict[str, dict[str, str]] = {"l": {}, "r": {}}
    found: dict[str, str] = {}
    with driver_of(is_left) as driver:
        for update in updates:
            table, key, value, _ = update
            if value is None:
                rows[table].pop(key, None)
            else:
                rows[table][key] = value
            for result_key, result, _ in results(driver, update):
                if result is None:
                    found.pop(result_key, None)
                else:
                    found[result_key] = result
            assert found == joined(is_left, rows["l"], rows["r"])
        assert {key: row.value for key, row in driver.store("j-store").all()} == found
        held = [value for value in rows["l"].values() if foreign_key(value) is not None]
        assert driver.store("fk-subscription-store").num_records == len(held)


@BOTH
@given(updates=UPDATES)
def test_old_values_let_a_group_subtract_exactly_what_was_added(
    is_left: bool, updates: list[Update]
):
    builder = StreamsBuilder()
    grouped = join(builder, is_left).group_by(
        lambda key, value: ("all", value), key=str, value=str, name="grp"
    )
    grouped.count(store="counts")
    rows: dict[str, dict[str, str]] = {"l": {}, "r": {}}
    with TopologyTestDriver(builder.build()) as driver:
        for update in updates:
            table, key, value, time = update
            rows[table].pop(key, None)
            if value is not None:
                rows[table][key] = value
            driver.pipe(table, key, value, timestamp=time)
            row = driver.store("counts").get("all")
            expected = len(joined(is_left, rows["l"], rows["r"]))
            assert (0 if row is None else row.value) == expected
