"""Generate data for a JSON schema of a msgspec, pydantic or Faust type.

Every field is filled, optional ones too, so that a record is as large as a real one can be;
nullable ones have a value nine times in ten.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from logstate.contracts.errors import ConfigError
from logstate.generated.draw import Draw

Schema: TypeAlias = "Mapping[str, Any]"
Make: TypeAlias = "Callable[[Draw], Any]"

_NULL_OF_TEN = 1
_ITEMS_MAX = 3


class JsonData:
    """Generates data for a schema. Raises ConfigError for a text whose pattern no drawn text fits.

    >>> schema = {"type": "object", "properties": {"at": {"type": "integer", "minimum": 5}}}
    >>> JsonData(schema)(Draw(1, 1))["at"] >= 5
    True
    """

    def __init__(self, schema: Schema) -> None:
        self._definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
        self._make = self._maker(schema)

    def __call__(self, draw: Draw) -> Any:
        draw.depth = 0
        return self._make(draw)

    def _maker(self, schema: Schema) -> Make:
        if "$ref" in schema:
            return self._named(schema["$ref"].rpartition("/")[2])
        if "const" in schema:
            return lambda _: schema["const"]
        if "enum" in schema:
            return lambda draw: draw.of(schema["enum"])
        if schema.get("allOf"):
            merged = {name: part for one in schema["allOf"] for name, part in one.items()}
            return self._maker({**schema, "allOf": (), **merged})
        kinds = schema.get("type")
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(kinds, list):
            choices = [{**schema, "type": kind} for kind in kinds]
        if choices:
            return self._any_of(choices)
        return self._of_type(kinds, schema)

    def _named(self, name: str) -> Make:
        """Return a generator that is created at its first call: a type may contain itself."""
        made: list[Make] = []

        def make(draw: Draw) -> Any:
            if not made:
                made.append(self._maker(self._definitions[name]))
            return made[0](draw)

        return make

    def _any_of(self, choices: list[Schema]) -> Make:
        others = [one for one in choices if one.get("type") != "null"]
        has_null = len(others) < len(choices)
        # A number that may be written as text must be a text of digits, which no schema says.
        some = [self._maker(one) for one in _numbers(others) or others]

        def make(draw: Draw) -> Any:
            if has_null and (not some or draw.is_deep or draw.random.randrange(10) < _NULL_OF_TEN):
                return None
            return draw.of(some)(draw)

        return make

    def _of_type(self, kind: str | None, schema: Schema) -> Make:
        if kind == "object":
            return self._object(schema)
        if kind == "array":
            return self._array(schema)
        if kind == "string":
            return lambda draw: _text(schema, draw)
        if kind == "integer":
            return lambda draw: _integer(schema, draw)
        if kind == "number":
            least, most = _bounds(schema, 0.01)
            return lambda draw: draw.number_with_fraction(least, most)
        if kind == "boolean":
            return Draw.boolean
        return (lambda _: None) if kind == "null" else Draw.integer

    def _object(self, schema: Schema) -> Make:
        fields = {name: self._maker(one) for name, one in schema.get("properties", {}).items()}
        required = schema.get("required", ())
        others = schema.get("additionalProperties")
        other = self._maker(others) if isinstance(others, dict) and not fields else None

        def make(draw: Draw) -> dict[str, Any]:
            draw.depth += 1
            made = {
                name: make_one(draw)
                for name, make_one in fields.items()
                if not draw.is_deep or name in required
            }
            if other is not None:
                made = {
                    draw.word(): other(draw) for _ in range(_length(schema, draw, "Properties"))
                }
            draw.depth -= 1
            return made

        return make

    def _array(self, schema: Schema) -> Make:
        first = [self._maker(one) for one in schema.get("prefixItems", ())]
        items = schema.get("items")
        item = self._maker(items) if isinstance(items, dict) else None

        def make(draw: Draw) -> list[Any]:
            draw.depth += 1
            made = [make_one(draw) for make_one in first]
            while item is not None and len(made) < _length(schema, draw, "Items"):
                made.append(item(draw))
            draw.depth -= 1
            return made

        return make


def _numbers(choices: list[Schema]) -> list[Schema]:
    return [one for one in choices if one.get("type") in ("number", "integer")]


def _length(schema: Schema, draw: Draw, of: str) -> int:
    least = schema.get(f"min{of}", 0)
    if draw.is_deep:
        return int(least)
    return int(max(least, min(schema.get(f"max{of}", _ITEMS_MAX), 1 + draw.random.randrange(3))))


def _bounds(schema: Schema, step: float) -> tuple[Any, Any]:
    """Return the lower and the upper bound; exclusive bounds are moved by one step."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if isinstance(schema.get("exclusiveMinimum"), int | float):
        least = schema["exclusiveMinimum"] + step
    if isinstance(schema.get("exclusiveMaximum"), int | float):
        most = schema["exclusiveMaximum"] - step
    return least, most


def _integer(schema: Schema, draw: Draw) -> int:
    number = draw.integer(*_bounds(schema, 1))
    multiple = schema.get("multipleOf", 1)
    least = _bounds(schema, 1)[0]
    rounded = number // multiple * multiple
    return int(rounded + multiple if least is not None and rounded < least else rounded)


_FORMATS: Mapping[str, Callable[[Draw], str]] = {
    "date-time": lambda draw: draw.instant().isoformat().replace("+00:00", "Z"),
    "date": lambda draw: draw.instant().date().isoformat(),
    "time": lambda draw: draw.instant().time().isoformat(),
    "duration": lambda draw: f"PT{draw.integer()}S",
    "uuid": lambda draw: str(draw.identifier()),
    "decimal": lambda draw: f"{draw.number_with_fraction():.2f}",
    "email": lambda draw: f"{draw.word()}@example.org",
    "uri": lambda draw: f"https://example.org/{draw.word()}",
    "ipv4": lambda draw: f"192.0.2.{draw.integer(1, 254)}",
    "ipv6": lambda draw: f"2001:db8::{draw.integer(1, 254)}",
    "byte": lambda draw: base64.b64encode(draw.data()).decode(),
    "binary": lambda draw: draw.word(),
}


def _text(schema: Schema, draw: Draw) -> str:
    if "contentEncoding" in schema:
        return base64.b64encode(draw.data()).decode()
    pattern = schema.get("pattern")
    if pattern is not None:
        return _text_for_pattern(pattern, draw)
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]](draw)
    return draw.word(schema.get("minLength", 0), schema.get("maxLength"))


def _text_for_pattern(pattern: str, draw: Draw) -> str:
    """Return one of several usual texts that fits; texts are not generated from a pattern."""
    word, number = draw.word(), str(draw.integer(1))
    tried = [
        word,
        word.upper(),
        f"{draw.number_with_fraction():.2f}",
        number,
        str(draw.identifier()),
    ]
    letters = "".join(sign for sign in word if sign.isalpha())
    tried += [
        shape[:size] for shape in (letters, letters.upper(), number * 9) for size in range(1, 9)
    ]
    for text in tried:
        if re.search(pattern, text):
            return text
    raise ConfigError(f"no drawn text fits the pattern {pattern!r}")
