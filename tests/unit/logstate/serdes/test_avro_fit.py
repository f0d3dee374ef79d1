"""Avro writes a value as it is, or refuses it: nothing is cut, or put into a time zone."""

from __future__ import annotations

import array
import datetime
import decimal
import enum
import fractions
import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import ProductionError, StreamsBuilder
from logstate.contracts.errors import SerdeError
from logstate.serdes import avro
from logstate.testing import TopologyTestDriver

UTC = datetime.UTC
NOON = datetime.datetime(2024, 3, 31, 12)  # noqa: DTZ001  what is refused
LAST = datetime.datetime.max.replace(tzinfo=UTC)
ID = uuid.UUID(int=7)


def logical(type_: str, name: str, **more: object) -> dict[str, object]:
    return {"type": type_, "logicalType": name, **more}


MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
LOCAL = logical("long", "local-timestamp-micros")
LOCAL_MILLIS = logical("long", "local-timestamp-millis")
DATE, UUID = logical("int", "date"), logical("string", "uuid")
TIME, TIME_MICROS = logical("int", "time-millis"), logical("long", "time-micros")
MONEY = logical("bytes", "decimal", precision=6, scale=2)
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}]}
SUIT = {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}
HASH = {"type": "fixed", "name": "Hash", "size": 2}


class Number(enum.IntEnum):
    THREE = 3


def record_of(type_: object) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_}]}


def through(type_: object, value: object) -> object:
    """The value as a field, written and read."""
    serde = avro(record_of(type_))
    read: Any = serde.deserializer("t", False)(serde.serializer("t", False)({"x": value}))
    return read["x"]


@pytest.mark.parametrize(
    ("type_", "value", "complaint"),
    [
        ("long", 2.9, r"R\.x is float, expected long"),
        ("long", 2.0, r"R\.x is float, expected long"),
        ("int", 2.9, r"R\.x is float, expected int"),
        ("int", 2**31, r"R\.x does not fit.*\"long\""),
        ("long", decimal.Decimal("2.9"), "Decimal, expected long"),
        ("long", True, "bool, expected long"),
        ("int", False, "bool, expected int"),
        ("double", True, "bool, expected double"),
        ("double", decimal.Decimal("0.1"), "Decimal, expected double"),
        ("double", fractions.Fraction(1, 3), "Fraction, expected double"),
        ("float", 1e39, ""),
        ("boolean", 1, "int, expected boolean"),
        ("boolean", "no", "str, expected boolean"),
        ("null", 5, "int, expected null"),
        ("string", 5, "int, expected string"),
        ("bytes", "text", ""),
        (["null", "long"], 2.9, "float, expected"),
        (["null", "long"], True, "bool, expected"),
        (["null", "long", "string"], 2.9, "float, expected"),
        ({"type": "array", "items": "long"}, [1, 1.9], r"R\.x\[\] is float, expected long"),
        ({"type": "array", "items": "string"}, "abc", "str, expected an array"),
        ({"type": "array", "items": "string"}, {"a": 1}, "dict, expected an array"),
        ({"type": "array", "items": "long"}, {1, 2}, "set, expected an array"),
        ({"type": "array", "items": "long"}, b"ab", "bytes, expected an array"),
        ({"type": "array", "items": ["null", "long"]}, [None, 1.5], "float"),
        ({"type": "map", "values": "int"}, {"a": 1.9}, r"R\.x\[\] is float, expected int"),
        ({"type": "map", "values": {"type": "array", "items": "long"}}, {"a": [0.5]}, r"x\[\]\[\]"),
        (INNER, {"n": 2.9}, r"R\.x\.n is float, expected long"),
        (["null", INNER], {"n": 2.9}, "float"),
        ({"type": "array", "items": INNER}, [{"n": 1}, {"n": 0.5}], r"R\.x\[\]\.n is float"),
        (SUIT, "C", ""),
        (HASH, b"abc", ""),
        (MILLIS, NOON, r"R\.x is a datetime without a time zone"),
        (MICROS, NOON, "without a time zone.*zone of the machine"),
        (["null", MILLIS], NOON, "without a time zone"),
        ([MILLIS, "string"], NOON, "without a time zone"),
        ({"type": "array", "items": MICROS}, [NOON], "without a time zone"),
        (MILLIS, 1711852200.5, "float, expected an aware datetime"),
        (MILLIS, 1711852200, r"int, expected an aware datetime.*fromtimestamp"),
        (LOCAL, 1711852200, "int, expected a datetime without a time zone"),
        (MILLIS, 2**62, "int, expected an aware datetime"),
        (MILLIS, NOON.date(), ""),
        (LOCAL, NOON.replace(tzinfo=UTC), "with a time zone"),
        (LOCAL_MILLIS, 0.5, "float"),
        (DATE, NOON, "datetime, expected a date"),
        (DATE, 19_000, "int, expected a date"),
        (DATE, "2024-03-31", r"str, expected a date.*fromisoformat"),
        (DATE, 19_000.5, "float, expected a date"),
        (TIME, datetime.time(1, tzinfo=UTC), "time with a time zone"),
        (TIME, 86_400_000, "int, expected a time"),
        (TIME, 0.5, "float, expected a time"),
        (TIME_MICROS, -1, "int, expected a time"),
        (UUID, str(ID), "str, expected a UUID"),
        ("double", 2**53 + 1, "a whole number that a float does not have exactly"),
        (["null", "double"], 10**400, ""),
        ({"type": "array", "items": "long"}, (1, 2), "tuple, expected an array"),
        ({"type": "array", "items": "long"}, array.array("q", [1]), "array, expected an array"),
        (MONEY, decimal.Decimal("1.234"), ""),
        (MONEY, 1.5, ""),
    ],
    ids=str,
)
def test_what_would_come_back_as_something_else_is_refused(
    type_: object, value: object, complaint: str
) -> None:
    with pytest.raises(SerdeError, match=rf"does not fit the Avro schema R.*{complaint}"):
        through(type_, value)


