"""Avro values as columns: the declared schema gives the types, the record's own the bytes.

Records written with older or newer schemas are resolved into the declared one by the same code
that the application uses, through the schema registry where it uses one. A store whose schema is
only in the registry, record by record, has no fixed columns and stays binary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from logstate.serdes.avro_schema import AvroWalk

_LEAVES = {
    "boolean": Part(BOOLEAN),
    "int": Part(INTEGER),
    "long": Part(LONG),
    "float": Part(pa.float32()),
    "double": Part(DOUBLE),
    "bytes": Part(BINARY),
    "string": Part(STRING),
    "enum": Part(STRING),
    "fixed": Part(BINARY),
}

_LOGICAL = {
    "date": Part(DATE),
    "timestamp-millis": Part(TIMESTAMP),
    "timestamp-micros": Part(TIMESTAMP),
    # Without a time zone; as in JSON it is interpreted as UTC.
    "local-timestamp-millis": Part(TIMESTAMP),
    "local-timestamp-micros": Part(TIMESTAMP),
    "uuid": Part(STRING, lambda value: None if value is None else str(value)),
}


def avro_part(schema: Any) -> Part:
    """The type for values of an Avro schema.

    >>> str(avro_part(["null", "long"]).arrow)
    'int64'
    """
    return _Columns().of(schema)


def avro_decoder(
    description: Mapping[str, Any], registry: Mapping[str, str]
) -> Callable[[bytes], Any]:
    """Return a decoder of the bytes. ``registry`` is client configuration; its ``url`` wins.

    Raises ConfigError if the packages for it are missing here.
    """
    try:
        from logstate.serdes.avro_single_object import described_avro
    except ImportError as error:
        raise ConfigError(
            "the store is in Avro, and this Python cannot read it: install fastavro on the driver "
            'and the executors, or set "keyFormat" or "valueFormat" to bytes'
        ) from error
    return described_avro(description, registry).deserializer("", False)


class _Columns(AvroWalk[Part]):
    def __init__(self) -> None:
        super().__init__()
        #: records that are gone into now: a type that contains itself has no columns
        self._inside: list[str] = []
        self._again: dict[str, Callable[[], Part]] = {}

    def leaf(self, schema: Mapping[str, Any]) -> Part:
        return _LEAVES.get(schema["type"], TEXT)

    def record(self, name: str, fields: Callable[[], list[tuple[str, Part]]]) -> Part:
        self.named[name] = TEXT
        self._again[name] = lambda: self.record(name, fields)
        self._inside.append(name)
        found = dict(fields())
        self._inside.remove(name)
        return struct_part(found, {})

    def reference(self, name: str) -> Part:
        """Return a record's part again: a type that contains itself depends on where it is used."""
        if name in self._again and name not in self._inside:
            return self._again[name]()
        return super().reference(name)

    def array(self, item: Part) -> Part:
        return list_part(item)

    def map(self, value: Part) -> Part:
        return map_part(value)

    def union(self, branches: list[Any], parts: list[Part]) -> Part:
        some = [part for branch, part in zip(branches, parts, strict=True) if branch != "null"]
        return some[0] if len(some) == 1 else TEXT

    def logical(self, schema: Mapping[str, Any], as_kind: Callable[[], Part]) -> Part:
        name = schema["logicalType"]
        if name == "decimal":
            precision, scale = schema["precision"], schema.get("scale", 0)
            # More digits than Spark can hold are text.
            return TEXT if precision > 38 else Part(pa.decimal128(precision, scale))
        # Times of day and durations do not have a Spark type.
        return _LOGICAL.get(name) or (TEXT if name.startswith("time-") else as_kind())
