"""The records of agg equal a plain loop over the values, of every kind of group."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.testing import TopologyTestDriver
from logstate.topology import (
    Count,
    CountDistinct,
    HoppingWindows,
    Max,
    Mean,
    Min,
    SessionWindows,
    SlidingWindows,
    StdDev,
    StreamsBuilder,
    TopN,
    TumblingWindows,
)
from tests.unit.topology.dsl.orders_aggregated import (
    RECORDS,
    Everything,
    Order,
    Records,
    Subtractable,
    cents_of,
    everything,
    grouped,
    ms,
)
from tests.unit.topology.operators.crash import results, results_through_a_crash
from tests.unit.topology.operators.one_operator import OneOperator


def results_of(records: Records, windows: Any = None) -> list[tuple[Any, Any]]:
    """The updates of the table: key, or key with the window's start, and record."""
    builder = StreamsBuilder()
    group: Any = grouped(builder)
    table = (group if windows is None else group.windowed_by(windows)).agg(Everything, store="s")
    stream = table.to_stream()
    if windows is not None:
        stream = table.to_stream(lambda w, _: f"{w.key} {w.start_ms} {w.end_ms}", key=str)
    stream.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", records)
        return driver.read("out", value=Everything)


@given(records=RECORDS)
def test_each_update_is_the_record_of_the_values_so_far(records: Records) -> None:
    found = results_of(records)
    for number, ((key, record), (expected, _, _)) in enumerate(zip(found, records, strict=True), 1):
        so_far = [order for name, order, _ in records[:number] if name == key]
        assert (key, record) == (expected, everything(so_far))


@pytest.mark.parametrize(
    "windows",
    [
        TumblingWindows(size=ms(10), grace=ms(100)),
        HoppingWindows(size=ms(10), advance=ms(4), grace=ms(100)),
    ],
)
@given(records=RECORDS)
def test_each_window_has_the_record_of_its_values(windows: Any, records: Records) -> None:
    last = dict(results_of(records, windows))
    expected: dict[str, list[Order]] = {}
    for key, order, time in records:
        for start, end in windows.windows_for(time):
            expected.setdefault(f"{key} {start} {end}", []).append(order)
    assert last == {key: everything(orders) for key, orders in expected.items()}


@given(records=RECORDS)
def test_sliding_windows_have_the_records_of_their_values(records: Records) -> None:
    windows = SlidingWindows(difference=ms(10), grace=ms(100))
    for name, record in dict(results_of(records, windows)).items():
        key, start, end = name.split()
        inside = [order for k, order, t in records if k == key and int(start) <= t <= int(end)]
        assert record == everything(inside)


@given(records=RECORDS)
def test_sessions_have_the_values_of_their_records(records: Records) -> None:
    last = dict(results_of(records, SessionWindows(gap=ms(5), grace=ms(100))))
    for name, record in last.items():
        if record is None:
            continue
        key, start, end = name.split()
        inside = [order for k, order, t in records if k == key and int(start) <= t <= int(end)]
        expected = everything(inside)
        assert (record.n, record.paid, record.users) == (expected.n, expected.paid, expected.users)
        assert (record.low, record.high, record.top) == (expected.low, expected.high, expected.top)
        assert sorted(record.all) == sorted(expected.all)
        for exact, merged in [
            (expected.total, record.total),
            (expected.mean, record.mean),
            (expected.spread, record.spread),
        ]:
            assert merged == (None if exact is None else pytest.approx(exact, abs=1e-3))


