"""The type of what a function of a value returns: declared, or found by a call.

A function that only selects, such as ``lambda order: order.lines[0].cents``, is called with an
object that records what is selected of it; the type is that of the selected part of the values'
type. Any other function has to declare its type.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn


def returned_type(function: Callable[..., Any], value: Any) -> Any:
    """The type that a function of a value returns, without None; Any if it is not known.

    ``value`` is the type of the values; None or Any: not known.
    """
    declared = _returned(function)
    return without_none(_selected_type(function, value) if declared is Any else declared)


def without_none(type_: Any) -> Any:
    """``int`` of ``int | None``; any other type unchanged."""
    if typing.get_origin(type_) not in (typing.Union, types.UnionType):
        return type_
    rest = [one for one in typing.get_args(type_) if one is not types.NoneType]
    return typing.Union[tuple(rest)]  # noqa: UP007


def _returned(function: Callable[..., Any]) -> Any:
    if inspect.isclass(function):
        return function
    try:
        found = typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return Any
    return Any if isinstance(found, typing.TypeVar) else found


def _selected_type(function: Callable[..., Any], value: Any) -> Any:
    """The type of the part of a value that the function returns."""
    if value is Any or value is None:
        return Any
    try:
        found = function(_TypedValue(value))
    except Exception:  # noqa: BLE001  it does more than to select: the user's code may raise anything
        return Any
    return _TypedValue.type_of(found) if type(found) is _TypedValue else Any


class _TypedValue:
    """A part of a value, by its type. Everything but selecting raises an error."""

    __slots__ = ("__type",)

    def __init__(self, type_: Any) -> None:
        self.__type = type_

    @staticmethod
    def type_of(part: _TypedValue) -> Any:
        return part.__type

    def __getattr__(self, name: str) -> _TypedValue:
        cls = without_none(self.__type)
        if not isinstance(cls, type) or name.startswith("__"):
            raise AttributeError(name)
        hints = typing.get_type_hints(cls)
        if name in hints:
            return _TypedValue(hints[name])
        made = inspect.getattr_static(cls, name)
        if isinstance(made, property) and made.fget is not None:
            return _TypedValue(typing.get_type_hints(made.fget)["return"])
        raise AttributeError(name)

    def __getitem__(self, item: Any) -> _TypedValue:
        type_ = without_none(self.__type)
        if typing.is_typeddict(type_):
            return _TypedValue(typing.get_type_hints(type_)[item])
        origin, arguments = typing.get_origin(type_), typing.get_args(type_)
        if origin is tuple and type(item) is int and Ellipsis not in arguments:
            return _TypedValue(arguments[item])
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return _TypedValue(arguments[1])
        if isinstance(origin, type) and issubclass(origin, Sequence) and type(item) is int:
            return _TypedValue(arguments[0])
        raise TypeError(type_)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("only selections have a known type")

    __bool__ = __eq__ = __hash__ = _refuse
