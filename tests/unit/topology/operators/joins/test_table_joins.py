from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.testing import TopologyTestDriver
from logstate.topology import KTable, Materialized, StreamsBuilder

Kind = Literal["inner", "left", "outer"]
Update = tuple[str, str, "int | None", int]  # table, key, value, time

KINDS = pytest.mark.parametrize("kind", ["inner", "left", "outer"])
UPDATES = st.lists(
    st.tuples(
        st.sampled_from(["l", "r"]),
        st.sampled_from("ab"),
        st.one_of(st.none(), st.integers(0, 9)),
        st.integers(0, 50),
    ),
    max_size=20,
)
NO_OTHER = 1000


def pair(left: int | None, right: int | None) -> int:
    """A result that tells both sides."""
    return (NO_OTHER if left is None else left) * 10_000 + (NO_OTHER if right is None else right)


def join(builder: StreamsBuilder, kind: Kind, store: Any, **table: Any) -> KTable[str, int]:
    left = builder.table("l", value=int, store=table.get("left", "l-store"), name="l")
    right = builder.table("r", value=int, store=table.get("right", "r-store"), name="r")
    method = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    return method(right, pair, store=store, value=int, name="j")


def driver_of(kind: Kind, *, store: Any = "j-store", **table: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    join(builder, kind, store, **table).to_stream().to("out")
    return TopologyTestDriver(builder.build())


def results(driver: TopologyTestDriver, *updates: Update) -> list[tuple[str, int | None, int]]:
    for table, key, value, time in updates:
        driver.pipe(table, key, value, timestamp=time)
    return driver.read_with_timestamps("out", value=int)


def states(updates: list[Update]) -> Iterator[tuple[Update, dict[str, dict[str, tuple[int, int]]]]]:
    """Each update with the rows of both tables after it."""
    rows: dict[str, dict[str, tuple[int, int]]] = {"l": {}, "r": {}}
    for update in updates:
        table, key, value, time = update
        if value is None:
            rows[table].pop(key, None)
        else:
            rows[table][key] = (value, time)
        yield update, rows


def joined(kind: Kind, left: dict[str, Any], right: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """The join of two tables as they are, key -> (result, timestamp)."""
    keys = {
        "inner": left.keys() & right.keys(),
        "left": left.keys(),
        "outer": left.keys() | right.keys(),
    }[kind]
    found = {}
    for key in keys:
        rows = [left.get(key), right.get(key)]
        value = pair(*[None if row is None else row[0] for row in rows])
        found[key] = value, max(row[1] for row in rows if row is not None)
    return found


# ---------------------------------------------------------------------- one by one


@KINDS
def test_both_tables_trigger_and_the_larger_timestamp_wins(kind: Kind):
    with driver_of(kind) as driver:
        results(driver, ("l", "a", 1, 50))
        assert results(driver, ("r", "a", 2, 40)) == [("a", pair(1, 2), 50)]
        assert results(driver, ("l", "a", 3, 60)) == [("a", pair(3, 2), 60)]


@KINDS
def test_null_keys_are_dropped_once(kind: Kind):
    with driver_of(kind) as driver:
        driver.pipe("l", None, 1, timestamp=1)
        driver.pipe("r", None, 1, timestamp=1)

        assert driver.dropped_total == 2
        assert driver.outputs == []


def test_a_lost_right_row_deletes_an_inner_result_and_keeps_a_left_one():
    updates: list[Update] = [("l", "a", 1, 1), ("r", "a", 2, 2), ("r", "a", None, 3)]
    with driver_of("inner") as driver:
        assert results(driver, *updates)[-1] == ("a", None, 3)
    with driver_of("left") as driver:
        assert results(driver, *updates)[-1] == ("a", pair(1, None), 3)


def test_an_inner_join_sends_a_tombstone_although_there_was_no_result():
    with driver_of("inner") as driver:
        assert results(driver, ("r", "a", 2, 1), ("l", "a", None, 2)) == [("a", None, 2)]


@pytest.mark.parametrize("kind", ["left", "outer"])
def test_where_there_was_nothing_and_is_nothing_left_and_outer_joins_are_silent(kind: Kind):
    with driver_of(kind) as driver:
        assert results(driver, ("l", "a", None, 1), ("r", "a", None, 2)) == []


def test_results_keep_the_headers_of_the_record_that_triggered_them():
    with driver_of("inner") as driver:
        driver.pipe("l", "a", 1, timestamp=1, headers=[("h", b"left")])
        driver.pipe("r", "a", 1, timestamp=1, headers=[("h", b"right")])

        assert driver.outputs[-1].headers == [("h", b"right")]


def test_older_updates_of_versioned_tables_are_dropped_and_counted():
    history = timedelta(seconds=1)
    with driver_of(
        "inner",
        left=Materialized("l-store", history=history),
        right=Materialized("r-store", history=history),
    ) as driver:
        results(driver, ("l", "a", 1, 50), ("r", "a", 2, 50))

        assert results(driver, ("l", "a", 3, 40), ("r", "a", 4, 49)) == []
        assert driver.dropped_total == 2


def test_only_the_versioned_table_drops_its_older_updates():
    with driver_of("inner", left=Materialized("l-store", history=timedelta(seconds=1))) as driver:
        results(driver, ("l", "a", 1, 50), ("r", "a", 2, 50))

        assert results(driver, ("r", "a", 4, 40)) == [("a", pair(1, 4), 50)]


def test_a_deletion_is_logged_with_the_time_of_the_result():
    with driver_of("inner") as driver:
        results(driver, ("l", "a", 1, 50), ("r", "a", 2, 60), ("l", "a", None, 55))
        log = driver.changelog("app-j-store-changelog")

        assert [(record.value is None, record.timestamp) for record in log] == [
            (False, 60),
            (True, 60),
        ]


# ---------------------------------------------------------------------- against the model


@KINDS
@pytest.mark.parametrize("store", ["j-store", None])
@given(updates=UPDATES)
def test_the_results_are_at_any_time_the_join_of_both_tables(
    kind: Kind, store: str | None, updates: list[Update]
):
    found: dict[str, tuple[int, int]] = {}
    with driver_of(kind, store=store) as driver:
        for update, rows in states(updates):
            for key, value, time in results(driver, update):
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value, time
            # A row that stays keeps the time of its last result, even if its maker has gone.
            expected = joined(kind, rows["l"], rows["r"])
            assert {k: v for k, (v, _) in found.items()} == {k: v for k, (v, _) in expected.items()}
        if store is not None:
            assert {
                key: (row.value, row.timestamp) for key, row in driver.store("j-store").all()
            } == found


@KINDS
@given(updates=UPDATES)
def test_an_update_of_a_present_row_has_the_larger_of_both_timestamps(
    kind: Kind, updates: list[Update]
):
    with driver_of(kind) as driver:
        for update, rows in states(updates):
            expected = joined(kind, rows["l"], rows["r"])
            for key, value, time in results(driver, update):
                if value is not None and update[2] is not None:
                    assert (value, time) == expected[key]


@KINDS
@pytest.mark.parametrize("store", ["j-store", None])
@given(updates=UPDATES)
def test_old_values_let_a_group_subtract_exactly_what_was_added(
    kind: Kind, store: str | None, updates: list[Update]
):
    builder = StreamsBuilder()
    table = join(builder, kind, store)
    table.group_by(lambda key, value: ("all", value), key=str, value=int, name="grp").reduce(
        lambda a, b: a + b, lambda a, b: a - b, store="sum"
    )
    with TopologyTestDriver(builder.build()) as driver:
        for (table_name, key, value, time), rows in states(updates):
            driver.pipe(table_name, key, value, timestamp=time)
            row = driver.store("sum").get("all")
            expected = sum(one for one, _ in joined(kind, rows["l"], rows["r"]).values())
            assert (0 if row is None else row.value) == expected


@KINDS
@given(updates=UPDATES)
def test_a_stream_reads_the_same_from_a_join_without_store(kind: Kind, updates: list[Update]):
    """The row that a lookup computes is the one that a store would hold, but for its age."""
    values = []
    for store in ("j-store", None):
        builder = StreamsBuilder()
        table = join(builder, kind, store)
        stream = builder.stream("s", key=str, value=str, name="s")
        stream.left_join(table, lambda left, right: f"{right}", name="lookup").to("out", value=str)
        with TopologyTestDriver(builder.build()) as driver:
            for table_name, key, value, time in updates:
                driver.pipe(table_name, key, value, timestamp=time)
                driver.pipe("s", key, "?", timestamp=time)
            values.append(driver.read("out", value=str))
    assert values[0] == values[1]
