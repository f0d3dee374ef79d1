"""Faust's records and codecs as serdes."""

from __future__ import annotations

import datetime
import enum
import uuid
from decimal import Decimal
from typing import Any

import faust
import pytest
from faust.serializers.registry import Registry
from hypothesis import given
from hypothesis import strategies as st

from logstate import DeserializationError, ProcessingError, SerdeError, StreamsBuilder
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


class Colour(enum.Enum):
    RED = "red"


class Untold(faust.Record, namespace="tests.faust.Untold"):
    what: Any


class Rush(Order, namespace="tests.faust.Rush"):
    level: int = 3


class Told(
    faust.Record,
    namespace="tests.faust.Told",
    coerce=True,
    coercions={Colour: Colour, uuid.UUID: uuid.UUID},
):
    at: datetime.datetime
    price: Decimal
    colour: Colour
    number: uuid.UUID


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
    with pytest.raises(SerdeError, match=r"is not a faust\.Record"):
        record_of(dict)  # type: ignore[type-var]


def test_another_object_than_the_record_is_refused() -> None:
    with pytest.raises(SerdeError, match="Found Item where the serde of Order"):
        record_of(Order).serializer("t", False)(Item(sku="a"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (codec("json"), {7: 1}),
        (codec("json"), {True: 1}),
        (codec("json"), Decimal("1.5")),
        (codec("json"), [datetime.datetime(2020, 1, 1)]),  # noqa: DTZ001  Faust's are naive
        (codec("json"), {1, 2}),
        (codec("json"), b"ab"),
        (codec("json"), [Item(sku="a")]),
        (codec("json", int), True),
        (codec("raw"), "ab"),
        (codec("json", Packed), Packed(customer="ada")),
        (record_of(Untold), Untold(uuid.UUID(int=1))),
        (record_of(Untold), Untold(Colour.RED)),
        (record_of(Untold), Untold({1: 2})),
    ],
    ids=repr,
)
def test_what_faust_would_read_as_something_else_is_refused(serde: Any, value: Any) -> None:
    with pytest.raises(SerdeError, match=r"would not be read back unchanged with <serde faust"):
        serde.serializer("t", False)(value)


def test_records_that_say_how_their_fields_are_read_come_back_whole() -> None:
    told = Told(
        at=datetime.datetime(2020, 1, 1),  # noqa: DTZ001
        price=Decimal("1.50"),
        colour=Colour.RED,
        number=uuid.UUID(int=1),
    )
    assert round_trip(record_of(Told), told) == told


def test_a_list_for_a_tuple_nan_and_a_derived_record_are_written() -> None:
    assert round_trip(codec("json"), (1, [2])) == [1, [2]]
    assert round_trip(codec("json"), {"a": float("nan")})["a"] != 0
    rush = Rush(customer="ada", amount=1.0, items=[Item(sku="b")])
    assert round_trip(record_of(Order), rush).customer == "ada"


def test_an_aggregate_that_json_would_change_is_no_row() -> None:
    def add(counts: dict[int, int], number: int) -> dict[int, int]:
        return {**counts, number: counts.get(number, 0) + 1}

    builder = StreamsBuilder()
    numbers = builder.stream("in", value=int).group_by_key()
    numbers.aggregate(dict, add, store="counts", value=codec("json"))
    refused = pytest.raises(ProcessingError, match="there is a key that is int")
    with TopologyTestDriver(builder.build()) as driver, refused:
        driver.pipe("in", "ada", 7)


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
