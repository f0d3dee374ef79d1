"""Serdes are equal where they write and read the same, and then streams of them come together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import BaseModel

from logstate import serdes
from logstate.contracts.serde import Serde
from logstate.serdes.json_serde import JsonSerde


@dataclass
class Order:
    item: str
    amount: int


class Model(BaseModel):
    item: str


class Old(msgspec.Struct):
    item: str


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "item", "type": "string"}, {"name": "amount", "type": "long"}],
}
UNION = [*SCHEMA["fields"], {"name": "n", "type": ["int", "boolean"], "default": 1}]


def upgraded(old: Any) -> Order:
    return Order(old.item, 0)


def avro_of(**fields: Any) -> Serde[Any]:
    return serdes.avro({**SCHEMA, **fields})


MADE: dict[str, Callable[[], Serde[Any]]] = {
    "string": lambda: serdes.string,
    "string_replacing": lambda: serdes.string_replacing,
    "int": lambda: serdes.int64,
    "json": lambda: serdes.json,
    "dict": lambda: serdes.serde_of(dict, what="a value"),
    "list": lambda: serdes.serde_of(list, what="a value"),
    "dataclass": lambda: serdes.json_of(Order),
    "list of a dataclass": lambda: serdes.json_of(list[Order]),
    "struct": lambda: serdes.json_of(Old),
    "pydantic": lambda: serdes.serde_of(Model, what="a value"),
    "avro": avro_of,
    "avro of another doc": lambda: avro_of(doc="paid"),
    "avro with 1": lambda: avro_of(fields=UNION),
    "avro with true": lambda: avro_of(fields=[*UNION[:2], {**UNION[2], "default": True}]),
    "avro of a type": lambda: serdes.avro(SCHEMA, type=Order),
    "avro with a registry": lambda: serdes.avro(SCHEMA, registry="mock://equal"),
    "avro with another": lambda: serdes.avro(SCHEMA, registry="mock://other"),
    "avro that looks up": lambda: serdes.avro(SCHEMA, registry="mock://equal", auto_register=False),
    "json schema": lambda: serdes.json_schema_of(Order, registry="mock://equal"),
    "protobuf": lambda: serdes.protobuf(Timestamp),
    "another message": lambda: serdes.protobuf(Duration),
    "protobuf with a registry": lambda: serdes.protobuf(Timestamp, registry="mock://equal"),
    "windowed": lambda: serdes.windowed(Order, 10),
    "windowed otherwise": lambda: serdes.windowed(Order, 20),
    "sessions": lambda: serdes.session_windowed(Order),
    "upgradable": lambda: serdes.upgradable(Order, version=2, earlier={1: (Old, upgraded)}),
}


@pytest.mark.parametrize("name", MADE)
def test_two_serdes_that_are_made_alike_are_equal_and_equal_to_no_other(name: str) -> None:
    one, other = MADE[name](), MADE[name]()
    assert one == other
    assert hash(one) == hash(other)
    assert [found for found, made in MADE.items() if made() == one] == [name]


def test_a_registry_of_other_settings_is_another_one() -> None:
    config = {"url": "http://registry:8081"}
    named = {**config, "basic.auth.user.info": "ada:secret"}
    assert serdes.avro(SCHEMA, registry=config) == serdes.avro(SCHEMA, registry=config["url"])
    assert serdes.avro(SCHEMA, registry=config) != serdes.avro(SCHEMA, registry=named)


class Own(Serde[str]):
    def __init__(self, name: str) -> None:
        self.name = name

    def serializer(self, topic: str, is_key: bool) -> Any:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Any:
        return bytes.decode

    def describe(self) -> dict[str, Any]:
        return {"format": self.name, "schema": None}


@dataclasses.dataclass(frozen=True, repr=False)
class OwnByFields(Own):
    name: str


def test_a_serde_of_a_user_equals_itself_unless_its_class_says_more() -> None:
    own = Own("own")
    assert own == own  # noqa: PLR0124
    assert own != Own("own")
    assert serdes.windowed(own, 10) == serdes.windowed(own, 10)
    assert serdes.windowed(own, 10) != serdes.windowed(Own("own"), 10)
    assert OwnByFields("own") == OwnByFields("own")
    assert OwnByFields("own") != OwnByFields("other")


def test_a_class_derived_from_a_serde_may_keep_more_and_is_compared_by_its_objects() -> None:
    class Encrypted(JsonSerde[Any]):
        def __init__(self, secret: bytes) -> None:
            super().__init__(dict)
            self.secret = secret

    assert Encrypted(b"a") != Encrypted(b"b")
    assert len({Encrypted(b"a"), Encrypted(b"b")}) == 2
