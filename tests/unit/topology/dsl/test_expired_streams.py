"""The stream of rows that expire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate import Materialized, Processor, StreamsBuilder, TopologyTestDriver
from logstate.contracts.errors import TopologyError
from logstate.contracts.records import Record
from logstate.contracts.stores import ValueAndTimestamp
from logstate.topology import (
    Topology,
    counter_store,
    key_value_store,
    map_store,
    set_store,
    timestamped_key_value_store,
)
from tests.examples_tried import at_most

TTL_MS = 10
TTL = timedelta(milliseconds=TTL_MS)


def counts(builder: StreamsBuilder) -> None:
    store = Materialized("rows", ttl=TTL, expired="gone")
    builder.stream("in", value=int).group_by_key().count(store=store).to_stream().to("out")


def table(builder: StreamsBuilder) -> None:
    builder.table("in", value=int, store=Materialized("rows", ttl=TTL, expired="gone"))


def processed(builder: StreamsBuilder) -> None:
    rows = key_value_store("rows", str, int, ttl=TTL, expired="gone")

    class Keep(Processor[str, int, None, None]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store(rows).put(record.key, record.value)

    builder.stream("in", value=int).process(Keep, stores=rows)


def processed_with_times(builder: StreamsBuilder) -> None:
    rows = timestamped_key_value_store("rows", str, int, ttl=TTL, expired="gone")

    class Keep(Processor[str, int, None, None]):
        def process(self, record: Record[str, int]) -> None:
            row = ValueAndTimestamp(record.value, record.timestamp)
            self.context.store(rows).put(record.key, row)

    builder.add_store(rows)
    builder.stream("in", value=int).process(Keep, stores="rows")


def elements(builder: StreamsBuilder) -> None:
    rows = map_store("rows", str, str, int, ttl=TTL, expired="gone-elements")

    class Keep(Processor[str, int, None, None]):
        """Keeps all values as elements of one key."""

        def process(self, record: Record[str, int]) -> None:
            self.context.store(rows).put("all", record.key, record.value)

    builder.stream("in", value=int).process(Keep, stores=rows)
    gone = builder.expired("gone-elements", key=str, value=tuple[str, int])
    gone.map(lambda _, element: element, key=str, value=int).to("expired")


def built(declare: Callable[[StreamsBuilder], None]) -> Topology:
    builder = StreamsBuilder()
    declare(builder)
    if declare is not elements:
        builder.expired("gone", key=str, value=int).to("expired", key=str, value=int)
    return builder.build()


Rows = list[tuple[str, int, int]]


def expired(driver: TopologyTestDriver) -> Rows:
    return driver.read_with_timestamps("expired", key=str, value=int)


@pytest.mark.parametrize("declare", [table, processed, processed_with_times])
def test_a_row_is_emitted_once_before_the_record_that_is_too_late_for_it(
    declare: Callable[[StreamsBuilder], None],
) -> None:
    with TopologyTestDriver(built(declare)) as driver:
        driver.pipe_all("in", [("b", 1, 100), ("a", 2, 100), ("c", 3, 104)])
        assert not driver.read("expired", value=int)
        driver.pipe("in", "a", 4, timestamp=110)
        driver.crash(loses_disk=True)
        driver.pipe("in", "d", 5, timestamp=200)
        driver.pipe("in", "a", 6, timestamp=150)  # dropped: it has expired already
        driver.pipe("in", "d", 7, timestamp=300)
        assert expired(driver) == [
            ("a", 2, 110), ("b", 1, 110), ("c", 3, 114), ("a", 4, 120), ("d", 5, 210)
        ]  # fmt: skip
        assert [key for key, _ in driver.store("rows").all()] == ["d"]


PRICES = map_store("prices", str, int, str, ttl=TTL, expired="gone-prices")
TAGS = set_store("tags", str, int, ttl=TTL, expired="gone-tags")


class Collect(Processor[str, int, None, None]):
    """Keeps values in a map and in a set, and removes 0 from both."""

    def process(self, record: Record[str, int]) -> None:
        prices, tags = self.context.store(PRICES), self.context.store(TAGS)
        prices.put(record.key, record.value, f"price {record.value}")
        tags.add(record.key, record.value)
        prices.delete(record.key, 0)
        tags.discard(record.key, 0)


def test_elements_of_maps_and_sets_are_emitted_one_by_one() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Collect, stores=[PRICES, TAGS])
    prices = builder.expired("gone-prices", key=str, value=tuple[int, str])
    prices.to("prices")
    builder.expired("gone-tags", key=str, value=int).to("tags")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("b", -1, 100), ("a", 2, 100), ("a", 1, 105), ("a", 0, 106)])
        driver.pipe("in", "a", 2, timestamp=110)  # expired before: it is a new element
        driver.crash(loses_disk=True)
        driver.pipe("in", "a", 1, timestamp=112)  # renews it
        driver.pipe("in", "c", 1, timestamp=300)
        assert driver.read_with_timestamps("tags", value=int) == [
            ("a", 2, 110), ("b", -1, 110), ("a", 2, 120), ("a", 1, 122)
        ]  # fmt: skip
        assert driver.read_with_timestamps("prices", value=tuple[int, str]) == [
            ("a", (2, "price 2"), 110), ("b", (-1, "price -1"), 110),
            ("a", (2, "price 2"), 120), ("a", (1, "price 1"), 122),
        ]  # fmt: skip
        assert list(driver.store("tags").all()) == [("c", 1)]


def test_the_serde_of_expired_elements_is_asked_for() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=int).process(Collect, stores=[PRICES, TAGS])
    with pytest.raises(TopologyError, match="No serde for the value"):
        builder.expired("gone-tags", key=str).to("tags")


def test_an_aggregate_begins_again_after_its_row_was_emitted() -> None:
    with TopologyTestDriver(built(counts)) as driver:
        driver.pipe_all("in", [("a", 0, 1), ("a", 0, 5), ("a", 0, 15), ("a", 0, 30)])
        assert expired(driver) == [("a", 2, 15), ("a", 1, 25)]


def test_a_deleted_row_does_not_expire() -> None:
    with TopologyTestDriver(built(table)) as driver:
        driver.pipe_all("in", [("a", 1, 1), ("a", None, 2), ("b", 1, 99)])
        assert not expired(driver)


def test_the_operators_below_a_table_get_no_rows_of_its_stream() -> None:
    builder = StreamsBuilder()
    rows = builder.table("in", value=int, store=Materialized("rows", ttl=TTL, expired="gone"))
    rows.to_stream().to("out", value=int)
    builder.expired("gone", value=int).to("expired", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 1, 1), ("b", 2, 50)])
        assert driver.read("out", value=int) == [("a", 1), ("b", 2)]
        assert expired(driver) == [("a", 1, 11)]


def test_an_operator_below_may_write_a_row_that_expires_at_the_same_time() -> None:
    numbers = counter_store("numbers", str, ttl=TTL, expired="gone")

    class Add(Processor[str, int, None, None]):
        def process(self, record: Record[str, int]) -> None:
            self.context.store(numbers).add("z" if record.value else record.key)

    builder = StreamsBuilder()
    builder.stream("in", value=int).map_values(lambda _: 0, value=int).process(Add, stores=numbers)
    gone = builder.expired("gone", key=str, value=int)
    gone.to("expired", key=str, value=int)
    gone.process(Add, stores="numbers")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("in", [("a", 0, 1), ("z", 0, 1), ("b", 0, 50)])
        assert expired(driver) == [("a", 1, 11), ("z", 1, 11)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(0, 12), st.integers(0, 12),
        st.sampled_from(["none", "none", "crash", "lost disk", "commit"]),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=at_most(60))
@given(steps=STEPS)
@pytest.mark.parametrize("declare", [table, processed, elements])
def test_each_row_that_expires_is_emitted_whenever_commits_and_crashes_are(
    declare: Callable[[StreamsBuilder], None], steps: Sequence[tuple[str, int, int, str]]
) -> None:
    now, rows, wanted = 0, dict[str, tuple[int, int]](), list[tuple[str, int, int]]()
    with TopologyTestDriver(built(declare)) as driver:
        for number, (key, advance, delay, what) in enumerate(steps):
            time = max(0, now + advance - delay)
            now = max(now, time)
            gone = sorted((at, one, row) for one, (row, at) in rows.items() if at + TTL_MS <= now)
            wanted += [(one, row, at + TTL_MS) for at, one, row in gone]
            rows = {one: row for one, row in rows.items() if row[1] + TTL_MS > now}
            if time + TTL_MS > now:
                rows[key] = (number, time)
            driver.pipe("in", key, number, timestamp=time)
            if what in ("crash", "lost disk"):
                driver.crash(loses_disk=what == "lost disk")
        assert expired(driver) == wanted
        found = [key for key, _ in driver.store("rows").all()]
        assert {key if isinstance(key, str) else key[1] for key in found} == set(rows)


def twice(builder: StreamsBuilder) -> Any:
    counts(builder)
    builder.expired("gone")
    return builder.expired("gone")


def of_two_stores(builder: StreamsBuilder) -> Any:
    counts(builder)
    store = Materialized("more", ttl=TTL, expired="gone")
    builder.stream("more", value=int).group_by_key().count(store=store)
    return builder.expired("gone")


def of_a_store_alone(builder: StreamsBuilder) -> Any:
    builder.add_store(key_value_store("x", str, int, ttl=TTL, expired="gone"))
    return builder.expired("gone")


REFUSED: dict[str, tuple[Callable[[StreamsBuilder], Any], str]] = {
    "no store": (lambda builder: builder.expired("gone"), "No store declared so far .*: none"),
    "twice": (twice, "was taken already"),
    "of two stores": (of_two_stores, "'rows' and 'more' have expired='gone'.* merge"),
    "of a store alone": (of_a_store_alone, "no operator declared so far is connected"),
    "no ttl": (lambda _: Materialized("x", expired="gone"), "and no ttl"),
    "a name that is none": (
        lambda _: Materialized("x", ttl=timedelta(seconds=1), expired=""),
        "'' is not a valid name for the stream of rows that expire of store 'x': it is empty",
    ),
    "a name that is a number": (
        lambda _: counter_store("x", str, ttl=timedelta(seconds=1), expired=5),  # type: ignore[arg-type]
        "5 is not a valid name for the stream of rows that expire of store 'x': it is a int",
    ),
    "no ttl of a processor": (lambda _: counter_store("x", str, expired="gone"), "and no ttl"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_stream_that_does_not_fit_is_refused(case: str) -> None:
    declare, text = REFUSED[case]
    with pytest.raises(TopologyError, match=text):
        declare(StreamsBuilder())
