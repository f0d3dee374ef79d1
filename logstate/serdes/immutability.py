"""Decide which types can be shared: decoded once, kept, and passed to user code repeatedly.

A type counts as immutable only if everything reachable from it is, judged from annotations:
scalars, enums, tuples and frozensets of immutable types, unions of them, and frozen structs,
frozen dataclasses and named tuples whose fields are all immutable. A doubtful type counts as
mutable, which costs a copy and never causes a wrong result.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Any, cast

import msgspec

_SCALARS = frozenset(
    {
        str,
        int,
        float,
        bool,
        bytes,
        complex,
        type(None),
        datetime.datetime,
        datetime.date,
        datetime.time,
        datetime.timedelta,
        decimal.Decimal,
        uuid.UUID,
    }
)


def is_immutable(type_: Any) -> bool:
    """Return whether objects of this type can be shared without copying.

    >>> is_immutable(tuple[str, int]), is_immutable(list[str]), is_immutable(dict)
    (True, False, False)
    """
    return _is_immutable(type_, frozenset())


def _is_immutable(type_: Any, above: frozenset[Any]) -> bool:
    if type_ is None or type_ in _SCALARS:
        return True
    if type_ in above:
        return True  # A recursive type is immutable if all its other parts are.
    origin = typing.get_origin(type_)
    if origin is not None:
        return _is_immutable_generic(type_, origin, above)
    if hasattr(type_, "__supertype__"):  # typing.NewType
        return _is_immutable(type_.__supertype__, above)
    if isinstance(type_, type):
        if issubclass(type_, enum.Enum):
            return True
        return _all_immutable(_frozen_fields(type_), above | {type_})
    return False


def _is_immutable_generic(type_: Any, origin: Any, above: frozenset[Any]) -> bool:
    arguments = typing.get_args(type_)
    if origin is typing.Literal:
        return True
    if origin is typing.Annotated:
        return _is_immutable(arguments[0], above)
    if origin in (typing.Union, types.UnionType):
        return _all_immutable(arguments, above)
    if origin in (tuple, frozenset):
        return _all_immutable([a for a in arguments if a is not Ellipsis], above)
    return False  # Parametrised classes too: their fields' types are not resolved here.


def _all_immutable(parts: Any, above: frozenset[Any]) -> bool:
    return parts is not None and all(_is_immutable(part, above) for part in parts)


def _frozen_fields(cls: type) -> list[Any] | None:
    """Return the field types of a frozen class, or None for a class that is not frozen."""
    if issubclass(cls, msgspec.Struct):
        if not cls.__struct_config__.frozen:
            return None
        return [field.type for field in msgspec.structs.fields(cls)]
    is_named_tuple = issubclass(cls, tuple) and hasattr(cls, "_fields")
    parameters = getattr(cls, "__dataclass_params__", None)
    if not is_named_tuple and (parameters is None or not parameters.frozen):
        return None
    try:
        hints = typing.get_type_hints(cls)
    except NameError:  # An annotation that only exists for type checkers.
        return None
    if is_named_tuple:
        return [hints.get(name, Any) for name in cls._fields]  # type: ignore[attr-defined]
    return [hints[field.name] for field in dataclasses.fields(cast(Any, cls))]
