"""Deltas, changes and panes under the simulator, in describe(), and in what a plan compares."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from logstate.contracts.compatibility import Verdict
from logstate.testing import SimulationFailed, simulate
from logstate.topics.preview import difference
from logstate.topology import KTable, StreamsBuilder, Topology, TumblingWindows, early

INPUTS = [("clicks", key, "home", 7 * n) for n, key in enumerate("abcabcaabbccab" * 2)]
WINDOWS = TumblingWindows(size=timedelta(milliseconds=40), grace=timedelta(milliseconds=20))
ON_IDLE = TumblingWindows(
    size=timedelta(milliseconds=40),
    grace=timedelta(milliseconds=20),
    close_on_idle=timedelta(milliseconds=10),
)
BY_TWO = early(records=2)
Ends = Callable[[KTable[Any, int]], None]
Name = Callable[[Any, Any], str]


def of_key(key: Any, _: object) -> str:
    return f"{key.key}@{key.start_ms}"


def deltas(name: Name = of_key) -> Topology:
    return counted(lambda table: table.to_stream(name).to("out", key=str), emit="delta")


def changes(name: Name = of_key) -> Topology:
    def end(table: KTable[Any, int]) -> None:
        stream = table.to_change_stream().map_values(lambda one: f"{one.old}>{one.new}", value=str)
        stream.select_key(name, key=str).to("out")

    return counted(end)


def panes(name: Name = of_key, trigger: Any = BY_TWO, windows: Any = WINDOWS) -> Topology:
    def end(table: KTable[Any, int]) -> None:
        stream = table.to_pane_stream(trigger, name="panes").select_key(name, key=str)
        stream.map_values(lambda one: f"{one.number} {one.timing} {one.value}", value=str).to("out")

    return counted(end, windows)


def counted(end: Ends, windows: Any = WINDOWS, **options: Any) -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=str, value=str).group_by_key().windowed_by(windows)
    end(clicks.count(store="counts", name="counted", **options))
    return builder.build()


@pytest.mark.parametrize("build", [changes, panes])
def test_changes_and_panes_are_the_same_in_every_schedule(build: Callable[[], Topology]) -> None:
    result = simulate(build(), INPUTS, schedules=6)
    assert result.ok
    assert result.counters["crashes"] > 0
    assert result.counters["outputs_compared"] > 3 * len(INPUTS)


def test_panes_on_idle_inputs_are_those_of_the_same_ticks_without_faults() -> None:
    result = simulate(panes(windows=ON_IDLE), INPUTS, schedules=6)
    assert result.ok
    assert result.counters["outputs_compared"] > 3 * len(INPUTS)


@pytest.mark.parametrize("build", [changes, panes])
def test_a_name_that_counts_its_calls_is_found(build: Callable[[Name], Topology]) -> None:
    calls = count()
    with pytest.raises(SimulationFailed):
        simulate(build(lambda key, _: f"{key.key} {next(calls)}"), INPUTS, schedules=20)


def test_rows_below_deltas_are_the_same_in_every_schedule() -> None:
    result = simulate(deltas(), INPUTS, schedules=6)
    assert result.ok
    assert result.counters["rows_compared"] > 0


def test_describe_names_the_operators_and_the_stores_of_panes() -> None:
    described = panes().describe()
    assert "panes" in described
    assert "panes-timers" in described
    assert {"counts", "panes", "panes-timers"} == set(panes().stores)
    assert "closes on idle" not in described
    assert panes(windows=ON_IDLE).describe().count("closes on idle: 10 ms") == 2
    assert set(deltas().stores) == set(changes().stores) == {"counts"}


def test_a_plan_reports_the_stores_of_panes_that_are_added_and_accepts_another_trigger() -> None:
    added = {change.subject: change.verdict for change in difference(changes(), panes())}
    assert all("panes" in subject for subject in added)
    assert len(added) == 2
    assert Verdict.REFUSED not in added.values()
    assert difference(panes(), panes(trigger=early(every=timedelta(milliseconds=5)))) == []


def test_a_plan_finds_no_difference_between_updates_deltas_and_changes() -> None:
    assert difference(changes(), deltas()) == []
