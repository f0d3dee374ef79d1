"""Defaults of Avro schemas: in JSON in the schema, and a value wherever a record is read."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from logstate import StreamsBuilder, TopologyTestDriver
from logstate.contracts.errors import SerdeError
from logstate.serdes import avro
from logstate.serdes.described import readable_decoder

_numbers = itertools.count()


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, *default: Any) -> dict[str, Any]:
    return {"name": name, "type": kind} | ({"default": default[0]} if default else {})


def logical(kind: str, logical_type: str, **told: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **told}


DECIMAL = logical("bytes", "decimal", precision=10, scale=2)
DAY = logical("int", "date")
FIXED = {"type": "fixed", "name": "Two", "size": 2}
NESTED = record(field("price", DECIMAL, "\u0001"), field("raw", "bytes", "a"), name="Nested")
OTHER = record(field("n", "long"), name="Other")
ENUM = {"type": "enum", "name": "Size", "symbols": ["S", "M"]}

DEFAULTS: dict[str, tuple[Any, Any, Any]] = {
    "bytes": ("bytes", "\u00ff\u0000a", b"\xff\x00a"),
    "fixed": (FIXED, "\u00ff\u0001", b"\xff\x01"),
    "decimal": (DECIMAL, "\u0001\u0000", Decimal("2.56")),
    "negative decimal": (DECIMAL, "\u00ff", Decimal("-0.01")),
    "fixed decimal": (
        logical("fixed", "decimal", name="Four", size=4, precision=8, scale=2),
        "\u0000\u0000\u0001\u0000",
        Decimal("2.56"),
    ),
    "date": (DAY, 5, date(1970, 1, 6)),
    "time-millis": (logical("int", "time-millis"), 1000, time(0, 0, 1)),
    "time-micros": (logical("long", "time-micros"), 1000, time(0, 0, 0, 1000)),
    "timestamp-millis": (
        logical("long", "timestamp-millis"),
        -1000,
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
    ),
    "timestamp-micros": (
        logical("long", "timestamp-micros"),
        1,
        datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    ),
    "local-timestamp-millis": (
        logical("long", "local-timestamp-millis"),
        1000,
        datetime(1970, 1, 1, 0, 0, 1),  # noqa: DTZ001  it has none
    ),
    "uuid": (logical("string", "uuid"), str(UUID(int=7)), UUID(int=7)),
    "a type that nobody knows": (logical("string", "json"), "{}", "{}"),
    "enum": (ENUM, "M", "M"),
    "whole number of a double": ("double", 1, 1.0),
    "float, in 32 bits": ("float", 0.1, 0.10000000149011612),
    "long": ("long", 3, 3),
    "null": ("null", None, None),
    "null of a union": (["null", DECIMAL], None, None),
    "first branch of a union": ([DECIMAL, "null"], "\u0001", Decimal("0.01")),
    "a later branch of a union": (["null", DAY], 1, date(1970, 1, 2)),
    "bytes, not text": (["bytes", "string"], "\u00e9", b"\xe9"),
    "array": ({"type": "array", "items": DAY}, [1, 2], [date(1970, 1, 2), date(1970, 1, 3)]),
    "map": ({"type": "map", "values": DECIMAL}, {"a": "\u0001"}, {"a": Decimal("0.01")}),
    "array of unions": (
        {"type": "array", "items": ["null", DAY]},
        [None, 1],
        [None, date(1970, 1, 2)],
    ),
    "record": (NESTED, {"price": "\u0002"}, {"price": Decimal("0.02"), "raw": b"a"}),
    "record of defaults alone": (NESTED, {}, {"price": Decimal("0.01"), "raw": b"a"}),
    "record in a map": (
        {"type": "map", "values": NESTED},
        {"k": {"raw": "b"}},
        {"k": {"price": Decimal("0.01"), "raw": b"b"}},
    ),
    "record in a union": (["null", OTHER], {"n": 1}, {"n": 1}),
}
EVERY = pytest.mark.parametrize("case", DEFAULTS.values(), ids=DEFAULTS)


def read_with(writer: Any, value: Any, reader: Any, **options: Any) -> Any:
    """A record that another version wrote, and what reads it."""
    registry = f"mock://defaults-{next(_numbers)}"
    data = avro(writer, registry=registry).serializer("t", False)(value)
    read = avro(reader, registry=registry, **options).deserializer("t", False)
    return read, data


def same(found: Any, expected: Any) -> bool:
    return bool(found == expected) and type(found) is type(expected)


@EVERY
@pytest.mark.parametrize("wrapped", [False, True], ids=["record", "inside an array"])
def test_a_reader_gets_the_value_of_a_default(case: tuple[Any, Any, Any], wrapped: bool) -> None:
    kind, default, expected = case
    before, now = record(field("a", "int")), record(field("a", "int"), field("x", kind, default))
    given: Any = {"a": 1}
    if wrapped:
        before, now = ({"type": "array", "items": one} for one in (before, now))
        given = [given]
    read, data = read_with(before, given, now)
    found = read(data)[0]["x"] if wrapped else read(data)["x"]
    assert same(found, expected), found


@EVERY
def test_a_default_is_the_same_in_a_union_at_the_top(case: tuple[Any, Any, Any]) -> None:
    kind, default, expected = case
    before, now = record(field("a", "int")), record(field("a", "int"), field("x", kind, default))
    read, data = read_with(["null", before], {"a": 1}, ["null", now])
    assert same(read(data)["x"], expected)


@EVERY
def test_what_is_left_out_is_written_as_its_default(case: tuple[Any, Any, Any]) -> None:
    kind, default, expected = case
    serde = avro(record(field("a", "int"), field("x", kind, default)))
    data = serde.serializer("t", False)({"a": 1})
    found = serde.deserializer("t", False)(data)
    assert same(found["x"], expected)
    assert serde.serializer("t", False)(found) == data


def test_each_record_has_a_default_of_its_own() -> None:
    now = record(field("a", "int"), field("x", {"type": "array", "items": NESTED}, [{}]))
    read, data = read_with(record(field("a", "int")), {"a": 1}, now)
    one = read(data)
    one["x"][0]["raw"] = b"changed"
    one["x"].append("more")
    assert read(data)["x"] == [{"price": Decimal("0.01"), "raw": b"a"}]


def test_a_default_becomes_the_declared_type() -> None:
    class Row(msgspec.Struct):
        a: int
        price: Decimal
        day: date

    now = record(field("a", "int"), field("price", DECIMAL, "\u0001"), field("day", DAY, 1))
    read, data = read_with(record(field("a", "int")), {"a": 1}, now, type=Row)
    assert read(data) == Row(1, Decimal("0.01"), date(1970, 1, 2))


def test_a_default_of_several_records_comes_with_the_name_of_its_branch() -> None:
    now = record(field("a", "int"), field("x", [OTHER, NESTED], {"n": 1}))
    read, data = read_with(record(field("a", "int")), {"a": 1}, now, branch_names=True)
    assert read(data)["x"] == ("Other", {"n": 1})


def test_people_and_http_see_the_value_of_a_default() -> None:
    registry = f"mock://defaults-{next(_numbers)}"
    data = avro(record(field("a", "int")), registry=registry).serializer("t", False)({"a": 1})
    now = record(field("a", "int"), field("price", DECIMAL, "\u0001"), field("day", DAY, 1))
    shown = readable_decoder(avro(now, registry=registry).describe())(data)
    assert shown == {"a": 1, "price": "0.01", "day": "1970-01-02"}


@pytest.mark.parametrize(
    ("kind", "default"),
    [(FIXED, "a"), (ENUM, "L"), (record(field("n", "long"), name="N"), {}), ("bytes", "\u0100")],
)
def test_a_default_that_is_none_of_its_type_is_named_when_it_is_needed(
    kind: Any, default: Any
) -> None:
    now = record(field("a", "int"), field("x", kind, default))
    read, data = read_with(record(field("a", "int")), {"a": 1}, now)
    with pytest.raises(SerdeError, match="the default of the Avro field 'x' is not a value of its"):
        read(data)
    read, data = read_with(record(field("a", "int"), field("x", "null")), {"a": 1, "x": None}, now)
    with pytest.raises(SerdeError):
        read(data)


def test_a_topology_computes_with_the_value_of_a_default() -> None:
    registry = f"mock://defaults-{next(_numbers)}"
    before = avro(record(field("a", "int")), registry=registry)
    now = avro(
        record(field("a", "int"), field("price", DECIMAL, "\u0001\u0000")), registry=registry
    )
    builder = StreamsBuilder()
    priced = builder.stream("in", key=str, value=now)
    priced.map_values(lambda row: str(row["price"] * row["a"]), value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        data = before.serializer("in", False)({"a": 3})
        driver.pipe_raw("in", b"k", data, 0)
        assert driver.read("out", value=str) == [("k", "7.68")]
