"""An initial value belongs to one key: an object that is given twice and changed is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logstate import (
    Application,
    ProcessingError,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Topology,
    TumblingWindows,
    serdes,
)
from logstate.contracts.stores import StoreSpec
from logstate.testing import FakeCluster, TopologyTestDriver
from logstate.topology.operators.aggregates.initial_values import new_values
from tests.patience import until

MS = timedelta(milliseconds=1)


class Cart(msgspec.Struct):
    items: list[str] = []


@dataclass
class DataCart:
    items: list[str] = field(default_factory=list)


def append(items: list[str], value: str) -> list[str]:
    items.append(value)
    return items


def append_to_dict(cart: dict[str, Any], value: str) -> dict[str, Any]:
    cart["items"].append(value)
    return cart


def append_to_cart(cart: Any, value: str) -> Any:
    cart.items.append(value)
    return cart


def shared_list() -> Callable[[], Any]:
    shared: list[str] = []
    return lambda: shared


def default_argument() -> Callable[[], Any]:
    def start(items: list[str] = []) -> list[str]:  # noqa: B006  the mistake
        return items

    return start


def class_attribute() -> Callable[[], Any]:
    class Holder:
        items: list[str] = []  # noqa: RUF012  the mistake

    return lambda: Holder.items


def inside_a_dict() -> Callable[[], Any]:
    shared: list[str] = []
    return lambda: {"items": shared}


def inside_a_struct() -> Callable[[], Any]:
    shared: list[str] = []
    return lambda: Cart(shared)


def shared_dataclass() -> Callable[[], Any]:
    shared = DataCart()
    return lambda: shared


SHARED: list[tuple[Callable[[], Any], Any, Callable[..., Any], str]] = [
    (shared_list, list, append, "the same list"),
    (default_argument, list, append, "the same list"),
    (class_attribute, list, append, "the same list"),
    (inside_a_dict, dict, append_to_dict, "a dict with the same list in it"),
    (inside_a_struct, Cart, append_to_cart, "a Cart with the same list in it"),
    (shared_dataclass, DataCart, append_to_cart, "the same DataCart"),
]


def aggregated(
    initializer: Any, value: Any, aggregator: Any, windows: object = None, emit: Any = "update"
) -> Topology:
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in", key=str, value=str).group_by_key()
    more: dict[str, Any] = {}
    if windows is not None:
        grouped = grouped.windowed_by(windows)
    if isinstance(windows, SessionWindows):
        more["merger"] = lambda a, b: a if a else b
    grouped.aggregate(initializer, aggregator, store="rows", value=value, emit=emit, **more)
    return builder.build()


@pytest.mark.parametrize("emit", ["update", "commit"])
@pytest.mark.parametrize(("make", "value", "aggregator", "what"), SHARED)
def test_an_object_that_two_keys_would_share_is_told(
    make: Callable[[], Any], value: Any, aggregator: Any, what: str, emit: str
) -> None:
    with TopologyTestDriver(aggregated(make(), value, aggregator, emit=emit)) as driver:
        driver.pipe("in", "a", "1")
        driver.pipe("in", "a", "2")
        with pytest.raises(
            ProcessingError, match=rf"initializer .*test_initial_values\.py:\d+ returned {what}"
        ):
            driver.pipe("in", "b", "3")


@pytest.mark.parametrize(
    "windows",
    [
        TumblingWindows(size=10 * MS, grace=0 * MS),
        SlidingWindows(difference=10 * MS, grace=0 * MS),
        SessionWindows(gap=10 * MS, grace=0 * MS),
    ],
    ids=lambda windows: type(windows).__name__,
)
def test_windows_and_sessions_tell_it_too(windows: object) -> None:
    with TopologyTestDriver(aggregated(shared_list(), list, append, windows)) as driver:
        driver.pipe("in", "a", "1", timestamp=100)
        with pytest.raises(ProcessingError, match="returned the same list"):
            driver.pipe("in", "a", "2", timestamp=500)


def test_the_groups_of_a_table_tell_it_too() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=str, store="given")
    groups: Any = table.group_by(lambda k, v: (v, k), key=str, value=str)
    remove = lambda items, value: [item for item in items if item != value]  # noqa: E731
    groups.aggregate(shared_list(), append, remove, store="rows", value=list)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "x")
        with pytest.raises(ProcessingError, match="returned the same list"):
            driver.pipe("in", "b", "y")


def test_cogrouped_streams_tell_it_too() -> None:
    builder = StreamsBuilder()
    one, other = (
        builder.stream(topic, key=str, value=str).group_by_key() for topic in ("in", "other")
    )
    cogrouped: Any = one.cogroup(append).cogroup(other, append)
    cogrouped.aggregate(shared_list(), store="rows", value=list)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("in", "a", "1")
        with pytest.raises(ProcessingError, match="returned the same list"):
            driver.pipe("other", "b", "2")


def test_a_shared_object_that_is_never_changed_is_fine() -> None:
    shared: list[str] = []
    topology = aggregated(lambda: shared, list, lambda items, value: [*items, value])
    with TopologyTestDriver(topology) as driver:
        for key, value in (("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")):
            driver.pipe("in", key, value)
        rows = {key: row.value for key, row in driver.store("rows").all()}
    assert rows == {"a": ["1", "3"], "b": ["2"], "c": ["4"]}


@pytest.mark.parametrize(
    ("initializer", "value", "aggregator"),
    [
        (list, list, append),
        (lambda: {"items": []}, dict, append_to_dict),
        (Cart, Cart, append_to_cart),
        (DataCart, DataCart, append_to_cart),
    ],
)
def test_new_objects_are_never_told(initializer: Any, value: Any, aggregator: Any) -> None:
    with TopologyTestDriver(aggregated(initializer, value, aggregator)) as driver:
        for key in ("a", "b", "a", "c"):
            driver.pipe("in", key, key)
        rows = {key: row.value for key, row in driver.store("rows").all()}
    items = {key: row["items"] if type(row) is dict else getattr(row, "items", row)
             for key, row in rows.items()}  # fmt: skip
    assert items == {"a": ["a", "a"], "b": ["b"], "c": ["c"]}


def test_a_second_task_of_the_process_knows_what_the_first_one_saw() -> None:
    topology = aggregated(shared_list(), list, append)
    with TopologyTestDriver(topology) as driver:
        driver.pipe("in", "a", "1")
    with (
        TopologyTestDriver(topology) as driver,
        pytest.raises(ProcessingError, match="returned the same list"),
    ):
        driver.pipe("in", "b", "2")


def test_an_initializer_of_values_that_cannot_be_changed_is_called_as_it_is() -> None:
    counts = StoreSpec("counts", "timestamped_key_value", serdes.string, serdes.int64)
    assert new_values(int, counts) is int


def test_an_application_stops_with_the_initializers_place(tmp_path: Path) -> None:
    cluster = FakeCluster({"in": 1})
    cluster.produce("in", b"a", b"1", timestamp=1)
    cluster.produce("in", b"b", b"2", timestamp=2)
    application = Application(
        aggregated(shared_list(), list, append),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=10 * MS,
        cluster=cluster,
    )
    with pytest.raises(ProcessingError, match="returned the same list"), application:
        until(lambda: not application.is_live())
