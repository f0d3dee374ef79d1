"""Rows that say which version of a type they are of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.errors import SerdeError
from logstate.serdes import avro, int64, json, json_of, upgradable


class One(msgspec.Struct, frozen=True):
    a: int


class Two(msgspec.Struct, frozen=True):
    a: int
    b: int


class Three(msgspec.Struct, frozen=True):
    total: int


def to_two(one: One) -> Two:
    return Two(one.a, 2 * one.a)


def to_three(two: Two) -> Three:
    return Three(two.a + two.b)


FIRST = upgradable(One, version=1)
SECOND = upgradable(Two, version=2, earlier={1: (One, to_two)})
THIRD = upgradable(Three, version=3, earlier={1: (One, to_two), 2: (Two, to_three)})
ADOPTED = upgradable(Two, version=2, earlier={1: (One, to_two)}, unversioned=1)


def written(serde: Any, value: Any) -> bytes:
    return serde.serializer("topic", False)(value)


def read(serde: Any, data: bytes) -> Any:
    return serde.deserializer("topic", False)(data)


@given(st.integers(-(2**53), 2**53))
def test_a_row_of_any_version_is_read_as_the_newest(a: int) -> None:
    assert read(SECOND, written(FIRST, One(a))) == Two(a, 2 * a)
    assert read(THIRD, written(FIRST, One(a))) == Three(3 * a)
    assert read(THIRD, written(SECOND, Two(a, 1))) == Three(a + 1)
    assert read(THIRD, written(THIRD, Three(a))) == Three(a)


@given(st.integers(-(2**53), 2**53))
def test_rows_without_a_version_are_read_as_the_one_that_was_said(a: int) -> None:
    assert read(ADOPTED, written(json_of(One), One(a))) == Two(a, 2 * a)
    assert read(ADOPTED, written(json, {"a": a})) == Two(a, 2 * a)
    assert read(ADOPTED, written(ADOPTED, Two(a, 0))) == Two(a, 0)


def test_a_version_costs_one_byte() -> None:
    assert len(written(FIRST, One(7))) == len(written(json_of(One), One(7))) + 1


def test_a_row_of_a_newer_instance_is_told_from_one_that_is_damaged() -> None:
    with pytest.raises(SerdeError, match=r"of version 3; this instance reads \[1, 2\]"):
        read(SECOND, written(THIRD, Three(1)))
    with pytest.raises(SerdeError, match=r"version 3; .*finish the upgrade of all instances"):
        read(ADOPTED, written(THIRD, Three(1)))
    with pytest.raises(SerdeError, match="before versions were used"):
        read(upgradable(One, version=200), b"\x05")
    with pytest.raises(SerdeError, match="begins with byte 0"):
        read(SECOND, b"")


def test_an_upgrade_that_raises_is_named_with_its_place() -> None:
    def fails(_: One) -> Two:
        raise KeyError("a")

    serde = upgradable(Two, version=2, earlier={1: (One, fails)})
    with pytest.raises(SerdeError, match=r"fails at .*test_upgradable.py:\d+ raised KeyError: 'a'"):
        read(serde, written(FIRST, One(1)))


async def later(_: One) -> Two:
    return Two(0, 0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"version": 0}, "numbers from 1 to 255"),
        ({"version": 256}, "numbers from 1 to 255"),
        ({"version": 3, "earlier": {1: (One, to_two)}}, "do not lead to version 3"),
        ({"version": 1, "earlier": {1: (One, to_two)}}, "do not lead to version 1"),
        ({"version": 2, "earlier": {1: (One, later)}}, "is a coroutine or generator function"),
        ({"version": 2, "earlier": {1: (One, None)}}, "is not a function"),
        ({"version": 2, "unversioned": 1}, "is none of the earlier versions"),
        (
            {"version": 2, "earlier": {1: (int64, to_two)}, "unversioned": 1},
            "format int64 without a version cannot be distinguished",
        ),
        (
            {"version": 10, "earlier": {9: (One, to_two)}, "unversioned": 9},
            r"versions \[9, 10\] are bytes that JSON may begin with",
        ),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_declared(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(SerdeError, match=says):
        upgradable(Two, **options)


def test_keys_have_no_versions() -> None:
    with pytest.raises(SerdeError, match="for values, and was given for the keys"):
        FIRST.serializer("topic", True)


def test_a_version_may_be_of_any_format() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    old = upgradable(avro(schema), version=1)
    serde = upgradable(Two, version=2, earlier={1: (avro(schema), lambda r: Two(r["a"], 0))})
    assert read(serde, written(old, {"a": 4})) == Two(4, 0)