@pytest.mark.parametrize(
    ("type_", "value", "read"),
    [
        ("long", 3, 3),
        ("long", Number.THREE, 3),
        ("double", 3, 3.0),
        ("double", float("inf"), float("inf")),
        ("float", 0.5, 0.5),
        ("float", float("inf"), float("inf")),
        ("bytes", bytearray(b"ab"), b"ab"),
        (["null", "long"], None, None),
        (["null", "long", "double"], 2.5, 2.5),
        (["null", "long", "double"], None, None),
        ({"type": "array", "items": "long"}, [1, 2], [1, 2]),
        ({"type": "array", "items": ["null", "long"]}, [None, 1], [None, 1]),
        ({"type": "map", "values": ["null", "long"]}, {"a": None}, {"a": None}),
        (["null", INNER, SUIT], ("Suit", "A"), "A"),
        (["null", INNER, SUIT], {"n": 3}, {"n": 3}),
        (MILLIS, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)),
        (MICROS, LAST, LAST),
        (LOCAL, NOON, NOON),
        (LOCAL_MILLIS, NOON, NOON),
        (DATE, NOON.date(), NOON.date()),
        (DATE, datetime.date.max, datetime.date.max),
        (TIME, datetime.time(1, 2), datetime.time(1, 2)),
        (TIME_MICROS, datetime.time.max, datetime.time.max),
        (UUID, ID, ID),
        (MONEY, decimal.Decimal("12.34"), decimal.Decimal("12.34")),
        (logical("long", "ours"), 3, 3),
    ],
    ids=str,
)
def test_what_fits_is_written_and_read(type_: object, value: object, read: object) -> None:
    assert through(type_, value) == read


class Cut(msgspec.Struct):
    x: bytes
    y: list[int] = []


def test_a_struct_that_would_be_made_of_the_record_as_another_one_is_refused() -> None:
    array_of = {"type": "array", "items": "long"}
    fields = [{"name": "x", "type": "bytes"}, {"name": "y", "type": array_of}]
    serde = avro({"type": "record", "name": "R", "fields": fields}, type=Cut)
    assert serde.deserializer("t", False)(serde.serializer("t", False)(Cut(b"a", [1]))) == Cut(
        b"a", [1]
    )
    with pytest.raises(SerdeError, match=r"avro\(type=Cut\): at `\$\.y` there is set, and list"):
        serde.serializer("t", False)(Cut(b"a", {1}))  # type: ignore[arg-type]


def test_a_default_stands_for_a_field_that_is_not_there() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": "long", "default": 4}, {"name": "x", "type": "long"}],
    }
    serde = avro(schema)
    assert serde.deserializer("t", False)(serde.serializer("t", False)({"x": 1})) == {
        "n": 4,
        "x": 1,
    }


def test_a_tree_is_looked_through_to_its_leaves() -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "below", "type": {"type": "array", "items": "Tree"}, "default": []},
        ],
    }
    serialize = avro(tree).serializer("t", False)
    assert serialize({"n": 1, "below": [{"n": 2, "below": [{"n": 3, "below": []}]}]})
    with pytest.raises(SerdeError, match=r"Tree\.below\[\]\.below\[\]\.n is float"):
        serialize({"n": 1, "below": [{"n": 2, "below": [{"n": 3.5, "below": []}]}]})


def test_a_value_that_is_no_record_is_looked_at_too() -> None:
    with pytest.raises(SerdeError, match="the value is float, expected long"):
        avro("long").serializer("t", False)(2.9)
    with pytest.raises(SerdeError, match=r"array\[\] is float"):
        avro({"type": "array", "items": "long"}).serializer("t", False)([2.9])


