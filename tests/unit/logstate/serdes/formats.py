"""One order in every format, and what becomes of its type: a field more, fewer, renamed, needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired, TypedDict

import attrs
import msgspec
from pydantic import BaseModel, ConfigDict, Field

from logstate import serdes
from tests.unit.logstate.serdes.protobuf_messages import total

_names = itertools.count()


class Format(NamedTuple):
    """Each version is a serde and how to make a value of it; None where the format cannot."""

    name: str
    order: Callable[[], Any]
    make: Callable[..., Any]
    #: with "country", which is "de" where a row has none ("" where the format has no defaults)
    added: Callable[[], Any]
    make_added: Callable[..., Any]
    default: str
    #: without "note"
    removed: Callable[[], Any]
    make_removed: Callable[..., Any]
    #: with "amount" under the name "total"
    renamed: Callable[[], Any] | None
    #: with "country", which has no default
    needed: Callable[[], Any] | None
    #: what is no order at all
    bad: bytes


class Struct(msgspec.Struct, frozen=True):
    customer: str
    amount: int
    note: str


class StructAdded(msgspec.Struct, frozen=True):
    customer: str
    amount: int
    note: str
    country: str = "de"


class StructRemoved(msgspec.Struct, frozen=True):
    customer: str
    amount: int


class StructRenamed(msgspec.Struct, frozen=True):
    customer: str
    note: str
    total: int = msgspec.field(name="amount")


class StructNeeded(msgspec.Struct, frozen=True):
    customer: str
    amount: int
    note: str
    country: str


@dataclass
class Data:
    customer: str
    amount: int
    note: str


@dataclass
class DataAdded(Data):
    country: str = "de"


@dataclass
class DataRemoved:
    customer: str
    amount: int


@dataclass
class DataNeeded(Data):
    country: str


@attrs.define
class Attrs:
    customer: str
    amount: int
    note: str


@attrs.define
class AttrsAdded(Attrs):
    country: str = "de"


@attrs.define
class AttrsRemoved:
    customer: str
    amount: int


@attrs.define
class AttrsNeeded(Attrs):
    country: str


class Typed(TypedDict):
    customer: str
    amount: int
    note: str


class TypedAdded(Typed):
    country: NotRequired[str]


class TypedRemoved(TypedDict):
    customer: str
    amount: int


class TypedNeeded(Typed):
    country: str


class Model(BaseModel):
    customer: str
    amount: int
    note: str


class ModelAdded(Model):
    country: str = "de"


class ModelRemoved(BaseModel):
    customer: str
    amount: int


class ModelRenamed(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    customer: str
    note: str
    total: int = Field(alias="amount")


class ModelNeeded(Model):
    country: str


def plain(name: str, *types: Any, default: str = "de") -> Format:
    order, added, removed, renamed, needed = types
    return Format(
        name,
        lambda: serdes.serde_of(order, what="v"), order,
        lambda: serdes.serde_of(added, what="v"), added, default,
        lambda: serdes.serde_of(removed, what="v"), removed,
        renamed and (lambda: serdes.serde_of(renamed, what="v")),
        lambda: serdes.serde_of(needed, what="v"),
        b'{"customer":1}',
    )  # fmt: skip


def framed_json() -> Format:
    url = f"mock://formats-{next(_names)}"

    def of(type_: Any) -> Callable[[], Any]:
        return lambda: serdes.json_schema_of(type_, registry=url)

    return Format(
        "json_schema",
        of(Struct), Struct, of(StructAdded), StructAdded, "de", of(StructRemoved), StructRemoved,
        of(StructRenamed), of(StructNeeded), b'{"customer":"a","amount":1,"note":""}',
    )  # fmt: skip


_CUSTOMER, _AMOUNT, _NOTE = (1, "customer", "string"), (2, "amount", "int64"), (3, "note", "string")
Message = total(_CUSTOMER, _AMOUNT, _NOTE)
MessageAdded = total(_CUSTOMER, _AMOUNT, _NOTE, (4, "country", "string"))
MessageRemoved = total(_CUSTOMER, _AMOUNT)
MessageRenamed = total(_CUSTOMER, (2, "total", "int64"), _NOTE)


def protobuf(name: str, registry: str | None = None) -> Format:
    def of(message: Any, **options: Any) -> Callable[[], Any]:
        return lambda: serdes.protobuf(message, registry=registry, **options)

    return Format(
        name,
        of(Message), Message, of(MessageAdded), MessageAdded, "",
        of(MessageRemoved), MessageRemoved,
        of(MessageRenamed, renamed={"amount": "total"}), None, b"\xff\xff\xff",
    )  # fmt: skip


def avro() -> Format:
    url = f"mock://formats-{next(_names)}"
    kinds = {"customer": "string", "amount": "long", "note": "string", "country": "string"}

    def of(*names: str, **fields: Any) -> Callable[[], Any]:
        parts = [{"name": n, "type": kinds.get(n, "long"), **fields.get(n, {})} for n in names]
        schema = {"type": "record", "name": "Order", "fields": parts}
        return lambda: serdes.avro(schema, registry=url)

    three = ("customer", "amount", "note")
    return Format(
        "avro", of(*three), dict, of(*three, "country", country={"default": "de"}), dict, "de",
        of("customer", "amount"), dict,
        of("customer", "total", "note", total={"aliases": ["amount"]}),
        of(*three, "country"), b"\x00\x00\x00\x00\x01\x02",
    )  # fmt: skip


FORMATS = [
    plain("msgspec", Struct, StructAdded, StructRemoved, StructRenamed, StructNeeded),
    plain("dataclass", Data, DataAdded, DataRemoved, None, DataNeeded),
    plain("attrs", Attrs, AttrsAdded, AttrsRemoved, None, AttrsNeeded),
    plain("typed dict", Typed, TypedAdded, TypedRemoved, None, TypedNeeded, default=""),
    plain("pydantic", Model, ModelAdded, ModelRemoved, ModelRenamed, ModelNeeded),
    framed_json(),
    protobuf("protobuf"),
    protobuf("protobuf, framed", "mock://formats-protobuf"),
    avro(),
]


def field_of(value: Any, name: str) -> Any:
    return value.get(name, "") if isinstance(value, dict) else getattr(value, name)
