"""``map_values_async``: many calls at a time, results in the order of the records, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import ProcessingError, TopologyError
from logstate.task.error_handlers import ErrorHandlers, dead_letter, retry, skip
from logstate.testing.driver import TopologyTestDriver
from logstate.topology import StreamsBuilder, Topology
from logstate.topology.operators.streams.async_mapper import AsyncMapValuesNode
from tests.unit.topology.operators.one_operator import OneOperator

#: how often a test waits for a turn of the event loop, at most
TURNS = 10_000


def mapped(mapper: Callable[..., Awaitable[Any]], **options: Any) -> Topology:
    builder = StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    numbers.map_values_async(mapper, value=int, **options).to("out")
    return builder.build()


async def doubled(value: int) -> int:
    return 2 * value


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def doubled_late(value: int) -> int:
    await turns(value % 7)
    return 2 * value


async def not_two(value: int) -> int:
    await turns(1)
    if value == 2:
        raise ValueError("two")
    return value


@given(
    values=st.lists(st.integers(0, 100), min_size=1, max_size=20),
    commit_every=st.integers(1, 8),
    concurrency=st.integers(1, 5),
    crashes=st.sets(st.integers(0, 20)),
)
def test_results_are_in_the_order_of_the_records_whatever_their_calls_take(
    values: list[int], commit_every: int, concurrency: int, crashes: set[int]
) -> None:
    topology = mapped(doubled_late, concurrency=concurrency)
    with TopologyTestDriver(topology, commit_every=commit_every) as driver:
        for number, value in enumerate(values):
            driver.pipe("in", str(number), value, timestamp=number)
            if number in crashes:
                driver.crash()
        driver.advance_wall_clock(1)  # commits
        found = driver.read("out", value=int)
    assert found == [(str(number), 2 * value) for number, value in enumerate(values)]


class Meeting:
    """A mapper whose calls wait until a number of them have begun."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.running = self.most = 0
        self.is_complete = asyncio.Event()

    async def __call__(self, value: int) -> int:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self.size:
            self.is_complete.set()
        await self.is_complete.wait()
        await turns(1)
        self.running -= 1
        return value


def test_as_many_calls_as_the_concurrency_run_at_a_time_and_no_more() -> None:
    meeting = Meeting(3)
    with TopologyTestDriver(mapped(meeting, concurrency=3), commit_every=12) as driver:
        driver.pipe_all("in", [("k", value, value) for value in range(12)])
        assert [value for _, value in driver.read("out", value=int)] == list(range(12))
    assert meeting.most == 3


def test_a_null_value_is_given_to_the_mapper_and_a_result_of_none_is_a_null_value() -> None:
    async def or_none(value: int | None) -> int | None:
        return 1 if value is None else None

    with TopologyTestDriver(mapped(or_none)) as driver:
        driver.pipe_all("in", [("a", None, 0), (None, 5, 1)])
        assert driver.read("out", value=int) == [("a", 1), (None, None)]


def test_a_mapper_of_key_and_value_gets_both() -> None:
    async def joined(key: str, value: int) -> int:
        return len(key) + value

    with TopologyTestDriver(mapped(joined)) as driver:
        driver.pipe("in", "abc", 4)
        assert driver.read("out", value=int) == [("abc", 7)]


def test_a_result_has_the_time_headers_and_position_of_its_record() -> None:
    node = AsyncMapValuesNode(
        "async", mapper=lambda _, value: doubled_late(value), concurrency=9, timeout=timedelta(1)
    )
    task = OneOperator(node)
    headers = [("h", b"1")]
    assert task.pipe("a", 6, 10, headers) == []
    task.pipe("b", 0, 5)
    task.commit()
    assert task.take() == [("a", 12, 10, headers), ("b", 0, 5, None)]
    assert task.forwarded_from == [("in", 0, 0), ("in", 0, 1)]
    assert (task.offset, task.timestamp, task.headers) == (1, 5, None)  # as before the commit


