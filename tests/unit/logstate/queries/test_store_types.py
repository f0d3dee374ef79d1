"""A store is compared with the types that its reader declares, before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from logstate import Application, Materialized, Processor, Serde, StreamsBuilder, TumblingWindows
from logstate.contracts.errors import ConfigError, StoreUnavailableError
from logstate.serdes import int32, int64, json, json_of, string, string_replacing, upgradable
from logstate.topology import (
    key_value_store,
    session_store,
    timestamped_key_value_store,
    versioned_store,
    window_store,
)

HOUR = timedelta(hours=1)


@dataclass
class Order:
    cents: int


@dataclass
class Invoice:
    cents: int


class Packed(Serde[Order]):
    def serializer(self, topic: str, is_key: bool) -> Callable[[Order], bytes]:
        return lambda order: str(order.cents).encode()

    def deserializer(self, topic: str, is_key: bool) -> Callable[[bytes], Order]:
        return lambda data: Order(int(data))

    def describe(self) -> dict[str, Any]:
        return {"format": "packed"}


class Nothing(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None:
        pass


PACKED = Packed()
PLAIN = key_value_store("plain", key=str, value=int)
HOURS = window_store("hours", str, int, size=HOUR, retention=HOUR)
TIMED_HOURS = window_store("timed-hours", str, int, size=HOUR, retention=HOUR, timestamped=True)
SESSIONS = session_store("sessions", str, int, retention=HOUR)
VERSIONS = versioned_store("versions", str, int, history=HOUR)
DECLARED = (PLAIN, HOURS, TIMED_HOURS, SESSIONS, VERSIONS)
TYPES: dict[str, Any] = {
    "int": int,
    "int32": int32,
    "order": Order,
    "json": json,
    "dict": dict,
    "list-of-orders": list[Order],
    "packed": PACKED,
    "upgradable": upgradable(
        Order, version=2, earlier={1: (Invoice, lambda one: Order(one.cents))}
    ),
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Application:
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    stream.process(Nothing, stores=DECLARED)
    for name, value in TYPES.items():
        stream.process(Nothing, stores=timestamped_key_value_store(name, str, value))
    stream.group_by_key().count(store=Materialized("lru", capacity=3))
    stream.group_by_key().windowed_by(TumblingWindows(size=HOUR)).count(store="per-hour")
    builder.global_table("cities", key=int, value=str, store="cities")
    return Application(
        builder.build(),
        application_id="shop",
        bootstrap="localhost:1",
        state_dir=tmp_path_factory.mktemp("state"),
        serve="127.0.0.1:0",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int", int),
        ("int", int64),
        ("int", int | None),
        ("int", "int64"),
        ("int", object),
        ("int32", int),
        ("int32", int32),
        ("order", Order),
        ("order", json_of(Order)),
        ("order", Any),
        ("json", dict),
        ("json", list),
        ("json", json),
        ("json", dict[str, int]),
        ("dict", dict),
        ("list-of-orders", list[Order]),
        ("list-of-orders", list),
        ("packed", PACKED),
        ("packed", Order),
        ("upgradable", Order),
        ("lru", int),
    ],
)
def test_a_type_or_serde_of_the_topology_is_accepted(
    app: Application, name: str, value: Any
) -> None:
    assert app.store(name, key=str, value=value).name == name
    assert app.remote_store(name, key=str, value=value).name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int", str),
        ("int", bool),
        ("int", int32),
        ("int", Order),
        ("int", dict),
        ("int32", int64),
        ("order", Invoice),
        ("order", dict),
        ("order", json),
        ("order", json_of(Invoice)),
        ("json", Order),
        ("json", str),
        ("list-of-orders", list[Invoice]),
        ("packed", Invoice),
        ("packed", str),
        ("upgradable", Invoice),
        ("lru", str),
        ("int", "json"),
    ],
)
def test_another_type_or_serde_is_refused(app: Application, name: str, value: Any) -> None:
    for read in (app.store, app.remote_store, app.async_remote_store):
        with pytest.raises(
            ConfigError, match=f"store\\('{name}'\\) declares value=.* Give the type"
        ):
            read(name, key=str, value=value)


def test_both_differences_are_reported_at_once(app: Application) -> None:
    with pytest.raises(ConfigError) as caught:
        app.store("int", key=int, value=str)
    assert len(caught.value.problems) == 2


def test_what_is_no_serde_is_refused_with_its_place(app: Application) -> None:
    with pytest.raises(
        ConfigError, match=r"'jsn' is not a serde for value= of app\.store\('int'\)"
    ):
        app.store("int", key=str, value="jsn")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("plain", "key_value"),
        ("hours", "window"),
        ("timed-hours", "timestamped_window"),
        ("sessions", "session"),
        ("versions", "versioned"),
        ("per-hour", "timestamped_window"),
    ],
)
def test_the_kind_of_the_store_is_accepted_and_every_other_refused(
    app: Application, name: str, kind: Any
) -> None:
    assert app.store(name, key=str, value=int, kind=kind).name == name
    with pytest.raises(ConfigError, match=f"is a {kind} store.*Give kind='{kind}'"):
        app.store(name, key=str, value=int)
    with pytest.raises(ConfigError, match="int' is a timestamped_key_value store"):
        app.store("int", key=str, value=int, kind=kind)


def test_an_unknown_kind_is_refused_with_the_known_ones(app: Application) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown kind='windows'\. The kinds are timestamped_key"
    ):
        app.store("hours", key=str, value=int, kind="windows")  # type: ignore[call-overload]


def test_a_store_without_declared_types_is_not_compared(app: Application) -> None:
    assert app.store("hours").name == "hours"
    assert app.store("plain", key=str).name == "plain"
    with pytest.raises(ConfigError, match="declares key=int"):
        app.store("plain", key=int)


def test_a_global_store_is_compared_too(app: Application) -> None:
    assert app.store("cities", key=int, value=str).name == "cities"
    with pytest.raises(ConfigError, match="declares key=str"):
        app.store("cities", key=str, value=str)


@pytest.mark.parametrize("declared", DECLARED)
def test_the_declaration_of_a_store_replaces_name_and_types(
    app: Application, declared: Any
) -> None:
    assert app.store(declared).name == declared.name
    assert app.remote_store(declared).name == declared.name
    with pytest.raises(ConfigError, match="the declaration has the types"):
        app.store(declared, key=str, value=int)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (key_value_store("plain", str, str), "declares value=<serde string>"),
        (key_value_store("plain", int, int), "declares key=<serde int64>"),
        (key_value_store("hours", str, int), "is of a key_value store, and the topology's 'hours'"),
    ],
)
def test_another_declaration_of_the_name_is_refused(
    app: Application, declared: Any, found: str
) -> None:
    with pytest.raises(ConfigError, match=found):
        app.store(declared)


def test_an_unknown_store_is_refused_before_its_types(app: Application) -> None:
    for name in ("none", key_value_store("none", str, int)):
        with pytest.raises(StoreUnavailableError, match="there is no store 'none'"):
            app.store(name)


def test_two_serdes_of_text_are_read_alike(app: Application, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.table("names", value=string_replacing, store="names")
    made = Application(
        builder.build(), application_id="a", bootstrap="localhost:1", state_dir=tmp_path
    )
    assert made.store("names", key=string, value=str).name == "names"
