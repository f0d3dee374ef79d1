"""Windows of so many values: what is in each, when it closes, and what a crash changes: nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.compatibility import Verdict, worst
from logstate.contracts.drops import DropReason
from logstate.contracts.errors import TopologyError
from logstate.contracts.stores import StoreSpec
from logstate.serdes import int64, json, string
from logstate.testing import TopologyTestDriver, simulate
from logstate.topics.manifest import manifest
from logstate.topics.manifest_changes import manifest_changes
from logstate.topology import (
    Count,
    CountWindows,
    Materialized,
    Max,
    Mean,
    StreamsBuilder,
    Topology,
)
from logstate.topology.operators.aggregates.count_window import CountedValuesSerde, CountWindowNode
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde
from logstate.topology.processor.key_timers import timer_store
from tests.unit.logstate.plans import plan_of
from tests.unit.topology.operators.crash import results, results_through_a_crash
from tests.unit.topology.operators.one_operator import OneOperator

TIMEOUT_MS = 10
#: key, value, time
Value = tuple["str | None", "int | None", int]
Result = tuple[Any, ...]

VALUES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([1, 2, 3, 4, 5, None]),
        st.integers(0, 120),
    ),
    max_size=40,
)
SHAPES = [(1, 1), (2, 2), (3, 3), (2, 1), (3, 1), (3, 2), (5, 2), (7, 3)]


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def windows(n: int, step: int) -> CountWindows:
    return CountWindows(n, step=step, timeout=ms(TIMEOUT_MS))


def lists_of(
    n: int, step: int, *, in_memory: bool = False, is_batch: bool = False
) -> CountWindowNode:
    """The values of each window, in order."""
    shape, kind = windows(n, step), "timestamped_key_value"
    keeps_values = step < n or is_batch
    rows = CountedValuesSerde(shape, None if keeps_values else json)
    values = None
    if keeps_values:
        values = StoreSpec("s-values", kind, KeyAndIdSerde(string, int64), int64, in_memory)
    return CountWindowNode(
        "windows",
        windows=shape,
        initializer=list,
        aggregator=lambda _, value, found: [*found, value],
        result=None,
        closes_after_first=is_batch,
        store=StoreSpec("s", kind, string, rows, in_memory),
        values=values,
        timers=timer_store("s-timers", str, in_memory=in_memory),
    )


def process(run: OneOperator, record: Value) -> list[Result]:
    return run.pipe(*record)


class Model:
    """Count windows of plain lists: every value that came since the last pause of its key.

    The lists of batches begin with the first value of the open one.
    """

    def __init__(self, n: int, step: int, *, is_batch: bool = False) -> None:
        self.n, self.step, self.is_batch = n, step, is_batch
        self.clock = -1
        self.values: dict[str, list[tuple[int, int]]] = {}
        self.arrived: dict[str, int] = {}

    def pipe(self, key: str | None, value: int | None, time: int) -> list[Result]:
        if key is None:
            return []
        self.clock = max(self.clock, time)
        ends = sorted((at + TIMEOUT_MS, key) for key, at in self.arrived.items())
        found: list[Result] = []
        for end, quiet in ends:
            if end <= self.clock:
                del self.arrived[quiet]
                values = self.values.pop(quiet)
                starts = range(0, len(values), self.step)
                open_ = (values[at:] for at in starts if at + self.n > len(values))
                found += [self.result(quiet, one) for one in open_]
        if value is None:
            return found
        values = self.values.setdefault(key, [])
        if not (self.is_batch and values):
            self.arrived[key] = self.clock
        values.append((value, time))
        start = len(values) - self.n
        if start >= 0 and start % self.step == 0:
            found.append(self.result(key, values[start:]))
            if self.is_batch:
                del self.arrived[key], self.values[key]
        return found

    @staticmethod
    def result(key: str, values: list[tuple[int, int]]) -> Result:
        return key, [value for value, _ in values], max(time for _, time in values)


@pytest.mark.parametrize(("n", "step"), SHAPES)
@given(records=VALUES)
def test_results_are_those_of_a_model_that_keeps_every_value(
    n: int, step: int, records: list[Value]
) -> None:
    run, model = OneOperator(lists_of(n, step)), Model(n, step)
    for record in records:
        assert [found[:3] for found in process(run, record)] == model.pipe(*record)
    assert [row[0] for row in run.store("s").all()] == sorted(model.arrived)
    assert sum(1 for _ in run.store("s-timers").all()) == len(model.arrived)
    if step < n:
        kept = sum(1 for _ in run.store("s-values").all())
        assert kept <= n * len(model.arrived)


@pytest.mark.parametrize(("n", "step"), [(3, 3), (3, 1), (5, 2)])
@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("is_batch", [False, True])
@given(records=VALUES, commit_every=st.integers(1, 5), crash_at=st.integers(0, 30))
def test_a_crash_changes_nothing(
    n: int,
    step: int,
    in_memory: bool,
    is_batch: bool,
    records: list[Value],
    commit_every: int,
    crash_at: int,
) -> None:
    def node() -> CountWindowNode:
        return lists_of(n, n if is_batch else step, in_memory=in_memory, is_batch=is_batch)

    undisturbed, expected = results(node, process, records)
    run, found = results_through_a_crash(
        node, process, records, commit_every=commit_every, crash_at=crash_at
    )

    assert found == expected
    for spec in node().own_stores():
        assert list(run.store(spec.name).all()) == list(undisturbed.store(spec.name).all())


@pytest.mark.parametrize(("n", "step"), [(2, 2), (3, 1)])
@given(records=VALUES, time=st.integers(0, 150))
def test_a_record_that_is_rolled_back_leaves_nothing(
    n: int, step: int, records: list[Value], time: int
) -> None:
    runs = [OneOperator(lists_of(n, step)) for _ in range(2)]
    half = len(records) // 2
    for run in runs:
        for record in records[:half]:
            process(run, record)
    runs[0].begin_journal()
    process(runs[0], ("a", 9, time))
    runs[0].end_journal(rollback=True)

    for record in records[half:]:
        assert process(runs[0], record) == process(runs[1], record)


@pytest.mark.parametrize(("n", "step"), SHAPES)
def test_results_between_two_pauses_are_those_of_polars(n: int, step: int) -> None:
    values = [number * 7 % 11 for number in range(23)]
    run = OneOperator(lists_of(n, step))
    found = [row for time, value in enumerate(values) for row in run.pipe("a", value, time)]
    found += [row for row in run.pipe("b", 0, 1_000) if row[0] == "a"]

    frame = polars.DataFrame({"row": range(len(values)), "value": values})
    groups = frame.group_by_dynamic("row", every=f"{step}i", period=f"{n}i")
    assert [row[1] for row in found] == groups.agg("value")["value"].to_list()


def test_sums_of_full_windows_are_a_rolling_sum_of_polars() -> None:
    values = [number * 7 % 11 / 8 for number in range(40)]
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=float).group_by_key()
    grouped.windowed_by(CountWindows(4)).reduce(lambda a, b: a + b, store="s").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", value, time) for time, value in enumerate(values)])
        found = [value for _, value in driver.read("out", value=float)]

    assert found == polars.Series(values).rolling_sum(4).drop_nulls().to_list()


def test_null_keys_and_null_values_are_dropped_and_counted() -> None:
    run = OneOperator(lists_of(2, 2))
    assert run.pipe(None, 1, 900) == []
    assert run.pipe("a", 1, 0) == []
    assert run.pipe("a", None, 1) == []
    assert [row[1] for row in run.pipe("a", 2, 2)] == [[1, 2]]
    assert run.dropped == {DropReason.NULL_KEY: 1, DropReason.NULL_VALUE: 1}


def test_a_null_value_closes_windows_by_its_time_and_does_not_end_a_pause() -> None:
    run = OneOperator(lists_of(3, 3))
    run.pipe("a", 1, 0)
    run.pipe("a", None, 9)
    assert [row[:3] for row in run.pipe("b", None, 10)] == [("a", [1], 0)]


def test_a_late_value_is_counted_and_begins_the_pause_when_it_arrives() -> None:
    run = OneOperator(lists_of(3, 3))
    run.pipe("b", 1, 50)
    run.pipe("a", 2, 3)
    assert run.pipe("c", 1, 59) == []
    assert [row[:3] for row in run.pipe("c", 2, 60)] == [("a", [2], 3), ("b", [1], 50)]


def test_a_result_of_none_is_not_sent_and_the_next_value_begins() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.windowed_by(windows(3, 3)).aggregate(
        int, lambda total, value: None if value < 0 else total + value, value=int, store="s"
    ).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        values = [1, -1, 4, 5, 6, -1]
        driver.pipe_all("in", [("a", value, time) for time, value in enumerate(values)])
        assert driver.read("out", value=int) == [("a", 4)]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_records_of_aggregates_are_those_of_a_loop(step: int) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    shape = CountWindows(3, step=step, timeout=ms(TIMEOUT_MS))
    grouped.windowed_by(shape).agg(
        n=Count(), mean=Mean(lambda value: value), high=Max(lambda value: value), store="s"
    ).to("out")
    values = [5, 3, 8, 1, 9, 2, 7]
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", value, time) for time, value in enumerate(values)])
        driver.crash(loses_disk=True)
        driver.pipe("in", "b", 1, timestamp=100)
        found = [value for _, value in driver.read("out", value=dict)]

    starts = range(0, len(values), step)
    expected = [values[at : at + 3] for at in starts]
    assert found == [
        {"n": len(one), "mean": sum(one) / len(one), "high": max(one)} for one in expected
    ]


def test_open_windows_close_while_the_inputs_are_idle() -> None:
    builder = StreamsBuilder()
    shape = CountWindows(3, timeout=ms(100), close_on_idle=ms(1_000))
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    grouped.windowed_by(shape).reduce(lambda a, b: a + b, store="s").to("out")
    topology = builder.build()
    assert "closes on idle: 1000 ms" in str(topology.describe())
    with TopologyTestDriver(topology) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("b", 5, 50), ("a", 2, 90)])
        driver.advance_wall_clock(999)
        assert driver.read("out", value=int) == []
        driver.advance_wall_clock(2)
        assert driver.read("out", value=int) == [("b", 5), ("a", 3), ("a", 2)]
        driver.pipe("in", "a", 7, timestamp=100)
        assert next(driver.store("s").all())[1].value.number == 1


def test_results_are_keyed_like_the_values_and_read_behind_a_repartition_topic() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    shape = CountWindows(2, step=2, timeout=ms(5))
    groups = words.group_by(lambda word: word[0], key=str, name="letters")
    groups.windowed_by(shape).count(store="pairs", name="count-pairs").to("out")
    topology = builder.build()
    assert "Processor: count-pairs (stores: [pairs-timers, pairs])" in str(topology.describe())
    with TopologyTestDriver(topology, application_id="app") as driver:
        driver.pipe_all("in", [("x", "ab", 0), ("y", "ba", 1), ("z", "ac", 2)])
        assert driver.read("out", value=int) == [("a", 2)]


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (lambda: CountWindows(0), "n of count windows must be an int from 1"),
        (lambda: CountWindows(True), "found True"),
        (lambda: CountWindows(2, step=0), "step of count windows must be an int from 1"),
        (lambda: CountWindows(2, step=3), "values between two windows would be in none"),
        (lambda: CountWindows(2, timeout=ms(0)), "timeout of count windows must be at least 1 ms"),
        (lambda: CountWindows(2, timeout=5), "timeout of count windows must be a timedelta"),
        (lambda: declared(store=None), "needs a name for its store"),
        (lambda: declared(store=Materialized("s", retention=ms(9))), "has a retention"),
        (lambda: declared(store=Materialized("s", history=ms(9))), "has a history"),
        (lambda: declared(store=Materialized("s", capacity=9)), "has a capacity"),
        (lambda: declared(store=Materialized("s", ttl=ms(9))), "has a ttl: .*timeout="),
        (lambda: declared(store=Materialized("s", headers=True)), "has headers=True"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(
    declare: Callable[[], object], text: str
) -> None:
    with pytest.raises(TopologyError, match=text):
        declare()


def declared(**options: Any) -> object:
    grouped = StreamsBuilder().stream("in", key=str, value=int).group_by_key()
    return grouped.windowed_by(CountWindows(2)).count(**options)


def test_a_cogroup_names_what_to_do_instead() -> None:
    grouped = StreamsBuilder().stream("in", key=str, value=int).group_by_key()
    cogrouped = grouped.cogroup(lambda total, value: total + value)
    with pytest.raises(TopologyError, match=r"merge\(\) the streams before group_by_key"):
        cogrouped.windowed_by(CountWindows(2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (CountWindows(3, step=3, timeout=ms(99)), None),
        (CountWindows(2, step=2, timeout=ms(9)), Verdict.REFUSED),
        (CountWindows(3, step=2, timeout=ms(9)), Verdict.REFUSED),
    ],
)
def test_a_start_refuses_rows_of_other_windows(
    other: CountWindows, verdict: Verdict | None
) -> None:
    def declared_manifest(shape: CountWindows) -> dict[str, Any]:
        def declare(builder: StreamsBuilder) -> None:
            grouped = builder.stream("in", key=str, value=int).group_by_key()
            grouped.windowed_by(shape).count(store="s").to("out")

        return manifest(plan_of(declare, **{"in": 1}))

    stored = declared_manifest(CountWindows(3, step=3, timeout=ms(9)))
    changes = manifest_changes(stored, declared_manifest(other))
    assert (worst(changes) if changes else None) is verdict


def both_shapes() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    letters = words.group_by(lambda word: word[0], key=str, name="letters")
    for n, step in ((3, 3), (3, 2)):
        lists = letters.windowed_by(CountWindows(n, step=step, timeout=ms(8))).aggregate(
            list, lambda found, word: [*found, word], value=list, store=f"s{step}"
        )
        lists.to(f"out{step}")
    words.batch(2, within=ms(20), store="batches").to("batches")
    return builder.build()


@pytest.mark.no_cover  # many schedules go through the same lines
def test_no_crash_no_move_and_no_guarantee_makes_a_difference() -> None:
    words = ["ab", "ac", "ba", "ab", "ba", "bc", "ab", "ca", "ac", "ab"]
    inputs = [
        ("in", f"k{n % 7}", words[n * 3 % len(words)], n * 4 - (n * 7) % 13 + 20) for n in range(60)
    ]

    result = simulate(both_shapes(), inputs, schedules=20)

    assert result.counters["crashes"] > 5
    assert result.counters["outputs_compared"] > 100
    assert result.counters["rows_compared"] > 50
