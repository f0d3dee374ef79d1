"""SQL expressions that decode JSON documents, as ``reading.json_values`` does in Python.

How it works: Spark's ``from_json`` reads a document by the DDL of its column's type. The
expressions correct three differences from the library: ``from_json`` accepts records, lists and
maps only, so any other document is read as the one field of a record; it makes an absent field
null, so defaults are inserted afterwards; and it reads a time without a time zone in the session's
zone, so the option ``timeZone`` is UTC.

Two differences remain. An absent field that is nullable and has another default is null, because
``from_json`` returns the same for an absent field and for null. A JSON string in a part that is
returned as JSON text has no quotes.
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

#: a document that does not match the type is an error; by default Spark returns null
_OPTIONS = "map('mode', 'FAILFAST', 'timeZone', 'UTC')"
_encode = msgspec.json.Encoder().encode


def json_expression(schema: Mapping[str, Any], text: str) -> str:
    """Return the SQL expression that decodes the expression ``text`` by a JSON schema.

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
    """Bind a value to a variable, so that it is computed once, and insert its defaults."""
    return f"element_at(transform(array({value}), v{depth} -> {_filled(part, depth)}), 1)"


def _filled(part: Part, depth: int) -> str:
    """Return the variable of this depth with its defaults inserted."""
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
    """Return a type in SQL with quoted field names, which ``simpleString()`` does not quote.

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
    """Return a quoted SQL identifier."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """Return a quoted SQL string."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
