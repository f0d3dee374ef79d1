"""Decay by event time: equal to the sums of weighted values, in any order of arrival."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import DecayedMean, DecayedSum, SessionWindows, StreamsBuilder

HALF_LIFE_MS = 40
HALF_LIFE = timedelta(milliseconds=HALF_LIFE_MS)
#: value, time in ms
Reading = tuple["float | None", int]
READINGS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(-100, 100).map(lambda one: round(one, 3))),
        st.integers(-50, 400),
    ),
    max_size=20,
)


def value_of(reading: Reading) -> float | None:
    return reading[0]


def time_of(reading: Reading) -> int:
    return reading[1]


TOTAL = DecayedSum(value_of, half_life=HALF_LIFE, at=time_of)
MEAN = DecayedMean(value_of, half_life=HALF_LIFE, at=time_of)


def expected(readings: list[Reading]) -> tuple[float | None, float | None]:
    """Sum and mean by their definition."""
    found = [(value, at) for value, at in readings if value is not None]
    if not found:
        return None, None
    newest = max(at for _, at in found)
    weights = [2.0 ** ((at - newest) / HALF_LIFE_MS) for _, at in found]
    total = sum(weight * value for weight, (value, _) in zip(weights, found, strict=True))
    return total, total / sum(weights)


def folded(aggregate: Any, readings: list[Reading]) -> Any:
    state = aggregate.initial()
    for reading in readings:
        state = aggregate.add(state, reading)
    return state


@given(readings=READINGS, split=st.integers(0, 20))
def test_results_are_those_of_the_definition_and_merged_states_are_those_of_all(
    readings: list[Reading], split: int
) -> None:
    total, mean = expected(readings)
    for aggregate, result in ((TOTAL, total), (MEAN, mean)):
        parts = folded(aggregate, readings[:split]), folded(aggregate, readings[split:])
        for state in (folded(aggregate, readings), aggregate.merge(*parts)):
            found = aggregate.result(state)
            if result is None:
                assert found is None
            else:
                assert found == pytest.approx(result, rel=1e-9, abs=1e-9)


def test_a_value_of_a_thousand_half_lives_ago_has_no_weight() -> None:
    state = folded(TOTAL, [(5.0, 0), (1.0, 2_000 * HALF_LIFE_MS), (7.0, 0)])
    assert TOTAL.result(state) == 1.0


def test_sessions_that_merge_and_a_lost_disk_have_the_weights_of_the_times() -> None:
    builder = StreamsBuilder()
    gap = SessionWindows(gap=timedelta(milliseconds=5), grace=timedelta(milliseconds=50))
    grouped = builder.stream("in", key=str, value=tuple[float, int]).group_by_key()
    table = grouped.windowed_by(gap).agg(total=TOTAL, mean=MEAN, store="s")
    table.to_stream(lambda window, _: window.key, key=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        readings = [(1.0, 0), (2.0, 10), (4.0, 5)]
        for value, at in readings:
            driver.pipe("in", "a", (value, at), timestamp=at)
            driver.crash(loses_disk=True)
        row = driver.read("out", value=dict)[-1][1]
    assert (row["total"], row["mean"]) == pytest.approx(expected([*readings]))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"half_life": timedelta(0)}, "half_life of DecayedSum"),
        ({"half_life": 5}, "half_life of DecayedSum"),
        ({"at": 5}, "at of DecayedSum"),
        ({"at": lambda: 5}, "at of DecayedSum"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        DecayedSum(value_of, **{"half_life": HALF_LIFE, "at": time_of, **options})


def test_tables_are_refused_and_the_stream_of_changes_is_named() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=tuple[float, int], store="t")
    grouped = table.group_by(lambda key, row: (key, row), key=str, value=tuple[float, int])
    with pytest.raises(TopologyError, match=r"to_stream\(\).*agg\(x=DecayedSum"):
        grouped.agg(x=TOTAL, store="s")
