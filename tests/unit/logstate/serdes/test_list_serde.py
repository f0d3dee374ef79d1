"""Lists have the bytes of Kafka's ListSerializer, and damaged ones are refused."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstate import StreamsBuilder, TopologyTestDriver
from logstate.admin.described_encoders import encoder
from logstate.changelog.reading.types import column_type
from logstate.contracts.errors import SerdeError
from logstate.generated.draw import Draw
from logstate.generated.objects import maker_of
from logstate.serdes import (
    Serde,
    boolean,
    float32,
    float64,
    int16,
    int32,
    int64,
    list_of,
    string,
    upgradable,
    uuid,
    void,
)
from logstate.serdes.compatibility import Verdict, serde_changes
from logstate.serdes.described import readable_decoder
from logstate.serdes.typed_values import TypedValues
from logstate.topology.plan.key_bytes import key_bytes_agree

IDENTIFIER = UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2")
#: written by kafka-clients 4.3.0
WRITTEN_BY_JAVA: list[tuple[Serde[Any], list[Any], str]] = [
    (int32, [1, None, -2], "0000000001000000010000000300000001fffffffe"),
    (int32, [], "000000000000000000"),
    (int16, [1], "0000000000000000010001"),
    (int64, [1, None], "000000000100000001000000020000000000000001"),
    (float64, [1.5], "0000000000000000013ff8000000000000"),
    (float32, [1.5], "0000000000000000013fc00000"),
    (uuid, [IDENTIFIER], "000000000000000001" + str(IDENTIFIER).encode().hex()),
    (string, ["a", None, "bc", ""], "01000000040000000161ffffffff00000002626300000000"),
    (boolean, [True, None], "01000000020000000101ffffffff"),
    (list_of(int32), [[1], None], "01000000020000000d00000000000000000100000001ffffffff"),
]


def written(serde: Serde[Any], value: object) -> bytes:
    return serde.serializer("t", False)(value)


def read(serde: Serde[Any], data: bytes) -> Any:
    return serde.deserializer("t", False)(data)


@pytest.mark.parametrize(("inner", "value", "java_hex"), WRITTEN_BY_JAVA)
def test_a_list_has_the_bytes_that_java_writes(
    inner: Serde[Any], value: list[Any], java_hex: str
) -> None:
    serde = list_of(inner)
    assert written(serde, value).hex() == java_hex
    assert read(serde, bytes.fromhex(java_hex)) == value


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.lists(st.none() | st.text()))
def test_every_list_comes_back(numbers: list[int | None], texts: list[str | None]) -> None:
    assert read(list_of(int), written(list_of(int), numbers)) == numbers
    assert read(list_of(str), written(list_of(str), texts)) == texts


@given(st.sampled_from(WRITTEN_BY_JAVA), st.data())
def test_a_damaged_list_is_refused_or_is_another_list(
    case: tuple[Serde[Any], list[Any], str], data: st.DataObject
) -> None:
    serde, found = list_of(case[0]), bytearray.fromhex(case[2])
    at = data.draw(st.integers(0, len(found) - 1))
    found[at] = data.draw(st.integers(0, 255))
    try:
        value = read(serde, bytes(found))
    except (SerdeError, ValueError):
        return
    assert len(value) <= len(found)


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (list_of(int), b""),
        (list_of(int), written(list_of(str), ["a"])),
        (list_of(str), written(list_of(int), [1])),
        (list_of(int), written(list_of(int), [1]) + b"0"),
        (list_of(str), written(list_of(str), ["a"]) + b"0"),
        (list_of(str), written(list_of(str), ["a"])[:-1]),
        (list_of(str), b"\x01\x7f\xff\xff\xff"),
        (list_of(int), b"\x00\x7f\xff\xff\xff" + bytes(8)),
        (list_of(int), bytes.fromhex("00" + "00000001" + "00000005" + "00000001")),
        (list_of(str), bytes.fromhex("01" + "00000001" + "fffffffe")),
        (void, b"0"),
    ],
)
def test_bytes_that_are_no_such_list_are_refused(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises(SerdeError, match=r"found|not a list"):
        read(serde, data)


def test_a_value_that_is_no_list_is_refused() -> None:
    with pytest.raises(SerdeError, match="takes a list, found str"):
        written(list_of(str), "ab")
    with pytest.raises(SerdeError, match="takes only None, found int"):
        written(void, 1)


def test_a_list_is_shown_drawn_typed_written_and_compared_by_its_description() -> None:
    serde = list_of(int32)
    described, data = serde.describe(), written(serde, [1, None])
    assert readable_decoder(described)(data) == [1, None]
    assert encoder(described, is_key=False)([1, None]) == data
    assert TypedValues(serde, "t", is_key=False).from_text("[1, null]") == data
    drawn = maker_of(serde)(Draw(1, 1))
    assert read(serde, written(serde, drawn)) == drawn
    column = column_type(described)
    assert (str(column.arrow), column.decode(data)) == ("list<item: int32>", [1, None])
    assert key_bytes_agree(described, list_of("int32").describe()) is True
    assert key_bytes_agree(described, list_of(int).describe()) is False
    assert serde == list_of("int32")
    assert serde != list_of(int)


def test_the_elements_are_compared_when_the_application_starts() -> None:
    stored, declared = list_of(int32).describe(), list_of(int64).describe()
    assert serde_changes("store 's'", "value", stored, stored) == []
    (change,) = serde_changes("store 's'", "value", stored, declared)
    assert change.verdict is Verdict.REFUSED
    assert "value.inner: stored int32" in str(change)


def test_a_list_of_upgradable_values_reads_earlier_elements() -> None:
    earlier = list_of(upgradable(str, version=1))
    now = list_of(upgradable(int, version=2, earlier={1: (str, int)}))
    assert read(now, written(earlier, ["7", None])) == [7, None]


def test_topics_without_keys_and_lists_pass_through_a_topology() -> None:
    builder = StreamsBuilder()
    scores = builder.stream("scores", key=void, value=list_of(int))
    scores.filter(lambda found: len(found) > 1).to("several")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_all("scores", [(None, [1], 0), (None, [1, 2], 1)])
        assert driver.read("several", key=void, value=list_of(int)) == [(None, [1, 2])]
