from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstate import serdes
from logstate.contracts.records import Windowed
from logstate.contracts.stores import StoreSpec
from logstate.topology.declaring.windows import SessionWindows
from logstate.topology.operators.aggregates.session_aggregate import SessionAggregateNode
from tests.unit.topology.operators.one_operator import OneOperator


def sessions(gap: int, grace: int, **options: Any) -> SessionAggregateNode:
    value = options.pop("value", int)
    spec = StoreSpec(
        "sums",
        "session",
        serdes.string,
        serdes.serde_of(value, what="the sums"),
        retention_ms=options.pop("retention", 100_000),
        keep_at_retention=options.get("emit") == "close",
    )
    settings: dict[str, Any] = {
        "initializer": lambda: 0,
        "aggregator": lambda key, value, total: total + (value or 0),
        "merger": lambda key, one, other: one + other,
        "emit": "update",
    }
    windows = SessionWindows(gap=timedelta(milliseconds=gap), grace=timedelta(milliseconds=grace))
    return SessionAggregateNode("agg", store=spec, windows=windows, **settings | options)


def rows(forwarded: list[tuple[Any, ...]]) -> list[tuple[int, int, Any, int]]:
    return [(k.start_ms, k.end_ms, new, ts) for k, new, _, ts, _, _ in forwarded]


# V3 of the semantics notes, with a long retention.
def test_sessions_grow_merge_and_leave_tombstones():
    run = OneOperator(sessions(5, 10))

    updates = [rows(run.pipe("a", 1, time)) for time in (10, 16, 15, 40, 25, 24, 45, 35, 29)]

    assert updates == [
        [(10, 10, 1, 10)],
        [(16, 16, 1, 16)],
        [(10, 10, None, 10), (16, 16, None, 16), (10, 16, 3, 16)],
        [(40, 40, 1, 40)],
        [(25, 25, 1, 25)],
        [(25, 25, None, 25), (24, 25, 2, 25)],
        [(40, 40, None, 40), (40, 45, 2, 45)],
        [(40, 45, None, 45), (35, 45, 3, 45)],
        [],
    ]
    assert run.dropped == {"late": 1}


def test_null_keys_are_dropped_and_null_values_reach_the_aggregator():
    run = OneOperator(sessions(5, 0, aggregator=lambda key, value, count: count + 1))

    assert run.pipe(None, 1, 1) == []
    assert rows(run.pipe("a", None, 1)) == [(1, 1, 1, 1)]
    assert run.dropped == {"null_key": 1}


def test_a_null_result_removes_the_session():
    run = OneOperator(sessions(5, 0, aggregator=lambda key, value, total: value))
    run.pipe("a", 1, 1)

    assert rows(run.pipe("a", None, 3)) == [(1, 1, None, 1), (1, 3, None, 3)]
    assert list(run.store("sums").all()) == []


def test_aggregates_merge_in_store_order_and_the_record_comes_last():
    run = OneOperator(
        sessions(
            5,
            0,
            value=str,
            initializer=lambda: "",
            aggregator=lambda key, value, text: f"{text}+{value}",
            merger=lambda key, one, other: f"({one}|{other})",
        )
    )
    run.pipe("a", "x", 10)
    run.pipe("a", "y", 18)

    assert rows(run.pipe("a", "z", 14))[-1] == (10, 18, "((|+x)|+y)+z", 18)


def test_tombstones_carry_the_old_value_and_new_sessions_none():
    node = sessions(5, 0)
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)

    updates = [[edge[1:3] for edge in run.pipe("a", 1, time)] for time in (10, 10, 12)]

    assert updates == [[(1, None)], [(2, None)], [(None, 2), (3, None)]]


def test_a_merger_that_changes_its_argument_leaves_the_old_value_alone():
    def merge(key: str, one: list[int], other: list[int]) -> list[int]:
        other[:0] = one
        return other

    node = sessions(
        5,
        0,
        value=list,
        initializer=list,
        aggregator=lambda key, value, found: [*found, value],
        merger=merge,
    )
    node.enable_sending_old_values(force=True)
    run = OneOperator(node)
    run.pipe("a", 1, 10)
    run.pipe("a", 2, 18)

    assert [edge[1:3] for edge in run.pipe("a", 3, 14)] == [
        (None, [1]),
        (None, [2]),
        ([1, 2, 3], None),
    ]


