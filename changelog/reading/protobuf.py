"""Protobuf values as columns: the described message gives the types, numbers find the fields.

The application's class is not needed: a class is created from the description. A field with
presence is null if it is not set; every other one has the default of its type, as
in the application. Numbers of enums without a name become their digits as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from logstate.changelog.reading import column_parts
from logstate.changelog.reading.column_parts import Part
from logstate.contracts.errors import ConfigError

Schema = Mapping[str, Any]

# Spark has no numbers without a sign.
_UINT64 = Part(pa.decimal128(20, 0), lambda value: value and Decimal(value))
_FLOAT = Part(pa.float32())
_SCALARS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Part(column_parts.INTEGER)),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), Part(column_parts.LONG)),
    **dict.fromkeys(("uint64", "fixed64"), _UINT64),
    "bool": Part(column_parts.BOOLEAN),
    "string": Part(column_parts.STRING),
    "bytes": Part(column_parts.BINARY),
    "double": Part(column_parts.DOUBLE),
    "float": _FLOAT,
    "enum": Part(column_parts.STRING),
}


def protobuf_part(schema: Schema) -> Part:
    """The type for values of a described message.

    >>> message = {"fields": {"1": {"name": "n", "type": "uint32"}}}
    >>> protobuf_part({"message": "M", "messages": {"M": message}}).arrow
    StructType(struct<n: int64>)
    """
    return _message_part(schema, schema["message"], ())


def protobuf_decoder(description: Schema) -> Callable[[bytes], Any]:
    """Return a decoder of the bytes into plain data. Raises ConfigError if Protobuf is missing."""
    try:
        from logstate.serdes.protobuf_values import plain_decoder
    except ImportError as error:
        raise ConfigError(
            "the store is in Protobuf, and this Python cannot read it: install protobuf on the "
            'driver and the executors, or set "keyFormat" or "valueFormat" to bytes'
        ) from error
    return plain_decoder(description)


def _message_part(schema: Schema, name: str, inside: tuple[str, ...]) -> Part:
    if name == "google.protobuf.Timestamp":
        return Part(column_parts.TIMESTAMP)
    if name in inside:  # a message that contains itself has no columns
        return column_parts.TEXT
    fields = {
        field["name"]: _field_part(schema, field, (*inside, name))
        for field in schema["messages"][name]["fields"].values()
    }
    return column_parts.struct_part(fields, {})


def _field_part(schema: Schema, field: Schema, inside: tuple[str, ...]) -> Part:
    if field["type"] == "map":
        part = _field_part(schema, field["value"], inside)
        return column_parts.map_part(part)
    if field["type"] in ("message", "group"):
        part = _message_part(schema, field["of"], inside)
    else:
        part = _SCALARS[field["type"]]
    return column_parts.list_part(part) if field.get("repeated") else part
