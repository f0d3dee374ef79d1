"""Faust's records and codecs as serdes."""

from __future__ import annotations

from typing import Any

import faust
import pytest
from faust.serializers.registry import Registry
from hypothesis import given
from hypothesis import strategies as st

from logstate import DeserializationError, SerdeError, StreamsBuilder
from logstate.faust import codec, record_of
from logstate.testing import TopologyTestDriver


class Item(faust.Record, namespace="tests.faust.Item"):
    sku: str


class Order(faust.Record, namespace="tests.faust.Order"):
    customer: str
    amount: float
    items: list[Item] = []  # noqa: RUF012  so Faust has it
    country: str = "de"


class Packed(faust.Record, serializer="json|binary", namespace="tests.faust.Packed"):
    customer: str


ORDERS = st.builds(
    Order,
    customer=st.text(max_size=5),
    amount=st.floats(allow_nan=False, allow_infinity=False),
    items=st.lists(st.builds(Item, sku=st.text(max_size=3)), max_size=2),
    country=st.text(max_size=2),
)


def round_trip(serde: Any, value: Any) -> Any:
    return serde.deserializer("t", False)(serde.serializer("t", False)(value))


@given(ORDERS)
def test_a_record_is_written_as_faust_writes_it_and_read_back(order: Order) -> None:
    serde = record_of(Order)
    data = serde.serializer("t", False)(order)
    registry = Registry(key_serializer="json", value_serializer="json")
    assert data == registry.dumps_value(Order, order)  # type: ignore[type-var]
    assert registry.loads_value(Order, data) == order
    assert round_trip(serde, order) == order
    assert all(isinstance(item, Item) for item in round_trip(serde, order).items)


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (record_of(Packed), Packed(customer="ada")),
        (codec("json"), {"a": [1, 2.5, None]}),
        (codec("raw", bytes), b"\x00\xff"),
        (codec("json", int), 3),
        (codec("raw", str), "ada"),
    ],
)
def test_a_codec_gives_back_what_was_written(serde: Any, value: Any) -> None:
    assert round_trip(serde, value) == value


def test_codecs_that_unpickle_and_unknown_ones_are_refused() -> None:
    for name in ("pickle", "pickle_restricted", "json|pickle"):
        with pytest.raises(SerdeError, match="could run code in"):
            codec(name)
    with pytest.raises(SerdeError, match="Faust knows no codec 'jsno'"):
        codec("jsno")
    with pytest.raises(SerdeError, match=r"is no faust\.Record"):
        record_of(dict)  # type: ignore[type-var]


def test_another_object_than_the_record_is_refused() -> None:
    with pytest.raises(SerdeError, match="Found Item where the serde of Order"):
        record_of(Order).serializer("t", False)(Item(sku="a"))  # type: ignore[arg-type]


def test_the_description_has_the_fields_with_their_defaults() -> None:
    schema = record_of(Order).describe()["schema"]
    assert schema["required"] == ["customer", "amount"]
    assert schema["properties"]["country"] == {"type": "string", "default": "de"}
    assert schema["properties"]["amount"] == {"type": "number"}
    assert record_of(Packed).describe()["format"] == "faust"


def test_bytes_that_are_no_record_are_an_error_with_their_place() -> None:
    builder = StreamsBuilder()
    builder.stream("in", value=record_of(Order)).to("out")
    refused = pytest.raises(DeserializationError, match="'in', partition 0, offset 0")
    with TopologyTestDriver(builder.build()) as driver, refused:
        driver.pipe_raw("in", b"k", b"{not json", 1)
