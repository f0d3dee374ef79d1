"""Convert values of JSON documents to values of columns exactly, or refuse them.

Arrow alone truncates 1.5 to 1 in integer columns and converts true to 1.0. A conversion without
loss is accepted: 2.0 is an integer, and numbers become decimals with all their digits.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from logstate.changelog.reading.column_parts import (
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    Part,
    as_written,
)

_LOWEST, _BEYOND = -(2**63), 2**63
#: integers below have an exact float; of larger ones several share one
_EXACT: Final = 2**53


def _unless_null(kind: str, take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Apply ``take`` unless the value is null. It returns None for a value of another kind."""

    def shape(value: Any) -> Any:
        if value is None:
            return None
        found = take(value)
        if found is None:
            raise ValueError(f"{as_written(value)} is not a {kind}")
        return found

    return shape


def _whole_number(value: Any) -> int | None:
    if type(value) is int:
        return value if _LOWEST <= value < _BEYOND else None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT else None
    if isinstance(value, Decimal):
        # Compare first: a huge decimal would have unlimited digits as an integer.
        is_whole = _LOWEST <= value < _BEYOND and value == value.to_integral_value()
        return int(value) if is_whole else None
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    return None


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    found = msgspec.convert(value, datetime)
    # A time without a time zone is UTC, as in Spark's session here.
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _day(value: Any) -> date | None:
    return date.fromisoformat(value) if isinstance(value, str) else None


def _bytes(value: Any) -> bytes | None:
    return b64decode(value, validate=True) if isinstance(value, str) else None


#: by the names that JSON schemas have for them
SCALARS: Final = {
    "integer": Part(LONG, _unless_null("whole number of 64 bits", _whole_number), native=int),
    "number": Part(DOUBLE, _unless_null("number", _number), native=float),
    "string": Part(
        STRING, _unless_null("text", lambda v: v if isinstance(v, str) else None), native=str
    ),
    "boolean": Part(
        BOOLEAN, _unless_null("boolean", lambda v: v if isinstance(v, bool) else None), native=bool
    ),
}

#: texts that stand for something else, by their format. Spark has no type for a UUID, nor for a
#: time of day or a duration that could hold all of Python's, so these stay text
TEXTS: Final = {
    "date-time": Part(TIMESTAMP, _unless_null("point in time", _instant), native=datetime),
    "date": Part(DATE, _unless_null("date", _day)),
    "decimal": Part(DECIMAL, _unless_null("decimal number", _decimal), native=Decimal),
    "base64": Part(BINARY, _unless_null("text in base64", _bytes)),
}


def json_decoder(part: Part, wanted: Any = Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of documents into plain data, or into the class ``wanted``.

    >>> json_decoder(SCALARS["integer"]).decode(b"1.5")
    1.5
    >>> json_decoder(TEXTS["decimal"]).decode(b"1.50")
    Decimal('1.50')
    """
    return msgspec.json.Decoder(wanted, float_hook=Decimal if _has_decimals(part) else None)


def _has_decimals(part: Part) -> bool:
    inner = [*(part.fields or {}).values(), *([part.item] if part.item is not None else [])]
    return part.arrow == DECIMAL or any(map(_has_decimals, inner))
