from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import SlidingWindows
from logstate.topology.operators.aggregates.sliding_aggregate import SlidingAggregateNode
from tests.unit.topology.operators.one_operator import OneOperator


def sliding(difference: int, grace: int, **options: Any) -> SlidingAggregateNode:
    value = options.pop("value", int)
    spec = StoreSpec(
        "sums",
        "timestamped_window",
        serdes.string,
        serdes.serde_of(value, what="the sums"),
        window_size_ms=difference,
        retention_ms=options.pop("retention", 2 * difference + grace),
    )
    settings: dict[str, Any] = {
        "initializer": lambda: 0,
        "aggregator": lambda key, value, total: total + value,
        "emit": "update",
    }
    windows = SlidingWindows(
        difference=timedelta(milliseconds=difference), grace=timedelta(milliseconds=grace)
    )
    return SlidingAggregateNode("agg", store=spec, windows=windows, **settings | options)


def updated(forwarded: list[tuple[Any, ...]]) -> dict[int, Any]:
    return {windowed.start_ms: new for windowed, new, *_ in forwarded}


def content(run: OneOperator, key: str = "a") -> dict[int, Any]:
    return {start: row.value for start, row in run.store("sums").fetch_range(key, 0, 10_000)}


# V4 of the semantics notes.
def test_an_out_of_order_record_gets_its_left_and_right_window():
    run = OneOperator(sliding(10, 50))

    updates = [
        updated(run.pipe("a", value, time))
        for value, time in ((1, 15), (2, 20), (4, 18), (8, 25), (16, 26))
    ]

    assert updates == [
        {5: 1},
        {16: 2, 10: 3},
        {10: 7, 16: 6, 8: 5, 19: 2},
        {16: 14, 19: 10, 21: 8, 15: 15},
        {16: 30, 19: 26, 21: 24, 26: 16},
    ]
    assert content(run) == {5: 1, 8: 5, 10: 7, 15: 15, 16: 30, 19: 26, 21: 24, 26: 16}


# V5 of the semantics notes.
def test_early_records_share_the_window_from_zero():
    run = OneOperator(sliding(10, 50))

    updates = [
        [(windowed.start_ms, windowed.end_ms, new) for windowed, new, *_ in run.pipe("a", v, t)]
        for v, t in ((1, 3), (2, 7), (4, 5), (8, 14))
    ]

    assert updates == [
        [(0, 10, 1)],
        [(4, 14, 2), (0, 10, 3)],
        [(4, 14, 6), (6, 16, 2), (0, 10, 7)],
        [(6, 16, 10), (4, 14, 14), (8, 18, 8)],
    ]


def test_null_keys_and_null_values_are_dropped():
    run = OneOperator(sliding(10, 0))

    assert run.pipe(None, 1, 20) == []
    assert run.pipe("a", None, 20) == []
    assert run.dropped == {"null_key": 1, "null_value": 1}


def test_a_record_is_dropped_whole_if_all_its_windows_are_closed():
    run = OneOperator(sliding(5, 0))
    run.pipe("a", 1, 100)

    assert run.pipe("b", 1, 94) == []
    assert run.dropped == {"late": 1}


def test_a_record_at_the_edge_counts_in_the_windows_that_are_still_open():
    run = OneOperator(sliding(5, 0))
    run.pipe("a", 1, 98)
    run.pipe("a", 2, 100)

    assert updated(run.pipe("a", 4, 95)) == {95: 7, 96: 3}
    assert run.dropped == {"late": 2}  # [93, 98], and its own left window [90, 95]


def test_a_new_left_window_sends_the_aggregate_it_starts_from_as_old_value():
    node = sliding(10, 0)
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)
    run.pipe("a", 1, 20)

    assert [(w.start_ms, new, old) for w, new, old, *_ in run.pipe("a", 2, 22)] == [
        (21, 2, 0),
        (12, 3, 1),
    ]


def test_windows_do_not_share_an_aggregate_that_is_changed_in_place():
    def append(key: str, value: int, found: list[int]) -> list[int]:
        found.append(value)
        return found

    node = sliding(10, 50, value=list, initializer=list, aggregator=append)
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)
    old_values = []

    for value, time in ((1, 15), (2, 20), (4, 18), (8, 25), (16, 26)):
        old_values += [(new, old) for _, new, old, *_ in run.pipe("a", value, time)]

    assert {start: sum(found) for start, found in content(run).items()} == {
        5: 1,
        8: 5,
        10: 7,
        15: 15,
        16: 30,
        19: 26,
        21: 24,
        26: 16,
    }
    assert all(old is None or new == old + new[-1:] for new, old in old_values)


# ------------------------------------------------------------------ against a model

RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 60)), max_size=30
)


def windows_of(difference: int, records: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Every window that a record can open, with the sum and largest time of what is in it."""
    times = {time for _, time in records}
    starts = {max(0, time - difference) for time in times} | {time + 1 for time in times}
    found = {}
    for start in starts:
        inside = [(v, t) for v, t in records if start <= t <= start + difference]
        if inside:
            found[start] = (sum(v for v, _ in inside), max(t for _, t in inside))
    return found


@given(st.integers(0, 20), RECORDS)
def test_without_late_records_every_window_holds_exactly_its_records(
    difference: int, records: list[tuple[str, int, int]]
):
    run = OneOperator(sliding(difference, 1_000))
    last: dict[tuple[str, int], tuple[int, int]] = {}

    for key, value, time in records:
        for windowed, new, _, timestamp, _, _ in run.pipe(key, value, time):
            assert windowed.end_ms == windowed.start_ms + difference
            last[windowed.key, windowed.start_ms] = (new, timestamp)

    for key in "ab":
        expected = windows_of(difference, [(v, t) for k, v, t in records if k == key])
        assert {start: row for (k, start), row in last.items() if k == key} == expected


@given(st.integers(1, 20), st.integers(0, 20), RECORDS)
def test_emit_on_close_emits_every_closed_window_once(
    difference: int, grace: int, records: list[tuple[str, int, int]]
):
    run = OneOperator(sliding(difference, grace, emit="close", retention=100_000))
    final = []
    in_order = sorted(records, key=lambda record: record[2])

    for key, value, time in [*in_order, ("c", 1, 200)]:
        final += [
            (w.key, w.start_ms, new, ts) for w, new, _, ts, _, _ in run.pipe(key, value, time)
        ]

    expected = [
        (key, start, *row)
        for key in "ab"
        for start, row in windows_of(
            difference, [(v, t) for k, v, t in records if k == key]
        ).items()
    ]
    assert sorted(final) == sorted(expected)