class Endless:
    """A mapper whose calls end only if they are cancelled."""

    def __init__(self) -> None:
        self.began, self.cancelled = list[int](), list[int]()

    async def __call__(self, value: int) -> int:
        self.began.append(value)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        return value


def wait_for(loop_sees: Callable[[], bool]) -> None:
    """Let the event loop run until it has done what is expected."""
    with TopologyTestDriver(mapped(doubled_late)) as other:  # a call of it is a few turns
        for _ in range(TURNS):
            if loop_sees():
                return
            other.pipe("in", "k", 6)
    pytest.fail("the event loop did not get there")


def test_a_task_that_is_discarded_cancels_its_calls() -> None:
    endless = Endless()
    node = AsyncMapValuesNode(
        "async", mapper=lambda _, value: endless(value), concurrency=9, timeout=timedelta(1)
    )
    task = OneOperator(node)
    task.pipe("a", 1, 0)
    task.pipe("a", 2, 0)
    wait_for(lambda: endless.began == [1, 2])
    task.discard()
    wait_for(lambda: sorted(endless.cancelled) == [1, 2])
    task.commit()
    assert task.take() == []


def test_a_record_that_is_undone_leaves_no_call_and_the_others_stay() -> None:
    node = AsyncMapValuesNode(
        "async", mapper=lambda _, value: doubled_late(value), concurrency=9, timeout=timedelta(1)
    )
    task = OneOperator(node)
    task.pipe("a", 1, 0)
    for rollback in (True, False):
        task.begin_journal()
        task.pipe("b", 2, 0)
        task.end_journal(rollback=rollback)
    task.commit()
    assert [(key, value) for key, value, *_ in task.take()] == [("a", 2), ("b", 4)]


def test_a_slot_of_an_undone_call_is_free_again() -> None:
    endless = Endless()
    node = AsyncMapValuesNode(
        "async", mapper=lambda _, value: endless(value), concurrency=1, timeout=timedelta(1)
    )
    task = OneOperator(node)
    for value in range(3):  # each waits for the one slot
        task.begin_journal()
        task.pipe("b", value, 0)
        task.end_journal(rollback=True)
    task.discard()


def test_an_error_names_the_function_and_its_record_and_nothing_is_committed() -> None:
    driver = TopologyTestDriver(mapped(not_two))
    driver.pipe("in", "a", 1)
    with pytest.raises(ProcessingError, match="ValueError: two") as caught:
        driver.pipe("in", "a", 2)
    told = str(caught.value)
    assert "topic 'in', partition 0, offset 1" in told
    assert "(map_values_async of 'in')" in told
    assert "test_async_mapper.py" in told
    assert "in not_two" in told
    assert driver.read("out", value=int) == [("a", 1)]


async def two_as_text(value: int) -> Any:
    return "two" if value == 2 else value


@pytest.mark.parametrize("mapper", [not_two, two_as_text])
@pytest.mark.parametrize("on_skip", ["rollback", "keep"])
@pytest.mark.parametrize("commit_every", [1, 3])
def test_a_handler_decides_about_the_record_alone(
    mapper: Any, on_skip: Any, commit_every: int
) -> None:
    handlers = ErrorHandlers(
        processing=dead_letter, production=dead_letter, dead_letter_topic="dead", on_skip=on_skip
    )
    driver = TopologyTestDriver(mapped(mapper), error_handlers=handlers, commit_every=commit_every)
    with driver:
        driver.pipe_all("in", [("k", value, value) for value in (1, 2, 3, 2, 4, 5)])
        assert driver.read("out", value=int) == [("k", value) for value in (1, 3, 4, 5)]
        assert driver.read("dead", value=int) == [("k", 2), ("k", 2)]


