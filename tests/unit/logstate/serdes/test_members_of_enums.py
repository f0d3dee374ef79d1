"""Members of enums that get other values: bytes that are read as before, as another member."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from logstate import StreamsBuilder, TopologyTestDriver
from logstate.contracts.compatibility import Verdict, worst
from logstate.contracts.errors import UpgradeError
from logstate.serdes import avro, json_schema_of, upgradable, windowed
from tests.unit.logstate.serdes.declared_twice import (
    COMPATIBLE,
    REFUSED,
    REGISTRY,
    SAME,
    changes,
    changes_since_an_earlier_version,
    in_model,
    in_struct,
    status,
)

ENUMS: dict[str, tuple[Any, Any, Verdict]] = {
    "a member inserted before others, by auto()": (
        status(NEW=..., PAID=..., DONE=...),
        status(NEW=..., HELD=..., PAID=..., DONE=...),
        REFUSED,
    ),
    "a member inserted at the beginning": (
        status(NEW=..., PAID=...),
        status(HELD=..., NEW=..., PAID=...),
        REFUSED,
    ),
    "a member taken away, by auto()": (
        status(NEW=..., HELD=..., PAID=...),
        status(NEW=..., PAID=...),
        REFUSED,
    ),
    "values swapped": (status(LOW=0, HIGH=1), status(HIGH=0, LOW=1), REFUSED),
    "values rotated": (status(A=1, B=2, C=3), status(A=2, B=3, C=1), REFUSED),
    "a member that another one replaces": (status(A=1, B=2), status(A=1, X=2), REFUSED),
    "a member called otherwise, its old name an alias": (
        status(A=1, B=2),
        status(A=1, X=2, B=2),
        SAME,
    ),
    "an alias taken away": (status(A=1, B=2, X=2), status(A=1, X=2), SAME),
    "members in another order, values as they were": (status(A=1, B=2), status(B=2, A=1), SAME),
    "a member added at the end, by auto()": (
        status(NEW=..., PAID=...),
        status(NEW=..., PAID=..., DONE=...),
        COMPATIBLE,
    ),
    "a member added at the end, with a value": (status(A=1), status(A=1, B=9), COMPATIBLE),
    "texts swapped": (status(LOW="a", HIGH="b"), status(HIGH="a", LOW="b"), REFUSED),
    "a member with a text called otherwise": (status(A="a"), status(X="a"), SAME),
    "a text added": (status(A="a"), status(A="a", B="b"), COMPATIBLE),
}


def in_dataclass(one: Any) -> Any:
    return dataclasses.make_dataclass("Order", [("status", one)], frozen=True)


def in_attrs(one: Any) -> Any:
    return attrs.make_class("Order", {"status": attrs.field(type=one)}, frozen=True)


def nested_model(one: Any) -> Any:
    inner = in_model(one)
    return pydantic.create_model("Basket", orders=(list[inner], ...), first=(inner | None, None))


def literal_model(one: Any) -> Any:
    return pydantic.create_model("Order", status=(Literal[tuple(one)], ...))


def in_typed_dict(one: Any) -> Any:
    return TypedDict("Order", {"status": one})  # type: ignore[operator]


def in_named_tuple(one: Any) -> Any:
    return NamedTuple("Order", [("id", int), ("status", one)])


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "status", "type": ["long", "string"]}],
}
HOLDERS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda one: one,
    "a list": lambda one: list[one],
    "a set": lambda one: frozenset[one],
    "a dict": lambda one: dict[str, one],
    "keys of a dict": lambda one: dict[one, int],
    "keys of a dict in a struct": lambda one: in_struct(dict[one, int]),
    "a tuple": lambda one: tuple[int, one],
    "a union": lambda one: in_struct(one | None | list[int]),
    "annotated": lambda one: in_struct(Annotated[one, msgspec.Meta(title="x")]),
    "a struct": in_struct,
    "a struct in a struct": lambda one: msgspec.defstruct("Basket", [("order", in_struct(one))]),
    "an array": lambda one: msgspec.defstruct("Order", [("status", one)], array_like=True),
    "a dataclass": in_dataclass,
    "a class of attrs": in_attrs,
    "a TypedDict": in_typed_dict,
    "a NamedTuple": in_named_tuple,
    "a model": in_model,
    "keys of a dict in a model": lambda one: in_model(dict[one, int]),
    "a list in a model": lambda one: in_model(list[one]),
    "a model in models": nested_model,
    "a literal in a model": literal_model,
    "a value behind windows": lambda one: windowed(in_struct(one), 10),
    "a JSON schema in a registry": lambda one: json_schema_of(in_struct(one), registry=REGISTRY),
    "a model's schema in a registry": lambda one: json_schema_of(in_model(one), registry=REGISTRY),
    "Avro in a registry": lambda one: avro(SCHEMA, registry=REGISTRY, type=in_struct(one)),
    "Avro without a registry": lambda one: avro(SCHEMA, type=in_struct(one)),
    "a versioned type": lambda one: upgradable(in_struct(one), version=1),
}
#: what lets a change of the members through that a key would not have
_DECIDES_BY_MEANING = ("Avro in a registry", "Avro without a registry")


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("case", ENUMS.values(), ids=ENUMS)
def test_members_of_an_enum_keep_their_values(
    holder: Callable[[Any], Any], case: tuple[Any, Any, Verdict]
) -> None:
    before, now, verdict = case
    found = worst(changes(holder(before), holder(now)))
    name = next(name for name, one in HOLDERS.items() if one is holder)
    if name in _DECIDES_BY_MEANING and verdict is COMPATIBLE:
        verdict = SAME  # Avro has a schema of its own, which is what it was
    assert found is verdict


@pytest.mark.parametrize("case", ENUMS.values(), ids=ENUMS)
def test_members_of_an_enum_in_keys_keep_their_values(case: tuple[Any, Any, Verdict]) -> None:
    before, now, verdict = case
    found = worst(changes(in_struct(before), in_struct(now), "key"))
    assert found is (REFUSED if verdict is COMPATIBLE else verdict)


@pytest.mark.parametrize("case", ENUMS.values(), ids=ENUMS)
def test_what_an_earlier_version_stored_of_an_enum_is_accepted(case: Any) -> None:
    for one in case[:2]:
        assert changes_since_an_earlier_version(in_struct(one)) == []


def test_what_is_stored_of_an_enum_is_named_with_the_remedy() -> None:
    before, now, _ = ENUMS["a member inserted before others, by auto()"]
    (change,) = changes(in_struct(before), in_struct(now))
    assert change.part == "value.status"
    assert (change.stored, change.declared) == ("PAID = 2, DONE = 3", "HELD = 2, PAID = 3")
    assert "instead of auto()" in change.meaning


def test_flags_keep_their_bits() -> None:
    before = enum.IntFlag("Rights", "READ WRITE")
    assert worst(changes(before, enum.IntFlag("Rights", "READ RUN WRITE"))) is REFUSED
    assert worst(changes(before, enum.IntFlag("Rights", "READ WRITE RUN"))) is COMPATIBLE


def test_two_enums_of_one_name_are_each_compared_with_itself() -> None:
    one, other = status(A=1, B=2), status(X=1, Y=2)
    other.__qualname__ = "elsewhere.Status"
    before = msgspec.defstruct("Both", [("one", one), ("other", other)])
    swapped = status(X=2, Y=1)
    swapped.__qualname__ = "elsewhere.Status"
    now = msgspec.defstruct("Both", [("one", one), ("other", swapped)])
    assert changes(before, before) == []
    (change,) = changes(before, now)
    assert change.part == "value.other"


def driver(kind: Any, folder: Path) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.table("in", key=str, value=kind, store="t")
    return TopologyTestDriver(builder.build(), state_dir=folder)


@pytest.mark.parametrize("holder", [in_struct, in_model], ids=["struct", "model"])
def test_a_start_over_rows_of_other_members_is_refused(holder: Any, tmp_path: Path) -> None:
    before, now, _ = ENUMS["a member inserted before others, by auto()"]
    wrote = holder(before)
    with driver(wrote, tmp_path) as first:
        told = {"status": before.PAID} | ({"id": 1} if holder is in_struct else {})
        first.pipe("in", "k", wrote(**told))
    with pytest.raises(UpgradeError, match=r"value\.status: stored PAID = 2, DONE = 3"):
        driver(holder(now), tmp_path)
    more = status(NEW=..., PAID=..., DONE=..., HELD=...)
    with driver(holder(more), tmp_path) as later:
        assert later.store("t").get("k").value.status is more.PAID
