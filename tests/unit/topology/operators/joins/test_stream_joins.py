from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.topology.operators.joins.stream_join_model import LEFT, Event, JoinModel, Result
from tests.unit.topology.operators.joins.stream_join_run import (
    Kind,
    SelfJoin,
    StreamJoin,
    left,
    process,
    right,
    spans,
)
from tests.unit.topology.operators.one_operator import OneOperator

EVENTS = st.lists(
    st.builds(
        Event,
        st.booleans(),
        st.sampled_from(["a", "aa", "b", None]),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 40),
    ),
    max_size=30,
)
SPANS = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 5))


def numbered(events: list[Event]) -> list[Event]:
    """Every value tells which record it was."""
    return [
        event if event.value is None else event._replace(value=f"{event.value}{index}")
        for index, event in enumerate(events)
    ]


def joined(kind: Kind, before: int, after: int, grace: int = 0, **options: Any) -> OneOperator:
    return OneOperator(StreamJoin(kind, spans(before, after, grace), **options))


def run_all(run: OneOperator, events: list[Event]) -> list[Result]:
    return [result for event in events for result in process(run, event)]


# ---------------------------------------------------------------------- who meets whom


def test_a_partner_may_be_as_far_away_as_the_window_says_and_no_further():
    run = joined("inner", 3, 5, grace=20)
    run_all(run, [right("a", "early", 7), right("a", "late", 15), right("a", "too late", 16)])

    assert process(run, left("a", "l", 10)) == [
        Result("a", ("l", "early"), 10),
        Result("a", ("l", "late"), 15),
    ]


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_a_window_that_ends_before_time_zero_ends_at_zero_as_in_kafka_streams(kind: Kind):
    run = joined(kind, 10, -5, grace=100)
    assert process(run, left("a", "waits, as its window ends at 0", 0)) == []
    run_all(run, [right("b", "r0", 0), right("b", "r1", 1)])

    assert process(run, left("b", "l", 3)) == [Result("b", ("l", "r0"), 3)]


def test_the_window_is_mirrored_for_the_right_side():
    run = joined("inner", 3, 5, grace=20)
    run_all(run, [left("a", "l4", 4), left("a", "l5", 5), left("a", "l13", 13)])

    assert [r.pair[0] for r in process(run, right("a", "r", 10))] == ["l5", "l13"]


def test_the_result_has_the_larger_timestamp_and_the_headers_of_the_later_arrival():
    run = joined("inner", 5, 5)
    run.pipe("a", (True, "l"), 12, [("h", b"left")])

    assert run.pipe("a", (False, "r"), 10, [("h", b"right")]) == [
        ("a", ("l", "r"), 12, [("h", b"right")])
    ]


def test_null_keys_and_null_values_are_dropped_and_counted():
    run = joined("inner", 5, 5)

    assert run_all(run, [left(None, "l", 1), left("a", None, 1), right(None, None, 1)]) == []
    assert run.dropped == {"null_key": 2, "null_value": 1}


def test_windows_and_grace_of_zero_join_nothing_as_in_kafka_streams():
    run = joined("inner", 0, 0)

    assert run_all(run, [left("a", "l", 5), right("a", "r", 5)]) == []


# ---------------------------------------------------------------------- unmatched rows


def test_an_unmatched_row_leaves_once_stream_time_has_passed_window_and_grace():
    run = joined("left", 5, 5, grace=2)
    process(run, left("a", "l", 20))

    assert process(run, right("b", "r", 27)) == []
    assert process(run, right("b", "r", 28)) == [Result("a", ("l", None), 20)]


def test_a_match_takes_a_waiting_row_away():
    run = joined("left", 5, 5, grace=2)

    assert run_all(run, [left("a", "l", 10), right("a", "r", 12), right("b", "r", 90)]) == [
        Result("a", ("l", "r"), 12)
    ]


def test_rows_with_the_same_key_and_time_wait_and_leave_together():
    run = joined("left", 5, 5)

    assert run_all(run, [left("a", "1", 10), left("a", "2", 10), right("b", "r", 90)]) == [
        Result("a", ("1", None), 10),
        Result("a", ("2", None), 10),
    ]


def test_a_late_row_without_partner_is_forwarded_although_its_grace_is_not_over():
    run = joined("left", 5, 5, grace=20)
    process(run, right("b", "r", 28))

    assert process(run, left("a", "l", 21)) == [Result("a", ("l", None), 21)]
    assert process(run, right("a", "r", 24)) == [Result("a", ("l", "r"), 24)]


def test_a_null_key_is_forwarded_at_once_where_unmatched_rows_are_results():
    assert process(joined("left", 5, 5), left(None, "l", 3)) == [Result(None, ("l", None), 3)]
    assert process(joined("left", 5, 5), right(None, "r", 3)) == []
    assert process(joined("outer", 5, 5), right(None, "r", 3)) == [Result(None, (None, "r"), 3)]


