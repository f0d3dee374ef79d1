"""The JSON schema of a type, as descriptions hold it: msgspec's, with times and fields marked.

msgspec says ``"format": "date-time"`` only where a time zone is demanded; of a ``datetime`` as such
it says no more than that it is a text. Readers without the class need to know. And it does not name
the fields that are written as an array, nor keep the order of an object's: with them a reorder can
be told from no change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

_OBJECTS = (
    inspect.StructType, inspect.DataclassType, inspect.TypedDictType, inspect.NamedTupleType,
)  # fmt: skip
#: keyword of an array's schema, ours: the names of the fields that its items are, in their order
NAMES_OF_ITEMS = "namesOfItems"
#: keyword of an object's schema, ours: its fields in the order in which they are written, where
#: some have defaults; of those that have none ``required`` tells it
ORDER_OF_FIELDS = "orderOfFields"
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def json_schema(type_: Any) -> dict[str, Any]:
    """The schema. Raises TypeError for a type that has none.

    >>> from datetime import datetime
    >>> json_schema(list[datetime])
    {'type': 'array', 'items': {'type': 'string', 'format': 'date-time'}}
    """
    schema = msgspec.json.schema(type_)
    kind = inspect.type_info(type_)
    definitions = schema.get("$defs", {})
    _mark(schema, kind, definitions, set())
    if any("prefixItems" in one for one in definitions.values()):
        _name_items(definitions, kind)
    for definition in definitions.values():
        fields = list(definition.get("properties", ()))
        if len(fields) > max(1, len(definition.get("required", ()))):
            definition[ORDER_OF_FIELDS] = fields
    return schema


def without_names(schema: Any) -> Any:
    """The schema as others know it, without the keywords that are ours."""
    if isinstance(schema, dict):
        return {
            name: without_names(one)
            for name, one in schema.items()
            if name not in (NAMES_OF_ITEMS, ORDER_OF_FIELDS) or not isinstance(one, list)
        }
    return [without_names(one) for one in schema] if isinstance(schema, list) else schema


def _name_items(definitions: dict[str, Any], kind: inspect.Type) -> None:
    """Note the fields of every class that is written as an array, where its name tells which."""
    found: dict[str, list[list[str]]] = {}
    for part in parts_of(kind):
        if isinstance(part, inspect.NamedTupleType) or getattr(part, "array_like", False):
            fields = [field.name for field in part.fields]
            named = found.setdefault(getattr(part.cls, "__origin__", part.cls).__name__, [])
            if fields not in named:
                named.append(fields)
    for definition in definitions.values():
        named = found.get(definition.get("title", "").partition("[")[0], [])
        if "prefixItems" in definition and len(named) == 1:
            definition[NAMES_OF_ITEMS] = named[0]


def parts_of(kind: Any) -> Iterator[Any]:
    """A type as msgspec understands it, and every type inside it, each once."""
    seen: set[int] = set()
    waiting = [kind]
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple):
            waiting.extend(part)
        elif isinstance(part, inspect.Type | inspect.Field) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting.extend(getattr(part, name) for name in part.__struct_fields__)


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
