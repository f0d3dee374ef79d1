"""The first record of each key, or key and id: of all time, and of each window."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.drops import DropReason
from logstate.contracts.errors import TopologyError
from logstate.contracts.late_record import LateRecord
from logstate.contracts.stores import StoreSpec
from logstate.serdes import string
from logstate.serdes.scalars import boolean
from logstate.testing import TopologyTestDriver, simulate
from logstate.topology import (
    HoppingWindows,
    Materialized,
    StreamsBuilder,
    Topology,
    TumblingWindows,
)
from logstate.topology.operators.streams.distinct import DistinctNode
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde
from tests.unit.topology.operators.crash import results, results_through_a_crash
from tests.unit.topology.operators.one_operator import OneOperator

SIZE_MS, GRACE_MS = 10, 5
#: key, id, time
Visit = tuple["str | None", "str | None", int]


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


WINDOWS = TumblingWindows(size=ms(SIZE_MS), grace=ms(GRACE_MS))
VISITS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y", None]), st.integers(0, 60)
    ),
    max_size=40,
)


def first_of(*, by_id: bool = False, in_windows: bool = False) -> DistinctNode:
    """Its records' values are their ids."""
    keys = KeyAndIdSerde(string, string) if by_id else string
    spec = StoreSpec("seen", "timestamped_key_value", keys, boolean)
    if in_windows:
        spec = StoreSpec(
            "seen", "timestamped_window", keys, boolean,
            window_size_ms=SIZE_MS, advance_ms=SIZE_MS, retention_ms=SIZE_MS + GRACE_MS,
        )  # fmt: skip
    return DistinctNode(
        "first",
        store=spec,
        windows=WINDOWS if in_windows else None,
        id_selector=(lambda _, value: value) if by_id else None,
    )


NODES: dict[str, Callable[[], DistinctNode]] = {
    f"by_id={by_id} in_windows={in_windows}": partial(first_of, by_id=by_id, in_windows=in_windows)
    for by_id in (False, True)
    for in_windows in (False, True)
}


def process(run: OneOperator, visit: Visit) -> list[tuple[Any, ...]]:
    return run.pipe(*visit)


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("in_windows", [False, True])
@given(visits=VISITS)
def test_the_first_to_arrive_is_forwarded_and_all_others_are_counted(
    by_id: bool, in_windows: bool, visits: list[Visit]
) -> None:
    run = OneOperator(first_of(by_id=by_id, in_windows=in_windows))
    seen, clock = set[Any](), -1
    dropped = {DropReason.DUPLICATE: 0, DropReason.LATE: 0}
    for key, id_, time in visits:
        found = process(run, (key, id_, time))
        if key is None or (by_id and id_ is None):
            assert found == [(key, id_, time, None)]
            continue
        clock = max(clock, time)
        start = time // SIZE_MS * SIZE_MS if in_windows else 0
        row = key, id_ if by_id else None, start
        if in_windows and start + SIZE_MS + GRACE_MS <= clock:
            assert found == []
            dropped[DropReason.LATE] += 1
        elif row in seen:
            assert found == []
            dropped[DropReason.DUPLICATE] += 1
        else:
            assert found == [(key, id_, time, None)]
            seen.add(row)
    assert {reason: run.dropped[reason] for reason in dropped} == dropped


@pytest.mark.parametrize("name", NODES)
@given(visits=VISITS, commit_every=st.integers(1, 5), crash_at=st.integers(0, 30))
def test_a_crash_changes_nothing(
    name: str, visits: list[Visit], commit_every: int, crash_at: int
) -> None:
    undisturbed, expected = results(NODES[name], process, visits)
    run, found = results_through_a_crash(
        NODES[name], process, visits, commit_every=commit_every, crash_at=crash_at
    )

    assert found == expected
    assert list(run.store("seen").all()) == list(undisturbed.store("seen").all())


@pytest.mark.parametrize("name", NODES)
@given(visits=VISITS, time=st.integers(0, 60))
def test_a_record_that_is_rolled_back_was_not_seen(
    name: str, visits: list[Visit], time: int
) -> None:
    runs = [OneOperator(NODES[name]()) for _ in range(2)]
    half = len(visits) // 2
    for run in runs:
        for visit in visits[:half]:
            process(run, visit)
    runs[0].begin_journal()
    process(runs[0], ("a", "x", time))
    runs[0].end_journal(rollback=True)

    for visit in visits[half:]:
        assert process(runs[0], visit) == process(runs[1], visit)


def test_late_records_of_closed_windows_become_a_stream() -> None:
    builder = StreamsBuilder()
    visits = builder.stream("in", key=str, value=str)
    visits.distinct(windows=WINDOWS, store="seen", late="too-late").to("out")
    builder.late("too-late").to("late")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", "x", 1), ("a", "y", 15), ("b", "z", 3), ("c", "w", 14)])
        assert driver.read("out", value=str) == [("a", "x"), ("a", "y"), ("c", "w")]
        ((key, late),) = driver.read("late", value=LateRecord[str, str])
        assert (key, late.value, late.by_ms) == ("b", "z", 1)
        assert driver.dropped_total == 0


def test_the_key_is_that_behind_a_repartition_topic_and_a_lost_disk_changes_nothing() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str).select_key(lambda word: word[0], key=str)
    words.distinct(name="letters").to("out")
    topology = builder.build()
    assert "Processor: letters (stores: [letters])" in str(topology.describe())
    with TopologyTestDriver(topology) as driver:
        driver.pipe_all("in", [("x", "ab", 0), ("y", "ba", 1)])
        driver.crash(loses_disk=True)
        driver.pipe_all("in", [("z", "ac", 2), ("z", "ca", 3)])
        assert driver.read("out", value=str) == [("a", "ab"), ("b", "ba"), ("c", "ca")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, 'needs a name: its store has a changelog topic.*store="..." or name="..."'),
        ({"store": "s", "id": str}, "id"),
        ({"store": "s", "by": lambda value: value}, "No serde for the id of distinct"),
        ({"store": "s", "windows": 5}, "must be TumblingWindows, found 5"),
        (
            {"store": "s", "windows": HoppingWindows(size=ms(10), advance=ms(5))},
            r"deduplicate_by_key\(interval\)",
        ),
        ({"store": "s", "late": "l"}, "without windows no record is late"),
        ({"store": Materialized("s", capacity=9)}, "has a capacity: .*TumblingWindows"),
        ({"store": Materialized("s", history=ms(9))}, "has a history"),
        ({"store": Materialized("s", retention=ms(9))}, "retention"),
        ({"store": Materialized("s", value=str)}, "has value=, but its rows only contain"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        StreamsBuilder().stream("in", key=str, value=str).distinct(**options)


def by_word() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str).select_key(lambda word: word[0], key=str)
    words.distinct(lambda word: word, id=str, store="words").to("out")
    words.distinct(windows=WINDOWS, store="letters").to("windowed")
    return builder.build()


@pytest.mark.no_cover  # many schedules go through the same lines
def test_no_crash_no_move_and_no_guarantee_makes_a_difference() -> None:
    words = ["ab", "ac", "ba", "ab", "ba", "bc", "ab", "ca", "ac", "ab"]
    inputs = [
        ("in", f"k{n % 7}", words[n * 3 % len(words)], n * 4 - (n * 7) % 13 + 20) for n in range(60)
    ]

    result = simulate(by_word(), inputs, schedules=20)

    assert result.counters["crashes"] > 5
    assert result.counters["outputs_compared"] > 100
    assert result.counters["rows_compared"] > 20
