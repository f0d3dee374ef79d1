"""Bytes read by people, and keys typed by them, by what serdes tell of themselves."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from logstate.contracts.errors import ConfigError, SerdeError
from logstate.serdes import serde_of, upgradable
from logstate.serdes.described import format_name, guessed, readable_decoder
from logstate.serdes.described_keys import lookup_key
from tests.unit.logstate.serdes.formats import FORMATS, Format, Struct, StructRemoved

ORDER = {"customer": "ada", "amount": 3, "note": "\N{WHITE SMILING FACE}"}


def told(serde: Any) -> Any:
    """A description as it comes back from a manifest."""
    return json.loads(msgspec.json.encode(serde.describe()))


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_what_any_serde_wrote_is_read_by_its_description_alone(one: Format) -> None:
    serde = one.order()
    data = serde.serializer("orders", False)(one.make(**ORDER))
    assert readable_decoder(told(serde))(data) == ORDER
    assert lookup_key(json.dumps(ORDER), told(serde)).is_it(data)
    assert not lookup_key(json.dumps({**ORDER, "amount": 4}), told(serde)).is_it(data)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [(str, "ada", "ada"), (int, -7, "-7"), (float, 2.5, "2.5"), (bool, True, "true")],
)
def test_scalars_are_read_and_typed_as_they_look(kind: Any, value: Any, text: str) -> None:
    serde = serde_of(kind, what="k")
    data = serde.serializer("t", True)(value)
    assert readable_decoder(told(serde))(data) == value
    assert lookup_key(text, told(serde)).data == data


def test_a_row_of_an_earlier_version_is_shown_as_it_is() -> None:
    before = serde_of(StructRemoved, what="v")
    serde = upgradable(Struct, version=2, earlier={1: (StructRemoved, lambda old: old)})
    old = b"\x01" + before.serializer("t", False)(StructRemoved("ada", 3))
    assert readable_decoder(told(serde))(old) == {"customer": "ada", "amount": 3}
    with pytest.raises(SerdeError, match="none of"):
        readable_decoder(told(serde))(b"\x09{}")


@pytest.mark.parametrize(
    ("data", "format_", "value"),
    [
        (b'{"n":1}', "JSON", {"n": 1}),
        (b"{ada", "text", "{ada"),
        (b"12", "text", "12"),
        ((7).to_bytes(8, "big"), "int64", 7),
        (b"\x3f\xf0" + bytes(6), "bytes", "0x3ff0000000000000"),
        (b"", "text", ""),
    ],
)
def test_what_nobody_described_is_guessed_at(data: bytes, format_: str, value: Any) -> None:
    assert guessed(data) == (format_, value)


def test_bytes_are_typed_as_text_or_as_digits() -> None:
    assert lookup_key("ada", None).data == b"ada"
    assert lookup_key("0x00ff", {"format": "bytes"}).data == b"\x00\xff"


@pytest.mark.parametrize(
    ("text", "description", "answer"),
    [
        ("ada", {"format": "int64"}, "such as 42"),
        ("99999999999", {"format": "int32"}, "such as 42"),
        ("yes", {"format": "boolean"}, "true or false"),
        ("0xf", {"format": "bytes"}, "hexadecimal"),
        ("ada", told(serde_of(Struct, what="k")), "Give it as JSON"),
        ("1", told(serde_of(Struct, what="k")), "customer, amount, note"),
        ('{"customer": 1, "sum": 2}', told(serde_of(Struct, what="k")), "It has no sum"),
    ],
)
def test_a_key_that_is_not_of_its_type_is_answered(
    text: str, description: Any, answer: str
) -> None:
    with pytest.raises(ConfigError, match=answer):
        lookup_key(text, description)


def test_a_format_is_named_with_its_type() -> None:
    assert format_name(told(serde_of(Struct, what="k"))) == "json of Struct"
    assert format_name({"format": "int64", "schema": None}) == "int64"
    assert format_name(None) == "bytes"


def test_a_key_that_does_not_decode_is_not_the_one_that_is_looked_for() -> None:
    of_json = lookup_key('{"id":1}', {"format": "json"})

    assert [of_json.is_it(key) for key in (b"no document", b'{"id": 1}', b"\xff")] == [
        *(False, True, False),
    ]
