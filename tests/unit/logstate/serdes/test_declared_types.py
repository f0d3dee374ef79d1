"""Which serde a declared type means."""

from __future__ import annotations

import datetime
import decimal
import enum
import typing
import uuid

import pytest

from logstate.contracts.serde import Serde
from logstate.serdes import serde_of, windowed


def encode(serde: Serde[typing.Any], value: object) -> bytes:
    return serde.serializer("topic", is_key=False)(value)


def decode(serde: Serde[typing.Any], data: bytes) -> object:
    return serde.deserializer("topic", is_key=False)(data)


class Size(enum.Enum):
    S = "s"
    L = "l"


class Place(typing.NamedTuple):
    street: str
    number: int


Age = typing.NewType("Age", int)


@pytest.mark.parametrize(
    ("declared", "meant"),
    [
        (int | None, int),
        (None | int, int),
        (typing.Optional[str], str),  # noqa: UP045  as others do
        (typing.Union[None, bytes], bytes),  # noqa: UP007
        (Age | None, int),
        (Size | None, Size),
        (list[int] | None, list[int]),
        (dict | None, dict),
    ],
)
def test_a_type_or_none_means_the_type(declared: object, meant: object) -> None:
    assert serde_of(declared, what="the value of t") == serde_of(meant, what="the value of t")
    inner = windowed(declared, 10).inner
    assert inner == serde_of(meant, what="a key")


def test_a_union_of_several_types_stays_json() -> None:
    several = serde_of(int | str | None, what="the value of t")
    assert several.describe()["format"] == "json"
    assert encode(several, "v") == b'"v"'


@pytest.mark.parametrize(
    ("declared", "value", "written"),
    [
        (
            datetime.datetime,
            datetime.datetime(2024, 5, 1, 12, 30, tzinfo=datetime.UTC),
            b'"2024-05-01T12:30:00Z"',
        ),
        (datetime.date, datetime.date(2024, 5, 1), b'"2024-05-01"'),
        (datetime.time, datetime.time(12, 30), b'"12:30:00"'),
        (datetime.timedelta, datetime.timedelta(minutes=2), b'"PT120S"'),
        (decimal.Decimal, decimal.Decimal("1.50"), b'"1.50"'),
        (uuid.UUID, uuid.UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
        (Size, Size.L, b'"l"'),
        (list[int], [1, 2], b"[1,2]"),
        (tuple[str, int], ("a", 1), b'["a",1]'),
        (tuple[int, ...], (1, 2), b"[1,2]"),
        (set[str], {"a"}, b'["a"]'),
        (dict[str, int], {"a": 1}, b'{"a":1}'),
        (typing.Literal["a", "b"], "b", b'"b"'),
        (int | str, "v", b'"v"'),
        (Place, Place("High", 1), b'["High",1]'),
    ],
)
def test_what_is_listed_as_json_is_written_and_read_as_json(
    declared: object, value: object, written: bytes
) -> None:
    serde = serde_of(declared, what="the value of t")
    assert serde.describe()["format"] == "json"
    assert encode(serde, value) == written
    assert decode(serde, written) == value
