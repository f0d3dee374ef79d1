"""Which of several records that are alike goes on: of one key, and of one key and id."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.drops import DropReason
from logstate.contracts.stores import StoreSpec
from logstate.serdes import json, string
from logstate.serdes.scalars import boolean
from logstate.testing import TopologyTestDriver
from logstate.topology import KStream, Materialized, StreamsBuilder
from logstate.topology.operators.streams.deduplicate import DeduplicateNode
from logstate.topology.operators.streams.key_and_id_serde import KeyAndIdSerde
from tests.unit.topology.operators.one_operator import OneOperator

INTERVAL_MS = 10
#: key, id, time
Alike = tuple["str | None", "str | None", int]


def ms(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def first_of(*, by_id: bool = False, key: Any = string, **options: Any) -> DeduplicateNode:
    """Its records' values are their ids."""
    spec = StoreSpec(
        "seen",
        "timestamped_window",
        KeyAndIdSerde(key, string) if by_id else key,
        boolean,
        window_size_ms=INTERVAL_MS,
        **{"retention_ms": 3 * INTERVAL_MS, **options},
    )
    selector = (lambda _, value: value) if by_id else None
    return DeduplicateNode("first", interval_ms=INTERVAL_MS, store=spec, id_selector=selector)


def times_gone_on(*times: int, **options: Any) -> list[int]:
    run = OneOperator(first_of(**options))
    return [time for time in times if run.pipe("a", "x", time)]


def driver_of(
    declare: Callable[[KStream[Any, Any]], KStream[Any, Any]], **options: Any
) -> TopologyTestDriver:
    builder = StreamsBuilder()
    declare(builder.stream("in", key=str, value=str, name="in")).to("out")
    return TopologyTestDriver(builder.build(), **options)


def by_key(stream: KStream[Any, Any], **options: Any) -> KStream[Any, Any]:
    return stream.deduplicate_by_key(ms(INTERVAL_MS), **{"store": "seen", **options})


def by_value(stream: KStream[Any, Any], **options: Any) -> KStream[Any, Any]:
    return stream.deduplicate_by_key_value(
        lambda value: value, ms(INTERVAL_MS), **{"store": "seen", "id": str, **options}
    )


# --- which one goes on ----------------------------------------------------------------------------


def test_the_first_of_a_key_goes_on_as_it_was():
    with driver_of(by_key) as driver:
        for value, time in (("first", 5), ("second", 6)):
            driver.pipe("in", "a", value, timestamp=time, headers=[("h", value.encode())])

        (out,) = driver.outputs
        assert (out.key, out.value, out.timestamp, out.headers) == (
            *(b"a", b"first", 5),
            [("h", b"first")],
        )


def test_the_interval_ends_with_its_last_millisecond():
    assert times_gone_on(0, 10) == [0]
    assert times_gone_on(0, 11) == [0, 11]
    assert times_gone_on(19, 29) == [19]
    assert times_gone_on(19, 30) == [19, 30]


def test_the_last_times_that_there_are_have_no_window_behind_them():
    with driver_of(by_key) as driver:
        for time in (2**63 - 2 - INTERVAL_MS, 2**63 - 1, 2**63 - 2):
            driver.pipe("in", "a", "x", timestamp=time)

        assert [out.timestamp for out in driver.outputs] == [2**63 - 2 - INTERVAL_MS, 2**63 - 1]


def test_it_is_measured_from_what_went_on_and_not_from_duplicates():
    assert times_gone_on(0, 6, 12, 18, 24) == [0, 12, 24]


def test_an_older_record_is_a_duplicate_of_a_newer_one_that_came_first():
    assert times_gone_on(30, 20) == [30]
    assert times_gone_on(30, 29, 31) == [30]


def test_a_record_between_two_that_went_on_is_near_one_of_them():
    assert times_gone_on(0, 25, 12, 14, retention_ms=1_000) == [0, 25, 12]
    assert times_gone_on(0, 21, 11, retention_ms=1_000) == [0, 21]


def test_keys_and_ids_are_told_apart():
    run = OneOperator(first_of(by_id=True))
    given = [("a", "x"), ("b", "x"), ("a", "y"), ("ax", ""), ("a", "x"), ("ax", "")]

    assert [bool(run.pipe(key, id_, 5)) for key, id_ in given] == [True] * 4 + [False] * 2


