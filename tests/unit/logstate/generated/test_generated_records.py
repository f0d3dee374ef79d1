"""Records that are made up are what the declared types take, and the same for the same seed."""

from __future__ import annotations

import enum
import uuid
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, Field

from logstate import StreamsBuilder, serdes
from logstate.contracts.errors import ConfigError
from logstate.generated.draw import Draw
from logstate.generated.json_data import JsonData
from logstate.generated.objects import maker_of
from logstate.generated.records import generated_records, given_records, topics_read
from logstate.serdes.built_in import serde_of
from tests.unit.logstate.serdes.formats import FORMATS, Format, StructRenamed
from tests.unit.logstate.serdes.protobuf_messages import Click


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Tree(msgspec.Struct, frozen=True):
    name: Annotated[str, msgspec.Meta(min_length=3, max_length=5)]
    age: Annotated[int, msgspec.Meta(ge=18, lt=20)]
    price: Decimal
    at: datetime
    id: uuid.UUID
    colour: Colour
    took: timedelta
    raw: bytes
    pair: tuple[int, str]
    counts: dict[str, int]
    below: list[Tree]
    parent: Tree | None = None


class Product(BaseModel):
    sku: str = Field(pattern=r"^[A-Z]{3}$")
    price: Decimal = Field(gt=0, decimal_places=2)
    rating: float = Field(ge=0, le=5)
    size: int = Field(multiple_of=5, ge=1, le=100)


AVRO = {
    "type": "record",
    "name": "Node",
    "namespace": "shop",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "tags", "type": {"type": "map", "values": "float"}},
        {"name": "below", "type": {"type": "array", "items": "Node"}},
        {"name": "next", "type": ["null", "shop.Node"]},
    ],
}


def round_trips(serde: Any) -> None:
    make = maker_of(serde)
    write, read = serde.serializer("t", False), serde.deserializer("t", False)
    for number in range(50):
        made = make(Draw(1, number, 1_000_000_000))
        assert read(write(made)) == made


@pytest.mark.parametrize("format_", FORMATS, ids=lambda one: one.name)
def test_every_format_takes_what_is_made_up_for_it(format_: Format) -> None:
    round_trips(format_.order())
    round_trips(format_.added())


@pytest.mark.parametrize("type_", [str, int, float, bool, bytes, Tree, Product, Click])
def test_constraints_are_kept_and_types_that_hold_themselves_end(type_: Any) -> None:
    round_trips(serde_of(type_, what="v"))


def test_avro_s_logical_types_and_named_ones_are_filled() -> None:
    round_trips(serdes.avro(AVRO))


def test_structs_of_avro_and_upgradable_rows_are_of_the_declared_class() -> None:
    order = {"type": "record", "name": "O", "fields": [{"name": "amount", "type": "long"}]}

    class Amount(msgspec.Struct, frozen=True):
        amount: int

    made = maker_of(serdes.avro(order, type=Amount))(Draw(1, 1))
    assert isinstance(made, Amount)
    current = serdes.upgradable(
        StructRenamed, version=2, earlier={1: (dict, lambda old: StructRenamed(**old))}
    )
    assert isinstance(maker_of(current)(Draw(1, 1)), StructRenamed)


def test_a_pattern_that_nothing_fits_is_an_error() -> None:
    with pytest.raises(ConfigError, match="pattern"):
        JsonData({"type": "string", "pattern": "^#!/bin/[z]+$"})(Draw(1, 1))


def read(value: Any) -> list[Any]:
    builder = StreamsBuilder()
    customers = builder.table("customers", key=str, value=str, store="customers")
    orders = builder.stream("orders", key=str, value=value)
    orders.join(customers, lambda order, name: name, value=str).to("named", key=str, value=str)
    return topics_read(builder.build())


def test_equal_seeds_make_equal_records_and_tables_have_every_key_first() -> None:
    first, again, other = (
        list(generated_records(read(int), 50, keys=10, seed=seed, per_second=100))
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert [one.topic for one in first] == ["customers"] * 10 + ["orders"] * 40
    assert {one.key for one in first[10:]} <= {one.key for one in first[:10]}
    assert len({one.key for one in first[:10]}) == 10
    assert first[49].timestamp - first[0].timestamp == 490


def test_what_nothing_is_known_of_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"no value .* topic 'orders'.*--inputs MODULE:FUNCTION"):
        list(generated_records(read(dict), 50, keys=10, seed=1, per_second=100))


def test_records_of_the_users_own_are_encoded_as_declared() -> None:
    given = [("orders", "ada", 7), ("orders", "bob", None, 5)]
    made = list(given_records(read(int), given, 10, per_second=100))
    assert [one.value for one in made] == [(7).to_bytes(8, "big"), None]
    assert made[1].timestamp == 5
    with pytest.raises(ConfigError, match="'order', which the topology does not read"):
        list(given_records(read(int), [("order", "ada", 7)], 10, per_second=100))
