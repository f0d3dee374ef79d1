"""scan(): a state per key, and a result for each record."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import ProcessingError, TopologyError
from logstate.contracts.stores import ValueAndTimestamp
from logstate.testing import TopologyTestDriver
from logstate.topology import Materialized, StreamsBuilder, Topology

#: key, value, time
Entry = tuple["str | None", "int | None", int]
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.none() | st.integers(-5, 5), st.integers(0, 60)
    ),
    max_size=40,
)


def step(key: str, value: int, state: list[int]) -> tuple[list[int] | None, str]:
    """The last two values; a 5 ends a state. Changes the state in place, as users do."""
    result = f"{key}{value}{state}"
    state.append(value)
    return (None if value == 5 else state[-2:]), result


def topology(step: Any = step, **options: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    given = {"state": list[int], "value": str, "store": "last", **options}
    stream.scan(list, step, **given).to("out")
    return builder.build()


def scanned(records: list[Entry], crash_at: int = -1, commit_every: int = 1) -> Any:
    with TopologyTestDriver(topology(), commit_every=commit_every) as driver:
        for place, (key, value, time) in enumerate(records):
            if place == crash_at:
                driver.crash(loses_disk=place % 2 == 0)
            driver.pipe("in", key, value, timestamp=time)
        return driver.read_with_timestamps("out", value=str), dict(driver.store("last").all())


@given(records=RECORDS)
def test_results_and_states_are_those_of_a_loop(records: list[Entry]) -> None:
    expected, states, times = list[Any](), dict[str, list[int]](), dict[str, int]()
    for key, value, time in records:
        if key is None or value is None:
            continue
        new, result = step(key, value, list(states.get(key, [])))
        expected.append((key, result, time))
        times[key] = max(times.get(key, 0), time)
        if new is None:
            states.pop(key, None)
            times.pop(key)
        else:
            states[key] = new
    found, rows = scanned(records)
    assert found == expected
    assert rows == {key: ValueAndTimestamp(state, times[key]) for key, state in states.items()}


@given(records=RECORDS, crash_at=st.integers(0, 39), commit_every=st.integers(1, 5))
def test_a_crash_changes_nothing(records: list[Entry], crash_at: int, commit_every: int) -> None:
    assert scanned(records, crash_at, commit_every) == scanned(records)


def test_a_key_begins_again_after_the_ttl_and_an_expired_record_is_dropped() -> None:
    store = Materialized("last", ttl=timedelta(milliseconds=10))
    with TopologyTestDriver(topology(store=store)) as driver:
        driver.pipe_all("in", [("a", 1, 0), ("a", 2, 9), ("a", 3, 19), ("b", 4, 9)])
        assert driver.read("out", value=str) == [("a", "a1[]"), ("a", "a2[1]"), ("a", "a3[]")]
        assert [(str(one.reason), one.count) for one in driver.dropped] == [("expired", 1)]


def test_the_key_is_that_behind_a_repartition_topic() -> None:
    builder = StreamsBuilder()
    words = builder.stream("in", value=str).select_key(lambda word: word[0], key=str)
    counts = words.scan(
        lambda: 0, lambda n, word: (n + 1, f"{word}{n}"), state=int, value=str, name="counts"
    )
    counts.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("x", "ab", 0), ("y", "ba", 1), ("z", "ac", 2)])
        driver.crash(loses_disk=True)
        driver.pipe("in", "x", "ad", timestamp=3)
        found = driver.read("out", value=str)
    assert found == [("a", "ab0"), ("b", "ba0"), ("a", "ac1"), ("a", "ad2")]


def test_a_step_that_returns_no_pair_is_named() -> None:
    with (
        TopologyTestDriver(topology(lambda state, value: value)) as driver,
        pytest.raises(ProcessingError, match=r"scan\(\), .* gave int .*\(state, result\)"),
    ):
        driver.pipe("in", "a", 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"store": None}, r'scan\(\) needs a name.*store="..." or name="..."'),
        ({"state": None}, r"No serde for the states of store 'last' of scan\(\).*state="),
        ({"store": Materialized("last", capacity=9)}, "has a capacity: it would remove states"),
        ({"store": Materialized("last", history=timedelta(1))}, "has a history"),
        ({"store": Materialized("last", value=str)}, "has two serdes for its values"),
        ({"windows": 3}, "windows"),
        ({"step": lambda: None}, r"step"),
    ],
)
def test_what_no_scan_has_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        topology(**options)


def test_items_of_lists_are_forwarded_one_by_one_and_null_has_none() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=list[int]).flatten(value=int, name="items").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", [1, 2], 0), ("b", None, 1), ("a", [], 2), ("c", [3], 3)])
        assert driver.read("out", value=int) == [("a", 1), ("a", 2), ("c", 3)]