def test_a_null_key_and_an_id_of_none_go_on_and_move_no_clock():
    run = OneOperator(first_of(by_id=True))
    for key, id_ in ((None, "x"), ("a", None)):
        assert run.pipe(key, id_, 500) == run.pipe(key, id_, 500) == [(key, id_, 500, None)]

    assert run.pipe("a", "x", 5) == [("a", "x", 5, None)]
    assert not run.dropped


def test_the_selector_is_not_asked_about_a_null_key():
    def refuse(key: str, value: str) -> str:
        assert key is not None
        return value

    with driver_of(
        lambda stream: stream.deduplicate_by_key_value(refuse, ms(1), id=str, name="once")
    ) as driver:
        driver.pipe_all("in", [(None, "x", 0), (None, "x", 0), ("a", "x", 0)])

        assert driver.read("out", value=str) == [(None, "x"), (None, "x"), ("a", "x")]


def test_a_null_value_is_a_value():
    with driver_of(by_key) as driver:
        driver.pipe_all("in", [("a", None, 0), ("a", "x", 1)])

        assert driver.read("out", value=str) == [("a", None)]


def test_ids_are_equal_as_their_bytes_are():
    run = OneOperator(first_of(key=json))

    assert [bool(run.pipe(key, None, 5)) for key in (1, 1.0, True, 1)] == [True] * 3 + [False]


# --- late records ---------------------------------------------------------------------------------


def test_a_record_that_is_older_than_stream_time_by_more_than_the_interval_is_dropped_as_late():
    with driver_of(by_key) as driver:
        driver.pipe_all("in", [("b", "x", 50), ("a", "on time", 40), ("c", "late", 37)])

        assert driver.read("out", value=str) == [("b", "x"), ("a", "on time")]
        (late,) = driver.dropped
        assert (late.reason, late.count, late.late_max_ms) == (DropReason.LATE, 1, 3)


def test_duplicates_move_stream_time_too():
    run = OneOperator(first_of())
    assert [bool(run.pipe("a", "x", time)) for time in (0, 10)] == [True, False]
    assert run.pipe("b", "x", 0)
    run.pipe("a", "x", 11)

    assert not run.pipe("c", "x", 0)
    assert run.dropped == {DropReason.DUPLICATE: 1, DropReason.LATE: 1}


def test_a_longer_retention_takes_later_records():
    longer = Materialized("seen", retention=ms(3 * INTERVAL_MS + 3))
    with driver_of(partial(by_key, store=longer)) as driver:
        driver.pipe_all("in", [("b", "x", 50), ("c", "late", 37), ("d", "later", 36)])

        assert driver.read("out", value=str) == [("b", "x"), ("c", "late")]


def gone_on(records: list[Alike], grace_ms: int) -> list[bool]:
    """By the definition, with everything kept for ever."""
    found: list[bool] = []
    before: list[Alike] = []
    stream_time = -1
    for key, id_, time in records:
        if key is None or id_ is None:
            found.append(True)
            continue
        stream_time = max(stream_time, time)
        near = [t for k, i, t in before if (k, i) == (key, id_) and abs(t - time) <= INTERVAL_MS]
        found.append(time >= stream_time - grace_ms and not near)
        if found[-1]:
            before.append((key, id_, time))
    return found


ALIKE = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y", None]), st.integers(0, 150)
    ),
    max_size=40,
)


@given(records=ALIKE, grace_ms=st.sampled_from([INTERVAL_MS, 25, 300]), in_memory=st.booleans())
def test_what_goes_on_is_what_would_if_nothing_expired(
    records: list[Alike], grace_ms: int, in_memory: bool
):
    kept = {"retention_ms": 2 * INTERVAL_MS + grace_ms, "in_memory": in_memory}
    run = OneOperator(first_of(by_id=True, **kept))

    found = [bool(run.pipe(key, id_, time)) for key, id_, time in records]

    assert found == gone_on(records, grace_ms)


def test_rows_expire_with_the_retention():
    run = OneOperator(first_of())
    for time in range(0, 10_000, 11):
        run.pipe("a", "x", time)

    assert 2 <= len(list(run.store("seen").all())) <= 3
    assert len(list(run.store("seen")._rows.scan())) <= 6
