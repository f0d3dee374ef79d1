"""Convert a JSON schema to a type, to check whether the application could read a document.

The type is as strict as the description: it refuses a null that is not declared, and another type.
Unions of several types and types that contain themselves accept anything, and a duration accepts
any text: pydantic writes years, which msgspec does not read.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec

_SCALARS: Mapping[str, Any] = {
    "integer": int,
    "number": float,
    "string": str,
    "boolean": bool,
    "null": None,
}
_TEXTS: Mapping[str, Any] = {
    "date-time": datetime.datetime,
    "date": datetime.date,
    "time": datetime.time,
    "uuid": uuid.UUID,
    "decimal": Decimal,
    "base64": bytes,
}


def described_type(schema: Mapping[str, Any]) -> Any:
    """Return the type that msgspec decodes a document of this schema into; used only to validate.

    >>> msgspec.json.decode(b"[1, 2]", type=described_type({"type": "array", "items":
    ...     {"type": "integer"}}))
    [1, 2]
    """
    return _type_of(schema, schema.get("$defs", {}), ())


def _type_of(schema: Mapping[str, Any], known: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in inside or name not in known:
            return Any
        return _type_of(known[name], known, (*inside, name))
    if "anyOf" in schema:
        return _one_of(schema["anyOf"], known, inside)
    if "enum" in schema:
        plain = all(one is None or type(one) in (str, int) for one in schema["enum"])
        return Literal[tuple(schema["enum"])] if plain else Any
    kind = schema.get("type")
    if kind == "object":
        return _object(schema, known, inside)
    if kind == "array":
        items = schema.get("items")
        is_list = isinstance(items, Mapping) and "prefixItems" not in schema
        return list[_type_of(items, known, inside)] if is_list else list  # type: ignore[arg-type,misc]
    if kind == "string":
        return _TEXTS.get(schema.get("format") or schema.get("contentEncoding") or "", str)
    return _SCALARS.get(str(kind), Any)


def _one_of(
    every: list[Mapping[str, Any]], known: Mapping[str, Any], inside: tuple[str, ...]
) -> Any:
    choices = [one for one in every if one.get("type") != "null"]
    if {one.get("type") for one in choices} == {"integer", "number"}:
        found: Any = int | float
    elif len(choices) == 1:
        found = _type_of(choices[0], known, inside)
    else:
        return Any
    return found if len(choices) == len(every) or found is Any else found | None


def _object(schema: Mapping[str, Any], known: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    properties = schema.get("properties", {})
    if properties:
        kinds = [_type_of(part, known, inside) for part in properties.values()]
        fields = [
            (f"f{n}", kind if kind is Any else kind | msgspec.UnsetType, msgspec.UNSET)
            for n, kind in enumerate(kinds)
        ]
        names = {f"f{n}": name for n, name in enumerate(properties)}
        return msgspec.defstruct("Described", fields, rename=names)
    extra = schema.get("additionalProperties")
    return dict[str, _type_of(extra, known, inside)] if isinstance(extra, Mapping) else dict  # type: ignore[misc]
