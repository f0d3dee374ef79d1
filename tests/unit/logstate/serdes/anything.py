"""Values of any type for any declared type, and what "comes back as it was" means for them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import typing
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
from hypothesis import strategies as st

UTC = datetime.UTC


class Colour(enum.Enum):
    RED = "red"
    SEVEN = 7


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(enum.StrEnum):
    SMALL = "small"


class Name(str):
    """A text of a class of its own."""

    __slots__ = ()


class Count(int):
    """A number of a class of its own."""


class Row(dict[Any, Any]):
    """A dict of a class of its own."""


class Holder(msgspec.Struct):
    """A record of anything."""

    a: Any


@dataclasses.dataclass
class Held:
    """Another one."""

    a: Any


# Functions with names: of a lambda Hypothesis parses the file, again and again, deep in the stack,
# where Python before 3.11.5 fails now and then ("AST constructor recursion depth mismatch").


def _has_hash(value: object) -> bool:
    return not isinstance(value, bytearray)


def _is_comparable(number: decimal.Decimal) -> bool:
    return not number.is_snan()


def _of_anything(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.frozensets(ANY_SCALAR.filter(_has_hash), max_size=2),
        st.dictionaries(ANY_SCALAR.filter(_has_hash), inner, max_size=2),
        st.dictionaries(st.text(max_size=2), inner, max_size=2).map(Row),
        st.builds(Holder, inner),
        st.builds(Held, inner),
    )


_ZONES = st.sampled_from(
    [
        UTC,
        datetime.timezone(datetime.timedelta(hours=2)),
        datetime.timezone(datetime.timedelta(hours=1, seconds=30)),
        datetime.timezone.max,
        zoneinfo.ZoneInfo("Europe/Berlin"),
    ]
)
_FLOATS = st.floats() | st.sampled_from([-0.0, 1.0, 2.0**53, math.nan, math.inf])
_INTS = st.integers(-(2**64), 2**65) | st.sampled_from([0, 1, 2**53 + 1, -(2**53) - 1])
_TEXTS = st.text(st.characters(), max_size=4) | st.sampled_from(
    ["abcd", "QUJD", "1", "true", "\ud800", "red", str(uuid.UUID(int=3)), "2024-01-01", "PT1S"]
)
_TWICE = datetime.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))
_DATETIMES = (
    st.datetimes()
    | st.datetimes(timezones=_ZONES)
    | st.sampled_from([_TWICE, _TWICE.replace(fold=1)])
)

#: by type: what is right for it
SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: _INTS | st.builds(Count, st.integers(0, 9)) | st.sampled_from(Level),
    float: _FLOATS,
    str: _TEXTS | st.builds(Name, st.text(max_size=2)) | st.sampled_from(Size),
    bytes: st.binary(max_size=4) | st.builds(bytearray, st.binary(max_size=2)),
    type(None): st.none(),
    datetime.datetime: _DATETIMES,
    datetime.date: st.dates(),
    datetime.time: st.times() | st.times(timezones=_ZONES),
    datetime.timedelta: st.timedeltas(),
    decimal.Decimal: st.decimals().filter(_is_comparable),
    uuid.UUID: st.uuids(),
    Colour: st.sampled_from(Colour),
    Level: st.sampled_from(Level),
    Size: st.sampled_from(Size),
}
ANY_SCALAR: st.SearchStrategy[Any] = st.one_of(*SCALARS.values(), st.just(1), st.just(True))
ANYTHING: st.SearchStrategy[Any] = st.recursive(ANY_SCALAR, _of_anything, max_leaves=4)


class Case(NamedTuple):
    """A declared type, and values for it: right ones, and wrong ones of the right shape."""

    type_: Any
    values: st.SearchStrategy[Any]


def _either(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(right, right, right, ANYTHING)


def _scalar_case(type_: Any) -> Case:
    return Case(Any, ANYTHING) if type_ is Any else Case(type_, _either(SCALARS[type_]))


def _containers(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    keys = st.sampled_from([str, int, float, bytes, uuid.UUID, datetime.date, Colour, Size, Level])
    return st.one_of(
        inner.map(_list_case),
        inner.map(_tuple_case),
        st.tuples(inner, inner).map(_pair_case),
        st.sampled_from(list(SCALARS)).map(_set_case),
        st.tuples(keys, inner).map(_dict_case),
        st.lists(inner, min_size=1, max_size=3).map(_union_case),
        st.tuples(inner, inner).map(_struct_case),
        st.tuples(inner, inner).map(_odd_struct_case),
        st.tuples(inner, inner).map(_dataclass_case),
        st.tuples(inner, inner).map(_attrs_case),
        st.tuples(inner, inner).map(_typed_dict_case),
    )


def _list_case(one: Case) -> Case:
    values = st.lists(one.values, max_size=2)
    return Case(list[one.type_], _either(values | values.map(tuple)))  # type: ignore[name-defined]


def _tuple_case(one: Case) -> Case:
    values = st.lists(one.values, max_size=2)
    return Case(tuple[one.type_, ...], _either(values.map(tuple) | values))  # type: ignore[name-defined]


def _pair_case(both: tuple[Case, Case]) -> Case:
    one, other = both
    return Case(tuple[one.type_, other.type_], _either(st.tuples(one.values, other.values)))  # type: ignore[name-defined]


def _set_case(scalar: Any) -> Case:
    values = st.frozensets(SCALARS[scalar].filter(_has_hash), max_size=2)
    return Case(set[scalar], _either(values.map(set) | values))


def _dict_case(both: tuple[Any, Case]) -> Case:
    key, one = both
    keys = st.one_of(SCALARS[key], SCALARS[key], ANY_SCALAR).filter(_has_hash)
    return Case(dict[key, one.type_], _either(st.dictionaries(keys, one.values, max_size=2)))  # type: ignore[name-defined]


def _union_case(some: list[Case]) -> Case:
    types = tuple(one.type_ for one in some)
    return Case(typing.Union[(None, *types)], st.one_of(st.none(), *(one.values for one in some)))


def _struct_case(both: tuple[Case, Case]) -> Case:
    types = [("a", both[0].type_), ("b", both[1].type_)]
    made = msgspec.defstruct("Made", types, frozen=True)
    return Case(made, _either(st.builds(made, *(one.values for one in both))))


def _odd_struct_case(both: tuple[Case, Case]) -> Case:
    """Written as an array, compared by nothing, with what has its default left out."""
    made = msgspec.defstruct(
        "Odd",
        [("a", both[0].type_), ("b", both[1].type_ | None, None)],
        array_like=True,
        eq=False,
        omit_defaults=True,
    )
    return Case(made, _either(st.builds(made, *(one.values for one in both))))


def _dataclass_case(both: tuple[Case, Case]) -> Case:
    compared = dataclasses.field(compare=False)
    fields = [("a", both[0].type_), ("b", both[1].type_, compared)]
    made = dataclasses.make_dataclass("Plain", fields)
    return Case(made, _either(st.builds(made, *(one.values for one in both))))


def _attrs_case(both: tuple[Case, Case]) -> Case:
    fields = {"a": attrs.field(type=both[0].type_), "b": attrs.field(type=both[1].type_)}
    made = attrs.make_class("Drawn", fields)
    return Case(made, _either(st.builds(made, *(one.values for one in both))))


def _typed_dict_case(both: tuple[Case, Case]) -> Case:
    made = TypedDict("Typed", {"a": both[0].type_, "b": both[1].type_})  # type: ignore[misc]  # noqa: UP013
    fields = {"a": both[0].values, "b": both[1].values}
    return Case(made, _either(st.fixed_dictionaries(fields, optional={"c": ANY_SCALAR})))


CASES: st.SearchStrategy[Case] = st.recursive(
    st.sampled_from([Any, *SCALARS]).map(_scalar_case),
    _containers,
    max_leaves=4,
)


def is_same(written: Any, read: Any) -> bool:
    """Equal, and of one type, but that 52 may come back as 52.0 and a tuple as a list."""
    if isinstance(written, bool) or isinstance(read, bool):
        return written is read
    if isinstance(read, int | float):
        return isinstance(written, int | float) and _is_same_number(written, read)
    if isinstance(read, decimal.Decimal):
        numbers = (int, float, decimal.Decimal)
        return isinstance(written, numbers) and (written == read or str(written) == str(read))
    if isinstance(read, enum.Enum):
        return written is read or (isinstance(read, str | int) and bool(written == read))
    if isinstance(read, bytes):
        return isinstance(written, bytes | bytearray) and bytes(written) == read
    if isinstance(read, datetime.datetime | datetime.time):
        return isinstance(written, type(read)) and written.isoformat() == read.isoformat()
    if isinstance(read, dict):
        return (
            isinstance(written, dict)
            and len(written) == len(read)
            and all(key in read and is_same(one, read[key]) for key, one in written.items())
            and {type(key) is bool for key in written} == {type(key) is bool for key in read}
        )
    if isinstance(read, list | tuple):
        kind = list | tuple if isinstance(read, list) else tuple
        return (
            isinstance(written, kind)
            and len(written) == len(read)
            and all(map(is_same, written, read))
        )
    if isinstance(read, set | frozenset):
        return isinstance(written, set | frozenset) and written == read
    names = getattr(type(read), "__struct_fields__", None) or getattr(
        type(read), "__match_args__", None
    )
    if names:
        return type(written) is type(read) and all(
            is_same(getattr(written, name), getattr(read, name)) for name in names
        )
    return isinstance(written, type(read)) and bool(written == read)


def _is_same_number(written: Any, read: Any) -> bool:
    if isinstance(written, float) and isinstance(read, float):
        return repr(written) == repr(read)
    return bool(written == read)
