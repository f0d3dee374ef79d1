"""Decode Protobuf messages into plain data by a serde's description, without generated classes.

A field with presence is None if it is not set; every other field then has the default of its type,
as in the application. Numbers of enums that have no name become texts of digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from logstate.serdes.protobuf_files import message_class
from logstate.serdes.protobuf_serde import decode_indexes

Schema = Mapping[str, Any]
Read = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain_decoder(description: Schema) -> Callable[[bytes], Any]:
    """Return a function that decodes the bytes of a described Protobuf serde into plain data."""
    schema = description["schema"]
    parse = message_class(schema).FromString
    read = _Reader(schema).reader(schema["message"])
    is_framed = description.get("framing", "none") != "none"

    def decode(data: bytes) -> Any:
        return read(parse(data[_message_start(data) :] if is_framed else data))

    return decode


def _message_start(data: bytes) -> int:
    if len(data) < 6 or data[0] > 1:
        raise ValueError("a record that is not framed with a schema id")
    return decode_indexes(data, 5 if data[0] == 0 else 17)[1]


class _Reader:
    """Builds, once per message, the function that converts it into plain data."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._made: dict[str, list[tuple[str, Read]]] = {}

    def reader(self, name: str) -> Read:
        if name == "google.protobuf.Timestamp":
            return _instant
        if name not in self._made:
            self._made[name] = []  # set before its fields: one of them may contain it again
            described = self._schema["messages"][name]["fields"].items()
            self._made[name] += [(f["name"], self._field(n, f)) for n, f in described]
        fields = self._made[name]
        return lambda message: {key: read(message) for key, read in fields}

    def _field(self, number: str, field: Schema) -> Read:
        attribute = f"f{number}"
        if field["type"] == "map":
            key, value = self._field("1", field["key"]), self._field("2", field["value"])
            return lambda message: {
                _text(key(entry)): value(entry) for entry in getattr(message, attribute)
            }
        if field.get("repeated"):
            one = self._value(field)
            return lambda message: [one(value) for value in getattr(message, attribute)]
        one = self._value(field)
        is_message = field["type"] in ("message", "group")
        if is_message or field.get("presence") == "explicit":
            return lambda message: (
                one(getattr(message, attribute)) if message.HasField(attribute) else None
            )
        return lambda message: one(getattr(message, attribute))

    def _value(self, field: Schema) -> Read:
        if field["type"] in ("message", "group"):
            return self.reader(field["of"])
        if field["type"] == "enum":
            names = self._schema["enums"][field["of"]]["values"]
            return lambda number: names.get(str(number), str(number))
        return lambda value: value


def _instant(message: Any) -> datetime:
    # Its fields by number: seconds and nanoseconds.
    return _EPOCH + timedelta(seconds=message.f1, microseconds=message.f2 // 1000)


def _text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
