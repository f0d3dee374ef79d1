from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import (
    HoppingWindows,
    TumblingWindows,
    UnlimitedWindows,
    Windows,
)
from logstate.topology.operators.aggregates.window_aggregate import WindowAggregateNode
from tests.unit.topology.operators.one_operator import OneOperator


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def store(windows: Windows, *, value: Any = int, retention_ms: int | None = None) -> StoreSpec:
    return StoreSpec(
        "sums",
        "timestamped_window",
        serdes.string,
        serdes.serde_of(value, what="the sums"),
        window_size_ms=windows.size_ms,
        retention_ms=retention_ms or windows.size_ms + windows.grace_ms,
    )


def sums(windows: Windows, **options: Any) -> WindowAggregateNode:
    spec = options.pop("store", None) or store(windows, retention_ms=options.pop("retention", None))
    settings: dict[str, Any] = {
        "initializer": lambda: 0,
        "aggregator": lambda key, value, total: total + (value or 0),
        "emit": "update",
    }
    return WindowAggregateNode("agg", store=spec, windows=windows, **settings | options)


def rows(forwarded: list[tuple[Any, ...]]) -> list[tuple[int, int, Any, int]]:
    return [(k.start_ms, k.end_ms, new, ts) for k, new, _, ts, _, _ in forwarded]


# V1 of the semantics notes: size 10, grace 5.
def test_late_records_within_grace_still_count():
    run = OneOperator(sums(TumblingWindows(size=ms(10), grace=ms(5))))

    times = (3, 9, 12, 8, 14, 9, 15)
    updates = [rows(run.pipe("a", 1, time)) for time in times]

    assert updates == [
        [(0, 10, 1, 3)],
        [(0, 10, 2, 9)],
        [(10, 20, 1, 12)],
        [(0, 10, 3, 9)],
        [(10, 20, 2, 14)],
        [(0, 10, 4, 9)],
        [(10, 20, 3, 15)],
    ]


def test_a_window_is_closed_when_stream_time_reaches_its_end_plus_grace():
    run = OneOperator(sums(TumblingWindows(size=ms(10), grace=ms(5))))
    run.pipe("a", 1, 3)
    run.pipe("b", 1, 15)  # another key moves the same clock

    assert run.pipe("a", 1, 9) == []
    assert run.dropped == {"late": 1}


def test_a_hopping_record_can_be_late_for_one_window_and_on_time_for_the_next():
    run = OneOperator(sums(HoppingWindows(size=ms(10), advance=ms(5))))

    updates = [rows(run.pipe("a", 1, time)) for time in (2, 7, 12, 4, 6)]

    assert updates == [
        [(0, 10, 1, 2)],
        [(0, 10, 2, 7), (5, 15, 1, 7)],
        [(5, 15, 2, 12), (10, 20, 1, 12)],
        [],
        [(5, 15, 3, 12)],
    ]
    assert run.dropped == {"late": 2}


def test_null_keys_are_dropped_and_null_values_reach_the_aggregator():
    node = sums(TumblingWindows(size=ms(10)), aggregator=lambda key, value, count: count + 1)
    run = OneOperator(node)

    assert run.pipe(None, 1, 1) == []
    assert rows(run.pipe("a", None, 1)) == [(0, 10, 1, 1)]
    assert run.dropped == {"null_key": 1}


def test_a_null_result_deletes_the_row_and_the_next_record_starts_anew():
    node = sums(
        TumblingWindows(size=ms(10)),
        aggregator=lambda key, value, total: None if total + value > 5 else total + value,
    )
    run = OneOperator(node)
    run.pipe("a", 4, 1)

    assert rows(run.pipe("a", 2, 3)) == [(0, 10, None, 3)]
    assert run.store("sums").fetch("a", 0) is None
    assert rows(run.pipe("a", 1, 2)) == [(0, 10, 1, 2)]


def test_a_tombstone_is_logged_with_the_time_and_headers_of_its_record():
    node = sums(TumblingWindows(size=ms(10)), aggregator=lambda key, value, total: value)
    run = OneOperator(node)
    run.pipe("a", 1, 7)
    run.pipe("a", None, 3)

    logged = run.commit()["sums"]

    assert [(write.value, write.timestamp) for write in logged] == [
        ((1).to_bytes(8, "big"), 7),
        (None, 3),
    ]


