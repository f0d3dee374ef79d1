"""Recognize objects of a frozen struct that equal what their JSON decodes to.

A store may keep such an object, return it again, and encode it later: encoding cannot fail, and
decoding returns an equal object. Python does not check the fields of a struct that user code made,
so each object is checked: each field has exactly one of its declared scalar types, integers fit
64 bits, floats are finite, strings are ASCII (a lone surrogate would not encode).

The check runs for every write, so it is source text about ``value``, to be inserted into the
calling function (it assigns to ``x``, ``x1``, ``x2`` and so on):

>>> class Spent(msgspec.Struct, frozen=True):
...     count: int
...     sum: float
...     fee: float
...     note: str | None = None
>>> print(plain_condition(Spent))
type(x := value.count) is int
and (-1073741824 < x < 1073741824 or -9223372036854775808 <= x <= 9223372036854775807)
and type(x1 := value.sum) is float
and type(x2 := value.fee) is float
and ((x := value.note) is None or type(x) is str and x.isascii())
and (x := x1 + x2) - x == 0.0

(For small integers the first comparison suffices. A sum of finite floats that overflows fails the
check, which only costs an encoding at the write.)

Other structs (other field types, constraints, a ``__post_init__``) have no such condition, and
cost their store an encoding at every write.
"""

from __future__ import annotations

import dataclasses
import keyword
import types
import typing
from collections.abc import Mapping
from typing import Any

import msgspec

_SMALL = 2**30  # Python stores smaller integers in one digit
_PLAIN = {
    int: f"(-{_SMALL} < x < {_SMALL} or {-(2**63)} <= x <= {2**63 - 1})",
    float: "x - x == 0.0",
    str: "x.isascii()",
    bool: "",
}
_READABLE = {int: "", float: "x - x == 0.0", str: "", bool: ""}


def plain_condition(type_: Any) -> str | None:
    """Return the condition for a struct; None if a check of its fields is not sufficient."""
    if not _is_struct(type_):
        return None
    if not type_.__struct_config__.frozen or hasattr(type_, "__post_init__"):
        return None
    return _condition(type_, _PLAIN)


def readable_condition(type_: Any) -> str | None:
    """Like ``plain_condition``, for values that can be read again: any text and any integer.

    For frozen and other structs and dataclasses: the check runs when the bytes are made.

    >>> class Spent(msgspec.Struct):
    ...     count: int
    ...     sum: float
    >>> print(readable_condition(Spent))
    type(value.count) is int
    and type(x1 := value.sum) is float
    and (x := x1) - x == 0.0
    """
    if hasattr(type_, "__post_init__"):
        return None
    return _condition(type_, _READABLE)


def _fields(type_: Any) -> list[tuple[str, Any]]:
    """Return each field's name and type; none if they are not known."""
    if _is_struct(type_):
        return [(field.name, field.type) for field in msgspec.structs.fields(type_)]
    if not isinstance(type_, type) or not dataclasses.is_dataclass(type_):
        return []
    fields = dataclasses.fields(type_)
    try:
        hints = typing.get_type_hints(type_)
    except NameError:  # an annotation that only exists for type checkers
        return []
    return [(field.name, hints[field.name]) for field in fields]


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _condition(struct: Any, test_of: Mapping[type[Any], str]) -> str | None:
    """Return the tests of all fields; None if a field has another type than the given ones."""
    tests: list[str] = []
    floats: list[str] = []
    for name, type_ in _fields(struct):
        may_be_none, scalar = _scalar(type_)
        if scalar is None or not name.isidentifier() or keyword.iskeyword(name):
            return None
        if scalar is float and not may_be_none:
            floats.append(f"x{len(floats) + 1}")
            tests.append(f"type({floats[-1]} := value.{name}) is float")
            continue
        within = [test_of[scalar]] if test_of[scalar] else []
        of_type = f"type(x) is {scalar.__name__}"
        if may_be_none:
            is_none = f"(x := value.{name}) is None"
            tests.append(f"({is_none} or {' and '.join([of_type, *within])})")
        elif within:
            tests += [f"type(x := value.{name}) is {scalar.__name__}", *within]
        else:
            tests.append(f"type(value.{name}) is {scalar.__name__}")
    if floats:
        tests.append(f"(x := {' + '.join(floats)}) - x == 0.0")
    return "\nand ".join(tests) if tests else None


def _scalar(type_: Any) -> tuple[bool, type[Any] | None]:
    """Return whether None is allowed, and the one scalar type; None for any other type."""
    may_be_none = False
    if typing.get_origin(type_) in (typing.Union, types.UnionType):
        alternatives = [one for one in typing.get_args(type_) if one is not types.NoneType]
        if len(alternatives) != 1:
            return False, None
        (type_,), may_be_none = alternatives, True
    return may_be_none, (type_ if isinstance(type_, type) and type_ in _PLAIN else None)
