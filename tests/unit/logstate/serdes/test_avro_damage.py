"""Enums and unions with an index that no writer makes."""

from __future__ import annotations

from typing import Any

import pytest

from logstate.contracts.errors import SerdeError
from logstate.serdes import avro
from logstate.serdes.avro import AvroSerde

SIZE = {"type": "enum", "name": "Size", "symbols": ["S", "M", "L"]}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "size", "type": SIZE},
        {"name": "at", "type": ["null", "long"]},
        {"name": "others", "type": {"type": "array", "items": ["null", "Size"]}},
        {"name": "inner", "type": ["null", "Order"]},
    ],
}


@pytest.fixture
def serde() -> AvroSerde[Any]:
    return avro(SCHEMA)


def test_good_indices_are_read(serde: AvroSerde[Any]) -> None:
    order: dict[str, Any] = {"size": "M", "at": None, "others": [None, "L"], "inner": None}
    for value in (order, {**order, "size": "L", "at": 7, "others": [], "inner": order}):
        data = serde.serializer("orders", False)(value)
        assert serde.deserializer("orders", False)(data) == value


@pytest.mark.parametrize(
    "data",
    [
        b"\x03\x00\x00\x00",  # the symbol -2
        b"\x02\x01\x02\x00\x00",  # the branch -1 of "at"
        b"\x02\x03\x00\x00",  # the branch -2, which would be null
        b"\x02\x00\x02\x02\x01\x00\x00",  # the symbol -1 of a named type
        b"\x02\x00\x02\x03\x00\x00",  # the branch -2 within an array
        b"\x02\x00\x00\x01\x02\x00\x00\x00",  # the branch -1 of a recursive type
        b"\x06\x00\x00\x00",  # the symbol 3 of three
        b"\x02\x04\x00\x00",  # the branch 2 of two
    ],
    ids=bytes.hex,
)
def test_others_are_refused(serde: AvroSerde[Any], data: bytes) -> None:
    with pytest.raises(SerdeError, match="do not decode as Avro Order"):
        serde.deserializer("orders", False)(data)
