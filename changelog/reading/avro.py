"""Avro values as columns: the declared schema gives the types, the record's own the bytes.

Records written with older or newer schemas are resolved into the declared one by the same code
that the application uses, through the schema registry where it uses one. A store whose schema is
only in the registry, record by record, has no fixed columns and stays binary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

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
from logstate.contracts.errors import ConfigError

_PRIMITIVES = {
    "boolean": Part(BOOLEAN),
    "int": Part(INTEGER),
    "long": Part(LONG),
    "float": Part(pa.float32()),
    "double": Part(DOUBLE),
    "bytes": Part(BINARY),
    "string": Part(STRING),
}

_LOGICAL = {
    "date": Part(DATE),
    "timestamp-millis": Part(TIMESTAMP),
    "timestamp-micros": Part(TIMESTAMP),
    "uuid": Part(STRING, lambda value: None if value is None else str(value)),
}


def avro_part(schema: Any) -> Part:
    """The type for values of an Avro schema.

    >>> str(avro_part(["null", "long"]).arrow)
    'int64'
    """
    return _part_of(schema, {}, ())


def avro_decoder(
    description: Mapping[str, Any], registry: Mapping[str, str]
) -> Callable[[bytes], Any]:
    """What decodes the bytes. ``registry`` is client configuration; its ``url`` has precedence.

    Raises ConfigError if the packages for it are missing here.
    """
    try:
        from logstate.serdes.avro import AvroSerde
    except ImportError as error:
        raise ConfigError(
            "the store is in Avro, and this Python cannot read it: install fastavro on the driver "
            'and the executors, or set "keyFormat" or "valueFormat" to bytes'
        ) from error
    config = None
    if description.get("framing", "none") != "none":
        config = {"url": description.get("registry"), **registry}
    serde: AvroSerde[Any] = AvroSerde(description["schema"], registry=config)
    return serde.deserializer("", False)


def _part_of(schema: Any, named: dict[str, Any], inside: tuple[str, ...]) -> Part:
    if isinstance(schema, list):
        return _union_part(schema, named, inside)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        if schema in inside or schema not in named:  # a type that contains itself has no columns
            return TEXT
        return _part_of(named[schema], named, inside)
    kind = schema["type"]
    logical = _logical_part(schema)
    if logical is not None:
        return logical
    match kind:
        case "record" | "error":
            return _record_part(schema, named, inside)
        case "array":
            return list_part(_part_of(schema["items"], named, inside))
        case "map":
            return map_part(_part_of(schema["values"], named, inside))
        case "enum":
            named[_full_name(schema)] = schema
            return _PRIMITIVES["string"]
        case "fixed":
            named[_full_name(schema)] = schema
            return _PRIMITIVES["bytes"]
    return _part_of(kind, named, inside)


def _logical_part(schema: Mapping[str, Any]) -> Part | None:
    name = schema.get("logicalType")
    if name == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > 38:  # more than Spark can hold
            return TEXT
        return Part(pa.decimal128(precision, scale))
    if name is None:
        return None
    # Times of day and durations have no Spark type of their own.
    return _LOGICAL.get(name, TEXT if name.startswith("time-") else None)


def _record_part(schema: Mapping[str, Any], named: dict[str, Any], inside: tuple[str, ...]) -> Part:
    name = _full_name(schema)
    named[name] = named[schema["name"].rpartition(".")[2]] = schema
    within = (*inside, name, name.rpartition(".")[2])
    fields = {field["name"]: _part_of(field["type"], named, within) for field in schema["fields"]}
    if not fields or len({field.lower() for field in fields}) < len(fields):
        return TEXT
    return struct_part(fields, {})


def _union_part(choices: Sequence[Any], named: dict[str, Any], inside: tuple[str, ...]) -> Part:
    parts = [_part_of(choice, named, inside) for choice in choices if choice != "null"]
    return parts[0] if len(parts) == 1 else TEXT


def _full_name(schema: Mapping[str, Any]) -> str:
    name: str = schema["name"]
    namespace = schema.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name
