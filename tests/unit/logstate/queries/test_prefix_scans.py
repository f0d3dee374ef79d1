"""prefix_scan() finds all keys with the prefix, or refuses a prefix that no bytes begin with."""

from __future__ import annotations

import typing
import uuid
from collections.abc import Callable
from datetime import date, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from logstate import (
    Application,
    Processor,
    Record,
    StreamsBuilder,
    TopologyTestDriver,
    TumblingWindows,
    key_value_store,
    lru_store,
    serdes,
    timestamped_key_value_store,
)
from logstate.contracts.errors import StoreAccessError, StoreArgumentError, StoreMethodError
from logstate.contracts.stores import StoreSpec
from logstate.serdes import avro
from logstate.testing import FakeCluster, MockProcessorContext
from tests.patience import until


class Kind(Enum):
    ADA = "ada"


class Key(msgspec.Struct, frozen=True):
    user: str
    n: int = 0


NAME = typing.NewType("NAME", str)
#: type of the keys, keys, prefix, keys that are found
FOUND: list[tuple[Any, list[Any], Any, list[Any]]] = [
    (str, ["ada", "adam", "bob"], "ada", ["ada", "adam"]),
    (str, ["ada", "é", "éa"], "é", ["é", "éa"]),
    (str, ["ada", "adam"], "", ["ada", "adam"]),
    (str, ["ada", "adam", "bob"], b"ad", ["ada", "adam"]),
    (NAME, ["ada", "adam", "bob"], "ada", ["ada", "adam"]),
    (serdes.string_replacing, ["ada", "bob"], "a", ["ada"]),
    (bytes, [b"\x01", b"\x01\x02", b"\x02"], b"\x01", [b"\x01", b"\x01\x02"]),
    (bytes, [b"\xff", b"\xff\xff"], b"\xff", [b"\xff", b"\xff\xff"]),
    (int, [1, 256], bytes(6), [1, 256]),
    (typing.Literal["ada", "bob"], ["ada", "bob"], b'"a', ["ada"]),
]
#: type of the keys, a key, prefix
REFUSED: list[tuple[Any, Any, Any]] = [
    (typing.Literal["ada", "adam"], "adam", "ada"),
    (Kind, Kind.ADA, Kind.ADA),
    (tuple[str, int], ("ada", 1), ("ada",)),
    (tuple[str, int], ("ada", 1), ("ada", 1)),
    (list, ["ada", 1], ["ada"]),
    (dict, {"user": "ada"}, {"user": "ada"}),
    (Key, Key("ada", 1), Key("ada")),
    (int, 256, 1),
    (float, 1.5, 1.0),
    (bool, True, True),
    (uuid.UUID, uuid.UUID(int=1), uuid.UUID(int=1)),
    (date, date(2026, 1, 1), date(2026, 1, 1)),
    (avro("string"), "adam", "ad"),
    (serdes.json, "adam", "ada"),
]
STORES: list[Callable[[str, Any, Any], StoreSpec]] = [
    key_value_store,
    timestamped_key_value_store,
    lambda name, key, value: key_value_store(name, key, value, in_memory=True),
    lambda name, key, value: lru_store(name, key, value, capacity=9),
]
WANTED = (
    r"store 't': prefix_scan\(\) compares serialized keys.*range\(lower, upper\).*"
    r"str, bytes or serdes\.ordered"
)


def table_of(key: Any) -> Any:
    builder = StreamsBuilder()
    builder.stream("in", key=key, value=str).to_table(store="t")
    return builder.build()


@pytest.mark.parametrize(("key", "keys", "prefix", "found"), FOUND)
def test_the_driver_finds_every_key_with_the_prefix(
    key: Any, keys: list[Any], prefix: Any, found: list[Any]
) -> None:
    with TopologyTestDriver(table_of(key)) as driver:
        for one in keys:
            driver.pipe("in", one, "v")
        assert [one for one, _ in driver.store("t").prefix_scan(prefix)] == found


@pytest.mark.parametrize(("key", "one", "prefix"), REFUSED)
def test_the_driver_refuses_a_prefix_of_other_types(key: Any, one: Any, prefix: Any) -> None:
    with TopologyTestDriver(table_of(key)) as driver:
        driver.pipe("in", one, "v")
        with pytest.raises(StoreArgumentError, match=WANTED):
            driver.store("t").prefix_scan(prefix)


@pytest.mark.parametrize("declare", STORES)
@pytest.mark.parametrize(("key", "one", "prefix"), REFUSED)
def test_so_does_every_store_of_a_processor(
    declare: Callable[..., StoreSpec], key: Any, one: Any, prefix: Any
) -> None:
    store = MockProcessorContext(stores=declare("t", key, str)).store("t")
    with pytest.raises(StoreArgumentError, match=WANTED):
        store.prefix_scan(prefix)


@pytest.mark.parametrize("declare", STORES)
@pytest.mark.parametrize(("key", "keys", "prefix", "found"), FOUND)
def test_stores_of_processors_find_them(
    declare: Callable[..., StoreSpec], key: Any, keys: list[Any], prefix: Any, found: list[Any]
) -> None:
    if declare is timestamped_key_value_store:
        return
    store = MockProcessorContext(stores=declare("t", key, str)).store("t")
    for one in keys:
        store.put(one, "v")
    assert [one for one, _ in store.prefix_scan(prefix)] == found


def test_a_global_store_refuses_it_in_a_processor() -> None:
    class Look(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            list(self.context.store("g").prefix_scan(1))

    builder = StreamsBuilder()
    builder.global_table("names", key=int, value=str, store="g")
    builder.stream("in", value=str).process(Look, key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("names", 1, "Ada")
        with pytest.raises(Exception, match="store 'g': prefix_scan"):
            driver.pipe("in", "k", "v")


def test_a_local_query_refuses_it_and_finds_text(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.to_table(store="texts")
    stream.group_by(len, key=int, name="by-size").count(store="numbers")
    builder.global_table("names", key=int, value=str, store="names")
    cluster = FakeCluster({"in": 1, "names": 1})
    for key in (b"ada", b"adam", b"bob"):
        cluster.produce("in", key, b"v", timestamp=1)
    app = Application(
        builder.build(),
        application_id="app",
        bootstrap="fake:9092",
        state_dir=tmp_path,
        commit_interval=timedelta(milliseconds=10),
        cluster=cluster,
    )
    with app:
        app.wait_until_running()
        until(lambda: cluster.committed_offset("app", "in") == 3)
        texts, numbers, names = (app.store(name) for name in ("texts", "numbers", "names"))
        assert [key for key, _ in texts.prefix_scan("ada")] == ["ada", "adam"]
        for store in (numbers, names):
            with pytest.raises(StoreArgumentError, match="prefix_scan\\(\\) compares serialized"):
                list(store.prefix_scan(1))


# --- methods that a store does not have -----------------------------------------------------------


def test_hasattr_says_what_a_store_of_the_driver_has() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", value=str).group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(TumblingWindows(size=timedelta(seconds=1))).count(store="windows")
    with TopologyTestDriver(builder.build()) as driver:
        counts, windows = driver.store("counts"), driver.store("windows")
        assert (hasattr(counts, "range"), hasattr(counts, "fetch")) == (True, False)
        assert (hasattr(windows, "range"), hasattr(windows, "fetch")) == (False, True)
        assert getattr(windows, "range", None) is None
        with pytest.raises(StoreMethodError, match=r"has no range\(\); it has: fetch") as caught:
            windows.range("a", "b")
        assert isinstance(caught.value, StoreAccessError)
        assert isinstance(caught.value, AttributeError)
