import decimal
import fractions
import math
import struct
import typing
import uuid

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate.contracts.changelog_keys import MAX_TIME_MS
from logstate.contracts.errors import SerdeError
from logstate.contracts.records import Windowed
from logstate.contracts.serde import Serde
from logstate.serdes import (
    boolean,
    bytes_,
    float32,
    float64,
    int16,
    int32,
    int64,
    json,
    serde_of,
    session_windowed,
    string,
    string_replacing,
    uuid_bytes,
    windowed,
)
from logstate.serdes import uuid as uuid_text

IDENTIFIER = uuid.UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2")
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def encode(serde: Serde[typing.Any], value: object) -> bytes:
    return serde.serializer("topic", is_key=False)(value)


def decode(serde: Serde[typing.Any], data: bytes) -> object:
    return serde.deserializer("topic", is_key=False)(data)


class _Days:
    """Windows of unequal size."""

    size_ms = 10
    varies = True

    def end_of(self, start_ms: int) -> int:
        return start_ms + 10 + start_ms % 3


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (float64, 3),
        (float64, fractions.Fraction(1, 2)),
        (windowed(str, 10), Windowed("a", MAX_TIME_MS - 3, MAX_TIME_MS)),
        (windowed(str, _Days()), Windowed("a", 20, 32)),
        (session_windowed(str), Windowed("a", 20, 20)),
    ],
)
def test_what_is_equal_is_written(serde: Serde[object], value: object) -> None:
    assert decode(serde, encode(serde, value)) == value


@pytest.mark.parametrize(
    ("serde", "value", "java_hex"),
    [
        (string, "é", "c3a9"),
        (string, "", ""),
        (int64, 1, "0000000000000001"),
        (int64, -1, "ffffffffffffffff"),
        (int64, -(2**63), "8000000000000000"),
        (int32, -2, "fffffffe"),
        (int16, -2, "fffe"),
        (float32, 1.5, "3fc00000"),
        (float32, -math.inf, "ff800000"),
        (uuid_text, IDENTIFIER, str(IDENTIFIER).encode().hex()),
        (float64, 1.5, "3ff8000000000000"),
        (float64, -0.0, "8000000000000000"),
        (float64, math.inf, "7ff0000000000000"),
        (boolean, True, "01"),
        (boolean, False, "00"),
        (bytes_, b"\x00\xff", "00ff"),
    ],
)
def test_scalars_have_the_bytes_of_the_java_serializers(
    serde: Serde[object], value: object, java_hex: str
) -> None:
    assert encode(serde, value).hex() == java_hex
    assert decode(serde, bytes.fromhex(java_hex)) == value


@given(st.text())
def test_every_text_comes_back(value: str) -> None:
    assert decode(string, encode(string, value)) == value


@given(INT64)
def test_every_int64_comes_back_and_keeps_javas_bytes(value: int) -> None:
    data = encode(int64, value)

    assert decode(int64, data) == value
    assert data == value.to_bytes(8, "big", signed=True)


@given(INT32)
def test_every_int32_comes_back(value: int) -> None:
    assert decode(int32, encode(int32, value)) == value


@given(st.floats(width=32))
def test_every_float_of_32_bits_comes_back_bit_by_bit(value: float) -> None:
    back = decode(float32, encode(float32, value))

    assert struct.pack(">f", back) == struct.pack(">f", value)


@given(st.uuids())
def test_every_uuid_comes_back_and_its_bytes_have_its_order(value: uuid.UUID) -> None:
    assert decode(uuid_text, encode(uuid_text, value)) == value
    assert decode(uuid_bytes, encode(uuid_bytes, value)) == value
    assert (encode(uuid_bytes, value) < encode(uuid_bytes, IDENTIFIER)) == (value < IDENTIFIER)


@given(st.floats())
def test_every_float_comes_back_bit_by_bit(value: float) -> None:
    back = decode(float64, encode(float64, value))

    assert isinstance(back, float)
    assert struct.pack(">d", back) == struct.pack(">d", value)


