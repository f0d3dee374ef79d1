"""Keys and values as a user types them, encoded by a serde and by the description of one."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pydantic
import pytest

from logstate import serdes
from logstate.contracts.errors import ConfigError
from logstate.contracts.serde import Serde
from logstate.serdes.typed_values import TypedValues, typed_by_description

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "customer", "type": "string"}, {"name": "cents", "type": "long"}],
}


class Order(msgspec.Struct):
    customer: str
    cents: int = 0


@dataclasses.dataclass
class Plain:
    customer: str
    cents: int = 0


class Model(pydantic.BaseModel):
    customer: str
    cents: int = 0


def declared(type_: Any) -> Serde[Any]:
    return serdes.serde_of(type_, what="a value")


#: serde, text, the object that is read back
TYPED = [
    pytest.param(declared(str), "ada", "ada", id="text"),
    pytest.param(declared(str), '{"a": 1}', '{"a": 1}', id="text that is JSON"),
    pytest.param(declared(int), "-42", -42, id="int"),
    pytest.param(declared(float), "2", 2.0, id="float"),
    pytest.param(declared(bool), "true", True, id="bool"),
    pytest.param(declared(bytes), "0x00ff", b"\x00\xff", id="bytes"),
    pytest.param(declared(bytes), "ada", b"ada", id="text as bytes"),
    pytest.param(serdes.json, '{"a": [1, null]}', {"a": [1, None]}, id="json"),
    pytest.param(declared(Order), '{"customer": "ada"}', Order("ada"), id="struct"),
    pytest.param(declared(Plain), '{"customer": "ada"}', Plain("ada"), id="dataclass"),
    pytest.param(declared(Model), '{"customer": "ada"}', Model(customer="ada"), id="pydantic"),
    pytest.param(declared(list[int]), "[1, 2]", [1, 2], id="list"),
    pytest.param(
        serdes.avro(SCHEMA),
        '{"customer": "a", "cents": 1}',
        {"customer": "a", "cents": 1},
        id="avro",
    ),
    pytest.param(
        serdes.upgradable(declared(Order), version=2, earlier={}),
        '{"customer": "ada"}',
        Order("ada"),
        id="upgradable",
    ),
]


@pytest.mark.parametrize(("serde", "text", "value"), TYPED)
def test_a_typed_value_is_read_back_as_the_application_reads_it(
    serde: Serde[Any], text: str, value: Any
) -> None:
    encoded = TypedValues(serde, "orders", is_key=False).from_text(text)
    assert serde.deserializer("orders", False)(encoded) == value


@pytest.mark.parametrize(("serde", "text", "value"), TYPED)
def test_a_description_encodes_like_its_serde_or_names_the_topology(
    serde: Serde[Any], text: str, value: Any
) -> None:
    described = msgspec.json.decode(msgspec.json.encode(serde.describe()))
    if described["format"] == "upgradable":
        with pytest.raises(ConfigError, match="--topology MODULE:ATTRIBUTE"):
            typed_by_description(described, "orders", is_key=False)
        return
    encoded = typed_by_description(described, "orders", is_key=False).from_text(text)
    assert serde.deserializer("orders", False)(encoded) == value


@pytest.mark.parametrize(
    ("serde", "text", "reason"),
    [
        (
            declared(int),
            "seven",
            r"'seven' is not a valid value of topic 'orders', whose values ar",
        ),
        (declared(int), str(2**63), "int64"),
        (declared(bool), "yes", "An example is true"),
        (declared(bytes), "0x0", "bytes"),
        (declared(Order), "ada", "Give it as JSON, in quotes of the shell"),
        (declared(Order), '{"customer": 7}', r"Expected `str`, got `int` - at `\$.customer`"),
        (declared(Order), '{"customer": "a", "cent": 1}', "no cent; its fields are customer, cent"),
        (declared(Order), "[1]", "Give an object with the fields customer, cents"),
        (declared(Model), '{"cents": 1}', "customer"),
        (serdes.avro(SCHEMA), '{"customer": "a"}', "cents"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_is_expected(
    serde: Serde[Any], text: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        TypedValues(serde, "orders", is_key=False).from_text(text)


def test_data_of_json_is_encoded_like_text_and_null_stays_null() -> None:
    numbers = TypedValues(declared(int), "orders", is_key=True)
    assert numbers.from_data(None) is None
    assert numbers.from_data(7) == numbers.from_text("7")
    with pytest.raises(ConfigError, match="'\"7\"' is not a valid key of topic 'orders'"):
        numbers.from_data("7")


def test_a_windowed_key_is_refused() -> None:
    window = serdes.windowed(declared(str), size_ms=10)
    with pytest.raises(ConfigError, match="windowed"):
        TypedValues(window, "orders", is_key=True).from_data(["a", 0])
