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

Decode = Callable[[bytes], Any]
Shape = Callable[[Any], Any]

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_FLOAT64 = struct.Struct(">d")
_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder().decode


class ColumnType(NamedTuple):
    """The type of a column and how bytes become its values."""

    spark: spark.DataType
    arrow: pa.DataType
    decode: Decode


class JsonType(NamedTuple):
    """The type of a part of a JSON document; ``shape`` None means the value fits as it is."""

    spark: spark.DataType
    arrow: pa.DataType
    shape: Shape | None = None


TIMESTAMP = (spark.TimestampType(), pa.timestamp("us", tz="UTC"))
LONG = (spark.LongType(), pa.int64())
INTEGER = (spark.IntegerType(), pa.int32())
BOOLEAN = (spark.BooleanType(), pa.bool_())
STRING = (spark.StringType(), pa.string())
DOUBLE = (spark.DoubleType(), pa.float64())
BINARY = (spark.BinaryType(), pa.binary())
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


def column_type(description: Mapping[str, Any] | None) -> ColumnType:
    """The column for values of a serde.

    >>> column_type({"format": "int64"}).spark.simpleString()
    'bigint'
    >>> column_type({"format": "unheard of"}).spark.simpleString()
    'binary'
    """
    description = description or {"format": "bytes"}
    if description["format"] == "json":
        return _json_column(description.get("schema"))
    return _SIMPLE.get(description["format"], _SIMPLE["bytes"])


def _json_column(schema: Mapping[str, Any] | None) -> ColumnType:
    found = json_type(schema) if schema else None
    if found is None or found.shape is _encode_text:
        return ColumnType(*STRING, bytes.decode)
    shape = found.shape
    if shape is None:
        return ColumnType(found.spark, found.arrow, _decode_json)
    return ColumnType(found.spark, found.arrow, lambda data: shape(_decode_json(data)))


def json_type(schema: Mapping[str, Any]) -> JsonType:
    """The type for documents of a JSON schema, as ``msgspec.json.schema`` writes them.

    >>> json_type({"type": "object", "properties": {"n": {"type": "integer"}}}).spark.simpleString()
    'struct<n:bigint>'
    """
    return _type_of(schema, schema.get("$defs", {}), ())


def _encode_text(value: Any) -> str | None:
    return None if value is None else _encode_json(value).decode()


_TEXT = JsonType(*STRING, _encode_text)
_SCALARS = {
    "integer": JsonType(*LONG),
    "number": JsonType(*DOUBLE),
    "string": JsonType(*STRING),
    "boolean": JsonType(*BOOLEAN),
}


def _type_of(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> JsonType:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in inside or name not in definitions:  # a type that contains itself has no columns
            return _TEXT
        return _type_of(definitions[name], definitions, (*inside, name))
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        if len(choices) == 1:
            return _type_of(choices[0], definitions, inside)
        if {choice.get("type") for choice in choices} == {"integer", "number"}:
            return _SCALARS["number"]
        return _TEXT
    if "enum" in schema:
        return _enum_type(schema["enum"])
    match schema.get("type"):
        case "object":
            return _object_type(schema, definitions, inside)
        case "array" if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
            return _list_type(_type_of(schema["items"], definitions, inside))
        case str(name) if name in _SCALARS:
            return _SCALARS[name]
    return _TEXT


def _enum_type(values: list[Any]) -> JsonType:
    if all(isinstance(value, str) for value in values):
        return _SCALARS["string"]
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return _SCALARS["integer"]
    return _TEXT


def _object_type(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> JsonType:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties", {})
    if not properties:
        if isinstance(extra, Mapping) and extra:
            return _map_type(_type_of(extra, definitions, inside))
        return _TEXT
    fields = {name: _type_of(part, definitions, inside) for name, part in properties.items()}
    if len({name.lower() for name in fields}) < len(fields):  # Spark does not tell a from A
        return _TEXT
    # An absent field decodes to its default in the application, so it does here.
    defaults = {
        name: part["default"]
        for name, part in properties.items()
        if part.get("default") is not None
    }
    return _struct_type(fields, defaults)


def _struct_type(fields: Mapping[str, JsonType], defaults: Mapping[str, Any]) -> JsonType:
    shapes = [(name, part.shape) for name, part in fields.items() if part.shape is not None]

    def shape(value: Any) -> Any:
        if value is None:
            return None
        whole = {**defaults, **value}
        for name, change in shapes:
            whole[name] = change(whole.get(name))
        return whole

    return JsonType(
        spark.StructType([spark.StructField(name, part.spark) for name, part in fields.items()]),
        pa.struct([(name, part.arrow) for name, part in fields.items()]),
        shape if shapes or defaults else None,
    )


def _list_type(item: JsonType) -> JsonType:
    change = item.shape

    def shape(value: Any) -> Any:
        return None if value is None or change is None else [change(each) for each in value]

    return JsonType(
        spark.ArrayType(item.spark),
        pa.list_(pa.field("element", item.arrow)),
        shape if change else None,
    )


def _map_type(item: JsonType) -> JsonType:
    change = item.shape or (lambda value: value)

    def shape(value: Any) -> Any:  # Arrow takes maps as lists of pairs
        return None if value is None else [(name, change(each)) for name, each in value.items()]

    return JsonType(
        spark.MapType(spark.StringType(), item.spark), pa.map_(pa.string(), item.arrow), shape
    )