@given(st.binary())
def test_bytes_pass_through_unchanged(value: bytes) -> None:
    assert encode(bytes_, value) == value
    assert decode(bytes_, value) == value


@pytest.mark.parametrize(
    ("serde", "wrong"),
    [
        (string, 5),
        (string, b"a"),
        (int64, "5"),
        (int64, 1.0),
        (int64, 2**63),
        (int64, True),
        (int32, False),
        (float64, True),
        (float64, 2**53 + 1),
        (float64, 10**400),
        (float64, decimal.Decimal("0.1")),
        (windowed(str, 10), Windowed("a", 20, 31)),
        (windowed(str, _Days()), Windowed("a", 20, 40)),
        (int32, 2**31),
        (int16, 2**15),
        (float32, 0.1),
        (float32, 1e39),
        (uuid_text, str(IDENTIFIER)),
        (uuid_bytes, IDENTIFIER.bytes),
        (float64, "1.0"),
        (bytes_, 3),
        (bytes_, "a"),
        (boolean, 1),
        (boolean, "true"),
        (string, None),
        (int64, None),
        (bytes_, None),
        (boolean, None),
    ],
)
def test_a_value_of_another_type_is_refused(serde: Serde[object], wrong: object) -> None:
    with pytest.raises((TypeError, struct.error, SerdeError)):
        encode(serde, wrong)


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (int64, b""),
        (int64, bytes(7)),
        (int64, bytes(9)),
        (int32, bytes(8)),
        (float64, bytes(4)),
        (int16, bytes(4)),
        (float32, bytes(8)),
        (uuid_text, bytes(16)),
        (uuid_text, b"x" * 36),
        (uuid_bytes, bytes(36)),
        (boolean, b""),
        (boolean, b"\x02"),
        (boolean, b"\x00\x00"),
        (string, b"\xff"),
        (windowed(str, 10), bytes(7)),
        (session_windowed(str), bytes(15)),
    ],
)
def test_bytes_of_the_wrong_shape_are_refused(serde: Serde[object], data: bytes) -> None:
    with pytest.raises((ValueError, struct.error, SerdeError)):
        decode(serde, data)


def test_a_windowed_key_is_the_key_and_its_start() -> None:
    serde = windowed(str, 10)

    assert encode(serde, Windowed("a", 20, 30)).hex() == "61" + "0000000000000014"
    assert decode(serde, bytes.fromhex("610000000000000014")) == Windowed("a", 20, 30)


def test_a_session_key_is_the_key_then_end_then_start() -> None:
    serde = session_windowed(string)

    data = encode(serde, Windowed("a", 1, 2))

    assert data.hex() == "61" + "0000000000000002" + "0000000000000001"
    assert decode(serde, data) == Windowed("a", 1, 2)


def test_a_window_at_the_end_of_time_ends_there() -> None:
    key = decode(windowed(str, 10), b"a" + (2**63 - 5).to_bytes(8, "big"))

    assert key == Windowed("a", 2**63 - 5, 2**63 - 1)


@given(st.text(), INT64.filter(lambda start: start < 2**62), st.integers(1, 2**40))
def test_every_windowed_key_comes_back(key: str, start_ms: int, size_ms: int) -> None:
    window = Windowed(key, start_ms, start_ms + size_ms)
    serde = windowed(str, size_ms)

    assert decode(serde, encode(serde, window)) == window


@given(st.binary(), INT64, INT64)
def test_every_session_key_comes_back(key: bytes, start_ms: int, end_ms: int) -> None:
    window = Windowed(key, start_ms, end_ms)
    serde = session_windowed(bytes)

    assert decode(serde, encode(serde, window)) == window


def test_a_windowed_key_describes_its_parts() -> None:
    assert windowed(int, 60_000).describe() == {
        "format": "windowed",
        "schema": None,
        "inner": {"format": "int64", "schema": None},
        "window_size_ms": 60_000,
    }
    assert session_windowed(str).describe()["inner"]["format"] == "string"