def test_rows_are_logged_with_the_time_of_the_record_and_forwarded_without_its_headers():
    run = OneOperator(sessions(5, 10))
    run.pipe("a", 1, 10, [("h", b"1")])
    forwarded = run.pipe("a", 1, 7, [("h", b"2")])

    assert [edge[4] for edge in forwarded] == [None, None]
    logged = run.commit()["sums"]
    assert [(write.value is None, write.timestamp) for write in logged] == [
        (False, 10),
        (True, 7),
        (False, 7),
    ]


def test_emit_on_close_forwards_final_sessions_by_end_and_key():
    run = OneOperator(sessions(5, 2, emit="close"))
    for key, time in (("b", 8), ("b", 4), ("a", 8), ("a", 2), ("c", 9)):
        assert run.pipe(key, 1, time) == []

    assert [(edge[0], edge[1]) for edge in run.pipe("c", 1, 16)] == [
        (Windowed("a", 2, 2), 1),
        (Windowed("b", 4, 8), 2),
        (Windowed("a", 8, 8), 1),
    ]
    assert run.pipe("c", 1, 16) == []


# ------------------------------------------------------------------ against a model

RECORDS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 60)), max_size=30
)


def session_around(time: int, gap: int, accepted: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The accepted (value, time) records that are linked to ``time`` by steps of at most gap."""
    reached, rest = [], list(accepted)
    lower = upper = time
    while near := [record for record in rest if lower - gap <= record[1] <= upper + gap]:
        reached += near
        rest = [record for record in rest if record not in near]
        lower = min([lower, *(t for _, t in near)])
        upper = max([upper, *(t for _, t in near)])
    return reached


def model(
    gap: int, grace: int, records: list[tuple[str, int, int]]
) -> tuple[dict[Windowed[str], int], int]:
    """Sessions as the connected parts of what was accepted; and how many records were late."""
    accepted: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    late, stream_time = 0, -1
    for key, value, time in records:
        stream_time = max(stream_time, time)
        end = max([time, *(t for _, t in session_around(time, gap, accepted[key]))])
        if end < stream_time - grace - gap:
            late += 1
        else:
            accepted[key].append((value, time))
    found = {}
    for key, kept in accepted.items():
        for _, time in kept:
            linked = session_around(time, gap, kept)
            times = [t for _, t in linked]
            found[Windowed(key, min(times), max(times))] = sum(v for v, _ in linked)
    return found, late


@given(st.integers(1, 10), st.integers(0, 20), RECORDS)
def test_what_downstream_knows_equals_the_sessions_of_the_model(
    gap: int, grace: int, records: list[tuple[str, int, int]]
):
    run = OneOperator(sessions(gap, grace))
    known: dict[Windowed[str], int] = {}

    for key, value, time in records:
        for session, new, _, timestamp, _, _ in run.pipe(key, value, time):
            assert timestamp == session.end_ms
            if new is None:
                del known[session]
            else:
                known[session] = new

    expected, late = model(gap, grace, records)
    assert known == expected
    assert run.dropped["late"] == late
    assert dict(run.store("sums").all()) == expected


@given(st.integers(1, 10), st.integers(0, 20), RECORDS)
def test_emit_on_close_emits_the_closed_sessions_of_the_model_once(
    gap: int, grace: int, records: list[tuple[str, int, int]]
):
    run = OneOperator(sessions(gap, grace, emit="close"))
    final = []

    for key, value, time in [*records, ("c", 1, 1_000)]:
        final += [(session, new) for session, new, *_ in run.pipe(key, value, time)]

    expected, _ = model(gap, grace, records)
    assert expected.items() <= dict(final).items()
    assert len(final) == len(dict(final))
    for session in dict(final).keys() - expected.keys():  # final, and then it grew once more
        assert any(
            whole.key == session.key and whole.start_ms <= session.start_ms <= whole.end_ms
            for whole in expected
        )


def test_a_final_session_can_be_joined_by_a_record_whose_own_session_is_still_open():
    run = OneOperator(sessions(1, 4, emit="close"))
    run.pipe("a", 1, 0)
    first = run.pipe("a", 1, 6)  # closes what ended before 1
    run.pipe("a", 1, 1)

    assert rows(first) == [(0, 0, 1, 0)]
    assert rows(run.pipe("a", 1, 7)) == [(0, 1, 2, 1)]