def test_a_handler_that_retries_calls_the_mapper_again() -> None:
    calls: list[int] = []

    async def third_time(value: int) -> int:
        calls.append(value)
        if len(calls) < 3:
            raise ConnectionError("unavailable")
        return value

    handlers = ErrorHandlers(processing=retry(5, backoff=timedelta(seconds=1), then=skip))
    with TopologyTestDriver(mapped(third_time), error_handlers=handlers) as driver:
        driver.pipe("in", "k", 7)
        for _ in range(4):
            driver.advance_wall_clock(timedelta(seconds=10))
        assert driver.read("out", value=int) == [("k", 7)]
    assert calls == [7, 7, 7]


async def leaves_the_process(value: int) -> int:
    raise SystemExit(value)


async def cancels_itself(_value: int) -> int:
    raise asyncio.CancelledError


async def takes_too_long(value: int) -> int:
    await asyncio.Event().wait()
    return value


def is_no_coroutine(value: int) -> Any:
    return value


@pytest.mark.parametrize(
    ("mapper", "told"),
    [
        (leaves_the_process, r"in leaves_the_process.*: RuntimeError: .* raised SystemExit\(1\)"),
        (cancels_itself, r"RuntimeError: cancels_itself .* raised CancelledError"),
        (takes_too_long, r"TimeoutError: .* did not return within the timeout of 0:00:00.020000"),
        (is_no_coroutine, r"returned 1 \(int\), which cannot be awaited.* use map_values\(\)"),
    ],
)
def test_what_no_mapper_may_do_is_an_error_of_its_record_and_other_calls_go_on(
    mapper: Any, told: str
) -> None:
    driver = TopologyTestDriver(mapped(mapper, timeout=timedelta(milliseconds=20)))
    with pytest.raises(ProcessingError, match=told):
        driver.pipe("in", "k", 1)
    with TopologyTestDriver(mapped(doubled)) as other:
        other.pipe("in", "k", 1)
        assert other.read("out", value=int) == [("k", 2)]


def test_a_timeout_of_the_mapper_itself_is_not_taken_for_that_of_the_operator() -> None:
    async def own_timeout(value: int) -> int:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return value

    driver = TopologyTestDriver(mapped(own_timeout))
    with pytest.raises(ProcessingError, match="TimeoutError") as caught:
        driver.pipe("in", "k", 1)
    assert "within the timeout of" not in str(caught.value)


async def yields(value: int) -> Any:
    yield value


@pytest.mark.parametrize(
    ("mapper", "options", "told"),
    [
        (yields, {}, "is an async generator function"),
        (doubled, {"concurrency": 0}, "concurrency of map_values_async.* at least 1, found 0"),
        (doubled, {"concurrency": True}, "found True"),
        (doubled, {"timeout": timedelta(0)}, "timeout of map_values_async.* at least 1 ms"),
        (doubled, {"timeout": 5}, "must be a timedelta, found 5"),
        (doubled, {"capacity": 5}, "has no option capacity. It takes concurrency, name"),
        (lambda a, b, c: doubled(a), {}, r"\(value\) or \(key, value\)"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_declared(
    mapper: Any, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(TopologyError, match=told):
        mapped(mapper, **options)


class Order(msgspec.Struct):
    cents: int


def test_two_mappers_in_a_row_and_an_aggregation_below_see_every_record_once() -> None:
    async def order_of(value: int) -> Order:
        await turns(value % 3)
        return Order(value)

    async def cents_of(order: Order) -> int:
        await turns(order.cents % 2)
        return order.cents

    builder = StreamsBuilder()
    orders = builder.stream("in", key=str, value=int).map_values_async(order_of, value=Order)
    cents = orders.map_values_async(cents_of, value=int)
    cents.group_by_key().aggregate(int, lambda total, one: total + one, value=int, store="s")
    with TopologyTestDriver(builder.build(), commit_every=4) as driver:
        driver.pipe_all("in", [("k", value, value) for value in range(10)])
        driver.crash()
        driver.advance_wall_clock(1)
        assert driver.store("s").get("k").value == 45
