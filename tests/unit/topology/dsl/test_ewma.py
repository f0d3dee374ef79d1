"""Exponentially weighted means: equal to Polars, through merges of sessions and a lost disk."""

from __future__ import annotations

from datetime import timedelta

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import Aggregates, CountWindows, Ewma, SessionWindows, StreamsBuilder

VALUES = st.lists(st.floats(-1_000, 1_000).map(lambda one: round(one, 3)), min_size=1, max_size=30)
ALPHAS = [0.05, 0.5, 0.9, 1]


def itself(value: float | None) -> float | None:
    return value


def expected(values: list[float], alpha: float) -> list[float]:
    found: list[float] = polars.Series(values).ewm_mean(alpha=alpha, adjust=True).to_list()
    return found


@pytest.mark.parametrize("alpha", ALPHAS)
@given(values=VALUES)
def test_results_are_those_of_polars(alpha: float, values: list[float]) -> None:
    ewma: Ewma[float] = Ewma(itself, alpha=alpha)
    state, found = ewma.initial(), []
    for value in values:
        state = ewma.add(state, value)
        found.append(ewma.result(state))
    assert found == pytest.approx(expected(values, alpha), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@given(values=VALUES, split=st.integers(0, 30))
def test_two_merged_states_are_that_of_all_values(
    alpha: float, values: list[float], split: int
) -> None:
    ewma: Ewma[float] = Ewma(itself, alpha=alpha)
    states = []
    for part in (values[:split], values[split:], values):
        state = ewma.initial()
        for value in part:
            state = ewma.add(state, value)
        states.append(state)
    merged = ewma.merge(states[0], states[1])
    assert merged == pytest.approx(states[2], rel=1e-9, abs=1e-9)


def test_a_null_is_ignored_and_nothing_is_lost_with_the_disk() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=dict).group_by_key()
    grouped.agg(mean=Ewma(lambda row: row["x"], alpha=0.5), store="s").to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for value in (4.0, None, 1.0, 2.5):
            driver.pipe("in", "a", {"x": value})
            driver.crash(loses_disk=True)
        found = [row["mean"] for _, row in driver.read("out", value=dict)]
    mean = expected([4.0, 1.0, 2.5], 0.5)
    assert found == pytest.approx([mean[0], *mean])


def test_sessions_that_merge_and_count_windows_have_the_mean_of_their_values() -> None:
    class Smooth(Aggregates[float]):
        mean = Ewma(itself, alpha=0.3)

    builder = StreamsBuilder()
    grouped = builder.stream("in", key=str, value=float).group_by_key()
    gap = SessionWindows(gap=timedelta(milliseconds=5), grace=timedelta(milliseconds=50))
    sessions = grouped.windowed_by(gap).agg(Smooth, store="sessions")
    sessions.to_stream(lambda window, _: window.key, key=str).to("sessions")
    grouped.windowed_by(CountWindows(2)).agg(Smooth, store="lasts").to("lasts")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1.0, 0), ("a", 2.0, 10), ("a", 4.0, 5)])
        means = [row["mean"] for _, row in driver.read("sessions", value=dict) if row]
        pairs = [row["mean"] for _, row in driver.read("lasts", value=dict)]
    assert means[-1] == pytest.approx(expected([1.0, 2.0, 4.0], 0.3)[-1])
    assert pairs == pytest.approx([expected(pair, 0.3)[-1] for pair in ([1.0, 2.0], [2.0, 4.0])])


def test_a_table_names_what_to_do_instead() -> None:
    table = StreamsBuilder().table("in", key=str, value=float, store="t")
    grouped = table.group_by(lambda key, value: (key, value), key=str, value=float)
    with pytest.raises(TopologyError, match=r"to_stream\(\)\.group_by_key\(\)\.agg\(mean=Ewma"):
        grouped.agg(mean=Ewma(itself, alpha=0.3), store="s")
