"""Stores of processors, of every kind, are read and written by the thread that runs the task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from logstate import (
    ProcessingError,
    Record,
    StreamsBuilder,
    ValueAndTimestamp,
    Windowed,
    WrongThreadError,
    counter_store,
    key_value_store,
    list_store,
    lru_store,
    map_store,
    session_store,
    set_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)
from logstate.contracts.stores import StoreSpec
from logstate.testing import MockProcessorContext, TopologyTestDriver
from logstate.topology import ProcessorContext
from tests.unit.topology.operators.streams.calls_elsewhere import Elsewhere, calling, topology_of

SECOND = timedelta(seconds=1)
ROW = ValueAndTimestamp("v", 1)
STORES: dict[str, StoreSpec] = {
    "key_value": key_value_store("st", str, str),
    "in_memory": key_value_store("st", str, str, in_memory=True),
    "lru": lru_store("st", str, str, capacity=3),
    "timestamped": timestamped_key_value_store("st", str, str),
    "window": window_store("st", str, str, size=SECOND, retention=SECOND),
    "timestamped_window": window_store(
        "st", str, str, size=SECOND, retention=SECOND, timestamped=True
    ),
    "session": session_store("st", str, str, retention=SECOND),
    "versioned": versioned_store("st", str, str, history=SECOND),
    "list": list_store("st", str, str),
    "map": map_store("st", str, str, str),
    "set": set_store("st", str, str),
    "counter": counter_store("st", str),
}
SESSION = Windowed("k", 0, 1)
#: kind of store -> calls that change it
WRITES: dict[str, dict[str, Callable[[Any], object]]] = {
    "key_value": {
        "put": lambda st: st.put("k", "v"),
        "put_all": lambda st: st.put_all([("k", "v")]),
        "put_if_absent": lambda st: st.put_if_absent("k", "v"),
        "delete": lambda st: st.delete("k"),
    },
    "in_memory": {"put": lambda st: st.put("k", "v")},
    "lru": {"put": lambda st: st.put("k", "v"), "delete": lambda st: st.delete("k")},
    "timestamped": {
        "put": lambda st: st.put("k", ROW),
        "put_all": lambda st: st.put_all({"k": ROW}),
        "put_if_absent": lambda st: st.put_if_absent("k", ROW),
        "delete": lambda st: st.delete("k"),
    },
    "window": {"put": lambda st: st.put("k", "v", 1)},
    "timestamped_window": {"put": lambda st: st.put("k", ROW, 1)},
    "session": {
        "put": lambda st: st.put(SESSION, "v"),
        "remove": lambda st: st.remove(SESSION),
    },
    "versioned": {
        "put": lambda st: st.put("k", "v", 1),
        "delete": lambda st: st.delete("k", 1),
    },
    "list": {
        "append": lambda st: st.append("k", "v"),
        "extend": lambda st: st.extend("k", ["v"]),
        "set": lambda st: st.set("k", 0, "v"),
        "pop": lambda st: st.pop("k"),
        "pop_first": lambda st: st.pop_first("k"),
        "clear": lambda st: st.clear("k"),
    },
    "map": {
        "put": lambda st: st.put("k", "m", "v"),
        "put_all": lambda st: st.put_all("k", {"m": "v"}),
        "delete": lambda st: st.delete("k", "m"),
    },
    "set": {
        "add": lambda st: st.add("k", "v"),
        "discard": lambda st: st.discard("k", "v"),
    },
    "counter": {"add": lambda st: st.add("k")},
}
#: kind of store -> reads
READS: dict[str, dict[str, Callable[[Any], object]]] = {
    "key_value": {
        "get": lambda st: st.get("k"),
        "range": lambda st: st.range(),
        "reverse_range": lambda st: st.reverse_range(),
        "all": lambda st: st.all(),
        "reverse_all": lambda st: st.reverse_all(),
        "prefix_scan": lambda st: st.prefix_scan("k"),
        "approximate_num_entries": lambda st: st.approximate_num_entries(),
    },
    "in_memory": {"get": lambda st: st.get("k")},
    "lru": {"get": lambda st: st.get("k"), "all": lambda st: st.all()},
    "timestamped": {"get": lambda st: st.get("k"), "all": lambda st: st.all()},
    "window": {
        "fetch": lambda st: st.fetch("k", 0),
        "fetch_range": lambda st: st.fetch_range("k", 0, 9),
        "fetch_all": lambda st: st.fetch_all(0, 9),
        "fetch_key_range": lambda st: st.fetch_key_range("a", "z", 0, 9),
        "all": lambda st: st.all(),
    },
    "timestamped_window": {"fetch": lambda st: st.fetch("k", 0)},
    "session": {
        "fetch": lambda st: st.fetch("k"),
        "fetch_session": lambda st: st.fetch_session("k", 0, 1),
        "find_sessions": lambda st: st.find_sessions("k", 0, 9),
        "find_ended": lambda st: st.find_ended(0, 9),
        "all": lambda st: st.all(),
    },
    "versioned": {
        "get": lambda st: st.get("k"),
        "get as of": lambda st: st.get("k", 5),
        "versions": lambda st: st.versions("k"),
    },
    "list": {
        "get": lambda st: st.get("k", 0),
        "items": lambda st: st.items("k"),
        "size": lambda st: st.size("k"),
        "values": lambda st: st.values("k"),
    },
    "map": {"get": lambda st: st.get("k", "m"), "items": lambda st: st.items("k")},
    "set": {"contains": lambda st: st.contains("k", "v"), "values": lambda st: st.values("k")},
}


def cases(
    table: dict[str, dict[str, Callable[[Any], object]]],
) -> list[Any]:
    return [
        pytest.param(kind, call, id=f"{kind}-{name}")
        for kind, calls in table.items()
        for name, call in calls.items()
    ]


@pytest.mark.parametrize(("kind", "call"), cases(WRITES))
def test_a_store_is_not_written_by_another_thread(kind: str, call: Callable[[Any], object]) -> None:
    kept: list[Any] = []

    class Keeping(Elsewhere):
        failed: list[Exception] = []  # noqa: RUF012  one test, one class
        call = staticmethod(lambda _: call(kept[0]))

        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            kept.append(context.store("st"))

    with (
        TopologyTestDriver(topology_of(Keeping, STORES[kind])) as driver,
        pytest.raises(ProcessingError, match=r"of store 'st' from thread 'pool-1'"),
    ):
        driver.pipe("in", "k", "call")
    assert [type(error) for error in Keeping.failed] == [WrongThreadError]
    assert driver.changelog("app-st-changelog") == []


@pytest.mark.parametrize(("kind", "call"), cases(READS))
def test_a_store_is_not_read_by_another_thread_and_the_task_goes_on(
    kind: str, call: Callable[[Any], object]
) -> None:
    failed: list[Exception] = []

    class Keeping(calling(lambda _: call(Keeping.store), failed)):  # type: ignore[misc]
        store: Any

        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            Keeping.store = context.store("st")

    with TopologyTestDriver(topology_of(Keeping, STORES[kind])) as driver:
        driver.pipe("in", "k", "call")
        driver.pipe("in", "k", "v")
        assert driver.read("out", value=str) == [("k", "v")]
    assert [type(error) for error in failed] == [WrongThreadError]


@pytest.mark.parametrize("kind", ["key_value", "window", "session"])
def test_an_iterator_is_not_begun_by_another_thread(kind: str) -> None:
    failed: list[Exception] = []
    kept: list[Any] = []

    class Handing(calling(lambda _: next(kept[0], None), failed)):  # type: ignore[misc]
        def process(self, record: Record[str, str]) -> None:
            kept.append(self.context.store("st").all())
            super().process(record)

    with TopologyTestDriver(topology_of(Handing, STORES[kind])) as driver:
        driver.pipe("in", "k", "call")
    assert [type(error) for error in failed] == [WrongThreadError]


def test_a_global_store_is_not_read_by_another_thread() -> None:
    failed: list[Exception] = []
    made = calling(lambda context: Reading.names.get("k"), failed)

    class Reading(made):  # type: ignore[misc, valid-type]
        names: Any

        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            Reading.names = context.store("names")

    builder = StreamsBuilder()
    builder.global_table("names", value=str, store="names")
    builder.stream("in", value=str).process(Reading, key=str, value=str, name="enrich").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("names", "k", "Ada")
        driver.pipe("in", "k", "call")
    assert [type(error) for error in failed] == [WrongThreadError]


@pytest.mark.parametrize("kind", STORES)
def test_a_checked_store_takes_the_arguments_that_the_store_takes_by_name(kind: str) -> None:
    context = MockProcessorContext(stores=STORES[kind])
    store = context.store("st")
    if kind in ("key_value", "in_memory", "lru"):
        store.put(key="k", value="v")
        assert store.get(key="k") == "v"
        assert list(store.range(lower="a", upper="z")) == [("k", "v")]
    elif kind == "timestamped":
        store.put(key="k", row=ROW)
        assert store.get("k") == ROW
    elif kind == "window":
        store.put(key="k", value="v", start_ms=1)
        assert list(store.fetch_range("k", from_ms=0, to_ms=9, reverse=True)) == [(1, "v")]
    elif kind == "timestamped_window":
        store.put("k", ROW, 1)
        assert store.fetch("k", 1) == ROW
    elif kind == "session":
        store.put(session=SESSION, value="v")
        assert list(store.fetch("k", reverse=True)) == [(SESSION, "v")]
    elif kind == "list":
        store.append(key="k", value="v")
        assert list(store.items(key="k", lower=0, upper=0)) == [(0, "v")]
    elif kind == "map":
        store.put(key="k", map_key="m", value="v")
        assert store.get(key="k", map_key="m") == "v"
    elif kind == "set":
        assert store.add(key="k", value="v")
        assert list(store.values(key="k", reverse=True)) == ["v"]
    elif kind == "counter":
        assert store.add(key="k", amount=2) == 2
    else:
        store.put(key="k", value="v", timestamp=5)
        assert store.get("k", as_of=5).value == "v"
