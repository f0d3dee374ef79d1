from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import TopologyError
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    StreamsBuilder,
    ValueTransformer,
    versioned_store,
)

Input = tuple[str, "str | None", "str | None", int]  # topic, key, value, time

KEYS = st.sampled_from(["a", "aa", "b", None])
INPUTS = st.lists(
    st.tuples(st.sampled_from("st"), KEYS, st.sampled_from(["x", "y", None]), st.integers(0, 60)),
    max_size=30,
)
HISTORY_MS = 1_000


def declare(builder: StreamsBuilder, is_left: bool, grace_ms: int, history_ms: int) -> Any:
    history = timedelta(milliseconds=history_ms)
    table = builder.table("t", value=str, store=Materialized("tab", history=history), name="t")
    stream = builder.stream("s", key=str, value=str, name="s")
    method = stream.left_join if is_left else stream.join
    return method(
        table,
        lambda left, right: f"({left},{right})",
        grace=timedelta(milliseconds=grace_ms),
        name="j",
    )


def driver_of(
    grace_ms: int, *, is_left: bool = False, history_ms: int = HISTORY_MS
) -> TopologyTestDriver:
    builder = StreamsBuilder()
    declare(builder, is_left, grace_ms, history_ms).to("out", value=str)
    return TopologyTestDriver(builder.build())


def results(driver: TopologyTestDriver, *inputs: Input) -> list[tuple[Any, Any, int]]:
    for topic, key, value, time in inputs:
        driver.pipe(topic, key, value, timestamp=time)
    return driver.read_with_timestamps("out", value=str)


def test_a_record_waits_until_the_grace_is_over_and_meets_the_row_of_its_own_time():
    with driver_of(10) as driver:
        assert results(driver, ("s", "a", "s1", 20), ("t", "a", "late row", 15)) == []
        assert results(driver, ("t", "a", "newer row", 25), ("s", "b", "s2", 29)) == []
        assert results(driver, ("s", "b", "s3", 30)) == [("a", "(s1,late row)", 20)]


def test_only_stream_records_move_the_clock():
    with driver_of(10) as driver:
        results(driver, ("t", "a", "row", 5), ("s", "a", "s1", 20))

        assert results(driver, ("t", "a", "row", 500)) == []


def test_waiting_records_leave_by_time_then_key_then_arrival():
    with driver_of(10, is_left=True) as driver:
        results(driver, ("s", "b", "1", 22), ("s", "b", "2", 20))
        results(driver, ("s", "b", "3", 20), ("s", "a", "4", 20))

        assert [value for _, value, _ in results(driver, ("s", "b", "5", 90))] == [
            "(4,None)",
            "(2,None)",
            "(3,None)",
            "(1,None)",
        ]


def test_a_record_later_than_the_grace_is_joined_at_once():
    with driver_of(10) as driver:
        results(driver, ("t", "a", "row", 5), ("s", "b", "s1", 50))

        assert results(driver, ("s", "a", "s2", 39)) == [("a", "(s2,row)", 39)]
        assert len(driver.changelog("app-j-Buffer-changelog")) == 1


def test_a_record_exactly_as_old_as_the_grace_passes_through_the_buffer():
    with driver_of(10) as driver:
        results(driver, ("t", "a", "row", 5), ("s", "b", "s1", 50))

        assert results(driver, ("s", "a", "s2", 40)) == [("a", "(s2,row)", 40)]
        assert len(driver.changelog("app-j-Buffer-changelog")) == 3


def test_null_keys_and_values_are_dropped_in_an_inner_join():
    with driver_of(0) as driver:
        assert results(driver, ("s", None, "s1", 1), ("s", "a", None, 1)) == []
        assert driver.dropped_total == 2


def test_a_null_key_meets_no_row_and_does_not_wait_in_a_left_join():
    with driver_of(10, is_left=True) as driver:
        assert results(driver, ("s", None, "s1", 1)) == [(None, "(s1,None)", 1)]


def test_a_row_older_than_the_history_is_not_found():
    with driver_of(10, is_left=True, history_ms=20) as driver:
        results(driver, ("t", "a", "old", 5), ("t", "a", "new", 100))

        assert results(driver, ("s", "a", "s1", 10), ("s", "b", "s2", 20)) == [
            ("a", "(s1,None)", 10)
        ]


