"""A Protobuf message as plain data: its fields by number, and those of the messages inside it.

The manifest stores this form, two versions are compared by it, and Spark derives columns from it.
It is read from the descriptor that every generated class has; Protobuf itself is not imported.

    {"message": "shop.Click",
     "messages": {"shop.Click": {"fields": {"1": {"name": "user", "type": "string"}, ...}}},
     "enums": {"shop.Kind": {"values": {"0": "WEB"}, "closed": False}}}

A field also has ``of`` (the message or enum of its type), ``repeated``, ``presence`` (``explicit``
if it records whether it is set, ``required``), ``oneof``, ``default`` if it is not that of the
type, and ``key`` and ``value`` if it is a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: FieldDescriptor.TYPE_*, by number
TYPES: Mapping[int, str] = dict(
    enumerate(
        (
            *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool"),
            *("string", "group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64"),
            *("sint32", "sint64"),
        ),
        start=1,
    )
)
_LABEL_REQUIRED, _LABEL_REPEATED = 2, 3


def is_protobuf_message(type_: Any) -> bool:
    """Return whether a type is a class that protoc generated."""
    wanted = ("DESCRIPTOR", "FromString", "SerializeToString")
    return isinstance(type_, type) and all(hasattr(type_, name) for name in wanted)


def message_schema(descriptor: Any) -> dict[str, Any]:
    """Return the message of a descriptor, with everything inside it."""
    schema: dict[str, Any] = {"message": descriptor.full_name, "messages": {}, "enums": {}}
    waiting = [descriptor]
    while waiting:
        message = waiting.pop()
        if message.full_name in schema["messages"]:
            continue
        described = {str(field.number): _field(field) for field in message.fields}
        schema["messages"][message.full_name] = {"fields": described}
        for field in message.fields:
            if field.enum_type is not None:
                schema["enums"][field.enum_type.full_name] = _enum(field.enum_type)
            if field.message_type is not None:
                waiting.append(_value_field(field).message_type or field.message_type)
                _note_enum(schema, _value_field(field))
    return schema


def is_map(field: Any) -> bool:
    """Return whether a field is a map: on the wire, a list of messages of a key and a value."""
    message = field.message_type
    return message is not None and bool(message.GetOptions().map_entry)


def _value_field(field: Any) -> Any:
    """Return the field of a map's values; return any other field unchanged."""
    return field.message_type.fields_by_number[2] if is_map(field) else field


def _note_enum(schema: dict[str, Any], field: Any) -> None:
    if field.enum_type is not None:
        schema["enums"][field.enum_type.full_name] = _enum(field.enum_type)


def _field(field: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"name": field.name}
    if is_map(field):
        entry = field.message_type.fields_by_number
        described["type"] = "map"
        return described | {"key": _type(entry[1]), "value": _type(entry[2])}
    described |= _type(field)
    if _is_labelled(field, "is_repeated", _LABEL_REPEATED):
        return described | {"repeated": True}
    if _is_labelled(field, "is_required", _LABEL_REQUIRED):
        described["presence"] = "required"
    elif field.has_presence:
        described["presence"] = "explicit"
    oneof = field.containing_oneof
    # In proto3, `optional` creates a oneof with one member.
    if oneof is not None and len(oneof.fields) > 1:
        described["oneof"] = oneof.name
    if field.has_default_value:
        default = field.default_value
        described["default"] = default.hex() if isinstance(default, bytes) else default
    return described


def _type(field: Any) -> dict[str, Any]:
    described = {"type": TYPES[field.type]}
    inner = field.message_type or field.enum_type
    return described if inner is None else described | {"of": inner.full_name}


def _enum(enum: Any) -> dict[str, Any]:
    values: dict[str, str] = {}
    for value in enum.values:  # the first of several names of a number counts
        values.setdefault(str(value.number), value.name)
    return {"values": values, "closed": bool(enum.is_closed)}


def _is_labelled(field: Any, name: str, label: int) -> bool:
    """Protobuf 7 has only the properties, versions before 6.31 have only labels."""
    flag = getattr(field, name, None)
    return field.label == label if flag is None else bool(flag)
