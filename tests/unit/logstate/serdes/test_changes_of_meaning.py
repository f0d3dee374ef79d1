"""Bytes that are read as before, and mean something else: the table of such changes.

Each case declares a type twice. The comparison must find the change, and must accept the case that
differs from it only in being harmless.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pydantic
import pytest

from logstate.contracts.compatibility import Verdict, worst
from logstate.serdes import avro, json_of, json_schema_of, protobuf
from logstate.serdes.compatibility import serde_changes
from logstate.serdes.json_schema import MEANING
from tests.unit.logstate.serdes.declared_twice import (
    COMPATIBLE,
    DECISION,
    REFUSED,
    REGISTRY,
    SAME,
    changes,
    changes_since_an_earlier_version,
    in_model,
    in_struct,
    status,
)
from tests.unit.logstate.serdes.protobuf_messages import classes, field, total


def array(*names: str, **settings: Any) -> Any:
    return msgspec.defstruct("Entry", [(name, int) for name in names], array_like=True, **settings)


class Entry(NamedTuple):
    credit: int
    debit: int


class Owed(NamedTuple):
    credit: int
    owed: int


def omitting(default: Any, kind: Any = int, *, omits: bool = True) -> Any:
    fields = [("a", int), ("b", kind, default)]
    return msgspec.defstruct("Price", fields, omit_defaults=omits)


def optional(default: Any) -> Any:
    kind = int | msgspec.UnsetType
    return msgspec.defstruct("Price", [("a", int), ("b", kind, default)])


def excluding(default: int) -> Any:
    told = pydantic.Field(default, exclude_if=lambda one: one == default)
    return pydantic.create_model("Price", b=(int, told))


def tagged(**tags: Any) -> Any:
    """A union of structs, each with its tag."""
    structs = [msgspec.defstruct(name, [("x", int)], tag=tag) for name, tag in tags.items()]
    joined = structs[0]
    for one in structs[1:]:
        joined |= one
    return joined


def models(**tags: Any) -> Any:
    """A field that is one of several models, told apart by a literal."""
    made = [
        pydantic.create_model(name, kind=(Literal[tag], tag), x=(int, ...))
        for name, tag in tags.items()
    ]
    told = Annotated[made[0] | made[1], pydantic.Field(discriminator="kind")]
    return pydantic.create_model("Event", one=(told, ...))


def undistinguished(*names: str) -> Any:
    """A field that is one of several models with the same fields."""
    made = pydantic.create_model(names[0], x=(int, ...))
    for name in names[1:]:
        made |= pydantic.create_model(name, x=(int, ...))  # type: ignore[assignment]
    return pydantic.create_model("Event", one=(made, ...))


def renamed(**names: str) -> Any:
    return msgspec.defstruct("Price", [(name, int) for name in names], rename=names)


LISTS = msgspec.field(default_factory=list)
OTHERS: dict[str, tuple[Any, Any, Verdict]] = {
    "a field of an array called otherwise": (array("a", "b"), array("x", "b"), REFUSED),
    "a field of an array called otherwise, not in the bytes": (
        array("a", "b"),
        array("x", "b", rename={"x": "a"}),
        SAME,
    ),
    "that name dropped from the bytes later": (
        array("x", "b", rename={"x": "a"}),
        array("x", "b"),
        SAME,
    ),
    "fields of an array exchanged": (array("a", "b"), array("b", "a"), REFUSED),
    "a field of a NamedTuple called otherwise": (Entry, Owed, REFUSED),
    "arrays in a list": (list[array("a", "b")], list[array("x", "b")], REFUSED),  # type: ignore[misc]
    "a field added to an array": (
        array("a"),
        msgspec.defstruct("Entry", [("a", int), ("b", int, 0)], array_like=True),
        SAME,
    ),
    "an omitted default changes": (omitting(5), omitting(7), REFUSED),
    "an omitted default changes, and is omitted no more": (
        omitting(5),
        omitting(7, omits=False),
        REFUSED,
    ),
    "a default changes that was never omitted": (
        omitting(5, omits=False),
        omitting(7),
        COMPATIBLE,
    ),
    "a default comes to be omitted": (omitting(5, omits=False), omitting(5), SAME),
    "an omitted text changes": (omitting("eur", str), omitting("usd", str), REFUSED),
    "an omitted list comes to be a function's": (
        omitting(LISTS, list[int]),
        omitting(msgspec.field(default_factory=lambda: [1]), list[int]),
        REFUSED,
    ),
    "an omitted default stays": (omitting(LISTS, list[int]), omitting(LISTS, list[int]), SAME),
    "an omitted member of an enum changes": (
        omitting(status(A=1, B=2).A, status(A=1, B=2)),
        omitting(status(A=1, B=2).B, status(A=1, B=2)),
        REFUSED,
    ),
    "UNSET gets a default": (optional(msgspec.UNSET), optional(5), REFUSED),
    "UNSET stays": (optional(msgspec.UNSET), optional(msgspec.UNSET), SAME),
    "a default that a model excludes changes": (excluding(5), excluding(7), REFUSED),
    "tags exchanged": (tagged(A="one", B="two"), tagged(B="one", A="two"), REFUSED),
    "numbers as tags exchanged": (tagged(A=1, B=2), tagged(B=1, A=2), REFUSED),
    "a tag for another class": (tagged(A=1, B=2), tagged(C=1, A=3, B=2), REFUSED),
    "classes called otherwise, tags as they were": (
        tagged(A="one", B="two"),
        tagged(C="one", D="two"),
        SAME,
    ),
    "a class added to a union": (tagged(A=1, B=2), tagged(A=1, B=2, C=3), SAME),
    "classes of a union in another order": (tagged(A=1, B=2), tagged(B=2, A=1), SAME),
    "literals of models exchanged": (models(A="a", B="b"), models(A="b", B="a"), REFUSED),
    "literals of models in another order": (models(A="a", B="b"), models(B="b", A="a"), SAME),
    "models without a tag exchanged": (
        undistinguished("A", "B"),
        undistinguished("B", "A"),
        REFUSED,
    ),
    "a model without a tag put before another": (
        undistinguished("A"),
        undistinguished("B", "A"),
        REFUSED,
    ),
    "a model without a tag added behind": (undistinguished("A"), undistinguished("A", "B"), SAME),
    "a model called otherwise": (undistinguished("A"), undistinguished("B"), SAME),
    "a date comes to be a text first": (
        pydantic.create_model("M", at=(date, ...)),
        pydantic.create_model("M", at=(str | date, ...)),
        REFUSED,
    ),
    "a list comes to be a set": (in_struct(list[int]), in_struct(set[int]), REFUSED),
    "a list comes to be a frozenset": (list[int], frozenset[int], REFUSED),
    "a tuple comes to be a set": (in_struct(tuple[int, ...]), in_struct(set[int]), REFUSED),
    "a list of a model comes to be a set": (in_model(list[int]), in_model(set[int]), REFUSED),
    "a set comes to be a list": (in_struct(set[int]), in_struct(list[int]), SAME),
    "a set comes to be a frozenset": (in_struct(set[int]), in_struct(frozenset[int]), SAME),
    "a list comes to be a tuple": (in_struct(list[int]), in_struct(tuple[int, ...]), SAME),
    "JSON names exchanged": (renamed(a="x", b="y"), renamed(a="y", b="x"), REFUSED),
    "an attribute called otherwise": (renamed(a="x", b="y"), renamed(c="x", b="y"), SAME),
    "a literal has one more value": (
        pydantic.create_model("M", one=(Literal["a"], ...)),
        pydantic.create_model("M", one=(Literal["a", "b"], ...)),
        COMPATIBLE,
    ),
}


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_fields_keep_what_they_mean(case: tuple[Any, Any, Verdict]) -> None:
    before, now, verdict = case
    assert worst(changes(before, now)) is verdict, changes(before, now)


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_a_type_that_did_not_change_is_the_same(case: tuple[Any, Any, Verdict]) -> None:
    for one in case[:2]:
        assert changes(one, one) == []
        assert changes(one, one, "key") == []


@pytest.mark.parametrize("case", OTHERS.values(), ids=OTHERS)
def test_what_an_earlier_version_stored_of_a_type_is_accepted(case: Any) -> None:
    for one in case[:2]:
        assert changes_since_an_earlier_version(one) == []


def test_a_default_that_an_earlier_version_stored_is_taken_for_omitted_where_it_is_now() -> None:
    earlier, now = (json_of(omitting(default)).describe() for default in (5, 7))
    del earlier[MEANING]
    assert worst(serde_changes("s", "value", earlier, now)) is REFUSED


def test_a_registry_gets_the_schema_alone() -> None:
    type_ = in_struct(status(A=1))
    assert "members" not in json_schema_of(type_, registry=REGISTRY).text
    assert "members" in str(json_of(type_).describe())


# ---------------------------------------------------------------- Protobuf

TOTAL = total((1, "sum", "int64"), (2, "where", "string"))


def with_default(syntax: str, **fields: str) -> Any:
    def fill(file: Any) -> None:
        message = file.message_type.add(name="Total")
        for number, (name, default) in enumerate(fields.items(), 1):
            field(message, number, name, "int64", default_value=default)

    return classes(fill, syntax=syntax)["Total"]


def with_numbers(**values: int) -> Any:
    def fill(file: Any) -> None:
        kind = file.enum_type.add(name="Kind")
        for name, number in values.items():
            kind.value.add(name=name, number=number)
        message = file.message_type.add(name="Total")
        field(message, 1, "kind", ".shop.Kind", enum=True)

    return classes(fill, syntax="proto2" if min(values.values()) else "proto3")["Total"]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (TOTAL, total((1, "sum", "int64"), (3, "where", "string")), DECISION),
        (TOTAL, total((1, "sum", "int64"), (3, "where", "int64")), DECISION),
        (TOTAL, total((2, "where", "string"), (3, "sum", "int64")), DECISION),
        (TOTAL, total((1, "sum", "int64"), (2, "a", "string"), (3, "where", "string")), REFUSED),
        (
            total((1, "a", "int64"), (2, "b", "int64")),
            total((1, "b", "int64"), (2, "a", "int64")),
            REFUSED,
        ),
        (with_numbers(A=0, B=1), with_numbers(A=0, B=2), REFUSED),
        (with_numbers(A=0, B=1), with_numbers(A=0, X=1, B=2), REFUSED),
        (with_numbers(A=0, B=1), with_numbers(A=0, B=1, C=2), SAME),
        (with_numbers(A=1, B=2), with_numbers(B=2, A=1), DECISION),
        (with_default("proto2", n="5"), with_default("proto2", n="7"), DECISION),
        (with_default("proto2", n="5"), with_default("proto2", n="5", m="1"), COMPATIBLE),
    ],
)
def test_numbers_of_protobuf_keep_their_names(before: Any, now: Any, expected: Verdict) -> None:
    assert worst(changes(before, now)) is expected, changes(before, now)
    assert changes(now, now) == []


def test_the_user_says_that_a_field_of_protobuf_has_another_number_on_purpose() -> None:
    now = protobuf(
        total((1, "sum", "int64"), (3, "where", "string")), renamed={"where": "old_where"}
    )
    assert worst(changes(TOTAL, now)) is COMPATIBLE


# ---------------------------------------------------------------- logical types of Avro


def record(kind: Any, *more: Any) -> Any:
    return avro(
        {"type": "record", "name": "R", "fields": [{"name": "at", "type": kind}, *more]},
        registry=REGISTRY,
    )


def logical(kind: str, name: str, **told: int) -> Any:
    return {"type": kind, "logicalType": name, **told}


ADDED = {"name": "n", "type": "long", "default": 0}
MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
CENTS, MILS = (logical("bytes", "decimal", precision=9, scale=scale) for scale in (2, 3))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (MILLIS, MICROS, REFUSED),
        (MILLIS, "long", REFUSED),
        ("long", MILLIS, REFUSED),
        (CENTS, MILS, REFUSED),
        (["null", CENTS], ["null", MILS], REFUSED),
        ({"type": "array", "items": CENTS}, {"type": "array", "items": MILS}, REFUSED),
        ({"type": "map", "values": MILLIS}, {"type": "map", "values": MICROS}, REFUSED),
        (logical("int", "date"), "long", REFUSED),
        (MILLIS, MILLIS, COMPATIBLE),
        (CENTS, ["null", CENTS], COMPATIBLE),
        ("int", "long", COMPATIBLE),
    ],
)
def test_a_logical_type_of_avro_stays_while_other_fields_change(
    before: Any, now: Any, expected: Verdict
) -> None:
    assert worst(changes(record(before), record(now, ADDED))) is expected
    assert changes(record(before), record(before)) == []