def test_a_window_without_size_is_refused() -> None:
    with pytest.raises(SerdeError, match="must be positive, found 0 ms"):
        windowed(str, 0)


class Click(msgspec.Struct, frozen=True):
    page: str


UserId = typing.NewType("UserId", int)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (str, "<serde string>"),
        (int, "<serde int64>"),
        (float, "<serde float64>"),
        (bytes, "<serde bytes>"),
        (bool, "<serde boolean>"),
        (dict, "<serde json>"),
        (list, "<serde json>"),
        (typing.Any, "<serde json>"),
        (UserId, "<serde int64>"),
        ("int32", "<serde int32>"),
        ("json", "<serde json>"),
        (json, "<serde json>"),
        (Click, "<serde json_of(Click)>"),
        (dict[str, int], "<serde json_of(dict[str, int])>"),
    ],
)
def test_a_declaration_means_a_serde(spec: object, expected: str) -> None:
    assert repr(serde_of(spec, what="the value")) == expected


def test_a_missing_serde_names_what_needs_one() -> None:
    with pytest.raises(SerdeError, match=r"no serde for the value of topic 'clicks'.*msgspec"):
        serde_of(None, what="the value of topic 'clicks'")


def test_an_unknown_name_gets_the_nearest_one_as_a_hint() -> None:
    with pytest.raises(SerdeError, match="Did you mean 'int64'"):
        serde_of("int46", what="the key")


def test_windowed_without_a_size_explains_itself() -> None:
    with pytest.raises(SerdeError, match=r"windowed\(key_type, size_ms\)"):
        serde_of(Windowed[str], what="the key")


@pytest.mark.parametrize("spec", [5, object(), [str], {"a": 1}])
def test_what_is_neither_type_nor_serde_is_refused(spec: object) -> None:
    with pytest.raises(SerdeError, match="the key"):
        serde_of(spec, what="the key")


def test_the_class_of_a_serde_is_not_a_serde() -> None:
    with pytest.raises(SerdeError, match="call it to make one"):
        serde_of(type(windowed(str, 1)), what="the key")


def test_a_class_that_json_cannot_hold_is_refused_when_declared() -> None:
    class Plain:
        def __init__(self, page: str) -> None:
            self.page = page

    with pytest.raises(SerdeError, match=r"the value of topic 'clicks'.*Plain"):
        serde_of(Plain, what="the value of topic 'clicks'")


#: bytes -> what Java's StringDeserializer makes of them
MALFORMED = {
    b"caf\xe9": "caf\ufffd",
    b"\xff\xff": "\ufffd\ufffd",
    b"\xe2\x82": "\ufffd",  # one sequence that is cut off
    b"\xe2\x82x": "\ufffdx",
    b"\xc0\x80": "\ufffd\ufffd",
    b"\xed\xa0\x80": "\ufffd\ufffd\ufffd",  # a surrogate
    b"\xf0\x9f\x98": "\ufffd",
    b"a\x80b": "a\ufffdb",
}


@pytest.mark.parametrize("data", MALFORMED, ids=bytes.hex)
def test_malformed_utf8_is_refused_or_replaced_as_by_java(data: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        string.deserializer("t", False)(data)
    assert string_replacing.deserializer("t", False)(data) == MALFORMED[data]


@pytest.mark.parametrize("text", ["", "ada", "é", "日本", "\U0001f600", "\x00"])
def test_valid_text_is_the_same_bytes_in_both_serdes_of_strings(text: str) -> None:
    data = string.serializer("t", False)(text)
    assert string_replacing.serializer("t", False)(text) == data
    assert string_replacing.deserializer("t", False)(data) == text


def test_a_lone_surrogate_is_refused_or_written_as_a_question_mark() -> None:
    with pytest.raises(UnicodeEncodeError):
        string.serializer("t", False)("a\ud800b")
    assert string_replacing.serializer("t", False)("a\ud800b") == b"a?b"


def test_a_store_may_change_between_the_two_serdes_of_strings() -> None:
    assert string.describe() == string_replacing.describe()
