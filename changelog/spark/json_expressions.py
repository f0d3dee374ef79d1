"""JSON documents as columns by SQL expressions alone: what ``reading.json_values`` does in Python.

How it works: Spark's ``from_json`` reads a document by the DDL of its column's type. What it does
otherwise than the library is put right around it: it takes records, lists and maps only, so
anything else is read as the one field of a record; it leaves an absent field null, so defaults are
filled in behind it; it takes a time without a zone for the session's, so it is told UTC.

A field that may be null and has another default stays null where it is absent: behind ``from_json``
nobody can tell the two. A part that is JSON text loses the quotes where it is nothing but text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from logstate.changelog.reading.column_parts import TEXT, Part
from logstate.changelog.reading.types import json_type
from logstate.changelog.spark.schema import spark_type

#: a document that does not fit is an error; Spark would make null of it
_OPTIONS = "map('mode', 'FAILFAST', 'timeZone', 'UTC')"
_encode = msgspec.json.Encoder().encode


def json_expression(schema: Mapping[str, Any], text: str) -> str:
    """The SQL expression for the document in ``text``, an expression itself, by its JSON schema.

    >>> json_expression({"type": "array", "items": {"type": "integer"}}, "t")
    "from_json(t, 'array<bigint>', map('mode', 'FAILFAST', 'timeZone', 'UTC'))"
    """
    part = json_type(schema)
    if part is TEXT:
        return text
    read = _read(text, part)
    return _bound(read, part, 0) if _has_defaults(part) else read


def _read(text: str, part: Part) -> str:
    ddl = sql_type(spark_type(part.arrow))
    if part.fields is not None or part.item is not None:
        return f"from_json({text}, {literal(ddl)}, {_OPTIONS})"
    whole = f"concat('{{\"v\":', {text}, '}}')"
    return f"from_json({whole}, {literal(f'struct<v: {ddl}>')}, {_OPTIONS}).v"


def _bound(value: str, part: Part, depth: int) -> str:
    """With its defaults, of a value that is computed once however often it is used."""
    return f"element_at(transform(array({value}), v{depth} -> {_filled(part, depth)}), 1)"


def _filled(part: Part, depth: int) -> str:
    """The value of the variable of this depth, with its defaults."""
    value, inner = f"v{depth}", depth + 1
    if part.fields is not None:
        fields = [
            f"{literal(name)}, {_field(part, name, f'{value}.{quoted(name)}', inner)}"
            for name in part.fields
        ]
        return f"if({value} is null, null, named_struct({', '.join(fields)}))"
    assert part.item is not None
    if pa.types.is_map(part.arrow):
        return f"transform_values({value}, (k{inner}, v{inner}) -> {_filled(part.item, inner)})"
    return f"transform({value}, v{inner} -> {_filled(part.item, inner)})"


def _field(record: Part, name: str, value: str, depth: int) -> str:
    assert record.fields is not None
    part = record.fields[name]
    if name in record.defaults and name not in record.nullable:
        default = literal(_encode(record.defaults[name]).decode())
        value = f"coalesce({value}, {default if part is TEXT else _read(default, part)})"
    return _bound(value, part, depth) if _has_defaults(part) else value


def _has_defaults(part: Part) -> bool:
    inner = [*(part.fields or {}).values(), *([part.item] if part.item is not None else [])]
    return bool(part.defaults.keys() - part.nullable) or any(map(_has_defaults, inner))


def sql_type(kind: DataType) -> str:
    """A type as in SQL, with quoted names of fields: ``simpleString()`` does not quote them.

    >>> from pyspark.sql.types import LongType
    >>> sql_type(ArrayType(StructType().add("net price", LongType())))
    'array<struct<`net price`: bigint>>'
    """
    if isinstance(kind, StructType):
        fields = (f"{quoted(field.name)}: {sql_type(field.dataType)}" for field in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return str(kind.simpleString())


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A text in SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
