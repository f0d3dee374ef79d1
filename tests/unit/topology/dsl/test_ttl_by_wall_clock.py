"""Stores of processors whose rows expire by the wall clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from logstate import Materialized, Processor, StreamsBuilder, TopologyTestDriver
from logstate.contracts.drops import DropReason
from logstate.contracts.errors import TopologyError
from logstate.contracts.records import Record
from logstate.testing.mock_processor_context import MockProcessorContext
from logstate.topology import (
    counter_store,
    key_value_store,
    map_store,
    set_store,
    timestamped_key_value_store,
)

TTL_MS = 60_000
TTL = timedelta(milliseconds=TTL_MS)
SEEN = key_value_store("seen", str, int, ttl=TTL, ttl_by="wall_clock")
NUMBERS = counter_store("numbers", str, ttl=TTL, ttl_by="wall_clock")
PRICES = map_store("prices", str, str, int, ttl=TTL, ttl_by="wall_clock")
VALUES = set_store("values", str, int, ttl=TTL, ttl_by="wall_clock")
STORES = (SEEN, NUMBERS, PRICES, VALUES)
#: a wall clock far behind the event times, and far ahead of them
EVENT_TIMES = (0, 10**12)


class Keep(Processor[str, int, str, int]):
    """Writes the value to every store, and forwards what it found of it."""

    def process(self, record: Record[str, int]) -> None:
        store = self.context.store
        found = store(SEEN).get(record.key)
        store(SEEN).put(record.key, record.value)
        number = store(NUMBERS).add(record.key)
        store(PRICES).put(record.key, str(record.value), record.value)
        is_new = store(VALUES).add(record.key, record.value)
        shown = (found or 0) * 100 + number * 10 + is_new
        self.context.forward(record.with_value(shown))


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    kept = builder.stream("in", value=int).process(Keep, stores=STORES, key=str, value=int)
    kept.to("out")
    with TopologyTestDriver(builder.build(), wall_clock_start_ms=1_000_000) as driver:
        yield driver


def rows(driver: TopologyTestDriver) -> list[Any]:
    """What each store has of key "a"."""
    return [
        driver.store("seen").get("a"),
        driver.store("numbers").get("a"),
        list(driver.store("prices").items("a")),
        list(driver.store("values").values("a")),
    ]


NOTHING = [None, None, [], []]


@pytest.mark.parametrize("event_time", EVENT_TIMES)
def test_rows_expire_a_ttl_after_their_write_whatever_the_times_of_records(
    driver: TopologyTestDriver, event_time: int
) -> None:
    driver.pipe("in", "a", 1, timestamp=event_time)
    driver.advance_wall_clock(TTL_MS - 1)
    driver.pipe("in", "a", 2, timestamp=0)  # late by event time
    assert rows(driver) == [2, 2, [("1", 1), ("2", 2)], [1, 2]]
    driver.advance_wall_clock(1)
    assert rows(driver) == [2, 2, [("2", 2)], [2]]
    driver.advance_wall_clock(TTL_MS - 1)
    assert rows(driver) == NOTHING
    driver.pipe("in", "a", 2, timestamp=event_time + 10 * TTL_MS)
    assert [value for _, value in driver.read("out", value=int)] == [11, 121, 11]
    assert driver.task.dropped[DropReason.EXPIRED] == 0


def test_an_idle_task_deletes_its_rows(driver: TopologyTestDriver) -> None:
    driver.pipe("in", "a", 1, timestamp=5)
    driver.advance_wall_clock(TTL_MS)
    for store in STORES:
        assert not list(driver.task.state._rows[store.name].scan())


@pytest.mark.parametrize("crashes", [None, "keeps the disk", "loses the disk"])
def test_a_clock_that_goes_back_revives_no_row(
    driver: TopologyTestDriver, crashes: str | None
) -> None:
    driver.pipe("in", "a", 1, timestamp=5)
    driver.advance_wall_clock(TTL_MS)
    driver.clock.jump_wall_clock(1_000_000)
    if crashes is not None:
        driver.crash(loses_disk=crashes == "loses the disk")
    assert rows(driver) == NOTHING
    driver.pipe("in", "a", 2, timestamp=5)
    assert [value for _, value in driver.read("out", value=int)] == [11, 11]
    driver.advance_wall_clock(TTL_MS)  # where the clock was when the row was written
    assert rows(driver) == [2, 1, [("2", 2)], [2]]
    driver.advance_wall_clock(TTL_MS)
    assert rows(driver) == NOTHING


def test_a_clock_that_is_ahead_expires_rows_early(driver: TopologyTestDriver) -> None:
    driver.pipe("in", "a", 1, timestamp=5)
    driver.clock.jump_wall_clock(1_000_000 + TTL_MS)
    driver.pipe("in", "b", 1, timestamp=5)
    driver.clock.jump_wall_clock(1_000_000)
    assert rows(driver) == NOTHING


def test_a_row_whose_ttl_passes_within_its_write_is_written() -> None:
    ticks = iter(range(1_000, 2_000))
    short = key_value_store("x", str, int, ttl=timedelta(milliseconds=1), ttl_by="wall_clock")
    context = MockProcessorContext(stores=short)
    context._of_stores.wall_clock_ms = lambda: next(ticks)
    rows = context._state._rows["x"]
    context.store(short).put("a", 1)
    assert [key for key, _ in rows.scan()] == [b"a"]


def test_reads_renew_rows_by_the_wall_clock() -> None:
    used = key_value_store("used", str, int, ttl=TTL, ttl_by="wall_clock", renew_on_read=True)
    context = MockProcessorContext(stores=used, wall_clock_ms=5)
    context.store(used).put("a", 1)
    context.wall_clock_ms += TTL_MS - 1
    assert context.store(used).get("a") == 1
    context.wall_clock_ms += TTL_MS - 1
    assert context.store(used).get("a") == 1
    context.wall_clock_ms += TTL_MS
    assert context.store(used).get("a") is None


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a table": (
        lambda: Materialized("x", ttl=TTL, ttl_by="wall_clock"),
        "the rows of a table have their own times.* key_value_store",
    ),
    "rows with times": (
        lambda: timestamped_key_value_store("x", str, int, ttl=TTL, ttl_by="wall_clock"),
        "its rows have their own timestamps.* key_value_store",
    ),
    "no ttl": (lambda: key_value_store("x", str, int, ttl_by="wall_clock"), "and no ttl"),
    "no ttl of elements": (lambda: set_store("x", str, int, ttl_by="wall_clock"), "and no ttl"),
    "no clock": (
        lambda: counter_store("x", str, ttl=TTL, ttl_by="event_time"),  # type: ignore[arg-type]
        "found 'event_time'.* 'stream_time' or 'wall_clock'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_clock_that_does_not_fit_its_store_is_refused(case: str) -> None:
    declare, text = REFUSED[case]
    with pytest.raises(TopologyError, match=text):
        declare()
