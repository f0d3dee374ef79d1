"""Encode values from the description of a serde, without the application's classes.

The inverse of :mod:`logstate.serdes.described`: plain data of the described shape becomes the bytes
that the application itself would write. Fields of an object are written in the order of their
declaration, regardless of the order of the input, because equal keys must be equal bytes. A missing
field takes its default; a missing field without a default is null if it may be.

Parts that a reader shows as JSON text (unions, tuples of mixed types, types that contain
themselves) are accepted as such text and written unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from logstate.admin.described_types import described_type
from logstate.contracts.errors import UNDECODABLE, ConfigError, SerdeError
from logstate.contracts.formats import LIST, ORDERED
from logstate.serdes.described import Description, format_name
from logstate.serdes.list_serde import list_encoder
from logstate.serdes.ordered_serde import described_ordered
from logstate.serdes.scalars import SCALAR_SERDES

Encode = Callable[[Any], bytes]
Shape = Callable[[Any], Any]

_ENCODER = msgspec.json.Encoder()
_KEY_ENCODER = msgspec.json.Encoder(order="deterministic")


def encoder(description: Description | None, *, is_key: bool) -> Encode:
    """Return a function that encodes plain data: scalars, or mappings for objects.

    >>> point = {"format": "json", "schema": {"type": "object", "properties": {
    ...     "x": {"type": "integer"}, "y": {"type": "integer", "default": 0}}, "required": ["x"]}}
    >>> encoder(point, is_key=False)({"x": 3})
    b'{"x":3,"y":0}'
    >>> encoder({"format": "int32"}, is_key=True)(7).hex()
    '00000007'

    Raises ConfigError for a format that only its own serde can write.
    """
    described = description or {"format": "bytes"}
    name = described["format"]
    if name in SCALAR_SERDES:
        return _OF_PLAIN_DATA.get(name) or SCALAR_SERDES[name].serializer("", is_key)
    if name == ORDERED:
        serde = described_ordered(described)
        write = serde.serializer("", is_key)
        return lambda value: write(serde.of_data(value))
    if name == LIST:
        inner = described["inner"]
        return list_encoder(inner, encoder(inner, is_key=False))
    if name == "json":
        return _json(described.get("schema"), is_key=is_key)
    raise ConfigError(
        f"{'keys' if is_key else 'values'} of this store are {format_name(described)}, which only"
        " the application's own serde can write. Give it: as keySerde or valueSerde,"
        " MODULE:ATTRIBUTE, or as key= or value= of backfill()"
    )


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise SerdeError(f"expected a string, got {value!r} of type {type(value).__name__}")
    return value.encode()


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):  # of 5, bytes() makes five zeros
        raise SerdeError(f"expected bytes, got {value!r} of type {type(value).__name__}")
    return bytes(value)


def _identifier(name: str) -> Encode:
    write = SCALAR_SERDES[name].serializer("", False)
    return lambda value: write(UUID(value) if isinstance(value, str) else value)


#: stricter checks, or more types, than the serde has
_OF_PLAIN_DATA: Mapping[str, Encode] = {
    "string": _text,
    "bytes": _bytes,
    **{name: _identifier(name) for name in ("uuid", "uuid_bytes")},
}


def _json(schema: Mapping[str, Any] | None, *, is_key: bool) -> Encode:
    if not schema:
        return _key_text if is_key else _checked_text
    shape = _Shapes(schema.get("$defs", {}), is_key=is_key).of(schema, ())
    check = _check_of(schema)

    def encode(value: Any) -> bytes:
        data = _ENCODER.encode(shape(value))
        check(data)
        return data

    return encode


def _check_of(schema: Mapping[str, Any]) -> Callable[[bytes], Any]:
    """Return a check that raises for a row that the application could not read."""
    try:
        return msgspec.json.Decoder(described_type(schema)).decode
    except TypeError:  # a description that says more than a type can
        return msgspec.json.Decoder().decode


def _checked_text(value: Any) -> bytes:
    """Return JSON text unchanged as bytes, and other data encoded as JSON."""
    if not isinstance(value, str):
        return _ENCODER.encode(value)
    data = value.encode()
    try:
        msgspec.json.decode(data)
    except UNDECODABLE as error:
        raise SerdeError(f"{value!r} is not valid JSON: {error}") from error
    return data


def _key_text(value: Any) -> bytes:
    """Encode a key like ``_checked_text``, so that equal data gives equal bytes."""
    return _KEY_ENCODER.encode(msgspec.json.decode(_checked_text(value)))


def _unchanged(value: Any) -> Any:
    return value


def _as_integer(value: Any) -> Any:
    """Return an integral number as an int: tables turn integers into floats and decimals."""
    is_whole = isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value)
    return int(value) if is_whole else value


def _as_float(value: Any) -> Any:
    """Return a number as the float that the application writes: 52 as 52.0."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return float(value) if is_number else value


