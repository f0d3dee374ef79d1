"""From a serde's description to a column: its Arrow type, and how to decode it.

A description is what ``Serde.describe()`` gives and the manifest keeps, so a reader needs no
Python class of the application. What a table cannot express (recursive types, unions, tuples of
mixed types) becomes the JSON text of that part; values without a description stay binary.

Everything is nullable: a JSON field may be absent, and a schema is a promise of the writer only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pyarrow as pa

from logstate.changelog.reading import faust_keys
from logstate.changelog.reading.avro import avro_decoder, avro_part
from logstate.changelog.reading.blocks import numbers
from logstate.changelog.reading.column_parts import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TEXT,
    TIMESTAMP,
    Part,
    list_part,
    map_part,
    struct_part,
)
from logstate.changelog.reading.json_columns import json_columns
from logstate.changelog.reading.json_values import SCALARS, TEXTS, json_decoder
from logstate.changelog.reading.protobuf import protobuf_decoder, protobuf_part
from logstate.changelog.reading.versions import upgrading_decoder
from logstate.contracts import formats
from logstate.contracts.errors import UNDECODABLE
from logstate.serdes.json_schema_serde import frame_bytes
from logstate.serdes.list_serde import elements_of
from logstate.serdes.ordered_serde import described_ordered

Decode = Callable[[bytes], Any]

#: how a column as a whole is refused
_REFUSALS = (*UNDECODABLE, ArithmeticError, LookupError, TypeError)


class ColumnType(NamedTuple):
    """The type of a column and how bytes become its values."""

    arrow: pa.DataType
    decode: Decode
    """One value."""
    whole: Callable[[pa.Array], pa.Array] | None = None
    """All of them at once, where there is such a way; what it refuses goes one by one."""

    def fill(self, data: pa.Array) -> pa.Array:
        """The column of these bytes; nulls stay nulls."""
        if self.whole is not None:
            with suppress(*_REFUSALS):
                return self.whole(data)
        decode = self.decode
        values = (None if one is None else decode(one) for one in data.to_pylist())
        return pa.array(values, self.arrow, size=len(data))


def _texts(data: pa.Array) -> pa.Array:
    return data.cast(STRING)


def _boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise ValueError(f"a boolean is one byte, 0 or 1; found {data!r}")
    return data == b"\x01"


def _identifier_of_text(data: bytes) -> str:
    return str(UUID(data.decode()))


def _number(name: str, arrow: pa.DataType) -> ColumnType:
    unpack = struct.Struct(formats.SCALARS[name].layout).unpack
    return ColumnType(arrow, lambda data: unpack(data)[0], lambda data: numbers(data, arrow))


#: the columns of scalar formats
SIMPLE: Mapping[str, ColumnType] = {
    "string": ColumnType(STRING, bytes.decode, _texts),
    "int64": _number("int64", LONG),
    "int32": _number("int32", INTEGER),
    "int16": _number("int16", pa.int16()),
    "float64": _number("float64", DOUBLE),
    "float32": _number("float32", pa.float32()),
    "boolean": ColumnType(BOOLEAN, _boolean),
    "uuid": ColumnType(STRING, _identifier_of_text),
    "uuid_bytes": ColumnType(STRING, lambda data: str(UUID(bytes=data))),
    "bytes": ColumnType(BINARY, bytes, lambda data: data),
    faust_keys.PLAIN: ColumnType(STRING, faust_keys.plain_key),
    faust_keys.WINDOWED: ColumnType(STRING, faust_keys.windowed_key),
}
_JSON_TEXT = ColumnType(STRING, bytes.decode, _texts)
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


def _json_text(data: bytes) -> str:
    text = data.decode()
    _check_json(data)
    return text


#: documents that others wrote, which nothing has decoded yet
_FOREIGN_JSON_TEXT = ColumnType(STRING, _json_text)


def column_type(
    description: Mapping[str, Any] | None,
    registry: Mapping[str, str] | None = None,
    serde: str | None = None,
) -> ColumnType:
    """The column for values of a serde; ``registry`` is configuration for its schema registry.

    ``serde`` names the application's own, which upgrades rows of earlier versions.

    >>> str(column_type({"format": "int64"}).arrow)
    'int64'
    >>> str(column_type({"format": "unheard of"}).arrow)
    'binary'
    """
    description = description or {"format": "bytes"}
    schema = description.get("schema")
    if description["format"] == "json":
        part = json_type(schema) if schema else TEXT
        is_foreign = part is TEXT and description.get("is_given")
        return _FOREIGN_JSON_TEXT if is_foreign else _json_column(part)
    if description["format"] == "json_schema" and schema:
        part = json_type(schema)
        decode = json_decoder(part).decode
        return _column(part, lambda data: decode(data[frame_bytes(data) :]))
    if description["format"] == "avro" and schema is not None:
        return _column(avro_part(schema), avro_decoder(description, registry or {}))
    if description["format"] == "protobuf" and schema is not None:
        return _column(protobuf_part(schema), protobuf_decoder(description))
    if description["format"] == formats.ORDERED:
        return _ordered(description)
    if description["format"] == formats.LIST:
        return _list(description["inner"], column_type(description["inner"], registry, serde))
    if description["format"] == "upgradable":
        return _upgrading(description, registry, serde)
    return SIMPLE.get(description["format"], SIMPLE["bytes"])


#: of the parts of ordered keys
_PARTS: Mapping[str, pa.DataType] = {
    "string": STRING,
    "bytes": BINARY,
    "int64": LONG,
    "float64": DOUBLE,
    "boolean": BOOLEAN,
    "timestamp": TIMESTAMP,
    "date": DATE,
    "uuid": STRING,
}


def _ordered(description: Mapping[str, Any]) -> ColumnType:
    """The column of the only part, or a struct of all: ``_1``, ``_2``, or the names of fields."""
    names = description["parts"]
    decode = described_ordered(description).deserializer("", True)
    if description.get("is_single"):
        return ColumnType(_PARTS[names[0]], lambda data: _column_value(decode(data)))
    fields = description.get("fields") or ()
    if len({one.lower() for one in fields}) < len(names):  # Spark ignores case
        fields = [f"_{number}" for number in range(1, len(names) + 1)]
    arrow = pa.struct([(field, _PARTS[name]) for field, name in zip(fields, names, strict=True)])

    def decode_struct(data: bytes) -> dict[str, Any]:
        values = map(_column_value, decode(data))
        return dict(zip(fields, values, strict=True))

    return ColumnType(arrow, decode_struct)


def _column_value(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


def _list(inner: Mapping[str, Any], column: ColumnType) -> ColumnType:
    decode = column.decode
    return ColumnType(
        pa.list_(column.arrow),
        lambda data: [None if one is None else decode(one) for one in elements_of(data, inner)],
    )


def _upgrading(
    description: Mapping[str, Any], registry: Mapping[str, str] | None, serde: str | None
) -> ColumnType:
    current = description["versions"][str(description["version"])]
    column = column_type(current, registry)
    encode = msgspec.json.Encoder().encode if current["format"] == "json" else None

    def shape(value: Any) -> Any:
        return value if encode is None else column.decode(encode(value))

    decode = upgrading_decoder(description, column.decode, shape, serde)
    return ColumnType(column.arrow, decode)


def _json_column(part: Part) -> ColumnType:
    if part is TEXT:
        return _JSON_TEXT
    return _column(part, json_decoder(part).decode)._replace(whole=json_columns(part))


def _column(part: Part, decode: Decode) -> ColumnType:
    shape = part.shape
    return ColumnType(part.arrow, decode if shape is None else lambda data: shape(decode(data)))


def json_type(schema: Mapping[str, Any]) -> Part:
    """The type for documents of a JSON schema, as ``msgspec.json.schema`` writes them.

    >>> str(json_type({"type": "object", "properties": {"n": {"type": "integer"}}}).arrow)
    'struct<n: int64>'
    """
    return _type_of(schema, schema.get("$defs", {}), ())


def _type_of(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> Part:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in inside or name not in definitions:  # a type that contains itself has no columns
            return TEXT
        return _type_of(definitions[name], definitions, (*inside, name))
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        if len(choices) == 1:
            return _type_of(choices[0], definitions, inside)
        if {choice.get("type") for choice in choices} == {"integer", "number"}:
            return SCALARS["number"]
        return TEXT
    if "enum" in schema:
        return _enum_type(schema["enum"])
    text = TEXTS.get(schema.get("format") or schema.get("contentEncoding") or "")
    if text is not None and schema.get("type") == "string":
        return text
    match schema.get("type"):
        case "object":
            return _object_type(schema, definitions, inside)
        case "array" if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
            return list_part(_type_of(schema["items"], definitions, inside))
        case str(name) if name in SCALARS:
            return SCALARS[name]
    return TEXT


def _enum_type(values: list[Any]) -> Part:
    if all(isinstance(value, str) for value in values):
        return SCALARS["string"]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return SCALARS["integer"]
    return TEXT


def _object_type(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> Part:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties", {})
    if not properties:
        if isinstance(extra, Mapping) and extra:
            return map_part(_type_of(extra, definitions, inside))
        return TEXT
    fields = {name: _type_of(part, definitions, inside) for name, part in properties.items()}
    # An absent field decodes to its default in the application, so it does here.
    defaults = {
        name: part["default"]
        for name, part in properties.items()
        if part.get("default") is not None
    }
    nullable = frozenset(name for name in defaults if _may_be_null(properties[name]))
    return struct_part(fields, defaults, nullable)


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    if "enum" in schema:
        return None in schema["enum"]
    choices = schema.get("anyOf", [schema])
    return any(choice.get("type", "null") == "null" and "$ref" not in choice for choice in choices)
