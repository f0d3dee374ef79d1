"""Lists, maps, sets and counters: declared, used by processors, read everywhere, restored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from logstate import (
    SerdeError,
    StoreArgumentError,
    StoreError,
    TopologyError,
    TopologyTestDriver,
    list_store,
    map_store,
    set_store,
)
from logstate.contracts.changelog_keys import ended_key, split_element
from logstate.testing import MockProcessorContext
from tests.unit.topology.processor.collection_topology import (
    HELD,
    PUTS,
    STORES,
    topology,
)

# --- the runtime ----------------------------------------------------------------------------------


def test_processors_use_them_and_a_restore_brings_them_back() -> None:
    with TopologyTestDriver(topology()) as driver:
        for key, value in PUTS:
            driver.pipe("in", key, value)
        for loses_disk in (False, True):
            driver.crash(loses_disk=loses_disk)
            assert {name: list(driver.store(name).all()) for name in HELD} == HELD
        driver.pipe("in", "ada", 9)
        assert list(driver.store("orders").items("ada")) == [(2, 3), (3, 4), (4, 9)]
        assert driver.read("out", value=int)[-1] == ("ada", 5)


def test_each_element_is_one_record_of_the_changelog() -> None:
    with TopologyTestDriver(topology()) as driver:
        for value in range(3):
            driver.pipe("in", "ada", value)
        logged = driver.changelog("app-orders-changelog")
        seen = driver.changelog("app-tags-changelog")
        driver.pipe("in", "ada", 3)
        assert len(driver.changelog("app-orders-changelog")) == 5, "one more, and one deleted"
    keys = [split_element(one.key or b"") for one in logged[:3]]
    assert keys == [(b"ada", (number + 2**63).to_bytes(8, "big")) for number in range(3)]
    assert [one.value for one in logged[:3]] == [n.to_bytes(8, "big") for n in range(3)]
    assert [(one.key, one.value) for one in seen[:1]] == [(ended_key(b"ada") + b"t0", b"")]


class Point(NamedTuple):
    at: int
    name: str


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (int, [-(2**63), -2, -1, 0, 9, 10, 2**63 - 1]),
        (float, [float("-inf"), -1.5, -0.5, 0.0, 2.0, 10.0, float("inf")]),
        (str, ["", "A", "a", "aa", "b", "ä"]),
        (bytes, [b"", b"\x00", b"\x00\x01", b"\x01", b"\xff"]),
        (bool, [False, True]),
        (date, [date(1, 1, 1), date(1999, 12, 31), date(2026, 1, 1)]),
        (datetime, [datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]),
        (UUID, [UUID(int=0), UUID(int=7), UUID(int=2**127)]),
        (tuple[str, int], [("a", -1), ("a", 2), ("a", 10), ("aa", 0)]),
        (Point, [Point(-5, "b"), Point(0, "a"), Point(0, "b"), Point(7, "")]),
    ],
)
def test_map_keys_and_sets_are_in_the_order_of_their_values(type_: Any, values: list[Any]) -> None:
    context = MockProcessorContext(
        stores=[map_store("m", str, type_, int), set_store("s", bytes, type_)]
    )
    numbers, members = context.store("m"), context.store("s")
    for place, value in reversed(list(enumerate(values))):
        numbers.put("k", value, place)
        members.add(b"\x00", value)
    assert list(numbers.items("k")) == list(zip(values, range(len(values)), strict=True))
    assert list(members.values(b"\x00")) == values
    assert list(members.values(b"\x00", reverse=True)) == values[::-1]
    assert list(members.values(b"\x00", values[0], values[1])) == values[:2]
    assert list(members.values(b"\x00", values[1], values[0])) == []
    assert list(members.values(b"")) == []


def test_keys_that_begin_alike_do_not_mix() -> None:
    context = MockProcessorContext(stores=list_store("l", bytes, int))
    store = context.store("l")
    keys = [b"", b"\x00", b"\x00\x01", b"\x00\xff", b"a", b"a\x00", b"a\x00\x01", b"ab", b"\xff"]
    for number, key in enumerate(keys):
        store.extend(key, range(number + 1))
    for number, key in enumerate(keys):
        assert list(store.values(key)) == list(range(number + 1))
    assert [key for (key, position), _ in store.all() if position == 0] == sorted(keys)
    assert store.clear(b"a") == 5
    assert [store.size(key) for key in keys] == [1, 2, 3, 4, 0, 6, 7, 8, 9]


def test_positions_stay_with_their_values_and_begin_again_at_0() -> None:
    context = MockProcessorContext(stores=list_store("l", str, str))
    store = context.store("l")
    store.extend("k", "abcd")
    assert (store.pop_first("k"), store.pop("k")) == ("a", "d")
    assert list(store.items("k")) == [(1, "b"), (2, "c")]
    store.append("k", "e")
    store.set("k", 0, "B")
    assert list(store.items("k")) == [(1, "B"), (2, "c"), (3, "e")]
    assert list(store.items("k", 2)) == [(2, "c"), (3, "e")]
    assert [store.pop("k") for _ in range(4)] == ["e", "c", "B", None]
    assert store.pop_first("k") is None
    store.append("k", "f")
    assert list(store.items("k")) == [(0, "f")]


@pytest.mark.parametrize("make", [map_store, set_store], ids=["map", "set"])
def test_a_bounded_key_keeps_its_greatest_elements(make: Callable[..., Any]) -> None:
    others = {"map_key": int} if make is map_store else {}
    context = MockProcessorContext(stores=make("s", key=str, value=int, max_size=2, **others))
    store = context.store("s")
    for number in (5, 1, 9, 3, 7, 7):
        store.put("k", number, 0) if make is map_store else store.add("k", number)
    held = store.values("k") if make is set_store else (one for one, _ in store.items("k"))
    assert list(held) == [7, 9]
    assert store.size("k") == 2


def test_a_scan_shows_the_elements_as_they_were_when_it_began() -> None:
    context = MockProcessorContext(stores=list_store("l", str, int))
    store = context.store("l")
    store.extend("k", range(5))
    seen = []
    for value in store.values("k"):
        seen.append(value)
        store.pop_first("k")
        store.append("k", 9)
    assert seen == [0, 1, 2, 3, 4]
    assert list(store.values("k")) == [9] * 5


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda c: c.store("orders").append("k", None), TypeError, "given None as a value"),
        (lambda c: c.store("orders").append("k", "x"), SerdeError, "value given to store 'orders'"),
        (lambda c: c.store("orders").append(5, 1), TypeError, "key given to store 'orders'"),
        (lambda c: c.store("orders").append(None, 1), TypeError, "keys are never None"),
        (lambda c: c.store("orders").get("k", "0"), TypeError, "an int as the index of a list"),
        (lambda c: c.store("orders").set("k", 2, 1), IndexError, "the list has 0 values"),
        (lambda c: c.store("prices").put("k", "x", 1.0), SerdeError, "element given to store"),
        (lambda c: c.store("prices").put("k", None, 1.0), SerdeError, "element given to store"),
        (lambda c: c.store("prices").put_all("k", ["ab"]), TypeError, "takes pairs"),
        (lambda c: c.store("tags").add("k", 5), TypeError, "element given to store 'tags'"),
        (lambda c: c.store("visits").add("k", 1.5), TypeError, "the amount to add is an int"),
        (lambda c: c.store("visits").add("k", True), TypeError, "the amount to add is an int"),
        (lambda c: c.store("visits").add("k", 2**63), SerdeError, "takes numbers of 64 bits"),
    ],
)
def test_an_unfit_argument_is_refused_and_changes_nothing(
    call: Callable[[Any], object], error: type[Exception], text: str
) -> None:
    context: Any = MockProcessorContext(stores=STORES)
    with pytest.raises(error, match=text):
        call(context)
    assert all(list(context.store(one.name).all()) == [] for one in STORES)


@pytest.mark.parametrize("size", [0, -1, True, 1.5, "3"])
def test_a_size_below_one_is_refused(size: Any) -> None:
    with pytest.raises(TopologyError, match="max_size of store 'l'"):
        list_store("l", str, int, max_size=size)


def test_a_type_without_a_serde_is_refused() -> None:
    with pytest.raises(TopologyError, match="the map key of store 'm'"):
        map_store("m", str, object(), int)  # type: ignore[arg-type]


def test_the_driver_names_the_methods_that_a_store_has() -> None:
    with TopologyTestDriver(topology()) as driver:
        with pytest.raises(StoreError, match=r"list store and has no contains.*items.*size"):
            driver.store("orders").contains("k", 1)
        with pytest.raises(StoreArgumentError, match=r"store 'prices': get\(element=...\)"):
            driver.store("prices").get("k", "x")
