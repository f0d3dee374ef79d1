"""The JSON schema of a type, as descriptions hold it: msgspec's, with all points in time marked.

msgspec says ``"format": "date-time"`` only where a time zone is demanded; of a ``datetime`` as such
it says no more than that it is a text. Readers without the class need to know.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

_OBJECTS = (
    inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType,
)  # fmt: skip
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def json_schema(type_: Any) -> dict[str, Any]:
    """The schema. Raises TypeError for a type that has none.

    >>> from datetime import datetime
    >>> json_schema(list[datetime])
    {'type': 'array', 'items': {'type': 'string', 'format': 'date-time'}}
    """
    schema = msgspec.json.schema(type_)
    _mark(schema, inspect.type_info(type_), schema.get("$defs", {}), set())
    return schema


def _mark(schema: Any, kind: inspect.Type, definitions: dict[str, Any], seen: set[str]) -> None:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            seen.add(name)
            _mark(definitions[name], kind, definitions, seen)
    elif isinstance(kind, inspect.Metadata):
        _mark(schema, kind.type, definitions, seen)
    elif isinstance(kind, inspect.DateTimeType):
        schema.setdefault("format", "date-time")
    elif isinstance(kind, _LISTS):
        _mark(schema.get("items"), kind.item_type, definitions, seen)
    elif isinstance(kind, inspect.DictType):
        _mark(schema.get("additionalProperties"), kind.value_type, definitions, seen)
    elif isinstance(kind, _OBJECTS):
        properties = schema.get("properties", {})
        for field in kind.fields:
            _mark(properties.get(field.encode_name), field.type, definitions, seen)
    elif isinstance(kind, inspect.UnionType):
        # Of more than one type and None nobody makes a column, so only that one is looked for.
        kinds = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
        if len(kinds) == len(choices) == 1:
            _mark(choices[0], kinds[0], definitions, seen)
