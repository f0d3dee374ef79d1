"""A stream joined with tables, against models of plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.testing import TopologyTestDriver
from logstate.topology import KTable, Materialized, StreamsBuilder

Input = tuple[str, "str | None", "str | None", int]  # topic, key, value, time
Result = tuple["str | None", str, int]

BOTH = pytest.mark.parametrize("is_left", [False, True], ids=["inner", "left"])
HISTORY_MS = 1_000
INPUTS = st.lists(
    st.tuples(
        st.sampled_from(["s", "t"]),
        st.one_of(st.none(), st.sampled_from("ab")),
        st.one_of(st.none(), st.sampled_from("vwxy")),
        st.integers(0, 50),
    ),
    max_size=25,
)


def pair(left: str, right: str | None) -> str:
    return f"({left},{right})"


def driver_of(is_left: bool, *, history_ms: int | None = None) -> TopologyTestDriver:
    builder = StreamsBuilder()
    history = None if history_ms is None else timedelta(milliseconds=history_ms)
    table: KTable[str, str] = builder.table(
        "t", value=str, store=Materialized("rows", history=history), name="t"
    )
    stream = builder.stream("s", key=str, value=str, name="s")
    method = stream.left_join if is_left else stream.join
    method(table, pair, name="j").to("out", value=str)  # type: ignore[operator]
    return TopologyTestDriver(builder.build())


def global_driver(is_left: bool) -> TopologyTestDriver:
    """The stream's value is the key of the row it meets; "y" has none."""
    builder = StreamsBuilder()
    table = builder.global_table("t", value=str, store="rows", name="t")
    stream = builder.stream("s", key=str, value=str, name="s")
    method: Any = stream.left_join if is_left else stream.join
    joined = method(table, pair, key_mapper=row_named, name="j")
    joined.to("out", key=str, value=str)
    return TopologyTestDriver(builder.build())


def row_named(value: str | None) -> str | None:
    return {"v": "a", "w": "b", "x": "c"}.get(value or "")


def results(driver: TopologyTestDriver, one: Input) -> list[Any]:
    topic, key, value, time = one
    driver.pipe(topic, key, value, timestamp=time)
    return driver.read_with_timestamps("out", value=str)


def joined(is_left: bool, one: Input, row: str | None) -> list[Result]:
    _, key, value, time = one
    if value is None or (row is None and not is_left) or (key is None and not is_left):
        return []
    return [(key, pair(value, row), time)]


@BOTH
@given(inputs=INPUTS)
def test_a_record_meets_the_row_of_the_moment(is_left: bool, inputs: list[Input]) -> None:
    rows: dict[str, str] = {}
    dropped = 0
    with driver_of(is_left) as driver:
        for one in inputs:
            topic, key, value, _ = one
            expected: list[Result] = []
            if topic == "t":
                dropped += key is None
                keep(rows, key, value)
            else:
                row = None if key is None else rows.get(key)
                expected = joined(is_left, one, row)
                dropped += value is None or (key is None and not is_left)
            assert results(driver, one) == expected
            assert driver.dropped_total == dropped


@BOTH
@given(inputs=INPUTS)
def test_a_record_meets_the_version_of_its_own_time(is_left: bool, inputs: list[Input]) -> None:
    versions: dict[str, dict[int, str | None]] = {}
    with driver_of(is_left, history_ms=HISTORY_MS) as driver:
        for one in inputs:
            topic, key, value, time = one
            expected: list[Result] = []
            if topic == "t":
                if key is not None:
                    versions.setdefault(key, {})[time] = value
            else:
                row = None if key is None else as_of(versions.get(key, {}), time)
                expected = joined(is_left, one, row)
            assert results(driver, one) == expected


@BOTH
@given(inputs=INPUTS)
def test_a_record_meets_the_global_row_that_its_mapper_names(
    is_left: bool, inputs: list[Input]
) -> None:
    rows: dict[str, str] = {}
    with global_driver(is_left) as driver:
        for one in inputs:
            topic, key, value, time = one
            expected: list[Result] = []
            if topic == "t":
                keep(rows, key, value)
            else:
                wanted = row_named(value)
                row = None if wanted is None else rows.get(wanted)
                if value is not None and (row is not None or is_left):
                    expected = [(key, pair(value, row), time)]
            assert results(driver, one) == expected


def keep(rows: dict[str, str], key: str | None, value: str | None) -> None:
    if key is not None and value is None:
        rows.pop(key, None)
    elif key is not None and value is not None:
        rows[key] = value


def as_of(versions: dict[int, str | None], time: int) -> str | None:
    times: Iterable[int] = (begin for begin in versions if begin <= time)
    newest = max(times, default=None)
    return None if newest is None else versions[newest]
