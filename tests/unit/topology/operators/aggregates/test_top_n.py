"""The n greatest of each group, compared with ``sorted`` over all of its values."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.serdes import list_of, ordered, string
from logstate.serdes.built_in import serde_of
from logstate.serdes.scalars import int64
from logstate.testing import TopologyTestDriver, simulate
from logstate.topology import Materialized, StreamsBuilder, Topology, index
from logstate.topology.operators.aggregates.rank_serde import Ranked, RankSerde
from logstate.topology.operators.aggregates.top_n import TopNNode
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde
from tests.unit.topology.operators.one_operator import OneOperator

N = 3
SCORES = st.integers(-3, 6)


class Item(msgspec.Struct, frozen=True):
    shop: str
    cents: int | None
    name: str


def cents_of(item: Item) -> int | None:
    return item.cents


def best(items: list[Item]) -> list[Item]:
    """By falling score, then the bytes of the JSON, which begin with the shop."""
    ranked = [one for one in items if one.cents is not None]
    ranked.sort(key=lambda one: (-(one.cents or 0), msgspec.json.encode(one)))
    return ranked[:N]


def of_stream() -> Topology:
    builder = StreamsBuilder()
    items = builder.stream("in", key=str, value=Item).group_by_key()
    items.top_n(N, cents_of, store="best").to_stream().to("out")
    return builder.build()


def of_table(emit: Literal["update", "commit"] = "update") -> Topology:
    builder = StreamsBuilder()
    items = builder.table("in", key=str, value=Item, store="items")
    shops = items.group_by(lambda _, item: (item.shop, item), key=str, value=Item, name="by-shop")
    lists = shops.top_n(N, lambda item: item.cents, store="best", name="rank", emit=emit)
    lists.to_stream().to("out")
    return builder.build()


ITEMS = st.builds(Item, st.sampled_from("AB"), st.one_of(st.none(), SCORES), st.sampled_from("xyz"))


@given(items=st.lists(ITEMS, max_size=30), crash_at=st.integers(0, 30))
def test_of_a_stream_the_greatest_of_all_records_are_sent_when_they_change(
    items: list[Item], crash_at: int
) -> None:
    seen: defaultdict[str, list[Item]] = defaultdict(list)
    with TopologyTestDriver(of_stream()) as driver:
        for number, item in enumerate(items):
            before = best(seen[item.shop])
            seen[item.shop].append(item)
            driver.pipe("in", item.shop, item, timestamp=number)
            after = best(seen[item.shop])
            expected = [(item.shop, after)] if after != before else []
            assert driver.read("out", value=list_of(Item)) == expected
            if number == crash_at:
                driver.crash(loses_disk=True)
        rows = [row.value for _, row in driver.store("best-rows").all()]
        assert sum(rows) == sum(len(best(one)) for one in seen.values())


CHANGES = st.lists(
    st.tuples(st.sampled_from(["k1", "k2", "k3", "k4", "k5"]), st.one_of(st.none(), ITEMS)),
    max_size=40,
)


@given(changes=CHANGES, crash_at=st.integers(0, 30))
def test_of_a_table_rows_that_fall_move_or_are_deleted_leave_the_list(
    changes: list[tuple[str, Item | None]], crash_at: int
) -> None:
    rows: dict[str, Item] = {}
    known: dict[str, list[Item]] = {}
    with TopologyTestDriver(of_table()) as driver:
        for number, (key, item) in enumerate(changes):
            driver.pipe("in", key, item, timestamp=number)
            rows.pop(key, None)
            if item is not None:
                rows[key] = item
            for shop, found in driver.read("out", value=list_of(Item)):
                assert (found or []) != known.get(shop, [])
                known[shop] = found or []
            for shop in "AB":
                expected = best([one for one in rows.values() if one.shop == shop])
                assert known.get(shop, []) == expected
                row = driver.store("best").get(shop)
                assert (row.value if row else []) == expected
            if number == crash_at:
                driver.crash(loses_disk=True)
        ranked = [one for one in rows.values() if one.cents is not None]
        counts = [row.value for _, row in driver.store("best-rows").all()]
        assert sum(counts) == len(ranked)


@given(changes=CHANGES, commit_every=st.integers(1, 9), crash_at=st.integers(0, 30))
def test_a_group_sends_its_list_once_per_commit_if_it_differs_from_the_last_one(
    changes: list[tuple[str, Item | None]], commit_every: int, crash_at: int
) -> None:
    rows: dict[str, Item] = {}
    known: dict[str, list[Item]] = {}
    with TopologyTestDriver(of_table("commit"), commit_every=10**9) as driver:
        for number, (key, item) in enumerate(changes, 1):
            driver.pipe("in", key, item, timestamp=number)
            rows.pop(key, None)
            if item is not None:
                rows[key] = item
            if number == crash_at:
                driver.crash(loses_disk=True)
            if number % commit_every:
                continue
            driver.advance_wall_clock(0)  # commits
            of_shops = {shop: [one for one in rows.values() if one.shop == shop] for shop in "AB"}
            lists = {shop: best(items) for shop, items in of_shops.items()}
            changed = {shop: one for shop, one in lists.items() if one != known.get(shop, [])}
            found = driver.read("out", value=list_of(Item))
            assert sorted((shop, one or []) for shop, one in found) == sorted(changed.items())
            known = lists


def test_a_table_below_takes_back_the_list_of_the_commit_before() -> None:
    builder = StreamsBuilder()
    items = builder.stream("in", key=str, value=Item).group_by_key()
    lists = items.top_n(1, cents_of, store="best", emit="commit")
    sums = lists.group_by(lambda shop, one: ("all", one[0].cents), key=str, value=int, name="all")
    sums.reduce(lambda a, b: a + b, lambda a, b: a - b, store="sums").to_stream().to("out")
    with TopologyTestDriver(builder.build(), commit_every=2) as driver:
        for number, cents in enumerate((5, 7, 8, 3)):
            driver.pipe("in", "A", Item("A", cents, "n"), timestamp=number)
        driver.pipe("in", "B", Item("B", 1, "n"), timestamp=4)
        driver.advance_wall_clock(0)
        assert driver.read("out", value=int)[-1] == ("all", 9)


@given(ranked=st.lists(st.tuples(st.tuples(SCORES, st.text(max_size=3)), st.text(max_size=3))))
def test_ranks_are_in_the_order_of_falling_scores_and_come_back(ranked: list[Any]) -> None:
    serde = RankSerde(ordered(int, str), string)
    write, read = serde.serializer("t", True), serde.deserializer("t", True)
    by_bytes = sorted((Ranked(*one) for one in ranked), key=write)

    assert [read(write(Ranked(*one)))[:2] for one in ranked] == ranked
    expected = sorted(ranked, key=lambda one: one[1].encode())
    expected.sort(key=lambda one: one[0], reverse=True)
    assert [one[0] for one in by_bytes] == [one[0] for one in expected]


def test_a_row_that_was_ranked_with_other_bytes_is_found_by_its_value() -> None:
    class Short(msgspec.Struct, frozen=True):
        cents: int

    class Long(msgspec.Struct, frozen=True):
        cents: int
        note: str = ""

    def node(kind: Any) -> TopNNode:
        value = serde_of(kind, what="the values")
        keys = KeyAndIdSerde(string, RankSerde(ordered(int), value))
        return TopNNode(
            "rank",
            n=1,
            by=lambda one: one.cents,
            is_of_table=True,
            store=StoreSpec("best", "timestamped_key_value", string, list_of(value)),
            rows=StoreSpec("rows", "timestamped_key_value", keys, int64),
        )

    run = OneOperator(node(Short))
    run.pipe("all", (Short(5), None), 0)
    run.pipe("all", (Short(3), None), 1)
    run.commit()
    after = run.successor(node(Long))

    found = after.pipe("all", (None, Long(5)), 2)
    assert found == [("all", [Long(3)], None, 2, None, True)]
    assert after.pipe("all", (None, Long(9)), 2) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, 'Give store="some-name"'),
        ({"store": "s", "n": 0}, r"n of top_n\(\)"),
        ({"store": "s", "by": 5}, r"by of top_n\(\)"),
        ({"store": "s", "by": lambda item: [item]}, "is not known.*score=int"),
        ({"store": "s", "score": list}, "no order by bytes"),
        ({"store": "s", "emit": "close"}, r"emit of top_n\(\) must be .*emit=\"close\""),
        ({"store": "s", "emit": "delta"}, "emit of top_n.*found 'delta'"),
        ({"store": Materialized("s", capacity=9)}, "has a capacity"),
        ({"store": Materialized("s", value=str)}, "has value="),
        ({"store": Materialized("s", indexes={"i": index(len, int)})}, "values are lists"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(options: dict[str, Any], text: str) -> None:
    items = StreamsBuilder().stream("in", key=str, value=Item).group_by_key()
    with pytest.raises(TopologyError, match=text):
        items.top_n(options.pop("n", N), options.pop("by", cents_of), **options)


@pytest.mark.no_cover  # many schedules go through the same lines
def test_no_crash_no_move_and_no_guarantee_makes_a_difference() -> None:
    rng = random.Random(4)
    inputs = [
        ("in", f"k{rng.randrange(9)}", Item(rng.choice("AB"), rng.randrange(20), "n"), number)
        for number in range(80)
    ]

    result = simulate(of_table(), inputs, schedules=20)

    assert result.counters["crashes"] > 5
    assert result.counters["outputs_compared"] > 100