@pytest.mark.parametrize(
    "windows",
    [None, TumblingWindows(size=ms(10), grace=ms(100)), SessionWindows(gap=ms(5), grace=ms(100))],
)
@given(left=RECORDS, right=RECORDS)
def test_a_cogroup_has_the_aggregates_of_each_group(
    windows: Any, left: Records, right: Records
) -> None:
    builder = StreamsBuilder()
    other = builder.stream("other", key=str, value=Order).group_by_key()
    groups: Any = grouped(builder).cogroup(n=Count(), low=Min(cents_of), mean=Mean(cents_of))
    groups = groups.cogroup(other, m=Count(), high=Max(cents_of))
    table = (groups if windows is None else groups.windowed_by(windows)).agg(store="s")
    stream = table.to_stream()
    if windows is not None:
        stream = table.to_stream(lambda w, _: f"{w.key} {w.start_ms} {w.end_ms}", key=str)
    stream.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", left)
        driver.pipe_all("other", right)
        last = dict(driver.read("out", value=dict))

    def inside(records: Records, name: str) -> Any:
        key, *span = name.split()
        if not span:
            return everything([order for k, order, _ in records if k == key])
        start, end = int(span[0]), int(span[1]) + isinstance(windows, SessionWindows)
        return everything([order for k, order, t in records if k == key and start <= t < end])

    for name, record in last.items():
        if record is not None:
            first, second = inside(left, name), inside(right, name)
            mean = record.pop("mean")
            assert mean == (None if first.mean is None else pytest.approx(first.mean, abs=1e-3))
            expected = {"n": first.n, "low": first.low, "m": second.n, "high": second.high}
            assert record == expected


def test_sessions_that_merge_keep_the_order_of_time_and_of_floats() -> None:
    records = [("a", Order(value), time) for value, time in [(1.5, 0), (2.5, 9), (4.0, 5)]]
    found = dict(results_of(records, SessionWindows(gap=ms(5), grace=ms(100))))
    merged = found["a 0 9"]
    assert (merged.all, merged.first, merged.last, merged.total) == ((1.5, 2.5, 4.0), 1.5, 4.0, 8.0)


def test_a_count_of_a_field_ignores_nulls() -> None:
    builder = StreamsBuilder()
    table = grouped(builder).agg(n=Count(), paid=Count(cents_of), store="s")
    table.map_values(lambda row: f"{row.paid} of {row.n}", value=str).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", Order(cents), 0) for cents in (1, None, 3)])
        found = [value for _, value in driver.read("out", value=str)]
    assert found == ["1 of 1", "1 of 2", "2 of 3"]


@given(records=RECORDS, split=st.integers(0, 20))
def test_the_greatest_by_a_key_are_whole_values_and_ties_keep_their_order(
    records: Records, split: int
) -> None:
    top: TopN[Order, Order] = TopN(lambda order: order, 3, Order, by=cents_of)
    orders = [
        Order(None if one.cents is None else one.cents // 4, str(n))
        for n, (_, one, _) in enumerate(records)
    ]

    def state_of(part: Sequence[Order]) -> Any:
        state = top.initial()
        for order in part:
            state = top.add(state, order)
        return state

    ranked = sorted(
        (one for one in orders if one.cents is not None), key=lambda one: -(one.cents or 0)
    )
    assert state_of(orders) == tuple(ranked[:3])
    assert top.merge(state_of(orders[:split]), state_of(orders[split:])) == tuple(ranked[:3])


@given(cents=st.lists(st.integers(-5, 5), max_size=20), limit=st.integers(1, 6))
def test_a_row_that_has_reached_the_limit_of_distinct_values_keeps_none(
    cents: list[int], limit: int
) -> None:
    builder = StreamsBuilder()
    few: CountDistinct[Order] = CountDistinct(cents_of, limit=limit)
    grouped(builder).agg(few=few, store="s")
    with TopologyTestDriver(builder.build()) as driver:
        for number, one in enumerate(cents, 1):
            driver.pipe("in", "a", Order(one))
            row, values = driver.store("s").get("a").value, set(cents[:number])
            assert row.few == min(len(values), limit)
            assert row.few_values == (tuple(sorted(values)) if len(values) < limit else None)


def test_the_greatest_by_a_key_survive_a_lost_disk() -> None:
    builder = StreamsBuilder()
    top: TopN[Order, Order] = TopN(lambda order: order, 2, Order, by=cents_of)
    grouped(builder).agg(best=top, store="s").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for cents, who in [(5, "a"), (7, "b"), (7, "c"), (None, "d"), (6, "e")]:
            driver.pipe("in", "k", Order(cents, who))
            driver.crash(loses_disk=True)
        found = [
            "".join(one["who"] for one in row["best"]) for _, row in driver.read("out", value=dict)
        ]
    assert found == ["a", "ba", "bc", "bc", "bc"]


def subtractable(orders: Sequence[Order]) -> Any:
    found = everything(orders)
    return {name: getattr(found, name) for name in Subtractable.__struct_fields__}


TABLE_CHANGES = st.lists(
    st.tuples(
        st.sampled_from("klm"),
        st.none() | st.builds(Order, st.none() | st.integers(-9, 9), st.sampled_from("ab")),
    ),
    max_size=20,
)


@given(changes=TABLE_CHANGES)
def test_groups_of_a_table_have_the_record_of_their_rows(
    changes: list[tuple[str, Order | None]],
) -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=Order, store="rows")
    groups = table.group_by(lambda _, order: (order.who, order), name="by", key=str, value=Order)
    groups.agg(Subtractable, store="s").to_stream().to("out")
    rows: dict[str, Order] = {}
    with TopologyTestDriver(builder.build()) as driver:
        for key, order in changes:
            driver.pipe("in", key, order)
            rows.pop(key, None)
            if order is not None:
                rows[key] = order
        found: Any = dict(driver.read("out", value=Subtractable))
    left = {who: one for who, one in found.items() if one is not None}
    assert left.keys() == {order.who for order in rows.values()}
    for who, record in left.items():
        inside = [order for order in rows.values() if order.who == who]
        expected = subtractable(inside)
        for name in ("n", "paid", "total", "mean", "users"):
            assert getattr(record, name) == expected[name], name
        assert sorted(record.all) == sorted(expected["all"])
        spread = expected["spread"]
        assert record.spread == (None if spread is None else pytest.approx(spread, abs=1e-4))


