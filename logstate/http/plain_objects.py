"""Convert objects of other libraries to their fields: pydantic models, Protobuf and Faust records.

None of these libraries is imported: the objects have the needed methods. A message is shown
like in Spark and on the command line: by the names of its fields, null if it has presence and
is not set.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any


def data_of(value: Any) -> Any:
    """Return the fields of an object that msgspec does not support, otherwise its ``str``."""
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
    """Return one field; nested messages stay unchanged, and are converted later."""
    found = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        values = field.message_type.fields_by_name["value"]
        return {_name(key): _enum_name(one, values) for key, one in found.items()}
    if _is_repeated(field):
        return [_enum_name(one, field) for one in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _enum_name(found, field)


def _is_repeated(field: Any) -> bool:
    # Earlier releases of protobuf only have the label, and later ones warn about it.
    known = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if known is None else bool(known)


def _enum_name(value: Any, field: Any) -> Any:
    """Return the name of an enum's number, or its digits if it has no name."""
    if field.enum_type is None:
        return value
    known = field.enum_type.values_by_number.get(value)
    return str(value) if known is None else known.name


def _name(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