def test_old_values_start_with_the_initializers_value():
    node = sums(TumblingWindows(size=ms(10)))
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)

    assert [edge[1:3] for edge in run.pipe("a", 4, 1)] == [(4, 0)]
    assert [edge[1:3] for edge in run.pipe("a", 5, 1)] == [(9, 4)]


def test_old_and_new_are_two_objects_when_the_aggregator_changes_its_aggregate_in_place():
    def add(key: str, value: int, totals: dict[str, int]) -> dict[str, int]:
        totals["n"] = totals.get("n", 0) + value
        return totals

    windows = TumblingWindows(size=ms(10))
    node = sums(windows, initializer=dict, aggregator=add, store=store(windows, value=dict))
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)

    assert [edge[1:3] for edge in run.pipe("a", 1, 1)] == [({"n": 1}, {})]
    assert [edge[1:3] for edge in run.pipe("a", 1, 1)] == [({"n": 2}, {"n": 1})]


def test_unlimited_windows_never_close():
    run = OneOperator(sums(UnlimitedWindows(start_ms=5)))
    run.pipe("a", 1, 1_000)

    assert rows(run.pipe("a", 1, 5)) == [(5, 2**63 - 1, 2, 1_000)]
    assert run.pipe("a", 1, 4) == []
    assert run.dropped == {}


def test_custom_windows_decide_which_windows_a_record_is_in():
    class Shifts(Windows):
        size_ms = 8
        grace_ms = 0

        def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
            start = (timestamp - 3) // 8 * 8 + 3
            return [(start, start + 8)] if timestamp >= 3 else []

    run = OneOperator(sums(Shifts()))

    assert [rows(run.pipe("a", 1, time)) for time in (2, 3, 10, 11)] == [
        [],
        [(3, 11, 1, 3)],
        [(3, 11, 2, 10)],
        [(11, 19, 1, 11)],
    ]


# ------------------------------------------------------------------ on commit


def test_emit_on_commit_forwards_the_last_update_per_key_in_the_order_of_last_writes():
    node = sums(TumblingWindows(size=ms(10)), emit="commit")
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)
    for key in ("a", "b", "a"):
        assert run.pipe(key, 1, 5) == []

    run.commit()

    assert [(k.key, new, old) for k, new, old, *_ in run.take()] == [("b", 1, None), ("a", 2, None)]
    run.pipe("a", 1, 6)
    run.pipe("a", 1, 7)
    run.commit()
    assert [(k.key, new, old) for k, new, old, *_ in run.take()] == [("a", 4, 2)]


def test_held_updates_are_forwarded_from_the_place_of_their_record():
    run = OneOperator(sums(TumblingWindows(size=ms(10)), emit="commit"))
    run.pipe("a", 1, 5)
    run.pipe("b", 1, 5)
    run.pipe("c", 1, 25)

    run.commit()

    assert run.forwarded_from == [("in", 0, 0), ("in", 0, 1), ("in", 0, 2)]
    assert run.offset == 2


def test_held_updates_go_with_a_discarded_commit():
    run = OneOperator(sums(TumblingWindows(size=ms(10)), emit="commit"))
    run.pipe("a", 1, 5)
    run.discard()

    run.commit()

    assert run.take() == []


def test_a_rolled_back_record_leaves_the_held_updates_as_they_were():
    run = OneOperator(sums(TumblingWindows(size=ms(10)), emit="commit"))
    run.pipe("a", 1, 5)
    run.begin_journal()
    run.pipe("a", 100, 6)
    run.pipe("b", 100, 6)
    run.end_journal(rollback=True)

    run.commit()

    assert rows(run.take()) == [(0, 10, 1, 5)]


def test_keys_that_are_not_hashable_are_held_by_their_bytes():
    windows = TumblingWindows(size=ms(10))
    spec = StoreSpec(
        "sums", "timestamped_window", serdes.json, serdes.int64, window_size_ms=10, retention_ms=10
    )
    run = OneOperator(sums(windows, emit="commit", store=spec))
    run.pipe({"id": 1}, 1, 5)
    run.pipe({"id": 1}, 2, 5)

    run.commit()

    assert rows(run.take()) == [(0, 10, 3, 5)]


# ------------------------------------------------------------------ against a model

RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 60)),
    max_size=40,
)
WINDOWS = st.one_of(
    st.builds(
        lambda size, grace: TumblingWindows(size=ms(size), grace=ms(grace)),
        st.integers(1, 20),
        st.integers(0, 20),
    ),
    st.builds(
        lambda advance, more, grace: HoppingWindows(
            size=ms(advance + more), advance=ms(advance), grace=ms(grace)
        ),
        st.integers(1, 9),
        st.integers(0, 20),
        st.integers(0, 20),
    ),
)


