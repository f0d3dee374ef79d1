"""Protobuf values as columns: the described message gives the types, numbers find the fields.

The class that the application has is not needed: one is made of the description. A field that can
be asked whether it is set is null where it is not; every other one has the default of its type, as
in the application. Numbers of enums that have no name are columns' text as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from logstate.changelog.reading.column_parts import (
    BINARY,
    BOOLEAN,
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
from logstate.contracts.errors import ConfigError

Schema = Mapping[str, Any]

# Spark has no numbers without a sign.
_UINT64 = Part(pa.decimal128(20, 0), lambda value: value and Decimal(value))
_FLOAT = Part(pa.float32())
_SCALARS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Part(INTEGER)),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), Part(LONG)),
    **dict.fromkeys(("uint64", "fixed64"), _UINT64),
    "bool": Part(BOOLEAN),
    "string": Part(STRING),
    "bytes": Part(BINARY),
    "double": Part(DOUBLE),
    "float": _FLOAT,
    "enum": Part(STRING),
}


def protobuf_part(schema: Schema) -> Part:
    """The type for values of a described message.

    >>> message = {"fields": {"1": {"name": "n", "type": "uint32"}}}
    >>> protobuf_part({"message": "M", "messages": {"M": message}}).arrow
    StructType(struct<n: int64>)
    """
    return _message_part(schema, schema["message"], ())


def protobuf_decoder(description: Schema) -> Callable[[bytes], Any]:
    """What decodes the bytes into plain data. Raises ConfigError if Protobuf is missing here."""
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
        return Part(TIMESTAMP)
    if name in inside:  # a message that contains itself has no columns
        return TEXT
    fields = {
        field["name"]: _field_part(schema, field, (*inside, name))
        for field in schema["messages"][name]["fields"].values()
    }
    if not fields or len({field.lower() for field in fields}) < len(fields):
        return TEXT
    return struct_part(fields, {})


def _field_part(schema: Schema, field: Schema, inside: tuple[str, ...]) -> Part:
    if field["type"] == "map":
        part = _field_part(schema, field["value"], inside)
        return map_part(part)
    if field["type"] in ("message", "group"):
        part = _message_part(schema, field["of"], inside)
    else:
        part = _SCALARS[field["type"]]
    return list_part(part) if field.get("repeated") else part
