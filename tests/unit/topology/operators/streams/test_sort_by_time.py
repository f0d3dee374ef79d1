"""Sorting by event time, compared with ``sorted``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.drops import DropReason
from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.contracts.stores import StoreSpec
from logstate.serdes import string
from logstate.testing import TopologyTestDriver, simulate
from logstate.topology import Materialized, StreamsBuilder, Topology, index
from logstate.topology.operators.streams.sort_by_time import SortByTimeNode
from logstate.topology.operators.streams.waiting_record import (
    WaitingKey,
    WaitingKeySerde,
    WaitingRecord,
    WaitingRecordSerde,
)
from tests.unit.topology.operators.crash import results, results_through_a_crash
from tests.unit.topology.operators.one_operator import OneOperator

GRACE_MS = 10
#: key, value, time
Piped = tuple["str | None", "str | None", int]

RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", None]),
        st.sampled_from(["x", "y", None]),
        st.integers(0, 60),
    ),
    max_size=40,
)


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def sorting() -> SortByTimeNode:
    spec = StoreSpec(
        "waiting", "timestamped_key_value", WaitingKeySerde(string), WaitingRecordSerde(string),
        with_headers=True,
    )  # fmt: skip
    return SortByTimeNode("sort", grace_ms=GRACE_MS, store=spec)


def process(run: OneOperator, record: Piped) -> list[tuple[Any, ...]]:
    key, value, time = record
    return run.pipe(key, value, time, [("n", str(run.offset + 1).encode())])


def _due(waiting: list[Any], until: int) -> list[Any]:
    """Take what is due out of the list, in order; sorted() is stable."""
    due = sorted((one for one in waiting if one[2] <= until), key=lambda one: one[2])
    waiting[:] = [one for one in waiting if one[2] > until]
    return due


@given(records=RECORDS)
def test_records_are_forwarded_as_sorted_would_have_them(records: list[Piped]) -> None:
    run, waiting, clock, sent, late = OneOperator(sorting()), list[Any](), -1, -1, 0
    places: list[Any] = []
    for number, record in enumerate(records):
        found = process(run, record)
        expected = []
        if record[2] < sent:
            late += 1
        else:
            waiting.append((*record, [("n", str(number).encode())]))
            clock = max(clock, record[2])
            expected = _due(waiting, clock - GRACE_MS)
        assert found == expected
        sent = max([sent, *(one[2] for one in expected)])
        places += [("in", 0, int(one[3][0][1])) for one in expected]
    assert run.forwarded_from == places
    assert run.dropped[DropReason.LATE] == late
    assert run.store("waiting").approximate_num_entries() == len(waiting)


@given(records=RECORDS)
def test_with_a_grace_as_long_as_the_disorder_nothing_is_late(records: list[Piped]) -> None:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).sort_by_time(ms(60), store="waiting").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", records)
        driver.pipe("in", "end", "end", timestamp=120)
        found = driver.read("out", key=str, value=str)
        assert found == [record[:2] for record in sorted(records, key=lambda one: one[2])]
        assert driver.dropped_total == 0


@given(records=RECORDS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 30))
def test_a_crash_changes_nothing(records: list[Piped], commit_every: int, crash_at: int) -> None:
    undisturbed, expected = results(sorting, process, records)
    run, found = results_through_a_crash(
        sorting, process, records, commit_every=commit_every, crash_at=crash_at
    )

    assert found == expected
    assert list(run.store("waiting").all()) == list(undisturbed.store("waiting").all())


@given(records=RECORDS, time=st.integers(0, 90))
def test_a_record_that_is_rolled_back_neither_waits_nor_lets_others_go(
    records: list[Piped], time: int
) -> None:
    runs = [OneOperator(sorting()) for _ in range(2)]
    half = len(records) // 2
    for run in runs:
        for record in records[:half]:
            process(run, record)
    runs[0].begin_journal()
    process(runs[0], ("a", "x", time))
    runs[0].end_journal(rollback=True)
    runs[0].offset -= 1

    for record in records[half:]:
        assert process(runs[0], record) == process(runs[1], record)


def test_a_start_without_clocks_continues_the_numbers_of_its_rows() -> None:
    run = OneOperator(sorting())
    for value in "abc":
        process(run, ("k", value, 5))
    run.commit()
    run.committed_clocks = {}
    after = run.successor(sorting())
    process(after, ("k", "d", 5))

    assert [value for _, value, _, _ in process(after, ("k", "e", 50))] == ["a", "b", "c", "d"]


def test_more_records_than_are_read_ahead_leave_in_one_step() -> None:
    run = OneOperator(sorting())
    times = [7 * n % 251 + 1_000 for n in range(250)]
    for time in [1_250, *times]:
        process(run, ("k", str(time), max(time, 1_241)))
    found = process(run, ("k", "end", 9_000))

    assert len(found) == 251
    assert [one[2] for one in found] == sorted(one[2] for one in found)
    assert run.store("waiting").approximate_num_entries() == 1


def test_late_records_become_a_stream_and_idle_inputs_let_the_last_records_go() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.sort_by_time(ms(10), store="waiting", close_on_idle=ms(30), late="too-late").to("out")
    builder.late("too-late").to("late")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", "x", 20), ("a", "y", 31), ("b", "z", 19), ("c", "w", 25)])
        assert driver.read("out", value=str) == [("a", "x")]
        ((key, late),) = driver.read("late", value=LateRecord[str, str])
        assert (key, late.value, late.by_ms) == ("b", "z", 1)
        driver.advance_wall_clock(29)
        assert driver.read("out", value=str) == []
        driver.advance_wall_clock(1)
        assert driver.read("out", value=str) == [("c", "w"), ("a", "y")]
        driver.pipe("in", "a", "now", timestamp=31)
        assert driver.read("out", value=str) == [("a", "now")]


def test_rows_on_a_topic_come_back_with_null_keys_values_and_places() -> None:
    keys, values = WaitingKeySerde(string), WaitingRecordSerde(string)
    for key in (WaitingKey(5, 1, None), WaitingKey(5, 1, ""), WaitingKey(2**40, 2**40, "k")):
        data = keys.serializer("t", True)(key)
        assert keys.deserializer("t", True)(data) == key
    for value in (
        WaitingRecord(None, "in", 3, 2**40),
        WaitingRecord("", None, -1, -1),
        WaitingRecord("v", "in", 0, 0),
    ):
        data = values.serializer("t", False)(value)
        assert values.deserializer("t", False)(data) == value


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, 'needs a name: the store of its waiting records.*store="..." or name="..."'),
        ({"store": "s", "within": 5}, "within"),
        ({"store": Materialized("s", capacity=9)}, "has a capacity: it would remove"),
        ({"store": Materialized("s", history=ms(9))}, "has a history"),
        ({"store": Materialized("s", ttl=ms(9))}, "has a ttl"),
        ({"store": Materialized("s", retention=ms(9))}, "retention"),
        ({"store": Materialized("s", headers=False)}, "has headers=False"),
        ({"store": Materialized("s", indexes={"i": index(len, int)})}, "indexes"),
        ({"store": "s", "close_on_idle": ms(0)}, "close_on_idle"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        StreamsBuilder().stream("in", key=str, value=str).sort_by_time(ms(5), **options)


@pytest.mark.parametrize("grace", [-ms(1), 5, None])
def test_a_grace_is_a_timedelta_that_is_not_negative(grace: Any) -> None:
    with pytest.raises(TopologyError, match="grace of sort_by_time"):
        StreamsBuilder().stream("in", key=str, value=str).sort_by_time(grace, store="s")


def sorted_words() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    words.sort_by_time(ms(9), store=Materialized("waiting", in_memory=True)).to("out")
    words.sort_by_time(ms(3), store="short").to("other")
    return builder.build()


@pytest.mark.no_cover  # many schedules go through the same lines
def test_no_crash_no_move_and_no_guarantee_makes_a_difference() -> None:
    inputs = [("in", f"k{n % 7}", f"v{n}", n * 4 - (n * 7) % 23 + 30) for n in range(60)]

    result = simulate(sorted_words(), inputs, schedules=20)

    assert result.counters["crashes"] > 5
    assert result.counters["outputs_compared"] > 100
