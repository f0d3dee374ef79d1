"""Objects of other libraries by their fields: models of pydantic, messages of Protobuf, Faust's.

None of these is imported: an object brings along what tells of it. A message is shown as Spark and
the command show it: by the names of its fields, null where one can be asked and is not set.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any


def data_of(value: Any) -> Any:
    """Of an object that msgspec does not know: its fields, or else how Python prints it."""
    if hasattr(value, "model_dump"):  # of pydantic
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    if hasattr(value, "__is_model__"):  # of Faust
        return value.asdict()
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is None:
        return str(value)
    if descriptor.full_name == "google.protobuf.Timestamp":
        return value.ToDatetime(tzinfo=UTC)
    return {field.name: _part(value, field) for field in descriptor.fields}


def _part(message: Any, field: Any) -> Any:
    """One field; messages within stay as they are, and are asked next."""
    found = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        values = field.message_type.fields_by_name["value"]
        return {_name(key): _named(one, values) for key, one in found.items()}
    if _is_repeated(field):
        return [_named(one, field) for one in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _named(found, field)


def _is_repeated(field: Any) -> bool:
    # Earlier releases of protobuf have the label alone, and later ones warn of it.
    known = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if known is None else bool(known)


def _named(value: Any, field: Any) -> Any:
    """A number of an enum by its name, or as a text of digits where it has none."""
    if field.enum_type is None:
        return value
    known = field.enum_type.values_by_number.get(value)
    return str(value) if known is None else known.name


def _name(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
