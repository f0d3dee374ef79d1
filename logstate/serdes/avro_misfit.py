"""Explain why the Avro writer refuses a value in cases where its validator does not."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from logstate.contracts.error_text import no_utf8, type_name
from logstate.serdes.avro_schema import Schema, parts_of_schema, schema_name

_LARGEST_DOUBLE = sys.float_info.max


def misfit_of(value: Any, parsed: Schema) -> tuple[str, str] | None:
    """Return the path to the part that the writer cannot write, and why; None for other reasons.

    Covers a field that is missing or unknown, a key of a map that is not text, a text that UTF-8
    cannot encode, and a whole number outside the range of floats.

    >>> optional = {"name": "n", "type": ["null", "long"]}
    >>> misfit_of({}, {"type": "record", "name": "R", "fields": [optional]})
    ('.n', 'is missing, and has no default: give a value (None is one), or a default in the schema')
    """
    return _Refused(parsed).of(parsed, value, "")


#: Avro type -> the values that a branch of a union with this type may be meant for
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("record", "error", "map"), Mapping),
    **dict.fromkeys(("float", "double"), int),
    "array": (list, tuple),
    "string": str,
}


class _Refused:
    def __init__(self, parsed: Schema) -> None:
        self._named: dict[str, Any] = {
            part["name"]: part
            for part in parts_of_schema(parsed)
            if isinstance(part, Mapping) and "name" in part and "type" in part
        }

    def of(self, schema: Schema, value: Any, way: str) -> tuple[str, str] | None:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._of_union(schema, value, way)
        match schema["type"]:
            case "record" | "error" if isinstance(value, Mapping):
                return self._of_record(schema, value, way)
            case "array" if isinstance(value, list | tuple):
                items = (
                    self.of(schema["items"], one, f"{way}[{n}]") for n, one in enumerate(value)
                )
                return next((one for one in items if one), None)
            case "map" if isinstance(value, Mapping):
                return self._of_map(schema, value, way)
            case "string" if isinstance(value, str) and not _is_utf8(value):
                return way, f"has {no_utf8(value)}"
            case "float" | "double" if isinstance(value, int) and abs(value) > _LARGEST_DOUBLE:
                return way, "is a whole number larger than any float: declare it as a decimal"
        return None

    def _of_union(self, branches: list[Schema], value: Any, way: str) -> tuple[str, str] | None:
        """If no branch of the value's kind accepts it, return why the first of them does not."""
        if type(value) is tuple and len(value) == 2:
            value = value[1]
        found = [self.of(one, value, way) for one in branches if self._is_of_kind(one, value)]
        return found[0] if found and all(found) else None

    def _is_of_kind(self, branch: Schema, value: Any) -> bool:
        schema = self._resolved(branch)
        return isinstance(value, _KINDS.get("" if isinstance(schema, list) else schema["type"], ()))

    def _resolved(self, schema: Schema) -> Any:
        """A union as a list, everything else as a mapping whose type is a name."""
        while isinstance(schema, Mapping) and not isinstance(schema["type"], str):
            schema = schema["type"]
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        return schema

    def _of_record(
        self, schema: Mapping[str, Any], value: Mapping[Any, Any], way: str
    ) -> tuple[str, str] | None:
        fields = {field["name"]: field for field in schema["fields"]}
        more = ", ".join(str(name) for name in value if name not in fields)
        if more:
            return way, f"has a field too many: the schema has no field {more}"
        for name, field in fields.items():
            if name not in value and "default" not in field:
                kind, remedy = field["type"], "give a value, or a default in the schema"
                if "null" in kind:
                    remedy = "give a value (None is one), or a default in the schema"
                    return f"{way}.{name}", f"is missing, and has no default: {remedy}"
                expected = schema_name(kind)
                return f"{way}.{name}", f"is missing or None, expected {expected}: {remedy}"
            found = self.of(field["type"], value[name], f"{way}.{name}") if name in value else None
            if found:
                return found
        return None

    def _of_map(
        self, schema: Mapping[str, Any], value: Mapping[Any, Any], way: str
    ) -> tuple[str, str] | None:
        for key, one in value.items():
            if not isinstance(key, str):
                return way, f"has a key that is {type_name(key)}; the keys of a map are text"
            if not _is_utf8(key):
                return way, f"has a key with {no_utf8(key)}"
            if found := self.of(schema["values"], one, f"{way}[{key!r}]"):
                return found
        return None


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
