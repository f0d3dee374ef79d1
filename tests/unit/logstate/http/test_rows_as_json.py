"""Rows as they are shown over HTTP, whatever library their type is of."""

from __future__ import annotations

import datetime
import decimal
from typing import Any
from uuid import UUID

import faust
import msgspec
import pydantic
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.wrappers_pb2 import Int32Value

from logstate.contracts.stores import ValueAndTimestamp
from logstate.http.keys import document, key_of, plain, plain_row
from logstate.serdes import uuid, uuid_bytes
from logstate.serdes.protobuf_serde import ProtobufSerde
from logstate.serdes.protobuf_values import plain_decoder
from tests.unit.logstate.serdes.protobuf_messages import Click


class Order(pydantic.BaseModel):
    customer: str = pydantic.Field(alias="by")
    amount: decimal.Decimal = decimal.Decimal("1.50")
    rate: float = float("nan")


class Sale(faust.Record, namespace="tests.http.Sale"):
    on: datetime.date
    parts: list[Any]


ADA = Order(by="ada")
ADA_AS_JSON = b'{"by":"ada","amount":"1.50","rate":null}'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (ADA, ADA_AS_JSON),
        ([ADA], b"[" + ADA_AS_JSON + b"]"),
        ({"last": ADA}, b'{"last":' + ADA_AS_JSON + b"}"),
        (ValueAndTimestamp(ADA, 5), b'{"value":' + ADA_AS_JSON + b',"timestamp":5}'),
        (Duration(seconds=3), b'{"seconds":3,"nanos":0}'),
        ([Int32Value(value=4)], b'[{"value":4}]'),
        (Sale(datetime.date(2020, 1, 2), [1]), b'{"on":"2020-01-02","parts":[1]}'),
        ([complex(1, 2), ADA], b'["(1+2j)",' + ADA_AS_JSON + b"]"),
    ],
    ids=["pydantic", "in a list", "in a dict", "with time", "protobuf", "inside", "faust", "none"],
)
def test_an_object_is_shown_by_its_fields_and_not_as_python_prints_it(
    value: Any, shown: bytes
) -> None:
    assert document(plain(value)) == shown


def test_a_key_of_pydantic_has_its_fields_too() -> None:
    shown = document(plain_row((ADA, ValueAndTimestamp(1, 5))))
    assert shown == b'{"key":' + ADA_AS_JSON + b',"value":1,"timestamp":5}'


def test_a_uuid_is_a_key_in_a_path_and_shown_as_text() -> None:
    text = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    for serde in (uuid, uuid_bytes):
        assert key_of(text, serde, "orders", is_base64=False) == UUID(text)
    assert document(plain(UUID(text))) == f'"{text}"'.encode()


def test_a_message_is_shown_over_http_as_the_command_shows_it() -> None:
    read = plain_decoder(ProtobufSerde(Click).describe())
    full = Click(user="ada", count=3, tags=["a", "b"], kind=1, inner=Click(user="bob"))
    full.at.FromJsonString("2020-01-02T03:04:05Z")
    for one in (full, Click(), Click(kind=7)):
        assert plain(one) == msgspec.to_builtins(read(one.SerializeToString()))


def test_the_maps_of_a_message_have_text_for_keys() -> None:
    shown = plain(Struct(fields={"n": Value(number_value=2)}))
    assert shown["fields"]["n"]["number_value"] == 2
    assert shown["fields"]["n"]["string_value"] is None