def model(windows: Windows, records: list[tuple[str, int | None, int]]) -> Any:
    """All windows there can be, looked at one by one: contents, and how often a record was late."""
    contents: dict[tuple[str, int], list[tuple[int | None, int]]] = {}
    late, stream_time = 0, -1
    advance = windows.advance_ms if isinstance(windows, HoppingWindows) else windows.size_ms
    for key, value, time in records:
        stream_time = max(stream_time, time)
        for start in range(0, 100, advance):
            if not start <= time < start + windows.size_ms:
                continue
            if start + windows.size_ms + windows.grace_ms <= stream_time:
                late += 1
            else:
                contents.setdefault((key, start), []).append((value, time))
    totals = {
        where: (sum(v or 0 for v, _ in found), max(t for _, t in found))
        for where, found in contents.items()
    }
    return totals, late, stream_time


@given(WINDOWS, RECORDS)
def test_last_updates_equal_the_sums_over_each_windows_records(
    windows: Windows, records: list[tuple[str, int | None, int]]
):
    run = OneOperator(sums(windows, retention=100_000))
    last: dict[tuple[str, int], tuple[int, int]] = {}

    for key, value, time in records:
        for windowed, new, _, timestamp, _, _ in run.pipe(key, value, time):
            last[windowed.key, windowed.start_ms] = (new, timestamp)

    totals, late, _ = model(windows, records)
    assert last == totals
    assert run.dropped["late"] == late


@given(WINDOWS, RECORDS)
def test_emit_on_close_emits_the_closed_windows_of_the_model_once(
    windows: Windows, records: list[tuple[str, int | None, int]]
):
    run = OneOperator(sums(windows, emit="close", retention=100_000))
    final: list[tuple[tuple[str, int], tuple[int, int]]] = []

    for key, value, time in records:
        final += [
            ((windowed.key, windowed.start_ms), (new, timestamp))
            for windowed, new, _, timestamp, _, _ in run.pipe(key, value, time)
        ]

    totals, _, stream_time = model(windows, records)
    closed = stream_time - windows.grace_ms - windows.size_ms
    expected = {where: total for where, total in totals.items() if where[1] <= closed}
    assert dict(final) == expected
    assert len(final) == len(expected)


@given(WINDOWS, RECORDS, st.integers(1, 10))
def test_emit_on_commit_forwards_the_last_update_of_each_block(
    windows: Windows, records: list[tuple[str, int | None, int]], block: int
):
    held = sums(windows, emit="commit", retention=100_000)
    plain = sums(windows, retention=100_000)
    for node in (held, plain):
        node.enable_sending_old_values(force=True)
    on_commit, on_update = OneOperator(held), OneOperator(plain)
    updates: list[tuple[Any, ...]] = []
    emitted: set[Any] = set()

    for place, (key, value, time) in enumerate(records, 1):
        updates += on_update.pipe(key, value, time)
        on_commit.pipe(key, value, time)
        if place % block == 0:
            on_commit.commit()
            last = {edge[0]: edge[1] for edge in updates}
            assert {edge[0]: edge[1] for edge in on_commit.forwarded} == last
            first_old = {edge[0]: edge[2] for edge in reversed(updates)}
            # The old value of a first update is the initial one, which no commit has emitted.
            assert {edge[0]: edge[2] for edge in on_commit.take()} == {
                key: old if key in emitted else None for key, old in first_old.items()
            }
            emitted |= first_old.keys()
            updates = []


@pytest.mark.parametrize(("emit", "first"), [("update", 0), ("commit", None)])
def test_a_commit_after_each_record_differs_from_update_in_the_first_old_value(
    emit: str, first: int | None
):
    node = sums(HoppingWindows(size=ms(10), advance=ms(5)), emit=emit)
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)
    forwarded = []

    for time in (2, 7, 12, 4, 6):
        forwarded += run.pipe("a", 1, time)
        run.commit()
        forwarded += run.take()

    assert [(k.start_ms, new, old, ts) for k, new, old, ts, _, _ in forwarded] == [
        (0, 1, first, 2),
        (0, 2, 1, 7),
        (5, 1, first, 7),
        (5, 2, 1, 12),
        (10, 1, first, 12),
        (5, 3, 2, 12),
    ]
