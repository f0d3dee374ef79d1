"""Parts of a column's type: its Arrow type, and what a value needs to fit.

What a table cannot express becomes the JSON text of that part (``TEXT``). Everything is nullable:
a field may be absent, and a schema is a promise of the writer only.

A part makes a value fit, one at a time; `json_columns` reads from it how to do so for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

Shape = Callable[[Any], Any]

TIMESTAMP = pa.timestamp("us", tz="UTC")
DATE = pa.date32()
#: the widest there is, half of it behind the point: Python's has no limits, and exceeding these is
#: an error, never another number
DECIMAL = pa.decimal128(38, 18)
LONG = pa.int64()
INTEGER = pa.int32()
BOOLEAN = pa.bool_()
STRING = pa.string()
DOUBLE = pa.float64()
BINARY = pa.binary()

_encode_json = msgspec.json.Encoder(decimal_format="number").encode


#: maximum length of a value in an error message
_SHOWN = 80


class Part(NamedTuple):
    """The type of a value or of a part of it; ``shape`` None means it needs no conversion."""

    arrow: pa.DataType
    shape: Shape | None = None
    fields: Mapping[str, Part] | None = None
    """Of a record."""
    defaults: Mapping[str, Any] = {}
    """Default values of absent fields."""
    nullable: frozenset[str] = frozenset()
    """The fields that may also be null."""
    item: Part | None = None
    """Of a list, and of the values of a map."""
    native: type | None = None
    """The Python type of a scalar in JSON, for a decoder that checks it."""


def as_written(value: Any) -> str:
    """A value of a document as errors show it.

    >>> as_written({"a": True})
    '{"a":true}'
    """
    text = _encode_json(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _encode_text(value: Any) -> str | None:
    return None if value is None else _encode_json(value).decode()


TEXT = Part(STRING, _encode_text)
"""Any value as JSON text."""


def struct_part(
    fields: Mapping[str, Part],
    defaults: Mapping[str, Any],
    nullable: frozenset[str] = frozenset(),
) -> Part:
    """A record with these fields; an absent one has its default.

    Text, if there are no fields, or if their names differ only in case: Spark ignores case.
    """
    if not fields or len({name.lower() for name in fields}) < len(fields):
        return TEXT
    shapes = [(name, part.shape) for name, part in fields.items() if part.shape is not None]

    def shape(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ValueError(f"{as_written(value)} is not a record")
        whole = {**defaults, **value}
        for name, change in shapes:
            whole[name] = _with_part_name(name, change, whole.get(name))
        return whole

    return Part(
        pa.struct([(name, part.arrow) for name, part in fields.items()]),
        shape if shapes or defaults else None,
        fields,
        defaults,
        nullable,
    )


def list_part(item: Part) -> Part:
    """A list of these."""
    change = item.shape

    def shape(value: Any) -> Any:
        if value is None or change is None:
            return None
        if not isinstance(value, list | tuple):
            raise ValueError(f"{as_written(value)} is not a list")
        return [_with_part_name(n, change, each) for n, each in enumerate(value)]

    arrow = pa.list_(pa.field("element", item.arrow))
    return Part(arrow, shape if change else None, item=item)


def map_part(item: Part) -> Part:
    """A map from text to these."""
    change = item.shape or (lambda value: value)

    def shape(value: Any) -> Any:  # Arrow takes maps as lists of pairs
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ValueError(f"{as_written(value)} is not a map")
        return [(name, _with_part_name(name, change, each)) for name, each in value.items()]

    return Part(pa.map_(pa.string(), item.arrow), shape, item=item)


class PartError(ValueError):
    """A part of a value does not fit its column."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = path, why


def _with_part_name(place: object, change: Shape, value: Any) -> Any:
    try:
        return change(value)
    except PartError as error:
        raise PartError(f"{place}.{error.path}", error.why) from error
    except (ArithmeticError, TypeError, ValueError) as error:
        raise PartError(str(place), str(error)) from error
