"""Data of an Avro schema, as fastavro writes it."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from logstate.generated.draw import Draw

Schema: TypeAlias = Any
Make: TypeAlias = "Callable[[Draw], Any]"

_NULL_OF_TEN = 1
_LONG = 2**31

_PRIMITIVES: Mapping[str, Make] = {
    "null": lambda _: None,
    "boolean": Draw.boolean,
    "int": Draw.integer,
    "long": Draw.integer,
    "float": lambda draw: float(draw.integer()),  # 32 bits do not hold two more digits
    "double": Draw.number_with_fraction,
    "bytes": Draw.data,
    "string": Draw.word,
}


def _time_of_day(draw: Draw) -> Any:
    return draw.instant().time().replace(microsecond=0)


_LOGICAL: Mapping[str, Make] = {
    "date": lambda draw: draw.instant().date(),
    "time-millis": _time_of_day,
    "time-micros": _time_of_day,
    "timestamp-millis": Draw.instant,
    "timestamp-micros": Draw.instant,
    "timestamp-nanos": Draw.instant,
    "local-timestamp-millis": lambda draw: draw.instant().replace(tzinfo=None),
    "local-timestamp-micros": lambda draw: draw.instant().replace(tzinfo=None),
    "uuid": Draw.identifier,
}


class _LazyGenerator:
    """A generator that is looked up at its first call: a type may contain itself."""

    def __init__(self, check: Callable[[str], Make], name: str) -> None:
        self._check, self._name = check, name

    def __call__(self, draw: Draw) -> Any:
        return self._check(self._name)(draw)


class AvroData:
    """Makes data of one schema.

    >>> AvroData({"type": "record", "name": "Hit", "fields": [{"name": "n", "type": "int"}]})(
    ...     Draw(1, 1)
    ... ).keys()
    dict_keys(['n'])
    """

    def __init__(self, schema: Schema) -> None:
        self._named: dict[str, Make] = {}
        self._make = self._maker(schema)

    def __call__(self, draw: Draw) -> Any:
        draw.depth = 0
        return self._make(draw)

    def _maker(self, schema: Schema) -> Make:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return _PRIMITIVES.get(schema) or _LazyGenerator(self._by_name, schema)
        kind, logical = schema["type"], schema.get("logicalType")
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if logical == "decimal":
            digits, scale = schema["precision"], schema.get("scale", 0)
            most = min(10**digits - 1, _LONG)
            return lambda draw: decimal.Decimal(draw.random.randrange(most)).scaleb(-scale)
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            return self._with_name(schema, lambda draw: draw.of(schema["symbols"]))
        if kind == "fixed":
            return self._with_name(schema, lambda draw: draw.data(schema["size"]))
        if kind == "array":
            item = self._maker(schema["items"])
            return lambda draw: [item(draw) for _ in range(_length(draw))]
        if kind == "map":
            value = self._maker(schema["values"])
            return lambda draw: {draw.word(): value(draw) for _ in range(_length(draw))}
        return self._maker(kind)

    def _record(self, schema: Schema) -> Make:
        fields: dict[str, Make] = {}

        def make(draw: Draw) -> dict[str, Any]:
            draw.depth += 1
            made = {name: make_one(draw) for name, make_one in fields.items()}
            draw.depth -= 1
            return made

        self._with_name(schema, make)
        fields.update({one["name"]: self._maker(one["type"]) for one in schema["fields"]})
        return make

    def _union(self, choices: list[Schema]) -> Make:
        some = [self._maker(one) for one in choices if one != "null"]
        has_null = len(some) < len(choices)

        def make(draw: Draw) -> Any:
            if has_null and (not some or draw.is_deep or draw.random.randrange(10) < _NULL_OF_TEN):
                return None
            return draw.of(some)(draw)

        return make

    def _with_name(self, schema: Schema, make: Make) -> Make:
        self._named[schema["name"].rpartition(".")[2]] = make
        return make

    def _by_name(self, name: str) -> Make:
        return self._named[name.rpartition(".")[2]]


def _length(draw: Draw) -> int:
    return 0 if draw.is_deep else 1 + draw.random.randrange(3)
