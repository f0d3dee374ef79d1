"""Stores that keep record headers: of processors, and of the DSL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate.contracts.records import Headers, Record, Windowed
from logstate.contracts.stores import StoreSpec, ValueAndTimestamp
from logstate.testing import TopologyTestDriver
from logstate.topology import (
    Materialized,
    Processor,
    SessionWindows,
    StreamsBuilder,
    TumblingWindows,
    session_store,
    timestamped_key_value_store,
    window_store,
)

HOUR = timedelta(hours=1)
TRACE: Headers = [("trace", b"x"), ("none", None)]
Put = Callable[[Any, Record[str, int]], None]


def put_row(store: Any, record: Record[str, int]) -> None:
    row = ValueAndTimestamp(record.value, record.timestamp, record.headers)
    store.put(record.key, row)


def put_window(store: Any, record: Record[str, int]) -> None:
    row = ValueAndTimestamp(record.value, record.timestamp, record.headers)
    store.put(record.key, row, record.timestamp)


def put_session(store: Any, record: Record[str, int]) -> None:
    session = Windowed(record.key, record.timestamp, record.timestamp)
    store.put(session, record.value, record.headers)


STORES: dict[str, tuple[Callable[..., StoreSpec], dict[str, Any], Put, Callable[[Any], Headers]]]
STORES = {
    "key-value": (timestamped_key_value_store, {}, put_row, lambda store: store.get("a").headers),
    "window": (
        window_store,
        {"size": HOUR, "retention": HOUR, "timestamped": True},
        put_window,
        lambda store: store.fetch("a", 5).headers,
    ),
    "session": (
        session_store,
        {"retention": HOUR},
        put_session,
        lambda store: store.headers_of("a", 5, 5),
    ),
}


@pytest.mark.parametrize("in_memory", [False, True])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("kind", STORES)
def test_a_processors_store_keeps_and_logs_headers_if_it_is_to(
    kind: str, keeps: bool, in_memory: bool
) -> None:
    make, options, put, headers_in = STORES[kind]
    spec = make("rows", str, int, headers=keeps, in_memory=in_memory, **options)

    class Keep(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            put(self.context.store("rows"), record)

    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Keep, stores=spec)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", 1, timestamp=5, headers=TRACE)
        expected = TRACE if keeps else None
        assert headers_in(driver.store("rows")) == expected
        assert [one.headers for one in driver.changelog("app-rows-changelog")] == [expected]
        driver.crash(loses_disk=True)
        assert headers_in(driver.store("rows")) == expected


GROUPED: dict[str, Any] = {
    "plain": lambda grouped: grouped,
    "window": lambda grouped: grouped.windowed_by(TumblingWindows(size=HOUR)),
    "session": lambda grouped: grouped.windowed_by(SessionWindows(gap=HOUR)),
}


@pytest.mark.parametrize(
    ("built", "said", "in_memory", "keeps"),
    [
        (False, None, False, False),
        (True, None, False, True),
        (True, False, False, False),
        (False, True, False, True),
        (True, None, True, False),
        (False, True, True, True),
    ],
)
@pytest.mark.parametrize("grouped", GROUPED.values(), ids=GROUPED)
def test_a_store_of_the_dsl_says_for_itself_what_the_builder_says_for_all(
    grouped: Any, built: bool, said: bool | None, in_memory: bool, keeps: bool
) -> None:
    builder = StreamsBuilder(store_headers=built)
    store = Materialized("rows", headers=said, in_memory=in_memory)
    grouped(builder.stream("in", value=int).group_by_key()).count(store=store)
    topology = builder.build()
    assert topology.stores["rows"].with_headers is keeps
    with TopologyTestDriver(topology) as driver:
        driver.pipe("in", "a", 1, timestamp=5, headers=TRACE)
        rows = list(driver.store("rows").all())
        driver.crash(loses_disk=True)
        assert list(driver.store("rows").all()) == rows


def test_a_table_with_headers_logs_a_tombstone_with_those_of_its_record() -> None:
    logged = {}
    for keeps in (True, False):
        builder = StreamsBuilder()
        builder.table("in", value=int, store=Materialized("rows", headers=keeps))
        with TopologyTestDriver(builder.build()) as driver:
            driver.pipe("in", "a", 1, timestamp=5, headers=TRACE)
            driver.pipe("in", "a", None, timestamp=6, headers=TRACE)
            logged[keeps] = [one.headers for one in driver.changelog("app-rows-changelog")]
    assert logged == {True: [None, TRACE], False: [None, None]}