class Click(msgspec.Struct, frozen=True):
    x: int


def test_a_struct_that_could_not_be_made_of_the_record_again_is_refused() -> None:
    serialize = avro(record_of("double"), type=Click).serializer("t", False)
    with pytest.raises(SerdeError, match=r"read again with avro\(type=Click\).*at `\$\.x`"):
        serialize(Click(2.5))  # type: ignore[arg-type]
    with pytest.raises(SerdeError, match=r"R\.x is float, expected long"):
        avro(record_of("long"), type=Click).serializer("t", False)(Click(2.5))  # type: ignore[arg-type]


def test_framed_values_are_looked_at_too() -> None:
    serialize = avro(record_of("long"), registry="mock://fit").serializer("t", False)
    with pytest.raises(SerdeError, match=r"R\.x is float, expected long"):
        serialize({"x": 2.9})


@given(st.integers(-(2**63), 2**63 - 1) | st.floats() | st.booleans())
def test_a_long_is_what_was_given_or_nothing(value: object) -> None:
    if type(value) is int:
        assert through("long", value) == value
        return
    with pytest.raises(SerdeError):
        through("long", value)


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield os.environ["TZ"]
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_times_do_not_depend_on_the_zone_of_the_machine() -> None:
    for type_ in (MILLIS, MICROS):
        assert through(type_, NOON.replace(tzinfo=UTC)) == NOON.replace(tzinfo=UTC)
        with pytest.raises(SerdeError, match="without a time zone"):
            through(type_, NOON)
    for type_ in (LOCAL, LOCAL_MILLIS):
        assert through(type_, NOON) == NOON


def test_the_sink_says_which_function_made_it() -> None:
    builder = StreamsBuilder()
    schema = record_of("long")
    halves = builder.stream("in", key=str, value=int).map_values(
        lambda v: {"x": v / 2}, value=avro(schema)
    )
    halves.to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProductionError, match=r"R\.x is float.*test_avro_fit\.py"),
    ):
        driver.pipe("in", "k", 3)


# --- unions whose branches have the same fields --------------------------------------------------


def numbered(name: str, type_: object = "int") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "x", "type": type_}]}


MAP = {"type": "map", "values": "int"}


@pytest.mark.parametrize(
    ("union", "names"),
    [
        (["null", numbered("A"), numbered("B")], "A and of B"),
        ([numbered("A", "long"), numbered("B")], "A and of B"),
        ([MAP, numbered("A")], "map and of A"),
        ([numbered("A"), numbered("C", "string"), numbered("B", "double")], "A and of B"),
    ],
)
def test_a_dict_that_may_be_of_two_branches_is_refused_without_a_name(
    union: object, names: str
) -> None:
    with pytest.raises(SerdeError, match=rf"R\.x has the fields of {names}, .*Name the branch"):
        through(union, {"x": 1})
    assert through(union, (names.rsplit(maxsplit=1)[-1], {"x": 1})) == {"x": 1}


@pytest.mark.parametrize(
    ("union", "value"),
    [
        ([numbered("A"), numbered("C", "string")], {"x": "s"}),
        ([MAP, numbered("A")], {"y": 1}),
        (["null", numbered("A"), numbered("B")], None),
        (["null", numbered("A")], {"x": 1}),
        ([INNER, numbered("A")], {"n": 1}),
    ],
)
def test_a_dict_that_is_of_one_branch_needs_no_name(union: object, value: object) -> None:
    assert through(union, value) == value


def test_a_record_that_contains_its_own_kind_is_told_from_another() -> None:
    other = {"type": "record", "name": "U", "fields": [{"name": "x", "type": ["null", "R"]}]}
    with pytest.raises(SerdeError, match=r"R\.x has the fields of R and of U"):
        through(["null", "R", other], {"x": None})
    assert through(["null", "R", other], ("U", {"x": None})) == {"x": None}


@pytest.mark.parametrize("union", [[numbered("A"), numbered("B")], ["null", numbered("B"), "R"]])
def test_with_branch_names_what_is_read_can_be_written_again(union: list[object]) -> None:
    serde = avro(record_of(union), branch_names=True)
    write, read = serde.serializer("t", False), serde.deserializer("t", False)
    data = write({"x": ("B", {"x": 1})})
    assert read(data) == {"x": ("B", {"x": 1})}
    assert write(read(data)) == data


def test_branch_names_are_for_dicts() -> None:
    class R(msgspec.Struct):
        x: int

    with pytest.raises(
        SerdeError, match=r"which cannot be converted into R: leave out type=, or branch_names="
    ):
        avro(record_of("int"), type=R, branch_names=True)