def test_a_record_without_a_value_counts_in_windows_only() -> None:
    builder = StreamsBuilder()
    group = builder.stream("in", key=str, value=Order).group_by_key()
    windows = group.windowed_by(TumblingWindows(size=ms(10)))
    windows.agg(Everything, store="w").to_stream(lambda w, _: w.key, key=str).to("out")
    group.agg(Everything, store="s").to_stream().to("plain")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", None)
        assert driver.read("plain", value=Everything) == []
        assert driver.read("out", value=Everything) == [
            ("a", msgspec.structs.replace(everything([]), n=1))
        ]


def test_a_record_class_computes_a_record_of_values() -> None:
    orders = [Order(5, "a"), Order(None, "b"), Order(7.5, "a")]
    assert Everything.aggregate(orders) == everything(orders)
    assert Everything.aggregate([]) == everything([])


def test_a_function_of_several_aggregates_is_called_once_per_record() -> None:
    calls = []

    def cents(order: Order) -> float | None:
        calls.append(order)
        return order.cents

    builder = StreamsBuilder()
    grouped(builder).agg(low=Min(cents), high=Max(cents), mean=Mean(cents), store="s")
    with TopologyTestDriver(builder.build()) as driver:
        calls.clear()
        driver.pipe("in", "a", Order(5))
    assert len(calls) == 1


def test_the_population_has_its_own_standard_deviation() -> None:
    builder = StreamsBuilder()
    table = grouped(builder).agg(x=StdDev(cents_of, ddof=0), store="s")
    table.map_values(lambda row: row.x, value=float).to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", Order(value), 0) for value in (2, 4, 9)])
        found = [value for _, value in driver.read("out", value=float)]
    assert found == pytest.approx([0, 1, statistics.pstdev([2, 4, 9])])


@pytest.mark.parametrize("windows", [None, TumblingWindows(size=ms(10)), SessionWindows(gap=ms(5))])
def test_an_operator_below_never_sees_a_record_without_values(windows: Any) -> None:
    builder = StreamsBuilder()
    group: Any = grouped(builder)
    table = (group if windows is None else group.windowed_by(windows)).agg(Everything, store="s")
    changes = []
    table.to_change_stream().foreach(lambda _, change: changes.append((change.old, change.new)))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", Order(5))
    assert changes == [(None, everything([Order(5)]))]


def node() -> Any:
    table: Any = grouped(StreamsBuilder()).agg(Everything, store="s")
    return table.node.parent


@given(records=RECORDS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 19))
def test_a_crash_changes_nothing(records: Records, commit_every: int, crash_at: int) -> None:
    def process(run: OneOperator, record: tuple[str, Order, int]) -> list[tuple[Any, ...]]:
        return run.pipe(*record)

    undisturbed, expected = results(node, process, records)
    run, found = results_through_a_crash(
        node, process, records, commit_every=commit_every, crash_at=crash_at
    )
    assert found == expected
    assert list(run.store("s").all()) == list(undisturbed.store("s").all())
