"""Compare a value that was read back with the written one: equal, and of the given type.

A declared type silently reads some values as others: a text in a field of ``bytes`` as base64, an
array as a list if a tuple was given, 2**53 + 1 in a ``float`` as another number. Nothing could
detect this later, so serializers check it here.

In addition to equal values of one type, these are the same:

- numbers of one value: 52 in place of a ``float`` (a bool is not a number here);
- a tuple and a list of the same items, if a list is read: JSON has one kind of array;
- an object of a derived class and the declared class's part of it: text, numbers, containers,
  records;
- bytes, a bytearray and a memoryview; an aware time and the same instant at the same offset.

For most values ``==`` is sufficient (`is_compared_by_equality`); `difference` compares the others,
and returns where they differ.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
import typing
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from numbers import Number, Real
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from logstate.contracts.error_text import type_name

_TEXT_OF_BYTES = (bytes, bytearray, memoryview)
_TIMES = (datetime.datetime, datetime.time)
_UNSET = msgspec.UNSET


class TypeDifference(NamedTuple):
    """A difference by types only: values do not belong in logs."""

    #: the path to it, in msgspec's notation: ``$.items[0].raw``
    where: str
    written: str
    read: str

    def __str__(self) -> str:
        read = f"another {self.read}" if self.read == self.written else self.read
        return f"at `{self.where}` there is {self.written}, and {read} would be read"


def difference(written: Any, read: Any, where: str = "$") -> TypeDifference | None:
    """Return the first difference of two values; None if they are the same.

    >>> print(difference({"raw": "abcd"}, {"raw": b"i"}))
    at `$.raw` there is str, and bytes would be read
    >>> difference([1, (2,)], [1.0, [2]]) is None
    True
    """
    kind: Any = type(read)
    if isinstance(written, msgspec.Raw):  # JSON text made by user code
        return None
    if kind is dict:
        return _entries(written, read, where)
    if kind is list:
        return _items(written, read, where, (list, tuple))
    if isinstance(read, tuple):
        return _items(written, read, where, (tuple,))
    names = field_names(kind)
    if names is None:
        return None if _is_same_leaf(written, read) else _type_difference(written, read, where)
    if not isinstance(written, kind):
        return _type_difference(written, read, where)
    for name in names:
        left, right = getattr(written, name, _UNSET), getattr(read, name, _UNSET)
        found = None if left is right else difference(left, right, f"{where}.{name}")
        if found is not None:
            return found
    more = getattr(read, "__pydantic_extra__", None)
    return None if more is None else _entries(written.__pydantic_extra__, more, where)


def unwritable(value: Any, where: str = "$") -> tuple[str, Any] | None:
    """Return the first part of a value that JSON has no form for, with the path to it.

    >>> unwritable({"n": [1, object]})
    ('$.n[1]', <class 'object'>)
    """
    kind: Any = type(value)
    if kind is str:
        return None if value.isascii() or _is_text(value) else (where, value)
    if kind is dict or isinstance(value, Mapping):
        for key, one in value.items():
            place = f"{where}.{key}" if type(key) is str and _is_text(key) else f"{where}[]"
            found = unwritable(key, f"{place} (key)") or unwritable(one, place)
            if found is not None:
                return found
        return None
    if isinstance(value, list | tuple | AbstractSet):
        parts = ((f"{where}[{place}]", one) for place, one in enumerate(value))
    else:
        names = field_names(kind)
        if names is None:
            return None if _is_of_json(value) else (where, value)
        parts = ((f"{where}.{name}", getattr(value, name, None)) for name in names)
    return next((found for place, one in parts if (found := unwritable(one, place))), None)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_of_json(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except Exception:  # noqa: BLE001  whatever an object's own methods raise
        return False
    return True


def are_equal(left: Any, right: Any) -> bool:
    """Compare with ``==``; False if it raises, as it does for a signalling NaN."""
    try:
        return bool(left == right)
    except Exception:  # noqa: BLE001  whatever a class's own comparison raises
        return False


def _entries(written: Any, read: dict[Any, Any], where: str) -> TypeDifference | None:
    if not isinstance(written, Mapping):
        return _type_difference(written, read, where)
    for key, value in written.items():
        if key not in read:
            of_key = type(key).__name__
            return TypeDifference(where, f"a key that is {of_key}", "a dict without it")
        found = difference(value, read[key], f"{where}.{key}" if type(key) is str else f"{where}[]")
        if found is not None:
            return found
    return None if len(read) == len(written) else _type_difference(written, read, where)


def _items(
    written: Any, read: Any, where: str, kinds: tuple[type[Any], ...]
) -> TypeDifference | None:
    if not isinstance(written, kinds) or len(written) != len(read):
        return _type_difference(written, read, where)
    for place, (left, right) in enumerate(zip(written, read, strict=True)):
        found = difference(left, right, f"{where}[{place}]")
        if found is not None:
            return found
    return None


def _type_difference(written: Any, read: Any, where: str) -> TypeDifference:
    return TypeDifference(where, type_name(written), type_name(read))


def _is_same_leaf(written: Any, read: Any) -> bool:
    if written is read:
        return True
    if isinstance(read, bool) or isinstance(written, bool):
        return type(read) is type(written) and bool(read == written)
    if isinstance(read, Number):
        return isinstance(written, Number) and _is_same_number(written, read)
    if isinstance(read, bytes):
        return isinstance(written, _TEXT_OF_BYTES) and bytes(written) == read
    if isinstance(read, _TIMES):
        return _is_same_time(written, read)
    if isinstance(read, AbstractSet):
        return isinstance(written, AbstractSet) and bool(read == written)
    return isinstance(written, type(read)) and are_equal(read, written)


def _is_same_number(written: Any, read: Any) -> bool:
    if isinstance(read, decimal.Decimal) and read.is_nan():
        return isinstance(written, decimal.Decimal) and str(read) == str(written)
    if isinstance(read, float) and math.isnan(read):
        return isinstance(written, Real) and math.isnan(written)
    return bool(read == written)


def _is_same_time(written: Any, read: Any) -> bool:
    """Compare without ``==``, for which two times in a repeated hour are never equal."""
    if not isinstance(written, type(read)) or written.utcoffset() != read.utcoffset():
        return False
    return bool(written.replace(tzinfo=None) == read.replace(tzinfo=None))


@lru_cache(maxsize=1_000)
def field_names(cls: Any) -> tuple[str, ...] | None:
    """Return the fields that a record of this class is written with; None for other classes."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, msgspec.Struct):
        return cls.__struct_fields__
    attributes = getattr(cls, "__attrs_attrs__", None)
    if attributes is not None:
        return tuple(one.name for one in attributes)
    if hasattr(cls, "model_validate_json"):  # of pydantic
        model: Any = cls
        fields = model.__pydantic_fields__.items()
        return tuple(name for name, field in fields if not field.exclude)
    if dataclasses.is_dataclass(cls):
        return tuple(one.name for one in dataclasses.fields(cls))
    if hasattr(cls, "__is_model__"):  # of Faust
        of_faust: Any = cls
        descriptors = of_faust._options.descriptors.items()  # noqa: SLF001  it has no other name
        return tuple(name for name, one in descriptors if not one.exclude)
    return None


def is_compared_by_equality(parts: typing.Iterable[Any]) -> bool:
    """Return whether ``==`` compares all written parts of a type; ``parts`` are all types in it.

    Classes may compare less than their fields, or nothing (``eq=False``), or in their own way.
    """
    for part in parts:
        declared: Any = getattr(part, "cls", None)
        cls = typing.get_origin(declared) or declared
        if isinstance(part, inspect.StructType):
            if not cls.__struct_config__.eq or cls.__eq__ is not msgspec.Struct.__eq__:
                return False
        elif isinstance(part, inspect.DataclassType):
            if not _is_compared_by_all_fields(cls):
                return False
        elif isinstance(part, inspect.NamedTupleType) and cls.__eq__ is not tuple.__eq__:
            return False
    return True


def _is_compared_by_all_fields(cls: Any) -> bool:
    code = getattr(cls.__eq__, "__code__", None)
    # The methods of dataclasses and attrs are generated, so their code has no file.
    if code is None or not code.co_filename.startswith("<"):
        return False
    attributes = getattr(cls, "__attrs_attrs__", None)
    if attributes is not None:
        return all(one.eq for one in attributes)
    return all(one.compare for one in dataclasses.fields(cls))
