"""Stores with secondary indexes: how they are declared, what finds rows, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstate import (
    ErrorHandlers,
    Materialized,
    Processor,
    StreamsBuilder,
    TopologyTestDriver,
    index,
    key_value_store,
    skip,
    timestamped_key_value_store,
)
from logstate.contracts.errors import ProcessingError, StoreArgumentError, StoreError, TopologyError
from logstate.contracts.records import Record
from logstate.topology import TumblingWindows
from tests.examples_tried import at_most


class Order(msgspec.Struct, frozen=True):
    city: str | None
    cents: int


class Place(NamedTuple):
    country: str
    number: int


def city_of(order: Order) -> str | None:
    return order.city


def failing(order: Order) -> str:
    if order.cents == 13:
        raise KeyError("cents")
    return str(order.cents) if order.cents != 14 else order.cents  # type: ignore[return-value]


def driver_of(indexes: Any, value: Any = Order, **options: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.table("orders", value=value, store=Materialized("orders", indexes=indexes, **options))
    return TopologyTestDriver(builder.build())


def keys(rows: Any) -> list[Any]:
    return [key for key, _ in rows]


def test_rows_are_found_by_a_part_of_their_values() -> None:
    indexes = {"city": lambda order: order.city, "cents": lambda order: order.cents}
    with driver_of(indexes) as driver:
        for key, order in (
            ("o-1", Order("Oslo", 5)),
            ("o-2", Order("Bergen", -7)),
            ("o-3", Order("Oslo", 300)),
            ("o-4", Order(None, 6)),
        ):
            driver.pipe("orders", key, order)
        store = driver.store("orders")
        assert keys(store.by("city", "Oslo")) == ["o-1", "o-3"]
        assert keys(store.by("city", "Paris")) == []
        assert keys(store.by_range("cents")) == ["o-2", "o-1", "o-4", "o-3"]
        assert keys(store.by_range("cents", 5, 6)) == ["o-1", "o-4"]
        assert keys(store.by_range("cents", upper=5, reverse=True)) == ["o-1", "o-2"]
        assert keys(store.by_range("city", "C")) == ["o-1", "o-3"]
        driver.pipe("orders", "o-1", Order("Bergen", 5))
        driver.pipe("orders", "o-3", None)
        assert keys(store.by("city", "Oslo")) == []
        assert keys(store.by("city", "Bergen")) == ["o-1", "o-2"]


@pytest.mark.parametrize("loses_disk", [False, True])
def test_an_index_survives_a_crash_and_a_lost_disk(loses_disk: bool) -> None:
    with driver_of({"city": city_of}) as driver:
        driver.pipe("orders", "o-1", Order("Oslo", 5))
        driver.pipe("orders", "o-2", Order("Oslo", 5))
        driver.crash(loses_disk=loses_disk)
        driver.pipe("orders", "o-2", Order("Bergen", 5))
        assert keys(driver.store("orders").by("city", "Oslo")) == ["o-1"]


@pytest.mark.parametrize(
    ("function", "value", "found"),
    [
        (index(lambda order: order["city"], str), dict, ["string"]),
        (index(lambda order: order["city"], str | None), dict, ["string"]),
        (city_of, Order, ["string"]),
        (lambda order: order.cents, Order, ["int64"]),
        (index(lambda _: Place("NO", 1), Place), Order, ["string", "int64"]),
        (index(lambda _: ("NO", 1), tuple[str, int]), Order, ["string", "int64"]),
        (index(lambda _: datetime.now(UTC), datetime), Order, ["timestamp"]),
        (index(lambda _: date.min, date), Order, ["date"]),
        (index(lambda _: UUID(int=0), UUID), Order, ["uuid"]),
        (len, str, None),
    ],
)
def test_the_type_of_an_index_is_declared_annotated_or_selected(
    function: Any, value: Any, found: list[str] | None
) -> None:
    store = Materialized("orders", indexes={"one": function})
    builder = StreamsBuilder()
    if found is None:
        with pytest.raises(TopologyError, match="The type of index 'one' of store 'orders' is not"):
            builder.table("orders", value=value, store=store)
        return
    builder.table("orders", value=value, store=store)
    (one,) = builder.build().stores["orders"].indexes
    assert one.describe()["parts"] == found


@pytest.mark.parametrize(
    ("indexes", "error"),
    [
        ({"one": index(lambda order: order, Order)}, "have no order: .* returns Order"),
        ({"one": index(lambda order: order.tags, list[str])}, r"have no order: .*list\[str\]"),
        ({"one": lambda order: order.city + "x"}, "Give index"),
        ({"one": lambda: "x"}, "index 'one' of store 'orders'"),
        ({"o/ne": city_of}, "an index"),
        (["city"], "must be a mapping"),
        ({"one": "city"}, "index 'one' of store 'orders'"),
    ],
)
def test_an_index_without_an_order_or_without_a_function_is_refused(
    indexes: Any, error: str
) -> None:
    with pytest.raises(TopologyError, match=error):
        driver_of(indexes)


def plain(store: Materialized) -> None:
    StreamsBuilder().table("in", value=int, store=store)


def windowed(store: Materialized) -> None:
    groups = StreamsBuilder().stream("in", value=int).group_by_key()
    groups.windowed_by(TumblingWindows(size=timedelta(seconds=1))).count(store=store)


@pytest.mark.parametrize(
    ("options", "build"),
    [
        ({"capacity": 3}, None),
        ({"history": timedelta(seconds=1)}, None),
        ({}, windowed),
        ({}, lambda store: StreamsBuilder().stream("in", value=str).distinct(store=store)),
    ],
)
def test_stores_of_other_kinds_refuse_indexes(
    options: dict[str, Any], build: Callable[[Materialized], Any] | None
) -> None:
    store = Materialized("rows", indexes={"one": index(lambda row: row, int)}, **options)
    with pytest.raises(TopologyError, match=r"Store 'rows' has indexes, but .*Leave out"):
        (build or plain)(store)


def of_table(**options: Any) -> TopologyTestDriver:
    return driver_of({"city": city_of}, **options)


def of_processor(**options: Any) -> TopologyTestDriver:
    class Put(Processor[str, Order, str, int]):
        def process(self, record: Record[str, Order]) -> None:
            self.context.store("orders").put(record.key, record.value)

    builder = StreamsBuilder()
    store = key_value_store("orders", str, Order, indexes={"city": city_of}, **options)
    builder.stream("orders", value=Order).process(Put, stores=store)
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize("make", [of_table, of_processor])
@pytest.mark.parametrize("loses_disk", [None, False, True])
def test_a_row_that_has_expired_is_found_by_no_index(
    make: Callable[..., TopologyTestDriver], loses_disk: bool | None
) -> None:
    with make(ttl=timedelta(milliseconds=10)) as driver:
        driver.pipe("orders", "o-1", Order("Oslo", 5), timestamp=0)
        driver.pipe("orders", "o-2", Order("Oslo", 6), timestamp=5)
        driver.pipe("orders", "o-3", Order("Bergen", 6), timestamp=10)
        if loses_disk is not None:
            driver.crash(loses_disk=loses_disk)
        assert keys(driver.store("orders").by("city", "Oslo")) == ["o-2"]
        driver.pipe("orders", "o-1", Order("Oslo", 7), timestamp=14)
        driver.pipe("orders", "o-4", Order("Bergen", 7), timestamp=15)
        assert keys(driver.store("orders").by("city", "Oslo")) == ["o-1"]
        assert keys(driver.store("orders").by_range("city")) == ["o-3", "o-4", "o-1"]


def test_arguments_that_do_not_fit_an_index_are_refused() -> None:
    with driver_of({"city": city_of}) as driver:
        store = driver.store("orders")
        with pytest.raises(StoreArgumentError, match=r"has no index 'town'\. It has 'city'"):
            store.by("town", "Oslo")
        with pytest.raises(StoreArgumentError, match=r"by\(value=...\) takes values of index 'ci"):
            store.by("city", 3)
    with driver_of(None) as driver, pytest.raises(StoreArgumentError, match="It has none: decl"):
        driver.store("orders").by("city", "Oslo")


class Keep(Processor[str, Order, str, int]):
    """Keeps orders, and forwards how many there are like it."""

    def process(self, record: Record[str, Order]) -> None:
        store = self.context.store("kept")
        before = len(list(store.by("text", str(record.value.cents))))
        try:
            store.put(record.key, record.value)
        finally:
            self.context.forward(record.with_value(before))


def kept(**options: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    store = key_value_store("kept", str, Order, indexes={"text": failing})
    counted = builder.stream("in", value=Order).process_values(Keep, stores=store, value=int)
    counted.to("out", value=int)
    return TopologyTestDriver(builder.build(), **options)


@pytest.mark.parametrize(
    ("cents", "why"), [(13, "KeyError: 'cents'"), (14, "SerdeError: .*has str here, found int")]
)
def test_an_index_function_that_fails_is_named_and_leaves_the_row_and_its_entry(
    cents: int, why: str
) -> None:
    with kept() as driver:
        driver.pipe("in", "o-1", Order("Oslo", 7))
        with pytest.raises(ProcessingError) as raised:
            driver.pipe("in", "o-1", Order("Oslo", cents))
        said = str(raised.value)
        assert "topic 'in', partition 0, offset 1, task 0_0, node" in said
        assert isinstance(raised.value.__cause__, StoreError)
        assert "index 'text' of store 'kept' failed for the row of key 'o-1'" in said
        assert "failing at tests/unit/topology/dsl/test_indexes.py:" in said
        assert re.search(why, said)
        store = driver.store("kept")
        assert store.get("o-1") == Order("Oslo", 7)
        assert keys(store.by("text", "7")) == ["o-1"]
        assert keys(store.by_range("text")) == ["o-1"]


def test_a_record_whose_index_function_fails_can_be_skipped() -> None:
    handlers = ErrorHandlers(processing=skip)
    with kept(error_handlers=handlers) as driver:
        for cents in (7, 13, 14, 8):
            driver.pipe("in", f"o-{cents}", Order("Oslo", cents))
        store = driver.store("kept")
        assert keys(store.by_range("text")) == keys(store.all()) == ["o-7", "o-8"]
        assert driver.read("out", value=int) == [("o-7", 0), ("o-8", 0)]


def test_a_task_finds_its_own_writes_and_not_those_after_the_call() -> None:
    class Look(Processor[str, Order, str, str]):
        def process(self, record: Record[str, Order]) -> None:
            store = self.context.store("kept")
            before = store.by("city", "Oslo")
            store.put(record.key, record.value)
            after = store.by("city", "Oslo")
            store.delete(record.key)
            shown = f"{keys(before)} {keys(after)} {keys(store.by('city', 'Oslo'))}"
            self.context.forward(record.with_value(shown))

    builder = StreamsBuilder()
    store = key_value_store("kept", str, Order, indexes={"city": city_of})
    looked = builder.stream("in", value=Order).process_values(Look, stores=store, value=str)
    looked.to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "o-1", Order("Oslo", 7))
        assert driver.read("out", value=str) == [("o-1", "[] ['o-1'] []")]


# --- a model --------------------------------------------------------------------------------------

_TEXTS = st.text(st.sampled_from("a\x00bü\U0001f600"), max_size=3)
_PARTS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXTS,
    bytes: st.binary(max_size=3),
    int: st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    float: st.sampled_from([0.0, -1.5, 2.25, float("inf"), -1e300]),
    bool: st.booleans(),
    tuple[str, int]: st.tuples(_TEXTS, st.integers(-2, 2)),
    date: st.dates(),
}


@pytest.mark.parametrize("type_", list(_PARTS), ids=str)
@pytest.mark.parametrize("is_table", [False, True], ids=["key-value", "timestamped"])
@settings(max_examples=at_most(15))
@given(data=st.data())
def test_an_index_equals_a_scan(type_: Any, is_table: bool, data: st.DataObject) -> None:
    values = _PARTS[type_]
    numbers = data.draw(st.lists(values | st.none(), min_size=1, max_size=6))
    make = timestamped_key_value_store if is_table else key_value_store
    spec = make("rows", str, int, indexes={"one": index(lambda number: numbers[number], type_)})
    writes = st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, len(numbers) - 1))
    builder = StreamsBuilder()
    builder.add_store(spec)

    class Put(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            row: Any = record.value
            if is_table and row is not None:
                row = (row, record.timestamp, None)
            self.context.store("rows").put(record.key, row)

    builder.stream("in", value=int).process(Put, stores=("rows",))
    model: dict[str, int] = {}
    with TopologyTestDriver(builder.build()) as driver:
        for key, number in data.draw(st.lists(writes, max_size=12)):
            driver.pipe("in", key, number)
            model.pop(key, None)
            if number is not None:
                model[key] = number
        store = driver.store("rows")
        indexed = {key: numbers[n] for key, n in model.items() if numbers[n] is not None}
        in_order = sorted(indexed, key=lambda key: (indexed[key], key))
        lower, upper = data.draw(values), data.draw(values)
        assert keys(store.by_range("one")) == in_order
        between = [key for key in in_order if lower <= indexed[key] <= upper]
        assert keys(store.by_range("one", lower, upper)) == between
        assert keys(store.by_range("one", lower, upper, reverse=True)) == between[::-1]
        for value in {*indexed.values(), lower}:
            assert keys(store.by("one", value)) == [k for k in in_order if indexed[k] == value]
