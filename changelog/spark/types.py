"""From a serde's description to a column: its Spark type, its Arrow type, and how to decode it.

A description is what ``Serde.describe()`` gives and the manifest keeps, so a reader needs no
Python class of the application. What a table cannot express (recursive types, unions, tuples of
mixed types) becomes the JSON text of that part; what nobody described stays binary.

Everything is nullable: a JSON field may be absent, and a schema is a promise of the writer only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import types as spark

from logstate.changelog.spark.avro import avro_decoder, avro_part
from logstate.changelog.spark.column_parts import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TEXT,
    Part,
    list_part,
    map_part,
    struct_part,
)

Decode = Callable[[bytes], Any]

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_FLOAT64 = struct.Struct(">d")
_decode_json = msgspec.json.Decoder().decode


class ColumnType(NamedTuple):
    """The type of a column and how bytes become its values."""

    spark: spark.DataType
    arrow: pa.DataType
    decode: Decode


HEADERS = (
    spark.ArrayType(
        spark.StructType(
            [
                spark.StructField("key", spark.StringType()),
                spark.StructField("value", spark.BinaryType()),
            ]
        )
    ),
    pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
)


def _boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise ValueError(f"a boolean is one byte, 0 or 1; found {data!r}")
    return data == b"\x01"


_SIMPLE: dict[str, ColumnType] = {
    "string": ColumnType(*STRING, bytes.decode),
    "int64": ColumnType(*LONG, lambda data: _INT64.unpack(data)[0]),
    "int32": ColumnType(*INTEGER, lambda data: _INT32.unpack(data)[0]),
    "float64": ColumnType(*DOUBLE, lambda data: _FLOAT64.unpack(data)[0]),
    "boolean": ColumnType(*BOOLEAN, _boolean),
    "bytes": ColumnType(*BINARY, bytes),
}
_JSON_TEXT = ColumnType(*STRING, bytes.decode)


def column_type(
    description: Mapping[str, Any] | None, registry: Mapping[str, str] | None = None
) -> ColumnType:
    """The column for values of a serde; ``registry`` is configuration for its schema registry.

    >>> column_type({"format": "int64"}).spark.simpleString()
    'bigint'
    >>> column_type({"format": "unheard of"}).spark.simpleString()
    'binary'
    """
    description = description or {"format": "bytes"}
    schema = description.get("schema")
    if description["format"] == "json":
        return _column(json_type(schema), _decode_json) if schema else _JSON_TEXT
    if description["format"] == "avro" and schema is not None:
        return _column(avro_part(schema), avro_decoder(description, registry or {}))
    return _SIMPLE.get(description["format"], _SIMPLE["bytes"])


def _column(part: Part, decode: Decode) -> ColumnType:
    if part is TEXT and decode is _decode_json:
        return _JSON_TEXT
    shape = part.shape
    if shape is None:
        return ColumnType(part.spark, part.arrow, decode)
    return ColumnType(part.spark, part.arrow, lambda data: shape(decode(data)))


def json_type(schema: Mapping[str, Any]) -> Part:
    """The type for documents of a JSON schema, as ``msgspec.json.schema`` writes them.

    >>> json_type({"type": "object", "properties": {"n": {"type": "integer"}}}).spark.simpleString()
    'struct<n:bigint>'
    """
    return _type_of(schema, schema.get("$defs", {}), ())


_SCALARS = {
    "integer": Part(*LONG),
    "number": Part(*DOUBLE),
    "string": Part(*STRING),
    "boolean": Part(*BOOLEAN),
}


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
            return _SCALARS["number"]
        return TEXT
    if "enum" in schema:
        return _enum_type(schema["enum"])
    match schema.get("type"):
        case "object":
            return _object_type(schema, definitions, inside)
        case "array" if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
            return list_part(_type_of(schema["items"], definitions, inside))
        case str(name) if name in _SCALARS:
            return _SCALARS[name]
    return TEXT


def _enum_type(values: list[Any]) -> Part:
    if all(isinstance(value, str) for value in values):
        return _SCALARS["string"]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return _SCALARS["integer"]
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
    if len({name.lower() for name in fields}) < len(fields):  # Spark does not tell a from A
        return TEXT
    # An absent field decodes to its default in the application, so it does here.
    defaults = {
        name: part["default"]
        for name, part in properties.items()
        if part.get("default") is not None
    }
    return struct_part(fields, defaults)
