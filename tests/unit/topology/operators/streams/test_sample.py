"""Samples by key and by record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.task.error_handlers import ErrorHandlers, skip
from logstate.testing import TopologyTestDriver, simulate
from logstate.topology import StreamsBuilder, Topology
from logstate.topology.operators.streams.sample import sampler


def sampled(**options: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=str).sample(**options).to("out")
    return builder.build()


def of_records(topology: Topology, count: int = 400) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(topology) as driver:
        for number in range(count):
            driver.pipe("in", None if number % 10 == 9 else f"k{number % 97}", str(number))
        return driver.read("out", key=str, value=str)


def test_by_key_all_records_of_a_key_are_in_the_sample_or_none() -> None:
    found = of_records(sampled(fraction=0.3))
    keys = {key for key, _ in found if key is not None}
    assert 15 < len(keys) < 45
    expected = [n for n in range(400) if n % 10 != 9 and f"k{n % 97}" in keys]
    assert [int(value) for key, value in found if key is not None] == expected
    assert 0 < sum(key is None for key, _ in found) < 40


@pytest.mark.parametrize("by", ["key", "record"])
def test_the_same_records_are_in_the_sample_again_and_others_with_another_seed(by: str) -> None:
    first = of_records(sampled(fraction=0.5, by=by))
    assert of_records(sampled(fraction=0.5, by=by)) == first
    assert of_records(sampled(fraction=0.5, by=by, seed=1)) != first


def test_by_record_records_of_a_key_are_in_the_sample_and_others_are_not() -> None:
    found = of_records(sampled(fraction=0.5, by="record"))
    assert 150 < len(found) < 250
    values = {int(value) for key, value in found if key == "k0"}
    assert 0 < len(values) < 4


@pytest.mark.parametrize(("fraction", "count"), [(0, 0), (0.0, 0), (1, 400), (1.0, 400)])
def test_nothing_and_everything_are_samples(fraction: float, count: int) -> None:
    assert len(of_records(sampled(fraction=fraction))) == count


def test_a_sample_has_its_part_of_many_keys_and_samples_of_two_seeds_are_independent() -> None:
    one, other = sampler(0.1, 0), sampler(0.1, 1)
    keys = [f"user-{number}".encode() for number in range(20_000)]
    assert sum(map(one, keys)) == pytest.approx(2_000, abs=150)
    assert sum(one(key) and other(key) for key in keys) == pytest.approx(200, abs=60)


@given(
    every=st.integers(1, 7),
    count=st.integers(0, 40),
    commit_every=st.integers(1, 9),
    crash_at=st.integers(0, 40),
)
def test_every_nth_record_is_in_the_sample_whatever_was_committed_before_a_crash(
    every: int, count: int, commit_every: int, crash_at: int
) -> None:
    with TopologyTestDriver(sampled(every=every), commit_every=commit_every) as driver:
        for number in range(1, count + 1):
            driver.pipe("in", None if number % 3 else "k", str(number))
            if number == crash_at:
                driver.crash(loses_disk=True)
        driver.advance_wall_clock(0)  # commits
        found = [int(value or 0) for _, value in driver.read("out", value=str)]
    assert found == list(range(every, count + 1, every))


def test_a_record_that_an_error_handler_skips_is_not_counted() -> None:
    builder = StreamsBuilder()
    counted = builder.stream("in", key=str, value=str).sample(every=2, name="half")
    counted.map_values(int, value=int).to("out")
    handlers = ErrorHandlers(processing=skip)
    with TopologyTestDriver(builder.build(), error_handlers=handlers) as driver:
        for value in ("1", "two", "3", "4", "5"):
            driver.pipe("in", "k", value)
        assert [value for _, value in driver.read("out", value=int)] == [3, 5]


@pytest.mark.no_cover  # many schedules go through the same lines
def test_no_crash_no_move_and_no_guarantee_makes_a_difference_to_a_count() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", key=str, value=str)
    words.sample(every=3, name="third").to("out")
    inputs = [("in", f"k{number % 7}", f"v{number}", number) for number in range(90)]

    result = simulate(builder.build(), inputs, schedules=20)

    assert result.counters["crashes"] > 5
    assert result.counters["outputs_compared"] > 100


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"every": 0}, "every of sample.*at least 1, found 0"),
        ({"every": True}, "every of sample"),
        ({"every": 2, "fraction": 0.5}, "every= and fraction"),
        ({"every": 2, "by": "key"}, "every= and by"),
        ({}, "fraction of sample.*found None"),
        ({"fraction": 1.5}, "fraction of sample.*found 1.5"),
        ({"fraction": True}, "found True"),
        ({"fraction": float("nan")}, "found nan"),
        ({"fraction": 0.5, "by": "value"}, 'must be "key" or "record"'),
        ({"fraction": 0.5, "seed": 2**63}, "seed of sample"),
        ({"fraction": 0.5, "seed": 0.5}, "seed of sample"),
    ],
)
def test_what_cannot_be_is_refused_with_its_remedy(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        sampled(**options)
