"""Joins of a record with all, the first or the last record of another stream in an interval."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    JoinWindows,
    KStream,
    Materialized,
    StreamsBuilder,
    Topology,
)
from tests.unit.topology.operators.joins.one_match_model import RECORDS, OneMatch, Sided
from tests.unit.topology.operators.streams.late_inputs import missed

END = Sided(is_left=False, key="end", value=None, time=1_000)


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def pair(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def joined(
    left: KStream[str, str], right: KStream[str, str], *, before: int, after: int, **options: Any
) -> KStream[str, str]:
    options = {"name": "pairs", "match": "last", "value": str, **options}
    if "grace" in options:
        options["grace"] = ms(options["grace"])
    return left.interval_join(right, pair, within=(ms(before), ms(after)), **options)


def topology(*, before: int = 6, after: int = 3, **options: Any) -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    joined(left, right, before=before, after=after, **options).to("out")
    if "late" in options:
        builder.late(options["late"], key=str, value=str).to("late")
    return builder.build()


def pipe(driver: TopologyTestDriver, records: list[Sided], crash_at: int = -1) -> None:
    for number, (is_left, key, value, time) in enumerate(records):
        driver.pipe("left" if is_left else "right", key, value, timestamp=time)
        if number == crash_at:
            driver.crash(loses_disk=True)


def results(driver: TopologyTestDriver) -> list[tuple[str, str, int]]:
    return driver.read_with_timestamps("out", key=str, value=str)


JOINS = st.builds(
    OneMatch,
    before=st.sampled_from([0, 6, -2]),
    after=st.sampled_from([3, 5]),
    grace=st.sampled_from([0, 1, 7]),
    takes_last=st.booleans(),
    is_left=st.booleans(),
)


@given(records=RECORDS, join=JOINS, commit_every=st.integers(1, 4), crash_at=st.integers(0, 24))
def test_results_are_those_of_a_join_of_all_records_that_are_not_late(
    records: list[Sided], join: OneMatch, commit_every: int, crash_at: int
) -> None:
    records = [*records, END]
    made = topology(
        before=join.before,
        after=join.after,
        grace=join.grace,
        match="last" if join.takes_last else "first",
        how="left" if join.is_left else "inner",
        late="late",
    )
    with TopologyTestDriver(made, commit_every=commit_every) as driver:
        pipe(driver, records, crash_at)
        driver.advance_wall_clock(1)
        late = [one for _, one in driver.read("late", value=LateRecord[str, str | None])]
        assert (results(driver), missed(late)) == join.joined(records)
        assert driver.dropped_total == 0


def mixed(records: list[Sided], ahead: int, order: Any) -> list[Sided]:
    """The records of each side by time, read in any order in which no left record is late."""
    left, right = (
        [one for one in sorted(records, key=lambda one: one.time) if one.is_left is is_left]
        for is_left in (True, False)
    )
    found = []
    while left or right:
        may_be_right = right and (not left or right[0].time <= left[0].time + ahead)
        takes_right = may_be_right and (not left or order.random() < 0.5)
        found.append((right if takes_right else left).pop(0))
    return found


@given(records=RECORDS, join=JOINS, order=st.randoms(use_true_random=False))
def test_results_do_not_depend_on_which_side_is_read_first(
    records: list[Sided], join: OneMatch, order: Any
) -> None:
    made = topology(before=join.before, after=join.after, grace=join.grace, how="left", late="late")
    found = []
    for _ in range(2):
        with TopologyTestDriver(made) as driver:
            pipe(driver, [*mixed(records, join.after + join.grace, order), END])
            assert driver.read("late", value=LateRecord[str, str | None]) == []
            found.append(results(driver))
    assert sorted(found[0]) == sorted(found[1])


@given(records=RECORDS, how=st.sampled_from(["inner", "left", "outer"]))
def test_all_matches_are_those_of_a_join_with_windows(records: list[Sided], how: str) -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    windows = JoinWindows(before=ms(6), after=ms(3), grace=ms(2))
    method = {"inner": "join", "left": "left_join", "outer": "outer_join"}[how]
    getattr(left, method)(right, pair, windows=windows, name="pairs", value=str).to("out")
    expected, found = builder.build(), topology(match="all", how=how, grace=2)
    assert found.describe() == expected.describe()
    outputs = []
    for made in (expected, found):
        with TopologyTestDriver(made) as driver:
            pipe(driver, [*records, END])
            outputs.append(results(driver))
    assert outputs[0] == outputs[1]


def test_a_record_waits_until_stream_time_of_the_other_side_has_passed_the_end_and_the_grace() -> (
    None
):
    with TopologyTestDriver(topology(before=0, after=10, grace=5)) as driver:
        pipe(driver, [Sided(True, "a", "l", 100), Sided(False, "a", "r", 104)])
        pipe(driver, [Sided(True, "a", "later", 900), Sided(False, "b", "r", 115)])
        assert results(driver) == []
        pipe(driver, [Sided(False, "b", "r", 116)])
        assert results(driver) == [("a", "l+r", 104)]


def test_a_record_that_is_far_ahead_finds_the_matches_of_those_before_it() -> None:
    with TopologyTestDriver(topology()) as driver:
        pipe(driver, [Sided(True, "a", "l", 100), Sided(False, "a", "r", 101)])
        pipe(driver, [Sided(False, "a", "far", 500_000)])
        assert results(driver) == [("a", "l+r", 101)]


@pytest.mark.parametrize(("match", "chosen"), [("first", "r2"), ("last", "r4")])
def test_matches_out_of_order_are_chosen_by_time_and_then_by_arrival(
    match: str, chosen: str
) -> None:
    times = [("r1", 103), ("r2", 101), ("r3", 101), ("r5", 105), ("r4", 105), ("r6", 102)]
    with TopologyTestDriver(topology(after=9, match=match, grace=9)) as driver:
        pipe(driver, [Sided(True, "a", "l", 100)])
        pipe(driver, [Sided(False, "a", value, time) for value, time in times])
        pipe(driver, [END])
        assert [value for _, value, _ in results(driver)] == [f"l+{chosen}"]


def test_a_heartbeat_closes_intervals_and_is_neither_joined_nor_dropped() -> None:
    made = topology(how="left", heartbeat=lambda value: value == "beat")
    with TopologyTestDriver(made) as driver:
        pipe(driver, [Sided(True, "a", "l", 100), Sided(False, "a", "beat", 101)])
        driver.pipe("right", None, None, timestamp=103)
        assert results(driver) == []
        driver.pipe("right", None, "beat", timestamp=104)
        assert results(driver) == [("a", "l+None", 100)]
        assert driver.dropped_total == 0


@pytest.mark.parametrize(("how", "expected"), [("inner", []), ("left", [(None, "l+None", 5)])])
def test_a_null_key_has_no_match(how: str, expected: list[Any]) -> None:
    with TopologyTestDriver(topology(how=how)) as driver:
        driver.pipe("left", None, "l", timestamp=5)
        driver.pipe("right", None, "r", timestamp=5)
        driver.pipe("left", "a", None, timestamp=5)
        assert results(driver) == expected
        dropped = {(one.node, one.reason.value): one.count for one in driver.dropped if one.count}
        assert dropped == {
            ("pairs-right-side", "null_key"): 1,
            ("pairs-left-side", "null_value"): 1,
            **({("pairs-left-side", "null_key"): 1} if how == "inner" else {}),
        }


def test_without_a_late_stream_late_records_are_joined_with_what_is_still_stored() -> None:
    with TopologyTestDriver(topology(before=10, after=0, how="left")) as driver:
        pipe(driver, [Sided(True, "a", "l1", 50), Sided(False, "a", "r1", 55)])
        pipe(driver, [Sided(False, "a", "r2", 49)])  # missed by l1, not by l3
        pipe(driver, [Sided(True, "a", "l2", 51), Sided(True, "a", "l3", 58), END])
        assert results(driver) == [
            *(("a", "l1+None", 50), ("a", "l2+r2", 51)),
            ("a", "l3+r1", 58),
        ]
        assert driver.task.late_joins.total() == 2
        assert driver.dropped_total == 0


def test_results_have_headers_and_place_of_the_left_record() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    places: list[Any] = []
    pairs = joined(left, right, before=0, after=5)
    pairs.to(lambda key, value, context: places.append(context) or "out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("left", "b", "skipped", timestamp=0)
        driver.pipe("left", "a", "l", timestamp=1, headers=[("from", b"left")])
        driver.pipe("right", "a", "r", timestamp=2, headers=[("from", b"right")])
        driver.pipe("right", "a", "r", timestamp=20)
        (place,) = places
        assert (place.topic, place.offset, place.headers) == ("left", 1, [("from", b"left")])


def test_a_joiner_may_change_its_arguments() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=list[str])

    def both(left: list[str], right: list[str]) -> list[str]:
        left += right
        right.clear()
        return left

    within = ms(5), ms(5)
    pairs = stream.interval_join(stream, both, within=within, match="last", name="pairs")
    pairs.to("out", value=list[str])
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", ["x"], 1), ("a", ["y"], 2), ("a", ["end"], 20)])
        assert driver.read("out", value=list[str]) == [("a", ["x", "y"]), ("a", ["y", "y"])]


def test_changed_keys_go_through_repartition_topics() -> None:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=str) for topic in ("left", "right"))
    moved = [one.select_key(lambda value: value[:1], key=str) for one in (left, right)]
    pairs = moved[0].interval_join(
        moved[1], pair, within=(ms(0), ms(5)), match="first", how="left", name="pairs"
    )
    pairs.to("out", key=str, value=str)
    made = builder.build()
    with TopologyTestDriver(made) as driver:
        driver.pipe("left", "x", "a1", timestamp=1)
        driver.pipe("right", "y", "a2", timestamp=2)
        driver.pipe("right", "y", "b", timestamp=20)
        assert driver.read("out", key=str, value=str) == [("a", "a1+a2")]
    assert {"pairs-left-repartition", "pairs-right-repartition"} <= {
        topic.name for part in made.sub_topologies for topic in part.source_topics
    }


def test_store_names_storage_and_logging_come_from_the_store() -> None:
    store = Materialized("s", in_memory=True, logged=False)
    specs = {
        spec.name: spec
        for part in topology(store=store, grace=4).sub_topologies
        for spec in part.stores
    }
    assert {name: (one.in_memory, one.is_logged) for name, one in specs.items()} == {
        "s-left-buffer": (True, False),
        "s-right-store": (True, False),
    }
    assert specs["s-right-store"].retention_ms == 6 + 3 + 4 + 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"match": "nearest"}, 'match must be "all", "first" or "last"'),
        ({"how": "right"}, 'how must be "inner", "left" or "outer"'),
        ({"how": "outer"}, 'Use how="left", or match="all"'),
        ({"match": "all", "heartbeat": bool}, "filter"),
        ({"match": "all", "before": 0, "after": 0}, "Give a grace of at least 1 ms"),
        ({"before": -5, "after": 3}, "no record can match"),
        ({"name": ""}, "name"),
        ({"tolerance": ms(1)}, "an interval join has no option tolerance"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        topology(**options)


@pytest.mark.parametrize("within", [None, ms(5), (ms(1), ms(2), ms(3)), JoinWindows(after=ms(5))])
def test_an_interval_is_two_timedeltas(within: Any) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    with pytest.raises(TopologyError, match="needs within="):
        stream.interval_join(stream, pair, within=within, name="pairs")


def test_a_table_has_no_interval() -> None:
    builder = StreamsBuilder()
    table: Any = builder.table("rows", key=str, value=str, store="rows")
    with pytest.raises(TopologyError, match="interval_join takes a KStream"):
        builder.stream("in", key=str, value=str).interval_join(
            table, pair, within=(ms(1), ms(1)), name="pairs"
        )
