"""Plain data becomes the bytes that the application's own serde writes."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pydantic import BaseModel, PositiveInt

from logstate.admin.described_encoders import encoder
from logstate.changelog.reading.types import column_type
from logstate.contracts.errors import ConfigError, SerdeError
from logstate.serdes.built_in import serde_of
from logstate.serdes.json_serde import json, json_of
from logstate.serdes.scalars import boolean, float64, int32, int64, string


class Part(msgspec.Struct, frozen=True):
    size: int
    name: str = "small"


class Order(msgspec.Struct, frozen=True):
    shop: str
    amount: Decimal
    at: datetime.datetime
    parts: list[Part]
    notes: dict[str, int]
    picture: bytes | None = None
    choice: int | str = 0


ORDER = Order(
    "tea & co",
    Decimal("2.50"),
    datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    [Part(1), Part(2, "big")],
    {"z": 1, "a": 2},
    b"\x00\xff",
    "text",
)


@pytest.mark.parametrize(
    ("serde", "value"),
    [(string, "ä"), (int64, -7), (int32, 7), (float64, 2.5), (boolean, True)],
)
def test_scalars_are_written_as_their_serdes_do(serde: Any, value: Any) -> None:
    for is_key in (True, False):
        written = encoder(serde.describe(), is_key=is_key)(value)
        assert written == serde.serializer("t", is_key)(value)


@pytest.mark.parametrize("is_key", [True, False])
def test_objects_are_written_in_the_order_of_their_declaration(is_key: bool) -> None:
    serde = json_of(Order)
    plain = {
        "choice": '"text"',  # a union is the text of its JSON, as readers show it
        "picture": b"\x00\xff",
        "notes": [("z", 1), ("a", 2)],  # as Arrow gives a map
        "parts": [{"size": 1}, {"name": "big", "size": 2}],
        "at": ORDER.at,
        "amount": ORDER.amount,
        "shop": ORDER.shop,
    }

    assert encoder(serde.describe(), is_key=is_key)(plain) == serde.serializer("t", is_key)(ORDER)


def test_what_does_not_fit_is_refused_with_what_is_wrong() -> None:
    encode = encoder(json_of(Part).describe(), is_key=False)

    with pytest.raises(SerdeError, match="field 'size' is missing"):
        encode({"name": "x"})
    with pytest.raises(SerdeError, match="colour: the store's values have no such field"):
        encode({"size": 1, "colour": "red"})
    with pytest.raises(SerdeError, match="expected a string"):
        encoder({"format": "string"}, is_key=True)(7)
    with pytest.raises(SerdeError, match="is not valid JSON"):
        encoder({"format": "json", "schema": None}, is_key=False)("{")
    with pytest.raises(ConfigError, match="only the application's own serde can write"):
        encoder({"format": "avro", "schema": "int"}, is_key=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": None},
        {"amount": "much"},
        {"at": "yesterday"},
        {"parts": [None]},
        {"parts": [{"size": 1.5}]},
        {"parts": [{"size": "1"}]},
        {"notes": {"z": float("nan")}},
        {"picture": 5},
        {"shop": 5},
    ],
)
def test_what_the_application_could_not_read_is_refused(wrong: dict[str, Any]) -> None:
    serde = json_of(Order)
    encode = encoder(serde.describe(), is_key=False)
    row = {"shop": "a", "amount": Decimal(1), "at": ORDER.at, "parts": [], "notes": {}}
    read = serde.deserializer("t", False)

    assert read(encode(row)) == Order("a", Decimal(1), ORDER.at, [], {})
    with pytest.raises(msgspec.ValidationError, match=next(iter(wrong))):
        encode({**row, **wrong})


class Measure(msgspec.Struct, frozen=True):
    count: int
    mean: float
    largest: float | None = None


@pytest.mark.parametrize("is_key", [True, False])
def test_numbers_of_a_table_are_written_as_the_application_writes_them(is_key: bool) -> None:
    serde = json_of(Measure)
    encode = encoder(serde.describe(), is_key=is_key)

    written = encode({"count": Decimal("3.00"), "mean": 52, "largest": Decimal("2.5")})

    assert written == serde.serializer("t", is_key)(Measure(3, 52.0, 2.5))
    assert encode({"count": 3.0, "mean": 52.0}) == serde.serializer("t", is_key)(Measure(3, 52.0))


def test_a_number_is_no_bytes() -> None:
    assert encoder({"format": "bytes"}, is_key=True)(bytearray(b"x")) == b"x"
    with pytest.raises(SerdeError, match="expected bytes, got 5 of type int"):
        encoder({"format": "bytes"}, is_key=True)(5)


class AnyKey(msgspec.Struct, frozen=True):
    part: int | dict[str, int]


@pytest.mark.parametrize("given", [{"b": 1, "a": 2}, '{"b": 1, "a": 2}'])
def test_parts_of_a_key_that_are_plain_json_are_written_in_the_order_of_keys(given: Any) -> None:
    part, of_struct = {"b": 1, "a": 2}, json_of(AnyKey)

    key = encoder(json.describe(), is_key=True)(given)
    within = encoder(of_struct.describe(), is_key=True)({"part": given})

    assert key == json.serializer("t", True)(part)
    assert within == of_struct.serializer("t", True)(AnyKey(part))
    assert encoder(json.describe(), is_key=False)(part) == b'{"b":1,"a":2}'


class Trip(BaseModel):
    fare: Decimal
    at: datetime.datetime
    took: datetime.timedelta
    id: uuid.UUID
    seats: PositiveInt = 1
    note: str | None = None
    either: int | str = 5
    picture: bytes = b"ab"


def test_rows_of_pydantic_models_are_taken_as_the_models_write_them() -> None:
    serde = serde_of(Trip, what="value")
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    long = datetime.timedelta(days=400, seconds=3.5)  # which pydantic writes with years
    trip = Trip(fare=Decimal("1.5"), at=moment, took=long, id=uuid.UUID(int=1))
    data = serde.serializer("t", False)(trip)

    row = column_type(serde.describe()).fill(pa.array([data], pa.binary())).to_pylist()[0]

    assert encoder(serde.describe(), is_key=False)(row) == data