class Place(Processor[Any, Any, Any, Any]):
    """Says where a record came from."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        place = self.context.record_metadata()
        assert place is not None
        self.context.forward(record._replace(value=f"{place.topic}@{place.offset}"))


def test_results_come_from_the_place_and_with_the_headers_of_the_record_that_waited():
    builder = StreamsBuilder()
    declare(builder, True, 10, HISTORY_MS).process(Place, key=str, value=str, name="place").to(
        "out"
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("s", "a", "s0", timestamp=20, headers=[("h", b"0")])
        driver.pipe("s", "a", "s1", timestamp=90, headers=[("h", b"1")])
        driver.pipe("s", "a", "s2", timestamp=15, headers=[("h", b"2")])

        assert [record.headers for record in driver.outputs] == [[("h", b"0")], [("h", b"2")]]
        assert [value for _, value in driver.read("out", value=str)] == ["s@0", "s@2"]


def test_a_table_without_history_is_refused():
    builder = StreamsBuilder()
    table = builder.table("t", value=str, store="tab", name="t")
    stream = builder.stream("s", key=str, value=str, name="s")
    with pytest.raises(TopologyError, match="versioned"):
        stream.join(table, lambda l, r: l + r, grace=timedelta(seconds=1), name="j")  # noqa: E741


def test_a_grace_longer_than_the_history_is_refused():
    with pytest.raises(TopologyError, match="history"):
        driver_of(2 * HISTORY_MS)


Derive = Callable[[KTable[Any, Any]], KTable[Any, Any]]
LONG = Materialized("long", history=timedelta(days=1))
SHORT = Materialized("short", history=timedelta(milliseconds=HISTORY_MS // 2))

#: how the joined table follows from the one that keeps HISTORY_MS, and how much history it has
DERIVED: dict[str, tuple[Derive, int]] = {
    "filter": (lambda table: table.filter(lambda _: True), HISTORY_MS),
    "filter_not": (lambda table: table.filter_not(lambda _: False), HISTORY_MS),
    "map_values": (lambda table: table.map_values(str.upper), HISTORY_MS),
    "transform_values": (
        lambda table: table.transform_values(ValueTransformer, value=str), HISTORY_MS
    ),
    "two steps": (lambda table: table.filter(lambda _: True).map_values(str.upper), HISTORY_MS),
    "stores of a transformer": (
        lambda table: table.transform_values(
            ValueTransformer,
            value=str,
            stores=versioned_store("own", str, str, history=timedelta(milliseconds=1)),
        ),
        HISTORY_MS,
    ),
    "a longer store of its own": (
        lambda table: table.filter(lambda _: True, store=LONG), 86_400_000
    ),
    "a shorter store of its own": (lambda table: table.filter(lambda _: True, store=SHORT), 500),
    "above a shorter store": (
        lambda table: table.filter(lambda _: True, store=SHORT).filter(lambda _: True), 500
    ),
}  # fmt: skip


@pytest.mark.parametrize(("derive", "history_ms"), DERIVED.values(), ids=DERIVED)
def test_a_grace_longer_than_the_history_that_rows_are_read_from_is_refused(
    derive: Derive, history_ms: int
):
    def joined(grace_ms: int) -> None:
        builder = StreamsBuilder()
        history = timedelta(milliseconds=HISTORY_MS)
        table = builder.table("t", value=str, store=Materialized("tab", history=history))
        grace = timedelta(milliseconds=grace_ms)
        stream = builder.stream("s", value=str)
        stream.join(derive(table), lambda left, right: left + right, grace=grace, name="j")
        builder.build()

    joined(history_ms)
    with pytest.raises(TopologyError, match=rf"{history_ms} ms, declared at .*Lengthen"):
        joined(history_ms + 1)


@pytest.mark.parametrize("is_left", [False, True])
@given(inputs=INPUTS, grace_ms=st.integers(0, 20))
def test_a_join_equals_the_model(is_left: bool, inputs: list[Input], grace_ms: int):
    rows: dict[str, dict[int, str | None]] = {}
    waiting: list[tuple[int, bytes, int, str, str]] = []
    newest = -1

    def join(key: str, value: str, time: int) -> list[tuple[str, str, int]]:
        versions = rows.get(key, {})
        as_of = max((t for t in versions if t <= time), default=None)
        found = None if as_of is None else versions[as_of]
        return [(key, f"({value},{found})", time)] if found is not None or is_left else []

    with driver_of(grace_ms, is_left=is_left) as driver:
        for arrival, (topic, key, value, time) in enumerate(inputs):
            expected: list[Any] = []
            if topic == "t":
                if key is not None:
                    rows.setdefault(key, {})[time] = value
            elif value is not None and key is None:
                expected = [(None, f"({value},None)", time)] if is_left else []
            elif value is not None and key is not None:
                if time < newest - grace_ms:
                    expected = join(key, value, time)
                else:
                    newest = max(newest, time)
                    waiting.append((time, key.encode(), arrival, key, value))
                    waiting.sort()
                    while waiting and waiting[0][0] <= newest - grace_ms:
                        at, _, _, waiting_key, waiting_value = waiting.pop(0)
                        expected += join(waiting_key, waiting_value, at)
            assert results(driver, (topic, key, value, time)) == expected
        assert driver.store("j-Buffer").num_records == len(waiting)
