"""Whether two serdes give equal keys equal bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pydantic
import pytest

from logstate import int32, int64, json, json_of, session_windowed, windowed
from logstate.contracts.serde import Serde
from logstate.serdes.built_in import avro, serde_of
from logstate.topology.plan.key_bytes import key_bytes_agree


class Place(msgspec.Struct):
    city: str
    street: str


class Spot(msgspec.Struct):
    """The same under another name."""

    city: str
    street: str


class Turned(msgspec.Struct):
    street: str
    city: str


class Model(pydantic.BaseModel):
    city: str
    street: str


class Own(Serde[str]):
    def serializer(self, topic: str, is_key: bool) -> Any:
        return str.encode

    def deserializer(self, topic: str, is_key: bool) -> Any:
        return bytes.decode

    def describe(self) -> dict[str, Any]:
        return {"format": "own"}


class Other(Own):
    def describe(self) -> dict[str, Any]:
        return {"format": "other"}


def record(*fields: str, **more: Any) -> dict[str, Any]:
    declared = [{"name": name, "type": "string"} for name in fields]
    return {"type": "record", "name": "Place", "fields": declared, **more}


AGREE = [
    (str, str),
    (json_of(int), json_of(int)),
    (json, json_of(int)),
    (json_of(Place), json_of(Spot)),
    (json_of(Place), Model),
    (windowed(str, 10), windowed(str, 20)),
    (avro(record("a")), avro(record("a", doc="said"))),
    (Own(), Own()),
]
DIFFER = [
    (int64, int32),
    (str, json_of(str)),
    (str, bytes),
    (int, json_of(int)),
    (int, float),
    (json_of(int), json_of(str)),
    (json_of(int), json_of(float)),
    (json_of(Place), json_of(Turned)),
    (avro("string"), str),
    (avro(record("a", "b")), avro(record("b", "a"))),
    (avro("int"), avro("string")),
    (windowed(str, 10), windowed(int, 10)),
    (windowed(str, 10), session_windowed(str)),
    (windowed(str, 10), str),
]
UNKNOWN = [(Own(), Other()), (Own(), str), (windowed(Own(), 1), windowed(str, 1))]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        *((*pair, True) for pair in AGREE),
        *((*pair, False) for pair in DIFFER),
        *((*pair, None) for pair in UNKNOWN),
    ],
)
def test_keys_agree_where_equal_ones_have_equal_bytes(
    one: Any, other: Any, expected: bool | None
) -> None:
    sides = [serde_of(side, what="a key").describe() for side in (one, other)]
    assert key_bytes_agree(*sides) is expected
    assert key_bytes_agree(*reversed(sides)) is expected


def test_another_registry_may_be_the_same_one_elsewhere() -> None:
    one = {"format": "avro", "schema": "string", "framing": "confluent", "registry": "a"}
    assert key_bytes_agree(one, {**one, "registry": "b"}) is None
    assert key_bytes_agree(one, {**one, "framing": "none"}) is False
    assert key_bytes_agree(one, {**one, "schema": None}) is None