def test_the_newest_waiting_row_decides_when_to_look_again():
    run = joined("left", 5, 5)
    run_all(run, [left("a", "1", 10), left("a", "2", 14), left("a", "3", 15)])

    assert process(run, right("b", "r", 16)) == [Result("a", ("1", None), 10)]
    assert process(run, right("b", "r", 20)) == []
    assert process(run, right("b", "r", 21)) == [
        Result("a", ("2", None), 14),
        Result("a", ("3", None), 15),
    ]


def test_looks_for_expired_rows_keep_their_distance_in_wall_clock_time():
    run = joined("left", 5, 5, emit_interval_ms=100)
    process(run, left("a", "1", 10))
    run.clock.advance(99)

    assert process(run, right("b", "r", 50)) == []
    run.clock.advance(1)
    assert process(run, right("b", "r", 51)) == [Result("a", ("1", None), 10)]


def test_expired_rows_carry_the_headers_of_the_record_that_made_them_leave():
    run = joined("outer", 5, 5)
    run.pipe("a", (False, "r"), 10, [("h", b"own")])

    assert run.pipe("b", (True, "l"), 50, [("h", b"trigger")]) == [
        ("a", (None, "r"), 10, [("h", b"trigger")])
    ]


def test_what_waits_is_logged_with_the_time_of_the_record_that_changed_it():
    run = joined("left", 5, 5)
    run_all(run, [left("a", "l", 10), right("a", "r", 12)])
    key = bytes(7) + b"\x0a\x01a"

    assert [(w.key, w.value, w.timestamp) for w in run.commit()["outer-store"]] == [
        (key, b"\x01\x00\x00\x00\x01\x00\x00\x00\x02\x01l", 10),
        (key, None, 12),
    ]


# ---------------------------------------------------------------------- late records


def test_a_record_that_comes_when_its_partners_have_expired_is_counted_and_goes_on():
    run = joined("inner", 5, 5, grace=10)
    run_all(run, [right("a", "r", 20), right("a", "ahead", 100)])

    assert process(run, left("a", "l", 20)) == []
    assert run.late_joins == {"right-store": 1}
    assert run.dropped == {}
    assert [value for _, value in run.store("left-store").fetch_range("a", 0, 99)] == ["l"]


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_a_record_is_in_time_until_the_other_side_has_passed_its_window_and_the_grace(kind: Kind):
    run = joined(kind, 3, 5, grace=10)
    process(run, right("b", "ahead", 35))

    process(run, left("a", "l", 20))  # may meet records up to 25, which wait until 35
    assert run.late_joins == {}
    process(run, left("a", "l", 19))
    assert run.late_joins == {"right-store": 1}


def test_whoever_runs_ahead_is_not_late():
    run = joined("outer", 5, 5)

    run_all(run, [left("a", "l", 1), right("a", "r", 1_000), right("a", "r", 2_000)])
    assert run.late_joins == {}
    process(run, left("a", "l", 2))
    assert run.late_joins == {"right-store": 1}


@given(
    events=st.lists(
        st.builds(Event, st.booleans(), st.sampled_from("ab"), st.just("x"), st.integers(0, 40)),
        max_size=30,
    ),
    span=SPANS,
)
def test_no_pair_is_missing_but_of_records_that_are_counted_as_late(
    events: list[Event], span: tuple[int, int, int]
):
    model, run = JoinModel("inner", *span), joined("inner", *span)
    for event in numbered(events):
        late = run.late_joins.total()
        clock = model.clocks[not event.side]
        kept = list(model.kept)
        found = {result.pair for result in process(run, event)}
        model.process(event)
        if run.late_joins.total() > late:
            continue
        for row in kept:
            distance = event.time - row.time if event.side is LEFT else row.time - event.time
            is_partner = (row.side, row.key) == (not event.side, event.key)
            if not is_partner or not -span[1] <= distance <= span[0]:
                continue
            # A store hides a row when it is exactly as old as the retention.
            is_at_the_edge = row.time == clock - sum(span)
            pair = model.pair(event.side, str(event.value), row.value)
            assert pair in found or is_at_the_edge


# ---------------------------------------------------------------------- against the model


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
@pytest.mark.parametrize("in_memory", [False, True])
@given(events=EVENTS, span=SPANS)
def test_a_join_equals_the_model(
    kind: Kind, in_memory: bool, events: list[Event], span: tuple[int, int, int]
):
    model = JoinModel(kind, *span, in_memory=in_memory)
    run = joined(kind, *span, in_memory=in_memory)

    for event in numbered(events):
        assert process(run, event) == model.process(event)
    if kind != "inner":
        assert [(time, value) for time, _, _, value in run.store("outer-store").all()] == [
            (row.time, row.value) for row in sorted(model.waiting)
        ]


