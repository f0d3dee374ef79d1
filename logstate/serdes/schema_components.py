"""Schemas of serdes in OpenAPI and AsyncAPI documents, by the descriptions of the serdes.

A schema of a type names the schemas of its parts in ``$defs``, which belong to the root of a
document there: they become components, and references lead to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from logstate.contracts.formats import LIST, SCALARS
from logstate.serdes.described import Description, format_name
from logstate.serdes.json_schema import without_names

#: scalars as JSON
_JSON: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "int64": {"type": "integer", "format": "int64"},
    "int32": {"type": "integer", "format": "int32"},
    "int16": {"type": "integer", "format": "int16"},
    "float64": {"type": "number", "format": "double"},
    "float32": {"type": "number", "format": "float"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
    "boolean": {"type": "boolean"},
    "uuid": {"type": "string", "format": "uuid"},
    "uuid_bytes": {"type": "string", "format": "uuid"},
}
assert _JSON.keys() == SCALARS.keys()
_DEFINITIONS = "#/$defs/"


class SchemaComponents:
    """The components of one document.

    >>> parts = SchemaComponents(prefix="shop.")
    >>> order = {"$ref": "#/$defs/Order", "$defs": {"Order": {"type": "object"}}}
    >>> parts.json({"format": "json", "schema": order})
    {'$ref': '#/components/schemas/shop.Order'}
    >>> parts.schemas
    {'shop.Order': {'type': 'object'}}
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        #: name -> the schema that it was given to, as it was before its references changed
        self._taken: dict[str, Any] = {}
        self.schemas: dict[str, Any] = {}

    def json(self, description: Description) -> dict[str, Any]:
        """Return the schema of objects as JSON shows them; of some formats only their name."""
        name, schema = description["format"], description.get("schema")
        if name in _JSON:
            return dict(_JSON[name])
        if name in ("json", "json_schema", "faust") and schema:
            return self.embedded(schema)
        if name in ("windowed", "session_windowed"):
            times = {"type": "integer", "format": "int64", "description": "ms since 1970"}
            return {
                "type": "object",
                "properties": {
                    "key": self.json(description["inner"]),
                    "start_ms": times,
                    "end_ms": times,
                },
                "required": ["key", "start_ms", "end_ms"],
            }
        if name == LIST:
            return {"type": "array", "items": self.json(description["inner"])}
        if name == "avro" and "type" in description:
            return self.json(description["type"])
        if name == "upgradable":
            return self.json(description["versions"][str(description["version"])])
        return {} if name == "json" else {"description": format_name(description)}

    def embedded(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return a JSON schema whose definitions are components."""
        bare: dict[str, Any] = without_names(dict(schema))
        definitions: dict[str, Any] = bare.pop("$defs", {})
        names = {name: self._free_name(name, one) for name, one in definitions.items()}
        for name, one in definitions.items():
            self.schemas[names[name]] = _with_references(one, names)
        found: dict[str, Any] = _with_references(bare, names)
        return found

    def _free_name(self, name: str, schema: Any) -> str:
        """Return the name of a component: two types of one name can differ."""
        number, free = 1, self._prefix + _component_name(name)
        while self._taken.get(free, schema) != schema:
            number += 1
            free = f"{self._prefix}{_component_name(name)}-{number}"
        self._taken[free] = schema
        return free


def _component_name(name: str) -> str:
    """Return a name that a component can have: a generic class has brackets in its name."""
    return "".join(
        one if one.isascii() and (one.isalnum() or one in "._-") else "_" for one in name
    )


def _with_references(schema: Any, names: Mapping[str, str]) -> Any:
    """Return the schema with references to components."""
    if isinstance(schema, list):
        return [_with_references(one, names) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, one in schema.items():
        if key == "$ref" and isinstance(one, str) and one.startswith(_DEFINITIONS):
            target = names.get(one.removeprefix(_DEFINITIONS), one.removeprefix(_DEFINITIONS))
            found[key] = f"#/components/schemas/{target}"
        elif key == "mapping" and isinstance(one, dict):  # of a discriminator
            found[key] = {
                tag: _with_references({"$ref": to}, names)["$ref"] for tag, to in one.items()
            }
        else:
            found[key] = _with_references(one, names)
    return found