def _optional(shape: Shape) -> Shape:
    return lambda value: None if value is None else shape(value)


@dataclass(frozen=True)
class _Shapes:
    """Converts data to values that encode as an object of the described type would."""

    known: Mapping[str, Any]
    #: entries of mappings are sorted in keys
    is_key: bool

    def of(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> Shape:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in inside or name not in self.known:
                return self._raw
            return self.of(self.known[name], (*inside, name))
        if "anyOf" in schema:
            return self._one_of(schema["anyOf"], inside)
        match schema.get("type"):
            case "object":
                return self._object(schema, inside)
            case "array" if isinstance(schema.get("items"), Mapping):
                if "prefixItems" not in schema:
                    item = self.of(schema["items"], inside)
                    return _optional(lambda values: [item(value) for value in values])
            case "integer" if "enum" not in schema:
                return _as_integer
            case "number":
                return _as_float
            case "string" | "integer" | "boolean":
                return _unchanged
        return _unchanged if "enum" in schema else self._raw

    def _raw(self, value: Any) -> Any:
        encode = _key_text if self.is_key else _checked_text
        return None if value is None else msgspec.Raw(encode(value))

    def _one_of(self, every: list[Mapping[str, Any]], inside: tuple[str, ...]) -> Shape:
        choices = [one for one in every if one.get("type") != "null"]
        if len(choices) == 1:
            return _optional(self.of(choices[0], inside))
        if {one.get("type") for one in choices} == {"integer", "number"}:
            return _unchanged
        return self._raw

    def _object(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> Shape:
        properties = schema.get("properties", {})
        if properties:
            fields = {name: self.of(part, inside) for name, part in properties.items()}
            return _optional(_fields_shape(fields, schema))
        extra = schema.get("additionalProperties")
        if not (isinstance(extra, Mapping) and extra):
            return self._raw
        entry, order = self.of(extra, inside), sorted if self.is_key else list
        return _optional(lambda value: {k: entry(v) for k, v in order(_entries(value))})


def _fields_shape(fields: Mapping[str, Shape], schema: Mapping[str, Any]) -> Shape:
    properties = schema["properties"]
    defaults = {name: part["default"] for name, part in properties.items() if "default" in part}
    required = set(schema.get("required", ()))

    def shaped(value: Any) -> dict[str, Any]:
        found = {}
        for name, shape in fields.items():
            if name in value:
                found[name] = shape(value[name])
            elif name in defaults:
                found[name] = defaults[name]
            elif name in required:
                raise SerdeError(f"field {name!r} is missing in {value!r}")
        if strange := value.keys() - fields.keys():
            raise SerdeError(
                f"{', '.join(sorted(strange))}: the store's values have no such field; they have"
                f" {', '.join(fields)}"
            )
        return found

    return shaped


def _entries(value: Any) -> Any:
    """Return the entries of a mapping; Arrow gives maps as lists of pairs."""
    return value.items() if isinstance(value, Mapping) else value