@pytest.mark.parametrize("kind", ["left", "outer"])
@given(events=EVENTS, span=SPANS)
def test_matches_are_those_of_the_inner_join(
    kind: Kind, events: list[Event], span: tuple[int, int, int]
):
    events = numbered(events)
    matches = [r for r in run_all(joined(kind, *span), events) if None not in r.pair]

    assert matches == run_all(joined("inner", *span), events)


@given(events=EVENTS, span=SPANS)
def test_a_record_is_unmatched_at_most_once(events: list[Event], span: tuple[int, int, int]):
    results = run_all(joined("outer", *span), numbered(events))
    unmatched = [result.pair for result in results if None in result.pair]

    assert len(unmatched) == len(set(unmatched))


@given(events=EVENTS, span=SPANS, end=st.integers(41, 60))
def test_in_the_end_every_record_has_had_its_result(
    events: list[Event], span: tuple[int, int, int], end: int
):
    run = joined("outer", *span)
    events = numbered(events)
    results = run_all(run, events)
    # Two looks: the first may have been postponed by what it came by.
    results += run_all(run, [left("end", "e1", end + 100), left("end", "e2", end + 200)])
    seen = {value for result in results for value in result.pair}

    assert {event.value for event in events if event.value is not None} <= seen


# ---------------------------------------------------------------------- the self-join


def self_joined(before: int, after: int, grace: int = 0) -> OneOperator:
    return OneOperator(SelfJoin(spans(before, after, grace)))


def pairs(run: OneOperator, key: str | None, value: str | None, time: int) -> list[Any]:
    return [(edge[1], edge[2]) for edge in run.pipe(key, value, time)]


def test_a_record_of_a_self_join_meets_earlier_ones_twice_and_itself_once():
    run = self_joined(5, 5)

    assert pairs(run, "a", "1", 10) == [(("1", "1"), 10)]
    assert pairs(run, "a", "2", 12) == [
        (("2", "1"), 12),
        (("1", "2"), 12),
        (("2", "2"), 12),
    ]


def test_a_record_meets_itself_before_the_first_newer_partner():
    run = self_joined(5, 5)
    pairs(run, "a", "new", 12)

    assert pairs(run, "a", "old", 10) == [
        (("old", "new"), 12),
        (("old", "old"), 10),
        (("new", "old"), 12),
    ]


@pytest.mark.parametrize(("before", "after", "pair"), [(10, -5, "yx"), (-5, 10, "xy")])
def test_the_windows_of_a_self_join_end_at_time_zero_or_later(before: int, after: int, pair: str):
    run = self_joined(before, after, grace=100)
    pairs(run, "a", "x", 0)

    assert pairs(run, "a", "y", 3) == [(tuple(pair), 3), (("y", "y"), 3)]


def test_a_record_that_is_out_of_the_retention_does_not_meet_itself():
    run = self_joined(2, 2)
    pairs(run, "a", "new", 50)

    assert pairs(run, "a", "old", 46) == []


def test_a_self_join_drops_null_keys_and_values():
    run = self_joined(5, 5)

    assert pairs(run, None, "1", 10) == []
    assert pairs(run, "a", None, 10) == []
    assert run.dropped == {"null_key": 1, "null_value": 1}


@given(
    events=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=20),
    span=SPANS,
)
def test_a_self_join_finds_the_pairs_that_the_rule_says(
    events: list[tuple[str, int]], span: tuple[int, int, int]
):
    before, after, grace = span
    run = self_joined(*span)
    retention = before + after + grace
    kept: list[tuple[str, str, int]] = []
    newest = -1
    for index, (key, time) in enumerate(events):
        value = f"v{index}"
        visible = [row for row in kept if row[2] >= newest - retention + 1 and row[0] == key]
        expected = [
            ((value, other), max(time, at))
            for _, other, at in visible
            if time - before <= at <= time + after
        ]
        expected += [
            ((other, value), max(time, at))
            for _, other, at in visible
            if at - before <= time <= at + after
        ]
        newest = max(newest, time)
        if time > newest - retention + 1:
            expected.append(((value, value), time))
        kept.append((key, value, time))

        assert sorted(pairs(run, key, value, time)) == sorted(expected)


def test_a_record_that_comes_after_its_window_and_the_grace_is_counted():
    run = self_joined(5, 3, 10)
    pairs(run, "a", "ahead", 33)

    pairs(run, "a", "in time", 20)
    assert run.late_joins == {}
    pairs(run, "a", "late", 19)
    assert run.late_joins == {"own-store": 1}
