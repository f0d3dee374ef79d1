"""Compare the descriptions of two serdes: do equal keys have equal bytes?

A partition is chosen by the bytes of a key, and a row is found by them. So records of one key
meet only if both sides write it alike. Additional parts of a description (names of classes, texts,
limits) do not change bytes; the order of a record's fields does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logstate.contracts.changelog_keys import WINDOWED
from logstate.contracts.formats import KEY_AND_ID, LIST, ORDERED, SCALARS, WITH_SCHEMA

Description = Mapping[str, Any]

_KNOWN = {*SCALARS, *WINDOWED, *WITH_SCHEMA, KEY_AND_ID, LIST, ORDERED}
#: keywords of a JSON schema that determine bytes; the others restrict values
_WRITTEN = frozenset(
    [
        "type",
        "format",
        "properties",
        "items",
        "prefixItems",
        "anyOf",
        "enum",
        "const",
        "additionalProperties",
    ]
)
_SAID_OF_AVRO = frozenset({"doc", "aliases", "default", "order"})


def key_bytes_agree(one: Description, other: Description) -> bool | None:
    """Whether equal keys have equal bytes; None if the descriptions do not determine it.

    >>> key_bytes_agree({"format": "int64"}, {"format": "int32"})
    False
    >>> key_bytes_agree({"format": "my own"}, {"format": "int32"}) is None
    True

    They do not for a user's own serde (two with equal descriptions are assumed to
    write alike), nor for schemas that only a registry has.
    """
    if one == other:
        return True
    formats = one["format"], other["format"]
    if not _KNOWN.issuperset(formats):
        return None
    if formats[0] != formats[1]:
        return False
    if formats[0] in WINDOWED or formats[0] == LIST:  # the size of a window is not written
        return key_bytes_agree(one["inner"], other["inner"])
    if formats[0] in SCALARS:
        return True
    if formats[0] == ORDERED:
        return bool(one["parts"] == other["parts"])
    if one.get("framing") != other.get("framing"):
        return False
    schemas = one.get("schema"), other.get("schema")
    if None in schemas:  # JSON of anything is written as JSON of a type; a registry may know others
        return True if formats[0] == "json" else None
    if WRITTEN_BY[formats[0]](schemas[0]) != WRITTEN_BY[formats[0]](schemas[1]):
        return False
    # Bytes that name their schema by its id: the same registry may have two addresses.
    return True if one.get("registry") == other.get("registry") else None


def _of_json(schema: Any) -> Any:
    """Return the parts of a JSON schema that determine bytes, with inlined definitions."""
    definitions = schema.get("$defs", {}) if isinstance(schema, Mapping) else {}

    def visit(side: Any, above: tuple[str, ...]) -> Any:
        if isinstance(side, list):
            return [visit(one, above) for one in side]
        if not isinstance(side, Mapping):
            return side
        name = side.get("$ref", "").rpartition("/")[2]
        if name in above:
            return above.index(name)
        if name:
            return visit(definitions.get(name), (*above, name))
        parts = {k: visit(v, above) for k, v in side.items() if k in _WRITTEN and k != "properties"}
        if "properties" in side:
            parts["properties"] = [(k, visit(v, above)) for k, v in side["properties"].items()]
        return parts

    return visit(schema, ())


def _of_avro(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {k: _of_avro(v) for k, v in schema.items() if k not in _SAID_OF_AVRO}
    return [_of_avro(one) for one in schema] if isinstance(schema, list) else schema


def _as_it_is(schema: Any) -> Any:
    return schema  # messages by the numbers of their fields


WRITTEN_BY: Mapping[str, Callable[[Any], Any]] = {
    "json": _of_json,
    "json_schema": _of_json,
    "avro": _of_avro,
    "protobuf": _as_it_is,
}
