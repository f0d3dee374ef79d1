"""Whatever a function returns: a serde writes what will be read again as it is, or refuses it."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from logstate.contracts.errors import SerdeError
from logstate.contracts.serde import Serde
from logstate.serdes import serde_of
from logstate.serdes.scalars import SCALAR_SERDES
from tests.unit.logstate.serdes.anything import ANY_SCALAR, ANYTHING, CASES, Case, is_same


def written(serde: Serde[Any], value: Any, *, is_key: bool) -> bytes | None:
    """The bytes; None where it is refused."""
    try:
        return serde.serializer("t", is_key)(value)
    except Exception:  # noqa: BLE001  by whatever its codec raises; the engine names it
        return None


def check(serde: Serde[Any], value: Any, *, is_key: bool) -> None:
    data = written(serde, value, is_key=is_key)
    if data is None:
        return
    read = serde.deserializer("t", is_key)(data)
    assert is_same(value, read), f"{value!r} was read as {read!r} with {serde!r}"
    if is_key:
        assert written(serde, read, is_key=True) == data


@given(st.data(), CASES, st.booleans())
def test_json_of_any_type_is_read_as_it_was_written(
    data: st.DataObject, case: Case, is_key: bool
) -> None:
    try:
        serde = serde_of(case.type_, what="a test")
    except SerdeError:
        assume(False)
    check(serde, data.draw(case.values), is_key=is_key)


@given(ANYTHING, st.booleans())
def test_plain_json_is_read_as_it_was_written(value: Any, is_key: bool) -> None:
    for declared in (Any, dict, list):
        check(serde_of(declared, what="a test"), value, is_key=is_key)


@given(ANY_SCALAR)
def test_scalars_are_read_as_they_were_written(value: Any) -> None:
    for serde in SCALAR_SERDES.values():
        check(serde, value, is_key=False)
